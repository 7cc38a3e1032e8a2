package import Credentials
internal import Wire

/// The providers that can be set up.
package enum ProviderName: String, CaseIterable, Sendable { case apple, google }

/// A provider whose ID tokens sign people in, as a line declared it.
package struct ProviderDeclaration: Hashable, Sendable {
    package var name: ProviderName
    /// The apps whose tokens count (`aud`), one or more.
    package var clientIDs: [String]
    /// Every spelling of `iss` that the provider uses.
    package var issuers: [String]
    package var keySource: KeySource
    package var origin: Origin

    /// The name that its keys go under. A hyphen, which no name of a trust line has.
    package var keysName: String { "provider-\(name.rawValue)" }

    /// The same as a source of keys.
    package var source: TrustDeclaration {
        TrustDeclaration(
            name: keysName, issuer: issuers.first, audiences: clientIDs, keySource: keySource,
            algorithms: AlgorithmSet([.RS256, .ES256]), origin: origin)
    }
}

extension ProviderName {
    fileprivate var usualIssuers: [String] {
        switch self {
        case .apple: ["https://appleid.apple.com"]
        case .google: ["https://accounts.google.com", "accounts.google.com"]
        }
    }

    fileprivate var usualKeys: String {
        switch self {
        case .apple: "https://appleid.apple.com/auth/keys"
        case .google: "https://www.googleapis.com/oauth2/v3/certs"
        }
    }
}

extension LineOption {
    package static let provider: [LineOption] = [
        LineOption("client-ids", "com.example.app,com.example.web", "the apps whose ID tokens count"),
        LineOption("issuer", "the provider's own", "the exact `iss`, in place of the provider's"),
        LineOption("jwks", "a URL or a file", "where the keys are, in place of the provider's"),
    ]
}

/// The grammar of `TOLLGATE_PROVIDER_<NAME>`.
enum ProviderLine {
    /// nil if the name is no provider's, or if the line is empty.
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (ProviderDeclaration?, Findings) {
        if entry.value.isEmpty { return (nil, Findings()) }
        var line = OptionLine(entry, knows: LineOption.provider)
        guard let provider = ProviderName(rawValue: name) else {
            line.fault("names no provider, the providers are APPLE and GOOGLE")
            return (nil, line.findings)
        }
        for word in line.words { line.fault("\(quoted(word)) is no option, write key=value, like client-ids=com.example.app") }
        let ids = line.text("client-ids").map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
        if ids == nil || ids?.contains("") == true {
            line.fault("needs the apps whose tokens count, write client-ids=com.example.app, separated by commas")
        }
        let declaration = ProviderDeclaration(
            name: provider, clientIDs: ids ?? [], issuers: line.text("issuer").map { [$0] } ?? provider.usualIssuers,
            keySource: TrustLine.jwksSource(&line, line.text("jwks") ?? provider.usualKeys, sources), origin: entry.origin)
        return (declaration, line.findings)
    }
}
