import Gate
import Limits
import Wire

/// Applies rate limits: at once, or when Redis has answered.
extension Worker {
    /// Charges the request that `scratch.decision` admits but for its limits.
    ///
    /// - Returns: nil if the limits have decided; otherwise the request must wait for Redis.
    mutating func charge(_ exchange: ExchangeIndex, _ scratch: inout Scratch) -> LimitWait? {
        let wait = limits.charge(
            &scratch.decision.charge, ticket: exchanges.handle(exchange).bits, now: now.monotonic, into: &scratch.decision.limitVerdict)
        if wait == nil { admission.charged(&scratch.decision) }
        return wait
    }

    /// Takes the charge back of a request that the gateway cannot take: what counts once may be sent again. `wait`: it is not charged yet.
    mutating func uncharge(_ wait: LimitWait?, _ scratch: inout Scratch) {
        if let wait { limits.cancel(wait) } else { limits.refundSingleUses(&scratch.decision.charge, now: now.monotonic) }
    }

    /// The limits' part of a turn: resumes requests whose verdicts are there, and sends the commands of new ones.
    mutating func countLimits(_ scratch: inout Scratch) {
        guard limits.isShared else { return }
        limits.poll(now.monotonic, loop, &telemetry.metrics)
        // A resumed request may be followed by a pipelined one.
        repeat {
            var verdict = LimitVerdict()
            while let ticket = limits.nextVerdict(into: &verdict) { limited(Handle(bits: ticket), &verdict, &scratch) }
        } while limits.send(now.monotonic, &telemetry.metrics)
        limits.flush(now.monotonic, loop)
        while let change = limits.takeChange() { services.redisChanged(id, change) }
        if limits.takeMapWanted(now.monotonic) { services.redisMapWanted() }
    }
}
