internal import Accounts
internal import Credentials
internal import Issuers
internal import Settings
internal import Transport
internal import Wire

/// The rules and keys of the providers that are set up, as they are in force at each moment.
struct ProviderKeyRing: ProviderKeys {
    /// How long a sign-in waits for keys to come.
    private static let patience: UInt64 = 3_000

    let control: ControlState
    let feed: KeySetRefresher

    func rules(for provider: Provider) -> IDTokenRules? {
        guard let declared = declaration(of: provider) else { return nil }
        return IDTokenRules(
            provider: provider.rawValue, issuers: declared.issuers, clientIDs: declared.clientIDs,
            keys: control.keys.outside[declared.keysName], unnamedNonce: provider.unnamedNonce)
    }

    func refetch(_ provider: Provider) async {
        guard let name = declaration(of: provider)?.keysName else { return }
        let before = fetches(name)
        feed.sawUnknownKey(of: name)
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: Self.patience)
        while fetches(name) == before, EventLoop.now().monotonic < deadline { await pause(milliseconds: 20) }
    }

    private func declaration(of provider: Provider) -> ProviderDeclaration? {
        control.configuration.providers.first { Provider($0.name) == provider }
    }

    private func fetches(_ name: String) -> UInt64 { feed.statuses.first { $0.name == name }?.fetches ?? 0 }
}

extension Provider {
    /// Apple repeats the app's nonce and makes none; Google's SDK for iOS adds one that its app never sees.
    fileprivate var unnamedNonce: IDTokenRules.UnnamedNonce {
        switch self {
        case .apple: .refused
        case .google: .ignored
        }
    }
}
