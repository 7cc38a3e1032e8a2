package import Gate
package import Wire

/// Rate limiter whose charges can be refunded: for attempts that are charged up front and turn out not to count, such as a
/// sign-in with the right password or a message that was not sent. Counts in this process and, where gateways share a Redis,
/// in Redis too.
///
/// The local count is charged first, and an attempt that it refuses costs no Redis command: it holds this gateway's charges,
/// which are among those that Redis counts. While Redis does not answer, the local count decides alone (fail closed). The
/// caller makes the steps of one attempt and, in between, the Redis call and the attempt itself.
///
/// Calls must be serialised in the order of their `now`; `GCRA.credit` relies on it.
package struct RefundableLimiter: Sendable {
    /// One unit charged on each of up to four counts.
    package struct Charge: Equatable, Sendable {
        package let items: [LimitCharge.Item]
        /// When it was charged locally.
        package let at: MonotonicTime
        /// When Redis charged it, in microseconds since 1970 by its clock; nil if Redis did not.
        package var sharedAt: UInt64?

        package init(_ items: [LimitCharge.Item], at: MonotonicTime, sharedAt: UInt64? = nil) {
            self.items = items
            self.at = at
            self.sharedAt = sharedAt
        }
    }

    package enum Verdict: Equatable, Sendable {
        /// Every count was charged.
        case admitted(Charge)
        /// No count was charged. Per count, the microseconds until it admits one more; 0 if it would have admitted this one.
        case refused([UInt64])
    }

    private let own: SharedLimiter

    package init(_ own: SharedLimiter) { self.own = own }

    /// Charges one unit on each local count, or none of them. At most four counts.
    package func charge(_ items: [LimitCharge.Item], now: MonotonicTime) -> Verdict {
        var charge = LimitCharge()
        for item in items { charge.append(item) }
        var verdict = LimitVerdict()
        own.take(&charge, now: now, into: &verdict)
        guard verdict.kind == .granted else {
            return .refused((0..<charge.count).map { verdict[$0].remaining == 0 ? max(1, verdict[$0].retryAfter) : 0 })
        }
        return .admitted(Charge(items, at: now))
    }

    /// Applies Redis's reply to a local charge; nil means that it did not answer. Refunds the local charge if Redis refused.
    package func settle(_ charge: Charge, _ reply: GCRAReply?, now: MonotonicTime) -> Verdict {
        guard let reply else { return .admitted(charge) }
        guard reply.granted == 0 else { return .admitted(Charge(charge.items, at: charge.at, sharedAt: reply.at)) }
        refund(charge, now: now)
        return .refused(
            charge.items.enumerated().map { index, item in
                let reading = reply.reading(index, item.rate)
                return reading.remaining == 0 ? max(1, reading.retryAfter) : 0
            })
    }

    /// Refunds a charge to the local counts. `RefundScript` refunds what Redis charged.
    package func refund(_ charge: Charge, now: MonotonicTime) {
        for item in charge.items {
            let credit = GCRA.credit(
                interval: item.rate.interval, chargedAt: charge.at.nanoseconds / 1_000, now: now.nanoseconds / 1_000)
            own.refund(item, credit: credit, now: now)
        }
    }
}
