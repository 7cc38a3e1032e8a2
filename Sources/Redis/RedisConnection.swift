package import Transport
package import Wire

/// Timeouts and bounds of a connection.
package struct RedisConnectionSettings: Equatable, Sendable {
    /// Milliseconds until a command without a reply times out for its caller.
    package var replyDeadline: UInt64 = 25
    /// Milliseconds until a connection whose oldest command has no reply is closed.
    package var responseTimeout: UInt64 = 1_000
    /// Batching window in microseconds: while commands are in flight, later ones are held back this long to go out together.
    /// An idle loop checks at most a millisecond later.
    package var batchWindow: UInt64 = 500
    /// Milliseconds for connecting, the TLS handshake and the greeting together.
    package var connectTimeout: UInt64 = 1_000
    /// Maximum unanswered commands, and their total bytes; beyond either, `append` returns `full`.
    package var maxCommands = 16_384
    package var maxBytes = 4 << 20
    package var replyLimits = RedisReplyLimits()
    /// Whether the server is a node of a cluster: then it has some of the keys, and an error about others is no outage.
    package var isClusterNode = false
    /// Whether a command that was `late` has a second result, with `isLate`, when its reply arrives or the connection is lost.
    package var reportsLateReplies = false

    package init() {}
}

/// Result of `append`.
package enum RedisAdmission: Equatable, Sendable {
    /// Accepted: `next` will return exactly one result for it.
    case accepted
    /// Not connected.
    case notReady
    /// The circuit breaker is open.
    case breakerOpen
    /// Too many commands are unanswered.
    case full
}

/// Outcome of a command.
package enum RedisOutcome: Equatable, Sendable {
    /// `reader.reply` holds the reply until the next call of `next`.
    case answered
    /// `reader.reply` holds the error. `isOutage` says whether it counts as no reply.
    case refused(RedisErrorKind)
    /// No reply in time. The server may still execute the command; its reply is dropped unless `reportsLateReplies`.
    case late
    /// The connection was lost. The server may have executed the command.
    case lost

    package var isAnswered: Bool {
        switch self {
        case .answered: true
        case .refused, .late, .lost: false
        }
    }

    /// Whether the keys of the command may be on another node by now.
    var isMiss: Bool {
        switch self {
        case .answered: false
        case .refused(let kind): kind == .cluster
        case .late, .lost: true
        }
    }
}

/// A command's outcome, with the caller's tag.
package struct RedisResult: Equatable, Sendable {
    package let tag: UInt64
    package let outcome: RedisOutcome
    /// Whether the command was `late` before.
    package var isLate = false
}

