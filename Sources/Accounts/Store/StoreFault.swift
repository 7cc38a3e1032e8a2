/// Why a store call failed. The texts are for the operator.
package enum StoreFault: Error, Equatable, Sendable {
    /// Unreachable, late or overloaded. Whether the transaction was committed is not known.
    case unavailable(String)
    /// Other calls, or another program, hold the row that the call would lock. It changed nothing.
    case busy(String)
    /// A permanent refusal, or data that this program cannot read.
    case failed(String)
    /// The call would have signed in to a banned account. It changed nothing.
    case banned(Ban)

    package var reason: String {
        switch self {
        case .unavailable(let reason), .busy(let reason), .failed(let reason): reason
        case .banned: "the account is banned"
        }
    }
}
