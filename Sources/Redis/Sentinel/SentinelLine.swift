import Transport
import Wire

/// The two connections to one sentinel, because a subscribed one may not ask. One thread.
final class SentinelLine {
    private static let channel: StaticString = "+switch-master"
    private static let epochTag: UInt64 = 1
    private static let addressTag: UInt64 = 2
    private static let pingMilliseconds: UInt64 = 1_000

    let address: RedisEndpoint.Address
    private let master: String
    private let askerToken: UInt64
    private var asker: RedisConnection
    private var subscriber: RedisConnection
    /// Of the round under way; nil until it is known.
    private var epoch: UInt64?
    /// An error reply of the round under way.
    private var refusal: String?
    private var pingDue: MonotonicTime
    private var wasReady = false
    private var askingProblem: String? = "connecting"
    private var subscriptionProblem: String?
    /// Why it cannot be asked, or does not say when the primary changes, as a clause; nil while all is well.
    var problem: String? { askingProblem ?? subscriptionProblem }

    /// `token` and the next number are carried by its events.
    init(
        _ endpoint: RedisEndpoint, _ address: RedisEndpoint.Address, master: String, tls: TLSClientContext?, token: UInt64,
        seed: UInt64, now: MonotonicTime
    ) {
        self.address = address
        self.master = master
        askerToken = token
        pingDue = now
        let own = endpoint.sentinel(at: address)
        var settings = RedisConnectionSettings()
        settings.replyDeadline = 250
        asker = RedisConnection(
            own, addresses: own.fixedAddresses ?? [], tls: tls, settings: settings, token: token, seed: seed, now: now)
        subscriber = RedisConnection(
            own, addresses: own.fixedAddresses ?? [], tls: tls, settings: settings, subscription: Self.channel, token: token + 1,
            seed: ~seed, now: now)
    }

    func resolved(to addresses: [SocketAddress], _ now: MonotonicTime) {
        asker.replace(addresses: addresses, now)
        subscriber.replace(addresses: addresses, now)
    }

    func ready(_ event: Ready, _ now: MonotonicTime, _ loop: borrowing EventLoop) {
        if event.token == askerToken { asker.ready(event, now, loop) } else { subscriber.ready(event, now, loop) }
    }

    /// Asks for the primary; false if the sentinel is away. The epoch comes first: if a failover ends between the two replies, a new
    /// address has an old epoch, which the next round mends, and never the other way round.
    func ask(_ now: MonotonicTime) -> Bool {
        (epoch, refusal) = (nil, nil)
        return ask("MASTER", Self.epochTag, now) && ask("GET-MASTER-ADDR-BY-NAME", Self.addressTag, now)
    }

    private func ask(_ word: StaticString, _ tag: UInt64, _ now: MonotonicTime) -> Bool {
        var command = RedisCommand()
        command.begin()
        command.append("SENTINEL")
        command.append(word)
        command.append { $0.append(master) }
        return asker.append(command, tag: tag, now) == .accepted
    }

    /// Reads what came. `ended` is called with the answer to `ask`, nil if there is none; returns whether the primary may have changed.
    func receive(_ now: MonotonicTime, _ loop: borrowing EventLoop, ended: (SentinelState.Answer?) -> Void) -> Bool {
        asker.timedOut(now, loop)
        subscriber.timedOut(now, loop)
        while let result = asker.next(now) {
            switch result.tag {
            case Self.epochTag:
                if result.outcome.isAnswered { epoch = asker.reader.reply.configurationEpoch } else { refused(result.outcome) }
            case Self.addressTag: ended(answer(result.outcome))
            // The greeting's replies are the connection's own.
            default: break
            }
        }
        var isHint = asker.isReady && !wasReady
        wasReady = asker.isReady
        while let result = subscriber.next(now) {
            if result.tag == RedisConnection.messageTag { isHint = true }
        }
        // Another attempt is no other reason.
        switch asker.takeChange() {
        case .ready?, .connecting?, nil: break
        case let change?: askingProblem = "\(change)"
        }
        switch subscriber.takeChange() {
        case .ready?: subscriptionProblem = nil
        case .connecting?, nil: break
        case let change?: subscriptionProblem = "\(change)"
        }
        return isHint
    }

    private func answer(_ outcome: RedisOutcome) -> SentinelState.Answer? {
        guard outcome.isAnswered else {
            refused(outcome)
            return nil
        }
        if asker.reader.reply.nodes[0] == .null {
            askingProblem = "it knows no master named \"\(master)\""
            return .unknownName
        }
        guard let address = asker.reader.reply.primaryAddress else {
            askingProblem = "it answers SENTINEL GET-MASTER-ADDR-BY-NAME with something else than an address; is it a sentinel?"
            return nil
        }
        guard let epoch else {
            askingProblem = refusal ?? "it answers SENTINEL MASTER without a config-epoch; is it a sentinel?"
            return nil
        }
        askingProblem = nil
        return .primary(address, epoch: epoch)
    }

    private func refused(_ outcome: RedisOutcome) {
        switch outcome {
        case .refused: refusal = asker.reader.reply.errorText.map { "SENTINEL is refused: \($0)" }
        case .late: refusal = "it does not answer in time"
        case .answered, .lost: break
        }
        askingProblem = refusal ?? askingProblem
    }

    /// Sends what was appended, and checks that the subscription is alive.
    func flush(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        if now >= pingDue {
            pingDue = now.advanced(milliseconds: Self.pingMilliseconds)
            var command = RedisCommand()
            command.begin()
            command.append("PING")
            if subscriber.isReady { _ = subscriber.append(command, tag: 0, now) }
        }
        asker.flush(now, loop)
        subscriber.flush(now, loop)
    }

    func nextDeadline() -> MonotonicTime {
        var next = pingDue
        if let deadline = asker.nextDeadline() { next = min(next, deadline) }
        if let deadline = subscriber.nextDeadline() { next = min(next, deadline) }
        return next
    }
}
