import Gate
import Telemetry
import Wire

extension FilterFault {
    /// The word for the log, and the metrics' label value.
    var texts: (log: StaticString, reason: FilterFailureReason) {
        switch self {
        case .partial: ("filter_partial", .partial)
        case .coding: ("filter_coding", .coding)
        case .notJSON: ("filter_not_json", .notJSON)
        case .broken: ("filter_broken", .broken)
        case .tooLarge: ("filter_too_large", .tooLarge)
        case .noList: ("filter_no_list", .noList)
        case .aboveTier: ("filter_above_tier", .aboveTier)
        }
    }

    /// The refusal of an answer with this status, while the client has received none of it. An error that is not JSON keeps its status,
    /// whatever its label says.
    func refusal(status: Int) -> Refusal {
        switch self {
        case .aboveTier: .premiumRequired
        case .notJSON where status >= 400, .broken where status >= 400: .upstreamError(status: UInt16(clamping: status))
        case .partial, .coding, .notJSON, .broken, .tooLarge, .noList: .badGateway
        }
    }
}
