/// Why a store call failed. The texts are for the operator.
package enum StoreFault: Error, Equatable, Sendable {
    /// Unreachable, late or overloaded. Whether the transaction was committed is not known.
    case unavailable(String)
    /// A permanent refusal, or data that this program cannot read.
    case failed(String)
}
