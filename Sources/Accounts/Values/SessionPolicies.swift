package import Credentials

/// The lifetimes in force, by contract: those of its document unless the operator has shortened them.
package struct SessionPolicies: Sendable, Equatable {
    private var shortened: [ContractID: SessionPolicy] = [:]

    package init() {}

    /// A set policy must not be longer than the document's: ended sessions are remembered as long as that lets tokens live.
    package subscript(_ contract: ContractID) -> SessionPolicy {
        get { shortened[contract] ?? contract.sessionPolicy }
        set { shortened[contract] = newValue }
    }
}
