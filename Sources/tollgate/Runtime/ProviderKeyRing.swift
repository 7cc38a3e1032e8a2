internal import Accounts
internal import Credentials
internal import Issuers
internal import Settings
internal import Threads
internal import Transport
internal import Wire

/// The ID-token rules of the configured providers, with the keys in force.
struct ProviderKeyRing: ProviderKeys {
    /// How long a sign-in waits for a fetch of keys.
    private static let fetchMilliseconds: UInt64 = 3_000

    let active: ActiveConfiguration
    let keySets: KeySetRefresher

    func rules(for provider: Provider) -> IDTokenRules? {
        guard let declared = declaration(of: provider) else { return nil }
        return IDTokenRules(
            provider: provider.rawValue, issuers: declared.issuers, clientIDs: declared.clientIDs,
            keys: active.keys.outside[declared.keysName], unnamedNonce: declared.unnamedNonce ?? .refused, trustsEmail: declared.trustsEmail
        )
    }

    var offered: [Provider] { active.configuration.settings.providers.map(\.name) }

    func refetch(_ provider: Provider) async {
        guard let declared = declaration(of: provider) else { return }
        let name = declared.keysName
        let before = fetches(name)
        keySets.sawUnknownKey(of: name)
        // A file is read when it changes, and not fetched.
        guard case .url = declared.keySource else { return }
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: Self.fetchMilliseconds)
        while fetches(name) == before, EventLoop.now().monotonic < deadline { await pause(milliseconds: 20) }
    }

    private func declaration(of provider: Provider) -> ProviderDeclaration? {
        active.configuration.settings.providers.first { $0.name == provider }
    }

    private func fetches(_ name: String) -> UInt64 { keySets.statuses.first { $0.name == name }?.fetches ?? 0 }
}
