import Gate
package import Telemetry
package import Wire

extension OutlierRules {
    /// Answers of an address in a window, and of the others together, below which nothing is concluded.
    static let minAnswers = 50
    /// Addresses in use below which a window shows no outlier: of two that differ, either may be the odd one.
    static let minAddresses = 3
    /// Milliseconds by which an outlier's median exceeds that of the others at least.
    static let minDelay: UInt64 = 10
    /// Milliseconds of the longest ejection, unless the first is longer.
    static let maxEjection: UInt64 = 300_000
    /// Milliseconds of the longest `Retry-After` that is believed.
    static let maxRest: UInt64 = 60_000

    /// Milliseconds of an ejection after so many that are not forgotten.
    func length(after ejections: Int) -> UInt64 {
        min(interval << UInt64(min(ejections, 5)), max(interval, Self.maxEjection))
    }

    /// Whether answers are counted in windows.
    var usesWindows: Bool { maxEjected > 0 && (minSuccess != nil || latency != nil) }
}

/// The time that an address is out: it gets no new requests, unless panic ignores that.
package struct Absence: Equatable, Sendable {
    package var reason: EjectionReason
    package var since: MonotonicTime
    package var until: MonotonicTime
}

/// An answer as a sign of its address's health.
enum AnswerSign: Equatable, Sendable {
    /// Anything that says nothing against the address: also 4xx, which are about the request.
    case good
    /// 5xx that may be the request's or one route's doing: counts in the share of successes, not in a row.
    case serverError
    /// 502, 503, 504, or UNAVAILABLE of gRPC.
    case unavailable
    /// 429 or RESOURCE_EXHAUSTED with a time to wait.
    case throttled

    init(status: Int) {
        switch status {
        case 502, 503, 504: self = .unavailable
        // 501 and 505 are about the request.
        case 500, 506...599: self = .serverError
        default: self = .good
        }
    }

    /// By the number of a `grpc-status`. DEADLINE_EXCEEDED is as often the client's short deadline as the server's fault.
    init(grpc: Int) {
        switch grpc {
        case 14: self = .unavailable
        case 2, 13, 15: self = .serverError
        default: self = .good
        }
    }
}
