package import Credentials
internal import Wire

/// A provider for sign-in with ID tokens, as a `TOLLGATE_PROVIDER_…` line declares it.
package struct ProviderDeclaration: Hashable, Sendable {
    package var name: Provider
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

extension Provider {
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
    package static let family = Setting.provider
    package var lineName: String { name.rawValue }
    package static let bare = Self(.apple, origin: .builtIn)

    package static let options = table {
        LineOption(
            "client-ids", list: \.clientIDs, "com.example.app,com.example.web", "the apps whose ID tokens are accepted (`aud`)"
        ) { $0 }
        LineOption("issuer", "the provider's own", "the exact `iss`, in place of the provider's") { line, provider in
            if let issuer = line.text("issuer") { provider.issuers = [issuer] }
        } value: { provider, _ in
            OptionValue(list: provider.issuers.map(maskingURLSecrets))
        }
        LineOption("jwks", "a URL or a file", "the key set, in place of the provider's") { line, provider in
            if let text = line.text("jwks") { provider.keySource = TrustDeclaration.jwksSource(&line, text) }
        } value: { provider, _ in
            provider.keySource.place.map { OptionValue($0) }
        }
    }

    /// With the provider's own issuers and keys.
    fileprivate init(_ name: Provider, origin: Origin) {
        self.init(name: name, clientIDs: [], issuers: name.defaultIssuers, keySource: .url(name.defaultKeys), origin: origin)
    }

    /// nil if the line is empty or its name is no provider's.
    package init?(_ line: inout OptionLine, name: String) {
        if line.entry.value.isEmpty { return nil }
        guard let provider = Provider(rawValue: name) else {
            line.fault("names no provider, the providers are APPLE and GOOGLE")
            return nil
        }
        self.init(provider, origin: line.entry.origin)
        line.refuseWords("key=value, like client-ids=com.example.app")
        line.read(into: &self)
        if clientIDs.isEmpty || clientIDs.contains("") {
            line.fault("needs the apps whose tokens are accepted, write client-ids=com.example.app, separated by commas")
        }
    }
}
