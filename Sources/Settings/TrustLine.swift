package import Credentials
internal import Wire

/// An outside issuer, as a `TOLLGATE_TRUST_…` line declares it.
package struct TrustDeclaration: Hashable, Sendable {
    package var name: String
    /// The exact `iss`; nil: matches only tokens without `iss`.
    package var issuer: String?
    /// The accepted `aud` values; empty: not checked.
    package var audiences: [String]
    package var keySource: KeySource
    package var algorithms: AlgorithmSet
    package var userClaim = "sub"
    package var tierClaim = "tier"
    package var tierSource = TierDeclaration.claim
    package var emailClaim = "email"
    package var maxLifetimeSeconds: Int64?
    /// The endpoint that refreshes its tokens: internal callers' expired ones, and with `hasAccounts` those of apps; nil: none.
    package var refresh: RefreshDeclaration?
    /// Whether its subjects stand for accounts.
    package var hasAccounts = false
    package var origin: Origin
}

/// The source of the tiers of an outside issuer's users (`tier-from=`).
package enum TierDeclaration: Hashable, Sendable {
    /// The `tierClaim` of their tokens.
    case claim
    /// The tier that the operator set for the subject here.
    case account
    /// A tier server, whose answers count for so long.
    case lookup(url: String, maxAgeSeconds: Int64)

    /// The words of `tier-from=`.
    static let names = ["claim", "account", "lookup"]

    package var name: String {
        switch self {
        case .claim: "claim"
        case .account: "account"
        case .lookup: "lookup"
        }
    }
}

/// The refresh endpoint of an outside issuer.
package struct RefreshDeclaration: Hashable, Sendable {
    package var url: String
    package var contract: RefreshContract
}

/// The contract whose request and response format a refresh endpoint uses.
package enum RefreshContract: String, CaseIterable, Sendable { case password, provider, dlauth, anonymous }

extension LineOption {
    package static let trust: [LineOption] = [
        LineOption("issuer", "the exact `iss`", "without it the line matches only tokens that have no `iss`"),
        LineOption("audience", "accepted `aud` values, or any", "one of them must match; `any` leaves `aud` unchecked"),
        LineOption("jwks", "a URL or a file", "the issuer's keys as a JWK Set"),
        LineOption("secret-file", "a file", "a shared secret, in place of `jwks`"),
        LineOption("algorithms", "RS256,ES256", "the accepted algorithms: by default all that the keys allow, HS256 for a secret"),
        LineOption("user-claim", "sub", "the claim with the user's id"),
        LineOption("tier-claim", "tier", "the claim with the tier"),
        LineOption(
            "tier-from", "claim, account, lookup",
            "the source of the tier: the claim, the account that `user set-tier` or an import made for the subject, or the server at `tier-url`"),
        LineOption("tier-url", "a URL", "with `tier-from=lookup`: `GET URL?issuer=…&subject=…` is answered by `{\"tier\":…}`"),
        LineOption("tier-max-age", "60s", "how long an answer counts before the server is asked again"),
        LineOption("email-claim", "email", "the claim with the email"),
        LineOption("max-lifetime", "unbounded", "the maximum of `exp` minus `iat`"),
        LineOption("refresh", "a URL", "the endpoint that refreshes internal callers' expired tokens, and with `accounts=on` those of apps"),
        LineOption("refresh-contract", "password, provider, dlauth or anonymous", "the request format of that endpoint"),
        LineOption("accounts", "off, on", "`on`: the subject is the id of an imported account, or an imported identity whose provider is this line; contracts take the issuer's tokens until they end"),
    ]
}

/// Parser of `TOLLGATE_TRUST_<NAME>`.
enum TrustLine {
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (TrustDeclaration, Findings) {
        var line = OptionLine(entry, knows: LineOption.trust)
        for word in line.words { line.fault("\(quoted(word)) is no option, write key=value, like audience=NAME") }
        var trust = TrustDeclaration(
            name: name, issuer: line.text("issuer"), audiences: audiences(&line), keySource: .secret([]),
            algorithms: [], origin: entry.origin)
        let algorithms = algorithms(&line)
        trust.keySource = keySource(&line, sources)
        trust.algorithms = allowed(algorithms, for: trust.keySource, &line)
        trust.userClaim = line.text("user-claim") ?? trust.userClaim
        trust.tierClaim = line.text("tier-claim") ?? trust.tierClaim
        trust.tierSource = tierSource(&line, name)
        trust.emailClaim = line.text("email-claim") ?? trust.emailClaim
        trust.maxLifetimeSeconds = line.duration("max-lifetime", 1000...315_360_000_000).map { Int64($0 / 1000) }
        trust.refresh = refresh(&line)
        trust.hasAccounts = line.choice("accounts", ["off", "on"]) == "on"
        if trust.hasAccounts, ["apple", "google"].contains(name) {
            line.fault("has accounts=on and the name of a provider, whose identities sign in by ID token, choose another name")
        }
        return (trust, line.findings)
    }

