import Transport
import Wire

/// A connection to a server that sentinels name: asks its role at the start and then twice a second. One thread.
final class RoleCheck {
    enum Verdict: Equatable {
        case connecting
        case primary
        case replica
        /// Why it cannot be asked, as a clause.
        case unreachable(String)
    }

    private static let periodMilliseconds: UInt64 = 500

    let address: RedisEndpoint.Address
    let server: RedisServer
    let token: UInt64
    private var redis: RedisConnection
    private var roleDue: MonotonicTime
    /// `replica` and `unreachable` are final: another check needs another connection.
    private(set) var verdict = Verdict.connecting

    /// `endpoint` is that of the sentinels, with the server's credentials.
    init(
        _ endpoint: RedisEndpoint, _ address: RedisEndpoint.Address, _ addresses: [SocketAddress], tls: TLSClientContext?,
        token: UInt64, seed: UInt64, now: MonotonicTime
    ) {
        self.address = address
        server = RedisServer(addresses: addresses, name: endpoint.server(at: address).serverName)
        self.token = token
        roleDue = now
        redis = RedisConnection(endpoint, addresses: [], tls: tls, token: token, seed: seed, now: now)
        redis.replace(by: [server], now)
    }

    func ready(_ event: Ready, _ now: MonotonicTime, _ loop: borrowing EventLoop) { redis.ready(event, now, loop) }

    /// Reads what came, and asks again when it is time.
    func turn(_ now: MonotonicTime, _ loop: borrowing EventLoop) {
        guard verdict == .connecting || verdict == .primary else { return }
        redis.timedOut(now, loop)
        while let result = redis.next(now) {
            if result.outcome.isAnswered, !redis.reader.reply.isPrimaryRole { return verdict = .replica }
        }
        switch redis.condition {
        case .connecting: break
        case .ready: verdict = .primary
        case .down(.notPrimary): verdict = .replica
        case .refusing, .down: verdict = .unreachable("\(redis.condition)")
        }
        if redis.isReady, now >= roleDue {
            roleDue = now.advanced(milliseconds: Self.periodMilliseconds)
            var command = RedisCommand()
            command.begin()
            command.append("ROLE")
            _ = redis.append(command, tag: 0, now)
        }
        redis.flush(now, loop)
    }

    func nextDeadline() -> MonotonicTime {
        let deadline = redis.nextDeadline() ?? roleDue
        return redis.isReady ? min(deadline, roleDue) : deadline
    }
}
