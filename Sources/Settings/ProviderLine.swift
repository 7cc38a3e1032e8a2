package import Credentials
internal import Wire

/// The supported identity providers.
package enum ProviderName: String, CaseIterable, Sendable { case apple, google }

/// A provider for sign-in with ID tokens, as a `TOLLGATE_PROVIDER_…` line declares it.
package struct ProviderDeclaration: Hashable, Sendable {
    package var name: ProviderName
    /// The accepted audiences (`aud`), at least one.
    package var clientIDs: [String]
    /// All values of `iss` that the provider uses.
    package var issuers: [String]
    package var keySource: KeySource
    package var origin: Origin

    /// The issuer name of its keys. The hyphen keeps it apart from trust lines, whose names have none.
    package var keysName: String { "provider-\(name.rawValue)" }

    /// The provider as an issuer whose keys are fetched.
    package var source: TrustDeclaration {
        TrustDeclaration(
            name: keysName, issuer: issuers.first, audiences: clientIDs, keySource: keySource, algorithms: AlgorithmSet([.RS256, .ES256]),
            origin: origin)
    }
}

extension ProviderName {
    fileprivate var defaultIssuers: [String] {
        switch self {
        case .apple: ["https://appleid.apple.com"]
        case .google: ["https://accounts.google.com", "accounts.google.com"]
        }
    }

    fileprivate var defaultKeys: String {
        switch self {
        case .apple: "https://appleid.apple.com/auth/keys"
        case .google: "https://www.googleapis.com/oauth2/v3/certs"
        }
    }
}

extension ProviderDeclaration: OptionTarget {
    package static let bare = Self(.apple, origin: .builtIn)

    package static let options = table {
        LineOption(
            "client-ids", list: \.clientIDs, "com.example.app,com.example.web", "the apps whose ID tokens are accepted (`aud`)"
        ) { $0 }
        LineOption("issuer", "the provider's own", "the exact `iss`, in place of the provider's") { line, provider in
            if let issuer = line.text("issuer") { provider.issuers = [issuer] }
        } value: { provider, _ in
            OptionValue(list: provider.issuers)
        }
        LineOption("jwks", "a URL or a file", "the key set, in place of the provider's") { line, provider in
            if let text = line.text("jwks") { provider.keySource = TrustLine.jwksSource(&line, text) }
        } value: { provider, _ in
            provider.keySource.place.map { OptionValue($0) }
        }
    }

    /// With the provider's own issuers and keys.
    fileprivate init(_ name: ProviderName, origin: Origin) {
        self.init(name: name, clientIDs: [], issuers: name.defaultIssuers, keySource: .url(name.defaultKeys), origin: origin)
    }
}

/// Parser of `TOLLGATE_PROVIDER_<NAME>`.
enum ProviderLine {
    /// nil if the line is empty or its name is no provider's.
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (ProviderDeclaration?, Findings) {
        if entry.value.isEmpty { return (nil, Findings()) }
        var line = OptionLine(entry, ProviderDeclaration.self, sources)
        guard let name = ProviderName(rawValue: name) else {
            line.fault("names no provider, the providers are APPLE and GOOGLE")
            return (nil, line.findings)
        }
        line.refuseWords("key=value, like client-ids=com.example.app")
        var provider = ProviderDeclaration(name, origin: entry.origin)
        line.read(into: &provider)
        if provider.clientIDs.isEmpty || provider.clientIDs.contains("") {
            line.fault("needs the apps whose tokens are accepted, write client-ids=com.example.app, separated by commas")
        }
        return (provider, line.findings)
    }
}