    private static func tierSource(_ line: inout OptionLine, _ name: String) -> TierDeclaration {
        let source = line.choice("tier-from", TierDeclaration.names) ?? "claim"
        if source != "lookup" {
            for key in ["tier-url", "tier-max-age"] where line.has(key) {
                line.fault("has \(key)= without tier-from=lookup, add that or remove \(key)=")
            }
        }
        if source != "claim", line.has("tier-claim") {
            line.fault("has tier-claim= and tier-from=\(source), which ignores the claim, remove one of them")
        }
        if source != "claim", ProviderName(rawValue: name) != nil {
            line.fault("has the name of a sign-in provider, whose subjects have no tier-from=\(source), choose another name")
        }
        switch source {
        case "account": return .account
        case "lookup":
            let url = line.value("tier-url", { text throws(ParseError) in try TypedText.webURL(text) })
            if !line.has("tier-url") { line.fault("has tier-from=lookup and no tier-url=, add the URL of the server that knows the tiers") }
            let age = line.duration("tier-max-age", 1_000...86_400_000) ?? 60_000
            return url.map { .lookup(url: $0, maxAgeSeconds: Int64(age / 1_000)) } ?? .claim
        default: return .claim
        }
    }

    private static func refresh(_ line: inout OptionLine) -> RefreshDeclaration? {
        let contract = line.choice("refresh-contract", RefreshContract.allCases.map(\.rawValue))
        guard line.has("refresh") else {
            if line.has("refresh-contract") { line.fault("has refresh-contract= without refresh=, add refresh=URL or remove it") }
            return nil
        }
        guard let url = line.value("refresh", { text throws(ParseError) in try TypedText.webURL(text) }) else { return nil }
        return RefreshDeclaration(url: url, contract: contract.flatMap(RefreshContract.init) ?? .password)
    }

    private static func audiences(_ line: inout OptionLine) -> [String] {
        guard let text = line.text("audience") else {
            line.fault("has no audience=, write audience=NAME, or audience=any to accept tokens for everyone")
            return []
        }
        if text == "any" { return [] }
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        if names.contains("") || names.contains("any") {
            line.fault("\(quoted("audience=" + text)) is no list of audiences, write names separated by commas, or any alone")
        }
        return names
    }

    private static func algorithms(_ line: inout OptionLine) -> AlgorithmSet? {
        let names = SigningAlgorithm.allCases.map(\.name)
        let algorithms = line.list("algorithms") { text throws(ParseError) in
            guard let algorithm = SigningAlgorithm(name: text) else {
                let nearest = nearestName(to: text, in: names) ?? ""
                throw ParseError("names an algorithm that is not known, the nearest to \(quoted(text)) is \(nearest)")
            }
            return algorithm
        }
        return algorithms.map { AlgorithmSet($0) }
    }

    private static func keySource(_ line: inout OptionLine, _ sources: SettingSources) -> KeySource {
        switch (line.text("jwks"), line.text("secret-file")) {
        case (nil, nil): line.fault("has no keys, write jwks=URL, jwks=FILE or secret-file=FILE")
        case (_?, _?): line.fault("has both jwks= and secret-file=, keep one of them")
        case (let jwks?, nil): return jwksSource(&line, jwks, sources)
        case (nil, let path?):
            let file = line.entry.origin.path(path)
            let secret = line.parse("secret-file=\(path)", file) { text throws(ParseError) in
                try SecretFile.read(text, sources)
            }
            return .secret(secret ?? [])
        }
        return .secret([])
    }

    /// The source in a `jwks=`: a URL, or a file that must contain usable keys when the configuration is loaded.
    static func jwksSource(_ line: inout OptionLine, _ text: String, _ sources: SettingSources) -> KeySource {
        guard text.contains("://") else {
            let path = line.entry.origin.path(text)
            checkFile(&line, path, sources)
            return .file(path)
        }
        _ = line.parse("jwks=\(text)", text) { text throws(ParseError) in try TypedText.webURL(text) }
        return .url(text)
    }

    /// Reports a key set file that is unreadable or has no usable keys; warns of weak keys in it.
    private static func checkFile(_ line: inout OptionLine, _ path: String, _ sources: SettingSources) {
        let shown = quoted("jwks=" + path)
        switch sources.readFile(path) {
        case .failure(let fault):
            line.fault("\(shown) cannot be read (\(fault.reason)), give a URL or the path of a readable file")
        case .success(let bytes):
            do {
                for refusal in try KeySet(jwks: bytes.rawBytes).refusals {
                    if refusal.isForgeable { line.fault("\(shown): \(refusal.message)") } else { line.warn("\(shown): \(refusal.message)") }
                }
            } catch {
                line.fault("\(shown) has no usable keys (\(error.message)), give a JWK Set (RFC 7517)")
            }
        }
    }

    /// The allowed algorithms for a key source. HMAC is refused for a URL: its keys are public, and a server that lists a secret
    /// there would let everyone sign.
    private static func allowed(
        _ given: AlgorithmSet?, for source: KeySource, _ line: inout OptionLine
    ) -> AlgorithmSet {
        switch source {
        case .secret(let bytes):
            let algorithms = given ?? AlgorithmSet(.HS256)
            if !algorithms.isSubset(of: .hmac) {
                line.fault("has a secret-file= and an algorithm that needs a key pair, write algorithms=HS256, HS384 or HS512")
            } else if !bytes.isEmpty {
                checkSecret(bytes, algorithms, &line)
            }
            return algorithms
        case .file: return given ?? .asymmetric
        case .url:
            if let given, !given.isDisjoint(with: .hmac) {
                line.fault("has jwks= with a URL and an HS algorithm, whose secret must not be public, write secret-file=FILE")
            }
            return given ?? .asymmetric
        }
    }

    private static func checkSecret(_ bytes: [UInt8], _ algorithms: AlgorithmSet, _ line: inout OptionLine) {
        do {
            _ = try VerificationKey(secret: bytes.rawBytes, algorithms: algorithms)
        } catch {
            line.fault("secret-file= has no usable secret (\(error.message)), give 64 random bytes")
        }
    }
}
