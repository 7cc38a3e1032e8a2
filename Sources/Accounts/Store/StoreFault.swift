/// Why a store did not do what it was asked.
package enum StoreFault: Error, Equatable, Sendable {
    /// It is away, late or overloaded. Nothing was acknowledged; whether anything was done is not known.
    case unavailable(String)
    /// It refuses for good, or holds what this program cannot read. The text is for the operator.
    case failed(String)
}
