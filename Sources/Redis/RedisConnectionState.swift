import Wire

/// The driver's next action.
enum RedisAction: Equatable, Sendable {
    /// Nothing.
    case carryOn
    /// Connect; ends in `connected` or `failed`.
    case connect
    /// Start TLS; ends in `secured` or `failed`.
    case handshake
    /// Send the greeting; ends in one `greetingAnswered` per command, or `failed`.
    case greet
    /// Accept callers' commands.
    case serve
    /// Close; unanswered commands are lost.
    case close
}

/// State machine of a reconnecting connection: waiting, connecting, TLS handshake, greeting, serving, and waiting again
/// after a failure. `RedisConnection` does the I/O.
///
/// Exponential backoff from 50 ms to 2 s, with up to half of it jitter, so that gateways do not reconnect together. A
/// connection that served for two seconds resets it.
///
/// Events without meaning in a state return `carryOn`. Calls that only a wrong driver can make trap.
struct RedisConnectionState: Equatable, Hashable, Sendable {
    enum Phase: Equatable, Hashable, Sendable {
        /// Not connected. Ends at the time, or for good.
        case waiting(until: MonotonicTime)
        /// Ends when connected, by a fault, or at the deadline.
        case connecting(until: MonotonicTime)
        /// TLS. Ends when done, by a fault, or at the deadline.
        case handshaking(until: MonotonicTime)
        /// Replies of the greeting that are missing. Ends with the last, a fault, or at the deadline.
        case greeting(left: Int, until: MonotonicTime)
        /// Ends by a fault.
        case serving(since: MonotonicTime)
        /// Closed for good.
        case ended
    }

    /// Milliseconds.
    static let shortestWait: UInt64 = 50
    static let maxWait: UInt64 = 2_000
    /// Milliseconds of service that reset the backoff.
    static let steadyAfter: UInt64 = 2_000

    private(set) var phase: Phase
    /// Milliseconds for connecting, the handshake and the greeting together.
    private let connectTimeout: UInt64
    private let usesTLS: Bool
    /// Number of commands in the greeting.
    private let greetingLength: Int
    /// Consecutive failures.
    private var failures: UInt64 = 0

    /// Due at once.
    init(usesTLS: Bool, greetingLength: Int, connectTimeout: UInt64, now: MonotonicTime) {
        phase = .waiting(until: now)
        self.usesTLS = usesTLS
        self.greetingLength = greetingLength
        self.connectTimeout = connectTimeout
    }

    /// When `timePassed` must be called; nil if only an event changes the state.
    var deadline: MonotonicTime? {
        switch phase {
        case .waiting(let until), .connecting(let until), .handshaking(let until), .greeting(_, let until): until
        case .serving, .ended: nil
        }
    }

    /// Checks the deadline. `random` is the jitter of the next attempt, here and below.
    mutating func timePassed(_ now: MonotonicTime, random: UInt64) -> RedisAction {
        guard let deadline, now >= deadline else { return .carryOn }
        guard case .waiting = phase else { return failed(now, random: random) }
        phase = .connecting(until: now.advanced(milliseconds: connectTimeout))
        return .connect
    }

    /// The socket is connected.
    mutating func connected(_ now: MonotonicTime) -> RedisAction {
        guard case .connecting(let until) = phase else { return .carryOn }
        guard usesTLS else { return greet(now, until) }
        phase = .handshaking(until: until)
        return .handshake
    }

    /// The TLS handshake is done.
    mutating func secured(_ now: MonotonicTime) -> RedisAction {
        guard case .handshaking(let until) = phase else { return .carryOn }
        return greet(now, until)
    }

    private mutating func greet(_ now: MonotonicTime, _ until: MonotonicTime) -> RedisAction {
        guard greetingLength > 0 else { return serve(now) }
        phase = .greeting(left: greetingLength, until: until)
        return .greet
    }

    /// A command of the greeting succeeded.
    mutating func greetingAnswered(_ now: MonotonicTime) -> RedisAction {
        guard case .greeting(let left, let until) = phase else { return .carryOn }
        if left == 1 { return serve(now) }
        phase = .greeting(left: left - 1, until: until)
        return .carryOn
    }

    private mutating func serve(_ now: MonotonicTime) -> RedisAction {
        phase = .serving(since: now)
        return .serve
    }

    /// The connection, or the attempt, failed.
    mutating func failed(_ now: MonotonicTime, random: UInt64) -> RedisAction {
        switch phase {
        case .waiting, .ended: return .carryOn
        case .connecting, .handshaking, .greeting: break
        case .serving(let since):
            if now.nanoseconds(since: since) >= Self.steadyAfter * 1_000_000 { failures = 0 }
        }
        let longest = min(Self.shortestWait << min(failures, 6), Self.maxWait) * 1_000_000
        failures += 1
        phase = .waiting(until: MonotonicTime(nanoseconds: now.nanoseconds + longest / 2 + random % (longest / 2 + 1)))
        return .close
    }

    /// There is an address, or another server: retries without waiting, and the backoff begins anew.
    mutating func retryNow(_ now: MonotonicTime) {
        guard case .waiting(let until) = phase else { return }
        failures = 0
        phase = .waiting(until: min(until, now))
    }

    /// The owner closes it for good.
    mutating func ended() -> RedisAction {
        switch phase {
        case .waiting, .ended:
            phase = .ended
            return .carryOn
        case .connecting, .handshaking, .greeting, .serving:
            phase = .ended
            return .close
        }
    }
}
