package import Transport
package import Wire

/// Bounds and time limits of a connection; milliseconds and bytes.
package struct RedisConnectionSettings: Equatable, Sendable {
    /// A command that is not answered for so long is late: its caller is told so and waits no more.
    package var replyDeadline: UInt64 = 25
    /// A connection whose oldest command is not answered for so long is closed.
    package var responseTimeout: UInt64 = 1_000
    /// Microseconds that commands wait for the answers to those before them, to go together with what comes meanwhile. A loop
    /// in which nothing happens looks after them a millisecond later at most.
    package var batchWindow: UInt64 = 500
    /// For connecting, the TLS handshake and the greeting together.
    package var connectTimeout: UInt64 = 1_000
    /// Unanswered commands, and the bytes of them; past either a command is not taken.
    package var mostCommands = 16_384
    package var mostBytes = 4 << 20
    package var replyLimits = RedisReplyLimits()

    package init() {}
}

/// Whether a command was taken.
package enum RedisAdmission: Equatable, Sendable {
    /// `next` will tell what becomes of it, once.
    case accepted
    /// There is no connection.
    case notReady
    /// The server has not answered lately.
    case breakerOpen
    /// Too much is unanswered.
    case full
}

/// What became of a command.
package enum RedisOutcome: Equatable, Sendable {
    /// `reader.reply` holds the answer until `next` is called again.
    case answered
    /// `reader.reply` holds the error. `isOutage` says whether it counts as no answer.
    case refused(RedisErrorKind)
    /// No answer in time. The server may carry it out all the same; what it answers then is dropped.
    case late
    /// The connection was lost before the answer. The server may have carried it out.
    case lost

    package var isAnswered: Bool {
        switch self {
        case .answered: true
        case .refused, .late, .lost: false
        }
    }
}

/// A command's outcome, by the name that its caller gave it.
package struct RedisResult: Equatable, Sendable {
    package let tag: UInt64
    package let outcome: RedisOutcome
}

