import Glibc
import HTTP
import System
import Transport

/// Why an upstream did not answer, or not completely.
enum UpstreamLoss: Error, Equatable {
    case notReached(String)
    /// The gateway itself has no descriptor, port or memory left for a connection.
    case shortage
    case connectTimeout
    case handshakeFailed(String)
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
    case badAnswer(HTTPFault)
    /// An answer, interim ones included, began and did not end.
    case brokenAnswer
    case timeout
    case tooManyConnections
    /// `max-requests`, or `max-pending`, is reached.
    case tooManyRequests, tooManyPending
    /// The client holds its share of one of these three bounds.
    case beyondShare

    /// Whether no upstream can have received any of the request.
    var isUndelivered: Bool {
        switch self {
        case .notReached, .shortage, .connectTimeout, .handshakeFailed, .notHTTP2, .refused, .unprocessed, .tooManyConnections,
            .tooManyRequests, .tooManyPending, .beyondShare:
            true
        case .brokenWhileSending, .closedUnanswered, .badAnswer, .brokenAnswer, .timeout: false
        }
    }

    /// Whether an upstream that waits too long for a client's content ends like this.
    var mayEndPatience: Bool {
        switch self {
        case .brokenWhileSending, .closedUnanswered, .brokenAnswer, .timeout: true
        case .notReached, .shortage, .connectTimeout, .handshakeFailed, .notHTTP2, .refused, .unprocessed, .tooManyConnections,
            .tooManyRequests, .tooManyPending, .beyondShare, .badAnswer:
            false
        }
    }

    /// Whether it counts as a failure of the address. A stream that is silent after its head may just have nothing to send.
    func countsAgainstAddress(isBehindHead: Bool) -> Bool {
        switch self {
        case .tooManyConnections, .tooManyRequests, .tooManyPending, .beyondShare, .shortage: false
        case .timeout: !isBehindHead
        case .notReached, .connectTimeout, .handshakeFailed, .notHTTP2, .refused, .unprocessed, .brokenWhileSending, .closedUnanswered,
            .badAnswer, .brokenAnswer:
            true
        }
    }

    /// Whether a retry may help. Not after a byte of an answer: the work was done, or the upstream is broken. Not after a timeout: the
    /// work may be under way. A shortage of the gateway, and the upstream's bounds, concern all addresses alike.
    var isRetryable: Bool {
        switch self {
        case .notReached, .connectTimeout, .handshakeFailed, .notHTTP2, .refused, .unprocessed, .brokenWhileSending, .closedUnanswered:
            true
        case .badAnswer, .brokenAnswer, .timeout, .shortage, .tooManyConnections, .tooManyRequests, .tooManyPending, .beyondShare:
            false
        }
    }

    /// The loss when a connection could not even be started.
    init(beginning fault: SystemFault) {
        switch fault.errno {
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EADDRNOTAVAIL: self = .shortage
        default: self = .notReached(fault.reason)
        }
    }
}
