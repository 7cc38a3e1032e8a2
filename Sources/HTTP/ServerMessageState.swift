/// State machine of one server-side HTTP/1 connection: the message under way, and whether the connection persists after it (RFC 9112
/// §9.3). A driver moves the bytes.
///
/// A connection persists only if both messages ended where their framing says and neither side asked to close. An answer may begin,
/// and end, before its request has been received: then the rest of the request body is dropped if it is short; otherwise the
/// connection closes after the answer, lingering.
///
/// Events without a meaning in a state return `carryOn`. Calls that only a bug of the driver can make (a second answer to a request,
/// a head in the middle of a message) trap: going on would mix up messages of different users.
package struct ServerMessageState: Equatable, Hashable, Sendable {
    enum Phase: UInt8 {
        /// Between messages. Leaves with a head, a fault in one, or the end of the connection.
        case idle
        /// The request body is not complete, and nothing was answered. Leaves with the body's end, a fault, or an answer.
        case receiving
        /// The request is complete. Leaves with the answer.
        case received
        /// Answering before the request is complete. Leaves when either ends, or with a fault.
        case answeringEarly
        /// Answering a complete request. Leaves with the answer's end.
        case answering
        /// The request cannot be read any further. Leaves with the answer that says so.
        case refusing
        /// Answering a request that cannot be read any further. Leaves with the answer's end.
        case answeringFaulted
        /// Answered; the rest of the body is being dropped. Leaves with its end, or when there is too much of it.
        case discarding
        /// The end.
        case closing
    }

    private struct Flags: OptionSet, Hashable {
        let rawValue: UInt8
        /// The client lets the connection live on.
        static let keepAlive = Flags(rawValue: 1)
        static let isHTTP10 = Flags(rawValue: 2)
        /// The client waits for `100 Continue`.
        static let continuePending = Flags(rawValue: 4)
        /// The request body is being read; if it is cut off, the exchange must not look complete.
        static let bodyWanted = Flags(rawValue: 8)
        /// The answer's head said `Connection: close`.
        static let saidClose = Flags(rawValue: 16)
        static let inputClosed = Flags(rawValue: 32)
        static let draining = Flags(rawValue: 64)
    }

    /// Bytes of an unneeded request body that are read and dropped to keep the connection, per message.
    package static let discardLimit: UInt64 = 65536

    private(set) var phase = Phase.idle
    private var flags: Flags = []
    private var discardable: UInt32 = 0

    package init() {}

    /// Whether no message is under way and the connection is open.
    package var isIdle: Bool { phase == .idle }

    /// How the next bytes are read.
    package var reading: ServerReading {
        switch phase {
        case .idle: .head
        case .receiving, .answeringEarly: .body
        case .discarding: .discard
        case .received, .answering, .refusing, .answeringFaulted, .closing: .nothing
        }
    }

    // MARK: The request

    /// A request head was received. `hasBody`: content may follow it.
    package mutating func headReceived(
        hasBody: Bool, keepAlive: Bool, minorVersion: UInt8, expectsContinue: Bool
    ) -> ServerAction {
        precondition(phase == .idle, "a head in the middle of a message")
        flags.formIntersection([.draining])
        if keepAlive { flags.insert(.keepAlive) }
        if minorVersion == 0 { flags.insert(.isHTTP10) }
        if expectsContinue && hasBody { flags.insert(.continuePending) }
        phase = hasBody ? .receiving : .received
        return hasBody ? .readBody : .waitForAnswer
    }

    /// The request body is read from here on. `hasArrived`: some of it has, so the client did not wait.
    package mutating func bodyWanted(hasArrived: Bool) -> ServerAction {
        guard phase == .receiving || phase == .answeringEarly else { return .carryOn }
        let sends = flags.contains(.continuePending) && !hasArrived && phase == .receiving
        flags.insert(.bodyWanted)
        flags.remove(.continuePending)
        return sends ? .sendContinue : .readBody
    }

    /// The request body is not needed any more: the upstream has stopped reading, or the answer does not depend on it.
    package mutating func bodyAbandoned() { flags.remove(.bodyWanted) }

    /// The last byte of the request was received.
    package mutating func bodyReceived() -> ServerAction {
        switch phase {
        case .receiving:
            phase = .received
            return .waitForAnswer
        case .answeringEarly:
            phase = .answering
            return .carryOn
        case .discarding:
            return nextMessage()
        case .idle, .received, .answering, .refusing, .answeringFaulted, .closing:
            return .carryOn
        }
    }

    /// The request is malformed, too large or late, in its head or its body.
    package mutating func requestFaulted() -> ServerAction {
        switch phase {
        case .idle, .receiving:
            phase = .refusing
            return .refuse
        case .answeringEarly where flags.contains(.bodyWanted):
            return end(.abort)
        case .answeringEarly:
            phase = .answeringFaulted
            return .carryOn
        case .discarding:
            return end(.closeAfterFlush(lingering: true))
        case .received, .answering, .refusing, .answeringFaulted, .closing:
            return .carryOn
        }
    }

    // MARK: The answer

    /// The head of the final answer is about to be written; returns its `Connection` field.
    ///
    /// - Parameters:
    ///   - untilClose: only the end of the connection will end the answer's content.
    ///   - unread: request content still to come, in bytes; nil if not known.
    package mutating func answerStarted(untilClose: Bool, unread: UInt64?) -> Persistence {
        var closes = untilClose || !flags.contains(.keepAlive) || !flags.isDisjoint(with: [.draining, .inputClosed])
        switch phase {
        case .received:
            phase = .answering
        case .receiving:
            phase = .answeringEarly
            closes = closes || mustCloseEarly(unread)
        case .refusing:
            phase = .answeringFaulted
            closes = true
        case .idle, .answeringEarly, .answering, .answeringFaulted, .discarding, .closing:
            preconditionFailure("an answer to no request, or a second one")
        }
        if closes { flags.insert(.saidClose) }
        return closes ? .close : flags.contains(.isHTTP10) ? .keepAlive : .implied
    }

    /// An answer before the request is complete closes the connection if the client still waits for `100 Continue`, for it may or may
    /// not send the body then (RFC 9110 §10.1.1), or if the body is not needed and its rest is long or of unknown length.
    private func mustCloseEarly(_ unread: UInt64?) -> Bool {
        if flags.contains(.continuePending) { return true }
        guard !flags.contains(.bodyWanted) else { return false }
        return unread ?? UInt64.max > Self.discardLimit
    }

    /// The last byte of the answer was handed over for sending.
    package mutating func answerFinished() -> ServerAction {
        switch phase {
        case .answering:
            if !flags.contains(.saidClose) && !flags.contains(.inputClosed) { return nextMessage() }
            // A client that asked to close sends nothing more; any other may have.
            let mayHaveSent = flags.contains(.keepAlive)
            return end(.closeAfterFlush(lingering: mayHaveSent && !flags.contains(.inputClosed)))
        case .answeringEarly, .answeringFaulted:
            let closes = phase == .answeringFaulted || !flags.isDisjoint(with: [.saidClose, .inputClosed, .draining])
            if closes { return end(.closeAfterFlush(lingering: !flags.contains(.inputClosed))) }
            phase = .discarding
            discardable = UInt32(Self.discardLimit)
            return .discardBody
        case .idle, .receiving, .received, .refusing, .discarding, .closing:
            preconditionFailure("the end of an answer that has not begun")
        }
    }

    /// The answer, or what the client could take for one, cannot be completed.
    package mutating func answerBroken() -> ServerAction { end(.abort) }

    /// `count` bytes of the request body were dropped.
    package mutating func discarded(_ count: Int) -> ServerAction {
        guard phase == .discarding else { return .carryOn }
        guard count <= discardable else { return end(.closeAfterFlush(lingering: true)) }
        discardable -= UInt32(clamping: count)
        return .discardBody
    }

    // MARK: The connection

    /// The client will send no more. A complete request still gets its answer.
    package mutating func inputClosed() -> ServerAction {
        flags.insert(.inputClosed)
        switch phase {
        case .idle, .discarding, .closing:
            return end(.closeAfterFlush(lingering: false))
        case .receiving:
            return end(.abort)
        case .answeringEarly where flags.contains(.bodyWanted):
            return end(.abort)
        case .received, .answeringEarly, .answering, .refusing, .answeringFaulted:
            return .carryOn
        }
    }

    /// The gateway is ending: the current answer is the last. `headBegun`: some bytes of a next head are here.
    package mutating func drainRequested(headBegun: Bool) -> ServerAction {
        flags.insert(.draining)
        switch phase {
        case .idle where !headBegun:
            return end(.closeAfterFlush(lingering: false))
        case .discarding:
            return end(.closeAfterFlush(lingering: true))
        case .idle, .receiving, .received, .answeringEarly, .answering, .refusing, .answeringFaulted, .closing:
            return .carryOn
        }
    }

    /// No next head has begun for too long.
    package mutating func idledOut() -> ServerAction {
        phase == .idle ? end(.closeAfterFlush(lingering: false)) : .carryOn
    }

    private mutating func end(_ action: ServerAction) -> ServerAction {
        phase = .closing
        return action
    }

    /// Both messages are over, and the connection persists.
    private mutating func nextMessage() -> ServerAction {
        if flags.contains(.draining) { return end(.closeAfterFlush(lingering: true)) }
        phase = .idle
        return .readHead
    }
}