/// Pipelined connection of one loop to a Redis server; reconnects by itself. Used on the loop's thread, in each turn:
///
/// 1. `ready` for each of the loop's events that carry its token;
/// 2. after all events `timedOut`, then `next` until it returns nil;
/// 3. `append` at any time, with a tag of the caller's choice;
/// 4. at the end `flush`, which sends everything with one write; wait until `nextDeadline` at most. While earlier commands
///    are in flight, `flush` holds later ones back for the batching window, so a busy connection writes once per round trip.
///    A caller that can merge several questions into one command appends nothing while `isBatching`, and everything
///    afterwards.
///
/// Every accepted command has exactly one result, or two (`reportsLateReplies`). Nothing blocks. In the steady state nothing allocates, except hiredis's
/// formatter for plain commands.
package struct RedisConnection: ~Copyable {
    private let pin = AddressPin()
    package let endpoint: RedisEndpoint
    let settings: RedisConnectionSettings
    let tls: TLSClientContext?
    /// Channel to subscribe to; nil for none.
    let subscription: StaticString?
    let token: UInt64
    var random: SplitMix64

    var addresses: [SocketAddress]
    /// The name that the certificate at each address must have; empty where it is the endpoint's for all.
    var names: [String] = []
    /// Connection attempts so far, which rotate through the addresses.
    var attempts = 0
    /// The connected address.
    var address: SocketAddress?

    var state: RedisConnectionState
    var connection = Connection()
    var input = ByteBuffer()
    /// Bytes may be waiting in the socket or TLS.
    var hasInput = false
    var output = RedisOutput()
    var unanswered = PendingCommands()
    /// Number of unanswered commands of a lost connection.
    var lost = 0
    /// Number of commands appended since the last flush.
    var batch = 0
    /// Time of the last write of commands.
    var flushedAt = MonotonicTime(nanoseconds: 0)
    var scripts: LoadedScripts
    var log = RedisConditionLog()

    /// Parser of replies; `reader.reply` is the latest.
    package internal(set) var reader: RedisReplyReader
    package internal(set) var breaker = RedisBreaker()

    /// Tag of a subscription's message: `reader.reply` is an array of `message`, channel and payload.
    package static let messageTag = UInt64.max

    /// A connection that starts with the first `timedOut`.
    ///
    /// - Parameters:
    ///   - addresses: the server's addresses; empty until its name is resolved.
    ///   - tls: required for an endpoint with TLS; made without application protocols.
    ///   - subscription: a channel to subscribe to. `next` then returns a result with `messageTag` per message, and only
    /// PING may be appended.
    ///   - token: carried by its events in the loop.
    ///   - seed: of the jitter.
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
        let greeting =
            (endpoint.password == nil ? 0 : 1) + (endpoint.database == 0 ? 0 : 1) + scripts.scripts.count
            + (subscription == nil ? 0 : 1) + (endpoint.hasSentinels ? 1 : 0)
        state = RedisConnectionState(
            usesTLS: endpoint.usesTLS, greetingLength: greeting, connectTimeout: settings.connectTimeout, now: now)
    }

    deinit { connection.socket.close() }

    /// Whether the connection accepts commands.
    package var isReady: Bool {
        switch state.phase {
        case .serving: true
        case .waiting, .connecting, .handshaking, .greeting, .ended: false
        }
    }

    /// Whether commands are exchanged, including those of the greeting.
    var isConnected: Bool {
        switch state.phase {
        case .greeting, .serving: true
        case .waiting, .connecting, .handshaking, .ended: false
        }
    }

    /// State for readiness.
    package var condition: RedisCondition { log.condition }

    /// The state if it changed since the last call, for the log.
    package mutating func takeChange() -> RedisCondition? { log.takeChange() }

    /// Number of commands without a reply, including those that timed out.
    package var inFlight: Int { unanswered.count - lost }

    /// Whether no command waits for a reply, or to be reported as lost.
    var isUnused: Bool { unanswered.count == 0 }

    /// When the oldest of them was appended.
    package var oldestInFlight: MonotonicTime? { unanswered.next?.sentAt }

    /// Appends a command for the next `flush`. Its result will carry `tag`.
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

    /// Appends a call that another node was asked before: its reply is due by the time that it was first sent.
    ///
    /// - Parameter asking: the other node's reply was ASK.
    package mutating func append(
        _ call: borrowing RedisCall, redirectedAt sentAt: MonotonicTime, asking: Bool, tag: UInt64, _ now: MonotonicTime
    ) -> RedisAdmission {
        guard let script = call.script else { preconditionFailure("a call of no script") }
        let admission = admit(call.size + 32, now)
        guard case .accepted = admission else { return admission }
        if asking {
            let before = output.bytes.count
            output.bytes.append("*1\r\n$6\r\nASKING\r\n")
            unanswered.append(
                PendingCommand(purpose: .asking, tag: 0, sentAt: now, byteCount: output.bytes.count - before))
        }
        let before = output.bytes.count
        scripts.append(call, of: script, to: &output.bytes)
        unanswered.append(
            PendingCommand(
                purpose: .call(script: script), tag: tag, sentAt: sentAt, byteCount: output.bytes.count - before, isRepeat: true))
        batch += asking ? 2 : 1
        return .accepted
    }

    /// Appends a script call, which was begun, for the next `flush`. Its result will carry `tag`.
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
        guard unanswered.count < settings.maxCommands, output.bytes.count + size <= settings.maxBytes else { return .full }
        return breaker.admit(now) ? .accepted : .breakerOpen
    }

    private mutating func accepted(script: RedisScriptID?, _ tag: UInt64, _ byteCount: Int, _ now: MonotonicTime) {
        unanswered.append(PendingCommand(purpose: .call(script: script), tag: tag, sentAt: now, byteCount: byteCount))
        batch += 1
    }

    /// When `timedOut` and `next` must be called without an event; nil for never.
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
