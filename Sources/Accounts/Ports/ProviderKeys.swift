package import Credentials

/// The rules and keys by which the ID tokens of providers are verified.
package protocol ProviderKeys: Sendable {
    /// The newest rules and keys in memory; nil if the operator has not set the provider up.
    func rules(for provider: Provider) -> IDTokenRules?

    /// Those that are set up.
    var offered: [Provider] { get }
    /// Fetches the provider's keys again, because a token names an unknown one. Returns when they have arrived, or after a few
    /// seconds.
    func refetch(_ provider: Provider) async
}
