package import Credentials
internal import Wire

/// A provider for sign-in with ID tokens, as a `TOLLGATE_PROVIDER_…` line declares it.
package struct ProviderDeclaration: Hashable, Sendable {
    package var name: Provider
    /// The accepted audiences (`aud`), at least one.
    package var clientIDs: [String] = []
    /// All values of `iss` that the provider uses.
    package var issuers: [String] = []
    package var keySource = KeySource.url("")
    /// Whether an email that the provider calls verified proves that the user has it.
    package var trustsEmail = false
    /// The rule for an app that names no nonce; nil: a token with a nonce is refused.
    package var unnamedNonce: IDTokenRules.UnnamedNonce?
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

extension ProviderDeclaration {
    /// The issuers, keys and rules of a provider that is known by its name.
    private struct Preset {
        let name: String
        let issuers: [String]
        let keys: String
        var trustsEmail = false
        var unnamedNonce: IDTokenRules.UnnamedNonce?
    }

    /// Google's SDK for iOS adds a nonce that its app never sees. Microsoft lets the owner of a directory write any email into its
    /// tokens; those of the others come without a word on who has verified them.
    private static let presets = [
        Preset(name: "apple", issuers: ["https://appleid.apple.com"], keys: "https://appleid.apple.com/auth/keys", trustsEmail: true),
        Preset(
            name: "google", issuers: ["https://accounts.google.com", "accounts.google.com"],
            keys: "https://www.googleapis.com/oauth2/v3/certs", trustsEmail: true, unnamedNonce: .ignored),
        // Personal accounts: their directory has this id.
        Preset(
            name: "microsoft", issuers: ["https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"],
            keys: "https://login.microsoftonline.com/common/discovery/v2.0/keys"),
        Preset(
            name: "facebook", issuers: ["https://www.facebook.com", "https://limited.facebook.com"],
            keys: "https://limited.facebook.com/.well-known/oauth/openid/jwks/"),
        Preset(name: "line", issuers: ["https://access.line.me"], keys: "https://api.line.me/oauth2/v2.1/certs"),
        Preset(name: "kakao", issuers: ["https://kauth.kakao.com"], keys: "https://kauth.kakao.com/.well-known/jwks.json"),
    ]
}

extension ProviderDeclaration: OptionTarget {
    package static let family = Setting.provider
    package var lineName: String { name.rawValue }
    package static let bare = Self(name: .apple, origin: .builtIn)

    package static let options = table {
        LineOption(
            "client-ids", list: \.clientIDs, "com.example.app,com.example.web", "the apps whose ID tokens are accepted (`aud`)"
        ) { $0 }
        LineOption(
            "issuer", list: \.issuers, "https://login.example.org", "the exact `iss`, or several; required for names without a preset",
            part: { $0 }, join: { $0 }, show: { $0.map(maskingURLSecrets) })
        LineOption("jwks", "a URL or a file", "the key set; required for names without a preset") { line, provider in
            if let text = line.text("jwks") { provider.keySource = TrustDeclaration.jwksSource(&line, text) }
        } value: { provider, _ in
            provider.keySource.place.map { OptionValue($0) }
        }
        LineOption(
            "email", \.trustsEmail, .choice([("untrusted", false), ("trusted", true)]),
            "whether an email with `email_verified` in the token is a proof; `trusted` for `APPLE` and `GOOGLE`, if nothing is said")
        LineOption(
            "nonce", ifSet: \.unnamedNonce, .choice([("required", .required), ("optional", .ignored)]), "required or optional",
            "`required`: the app must name the token's nonce; `optional`: it need not, which is so for `GOOGLE`. If nothing is said, it must name one that the token has"
        )
    }

    /// nil if the line is empty or its name is no name.
    package init?(_ line: inout OptionLine, name: String) {
        if line.entry.value.isEmpty { return nil }
        guard let provider = Provider(rawValue: name) else {
            line.fault("has a name that apps could not send, write letters, digits and underscores")
            return nil
        }
        self.init(name: provider, origin: line.entry.origin)
        if let preset = Self.presets.first(where: { $0.name == name }) {
            (issuers, keySource) = (preset.issuers, .url(preset.keys))
            (trustsEmail, unnamedNonce) = (preset.trustsEmail, preset.unnamedNonce)
        } else if !line.has("issuer") || !line.has("jwks") {
            let known = Self.presets.map { $0.name.uppercased() }.joined(separator: ", ")
            line.fault("has no preset, write issuer=URL and jwks=URL, or take one of the names \(known)")
        }
        line.refuseWords("key=value, like client-ids=com.example.app")
        line.read(into: &self)
        if clientIDs.isEmpty || clientIDs.contains("") {
            line.fault("needs the apps whose tokens are accepted, write client-ids=com.example.app, separated by commas")
        }
        if issuers.contains("") { line.fault("has an empty part in issuer=, remove the comma") }
    }
}
