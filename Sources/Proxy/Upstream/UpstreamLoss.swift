import Gate
import Glibc
import System
import Telemetry

/// Why an upstream did not answer, or not completely. All that follows from a loss stands in its row.
enum UpstreamLoss: Error, CaseIterable {
    case notReached
    /// The gateway itself has no descriptor, port or memory left for a connection.
    case shortage
    case connectTimeout
    case handshakeFailed
    /// `http2=on` without TLS, or with ALPN `h2`, and the first bytes are not HTTP/2's.
    case notHTTP2
    /// HTTP/2: the upstream has refused the request unseen (REFUSED_STREAM, RFC 9113 §8.7).
    case refused
    /// HTTP/2: the upstream has not begun it: its GOAWAY leaves it out (§6.8), or the connection ended before the request left.
    case unprocessed
    case brokenWhileSending
    /// Closed before a byte of the answer.
    case closedUnanswered
    /// The bytes are no head of an answer.
    case badAnswer
    /// An answer, interim ones included, began and did not end.
    case brokenAnswer
    case timeout
    case tooManyConnections
    /// `max-requests`, or `max-pending`, is reached.
    case tooManyRequests, tooManyPending
    /// The client holds its share of one of these three bounds.
    case beyondShare

    var row: Row {
        switch self {
        case .notReached: Row("not_reached", .badGateway, .connectFailed, [.undelivered, .retryable, .addressFault])
        case .shortage: Row("shortage", Self.overload, .connectFailed, .undelivered)
        case .connectTimeout: Row("connect_timeout", .timeout, .connectFailed, [.undelivered, .retryable, .addressFault])
        case .handshakeFailed: Row("handshake_failed", .badGateway, .connectFailed, [.undelivered, .retryable, .addressFault])
        case .notHTTP2: Row("not_http2", .badGateway, .connectFailed, [.undelivered, .retryable, .addressFault])
        case .refused: Row("refused_stream", Self.unavailable, .refused, [.undelivered, .retryable, .addressFault])
        case .unprocessed: Row("unprocessed", Self.unavailable, .refused, [.undelivered, .retryable, .addressFault])
        case .brokenWhileSending: Row("broken_while_sending", .badGateway, .closed, [.retryable, .addressFault, .endsPatience])
        case .closedUnanswered: Row("closed_unanswered", .badGateway, .closed, [.retryable, .addressFault, .endsPatience])
        case .badAnswer: Row("bad_answer", .badGateway, .closed, .addressFault)
        case .brokenAnswer: Row("broken_answer", .badGateway, .closed, [.addressFault, .endsPatience])
        case .timeout: Row("timeout", .timeout, .timeout, [.addressFaultBeforeHead, .endsPatience])
        case .tooManyConnections: Row("too_many_connections", Self.overload, .connectFailed, .undelivered, .connections)
        case .tooManyRequests: Row("too_many_requests", Self.overload, .connectFailed, .undelivered, .requests)
        case .tooManyPending: Row("too_many_pending", Self.overload, .connectFailed, .undelivered, .pending)
        case .beyondShare: Row("share", Self.overload, .connectFailed, .undelivered, .share)
        }
    }

    /// The consequences of a loss.
    struct Row {
        /// The access log's `error`.
        let text: StaticString
        /// The response to the client.
        let refusal: Refusal
        /// The metrics' label value.
        let retryReason: RetryReason
        let traits: Traits
        /// The bound that was reached; nil for other losses.
        let bound: UpstreamBound?

        fileprivate init(_ text: StaticString, _ refusal: Refusal, _ reason: RetryReason, _ traits: Traits, _ bound: UpstreamBound? = nil) {
            (self.text, self.refusal, retryReason, self.traits, self.bound) = (text, refusal, reason, traits, bound)
        }

        /// Whether it counts as a failure of the address.
        func countsAgainstAddress(isBehindHead: Bool) -> Bool {
            traits.contains(.addressFault) || traits.contains(.addressFaultBeforeHead) && !isBehindHead
        }
    }

    struct Traits: OptionSet {
        let rawValue: UInt8

        /// No upstream can have received any of the request.
        static let undelivered = Traits(rawValue: 1)
        /// A retry may help. Not after a byte of an answer: the work was done, or the upstream is broken. Not after a timeout: the work may
        /// be under way. A shortage of the gateway, and the upstream's bounds, concern all addresses alike.
        static let retryable = Traits(rawValue: 2)
        static let addressFault = Traits(rawValue: 4)
        /// A stream that is silent after its head may just have nothing to send.
        static let addressFaultBeforeHead = Traits(rawValue: 8)
        /// An upstream that waits too long for a client's content ends like this.
        static let endsPatience = Traits(rawValue: 16)
    }

    private static var overload: Refusal { .unavailable(.overload, retryAfterSeconds: 1) }
    private static var unavailable: Refusal { .unavailable(.upstream, retryAfterSeconds: 1) }

    /// The loss when a connection could not even be started.
    init(beginning fault: SystemFault) {
        switch fault.errno {
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EADDRNOTAVAIL: self = .shortage
        default: self = .notReached
        }
    }
}