/// One loop's pipelined connection to a server, and to it again whenever it is lost.
///
/// Its owner, on the loop's thread, in each turn:
/// 1. hands over the loop's reports that carry its token: `ready`;
/// 2. behind all reports calls `timedOut`, then `next` until it answers nil, and acts on each result;
/// 3. `append`s commands whenever it likes, each with a tag of its choice;
/// 4. at the end calls `flush`, which sends all of them with one write, and waits no longer than `nextDeadline`. While earlier
///    commands are about to be answered, `flush` lets later ones gather: a busy connection makes one write for each round trip.
///    Whoever can put several questions into one command appends none while it `isBatching`, and all of them then.
///
/// Every accepted command has exactly one result. Nothing here blocks, and in the steady state nothing but hiredis's
/// formatter, for commands that are no calls of scripts, takes memory.
package struct RedisConnection: ~Copyable {
    private let pin = AddressPin()
    package let endpoint: RedisEndpoint
    let settings: RedisConnectionSettings
    let tls: TLSClientContext?
    /// The channel whose messages are heard; nil for none.
    let subscription: StaticString?
    let token: UInt64
    var random: SplitMix64

    var addresses: [SocketAddress]
    /// Attempts so far: they go through the addresses in turn.
    var attempts = 0
    /// Where the connection goes to.
    var address: SocketAddress?

    var state: RedisConnectionState
    var connection = Connection()
    var input = ByteBuffer()
    /// Something may be there to be received.
    var hasInput = false
    var output = RedisOutput()
    var unanswered = PendingCommands()
    /// So many of the unanswered commands are of a connection that is lost.
    var lost = 0
    /// Commands that were appended and not sent yet.
    var batch = 0
    /// When commands were sent last.
    var flushedAt = MonotonicTime(nanoseconds: 0)
    var scripts: LoadedScripts
    var log = RedisConditionLog()

    /// Where answers are read: `reader.reply` is the latest.
    package internal(set) var reader: RedisReplyReader
    package internal(set) var breaker = RedisBreaker()

    /// Marks the message of a subscription: `reader.reply` is an array of `message`, the channel, and what was said.
    package static let messageTag = UInt64.max

    /// A connection that begins with the first `timedOut`.
    ///
    /// - Parameters:
    ///   - addresses: where the server is; none while its name is not resolved.
    ///   - tls: needed for an endpoint with TLS; made without application protocols.
    ///   - subscription: a channel to hear. Then `next` answers a result with `messageTag` for each message of it, and no
    ///     command but PING may be appended.
    ///   - token: what its reports in the loop carry.
    ///   - seed: for jitter.
    package init(
        _ endpoint: RedisEndpoint, addresses: [SocketAddress], tls: TLSClientContext? = nil,
        scripts: RedisScripts = RedisScripts(), settings: RedisConnectionSettings = RedisConnectionSettings(),
        subscription: StaticString? = nil, token: UInt64, seed: UInt64, now: MonotonicTime
    ) {
        precondition(!endpoint.usesTLS || tls != nil, "an endpoint with TLS needs a context")
        self.endpoint = endpoint
        self.addresses = addresses
        self.tls = tls
        self.settings = settings
        self.subscription = subscription
        self.token = token
        random = SplitMix64(seed: seed)
        self.scripts = LoadedScripts(scripts)
        reader = RedisReplyReader(limits: settings.replyLimits)
        let greeting = (endpoint.password == nil ? 0 : 1) + (endpoint.database == 0 ? 0 : 1) + scripts.scripts.count
            + (subscription == nil ? 0 : 1)
        state = RedisConnectionState(
            usesTLS: endpoint.usesTLS, greetingLength: greeting, connectTimeout: settings.connectTimeout, now: now)
    }

    deinit { connection.socket.close() }

    /// Whether commands are taken, as far as the connection is concerned.
    package var isReady: Bool {
        switch state.phase {
        case .serving: true
        case .waiting, .connecting, .handshaking, .greeting, .ended: false
        }
    }

    /// Whether commands and answers are exchanged, be it those of the greeting.
    var isConnected: Bool {
        switch state.phase {
        case .greeting, .serving: true
        case .waiting, .connecting, .handshaking, .ended: false
        }
    }

    /// How things stand, for readiness.
    package var condition: RedisCondition { log.condition }

    /// How things stand, if that is not what the last call said: for the log.
    package mutating func takeChange() -> RedisCondition? { log.takeChange() }

    /// Commands that wait for an answer, late ones included.
    package var inFlight: Int { unanswered.count - lost }

    /// When the oldest of them was appended.
    package var oldestInFlight: MonotonicTime? { unanswered.next?.sentAt }

    /// Takes a command, to be sent by the next `flush`. Its result will carry `tag`.
    package mutating func append(
        _ command: borrowing RedisCommand, tag: UInt64, _ now: MonotonicTime
    ) -> RedisAdmission {
        let admission = admit(command.size, now)
        guard case .accepted = admission else { return admission }
        let before = output.bytes.count
        RedisCommandFormat.append(command, to: &output.bytes)
        accepted(script: nil, tag, output.bytes.count - before, now)
        return .accepted
    }

    /// Takes a call of a script, which was begun, to be sent by the next `flush`. Its result will carry `tag`.
    package mutating func append(_ call: borrowing RedisCall, tag: UInt64, _ now: MonotonicTime) -> RedisAdmission {
        guard let script = call.script else { preconditionFailure("a call of no script") }
        let admission = admit(call.size, now)
        guard case .accepted = admission else { return admission }
        let before = output.bytes.count
        scripts.append(call, of: script, to: &output.bytes)
        accepted(script: script, tag, output.bytes.count - before, now)
        return .accepted
    }

    private mutating func admit(_ size: Int, _ now: MonotonicTime) -> RedisAdmission {
        guard isReady else { return .notReady }
        guard unanswered.count < settings.mostCommands, output.bytes.count + size <= settings.mostBytes else { return .full }
        return breaker.admit(now) ? .accepted : .breakerOpen
    }

    private mutating func accepted(script: RedisScriptID?, _ tag: UInt64, _ byteCount: Int, _ now: MonotonicTime) {
        unanswered.append(PendingCommand(purpose: .call(script: script), tag: tag, sentAt: now, byteCount: byteCount))
        batch += 1
    }

    /// When `timedOut` and `next` are to be called if nothing happens before; nil if nothing is due by itself.
    package mutating func nextDeadline() -> MonotonicTime? {
        if lost > 0 { return MonotonicTime(nanoseconds: 0) }
        var next = state.deadline ?? MonotonicTime(nanoseconds: .max)
        if isReady, batch > 0 { next = min(next, batchDeadline) }
        if isReady, let oldest = oldestInFlight { next = min(next, oldest.advanced(milliseconds: settings.responseTimeout)) }
        if let awaited = unanswered.oldestAwaited() {
            next = min(next, awaited.advanced(milliseconds: settings.replyDeadline))
        }
        return next.nanoseconds == .max ? nil : next
    }
}
