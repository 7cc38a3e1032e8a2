package import Credentials

/// The rules and keys by which the ID tokens of providers are verified.
package protocol ProviderKeys: Sendable {
    /// The newest that are at hand; nil if the operator has not set the provider up.
    func rules(for provider: Provider) -> IDTokenRules?
    /// Asks for the provider's keys again, because a token names one that is not there. Returns when they have come, or
    /// after a few seconds at most.
    func refetch(_ provider: Provider) async
}
