import Glibc
import HTTP
import Transport

/// Why an upstream did not answer, or not to the end.
enum UpstreamLoss: Error, Equatable {
    case notReached(String)
    /// The gateway itself has no descriptor, port or memory left for a connection.
    case shortage
    case connectTimeout
    case handshakeFailed(String)
    case brokenWhileSending
    /// Closed before a byte of the answer.
    case closedUnanswered
    /// What came is no head of an answer.
    case badAnswer(HTTPFault)
    /// An answer, or an interim one, began and did not end.
    case brokenAnswer
    case timeout
    case tooManyConnections

    /// Whether nothing of the request can have been worked on.
    var reachedNobody: Bool {
        switch self {
        case .notReached, .shortage, .connectTimeout, .handshakeFailed, .tooManyConnections: true
        case .brokenWhileSending, .closedUnanswered, .badAnswer, .brokenAnswer, .timeout: false
        }
    }

    /// Whether the address is to blame.
    var countsAgainstAddress: Bool { self != .tooManyConnections && self != .shortage }

    /// Whether another try may fare better. Not once a byte of an answer has come: the work was done, or the upstream speaks
    /// nonsense. After a timeout it may be under way, what the gateway itself lacks it lacks for every address, and connections
    /// are counted over all addresses.
    var isRetryable: Bool {
        switch self {
        case .notReached, .connectTimeout, .handshakeFailed, .brokenWhileSending, .closedUnanswered: true
        case .badAnswer, .brokenAnswer, .timeout, .shortage, .tooManyConnections: false
        }
    }

    /// Why a connection could not even be begun.
    init(beginning fault: SystemFault) {
        switch fault.errno {
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EADDRNOTAVAIL: self = .shortage
        default: self = .notReached(fault.reason)
        }
    }
}
