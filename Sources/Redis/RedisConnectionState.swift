import Wire

/// What the driver of a connection must do next.
enum RedisAction: Equatable, Sendable {
    /// Nothing but what is being done already.
    case carryOn
    /// Begin a connection; `connected` or `failed` follows.
    case connect
    /// Speak TLS; `secured` or `failed` follows.
    case handshake
    /// Send the whole greeting; `greetingAnswered` follows for each command of it, or `failed`.
    case greet
    /// Send what callers ask.
    case serve
    /// Close; what is unanswered is lost.
    case close
}

/// The life of one connection after the other to a server: waiting, connecting, securing it with TLS, greeting, serving,
/// and waiting again when it is lost. It decides; a driver moves the bytes.
///
/// The wait doubles with every failure in a row from 50 ms to 2 s, of which chance takes up to half, so that gateways do
/// not come all at once. A connection that served for two seconds ends the series.
///
/// Events that mean nothing in a state are answered with `carryOn`. Calls that only a mistaken driver can make trap.
struct RedisConnectionState: Equatable, Hashable, Sendable {
    enum Phase: Equatable, Hashable, Sendable {
        /// No connection. Leaves when the time has come, or for good.
        case waiting(until: MonotonicTime)
        /// Leaves with the connection, a fault, or the deadline.
        case connecting(until: MonotonicTime)
        /// TLS. Leaves with the end of the handshake, a fault, or the deadline.
        case handshaking(until: MonotonicTime)
        /// So many answers of the greeting are due. Leaves with the last of them, a fault, or the deadline.
        case greeting(left: Int, until: MonotonicTime)
        /// Leaves with a fault.
        case serving(since: MonotonicTime)
        /// Closed for good.
        case ended
    }

    static let shortestWait: UInt64 = 50
    static let longestWait: UInt64 = 2_000
    /// A connection that served for so many milliseconds was a good one.
    static let steadyAfter: UInt64 = 2_000

    private(set) var phase: Phase
    /// Milliseconds that connecting, the handshake and the greeting may take together.
    private let connectTimeout: UInt64
    private let usesTLS: Bool
    /// Commands of the greeting.
    private let greetingLength: Int
    /// In a row.
    private var failures: UInt64 = 0

    /// A connection that is due at once.
    init(usesTLS: Bool, greetingLength: Int, connectTimeout: UInt64, now: MonotonicTime) {
        phase = .waiting(until: now)
        self.usesTLS = usesTLS
        self.greetingLength = greetingLength
        self.connectTimeout = connectTimeout
    }

    /// When `timePassed` must be called; nil if only an event can bring anything.
    var deadline: MonotonicTime? {
        switch phase {
        case .waiting(let until), .connecting(let until), .handshaking(let until), .greeting(_, let until): until
        case .serving, .ended: nil
        }
    }

    /// The deadline may have come. `random` spreads the next attempt, here and below.
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

    /// The TLS handshake is over.
    mutating func secured(_ now: MonotonicTime) -> RedisAction {
        guard case .handshaking(let until) = phase else { return .carryOn }
        return greet(now, until)
    }

    private mutating func greet(_ now: MonotonicTime, _ until: MonotonicTime) -> RedisAction {
        guard greetingLength > 0 else { return serve(now) }
        phase = .greeting(left: greetingLength, until: until)
        return .greet
    }

    /// The next command of the greeting was answered well.
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

    /// The connection, or the attempt at one, is of no more use.
    mutating func failed(_ now: MonotonicTime, random: UInt64) -> RedisAction {
        switch phase {
        case .waiting, .ended: return .carryOn
        case .connecting, .handshaking, .greeting: break
        case .serving(let since):
            if now.nanoseconds(since: since) >= Self.steadyAfter * 1_000_000 { failures = 0 }
        }
        let longest = min(Self.shortestWait << min(failures, 6), Self.longestWait) * 1_000_000
        failures += 1
        phase = .waiting(until: MonotonicTime(nanoseconds: now.nanoseconds + longest / 2 + random % (longest / 2 + 1)))
        return .close
    }

    /// What the last attempt lacked is here: the next need not wait.
    mutating func retryNow(_ now: MonotonicTime) {
        guard case .waiting(let until) = phase else { return }
        phase = .waiting(until: min(until, now))
    }

    /// The owner wants no connection any more.
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
