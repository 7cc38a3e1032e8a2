package import Credentials
package import Gate
internal import Wire

/// An outside issuer, as a `TOLLGATE_TRUST_…` line declares it.
package struct TrustDeclaration: Hashable, Sendable {
    package var name: String
    /// The exact `iss`; nil: matches only tokens without `iss`.
    package var issuer: String?
    /// The accepted `aud` values; empty: not checked.
    package var audiences: [String] = []
    package var keySource = KeySource.secret([])
    /// The file of the shared secret.
    package var secretFile: String?
    package var algorithms: AlgorithmSet = []
    package var userClaim = "sub"
    package var tierClaim = "tier"
    /// The source of its users' tiers.
    package var tierSource = TierSource.claim
    /// The tier server, and how long its answers count.
    package var tierURL: String?
    package var tierMaxAgeSeconds: Int64 = 60
    package var emailClaim = "email"
    package var maxLifetimeSeconds: Int64?
    var refreshURL: String?
    var refreshContract = ContractID.password
    /// Whether its subjects stand for accounts.
    package var hasAccounts = false
    package var origin: Origin

    /// The endpoint that refreshes its tokens: internal callers' expired ones, and with `hasAccounts` those of apps; nil: none.
    package var refresh: RefreshDeclaration? { refreshURL.map { RefreshDeclaration(url: $0, contract: refreshContract) } }
}

/// The refresh endpoint of an outside issuer.
package struct RefreshDeclaration: Hashable, Sendable {
    package var url: String
    /// Whose request and response format it has.
    package var contract: ContractID
}

extension TrustDeclaration: OptionTarget {
    package static let family = Setting.trust
    package var lineName: String { name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption("issuer", ifSet: \.issuer, .text, "the exact `iss`", "without it the line matches only tokens that have no `iss`").column
        LineOption(
            "audience", \.audiences, .audiences, values: "accepted `aud` values, or any",
            "one of them must match; `any` leaves `aud` unchecked"
        ).json("audiences").column
        LineOption("jwks", "a URL or a file", "the issuer's keys as a JWK Set") { line, trust in
            if let text = line.text("jwks") { trust.keySource = jwksSource(&line, text) }
        } value: { trust, _ in
            trust.keySource.place.map { OptionValue($0) }
        }.column
        LineOption("secret-file", "a file", "a shared secret, in place of `jwks`", read: readSecret) { trust, _ in
            trust.secretFile.map { OptionValue($0) }
        }.column
        LineOption(
            "algorithms", list: \.algorithms, "RS256,ES256",
            "the accepted algorithms: by default all that the keys allow, HS256 for a secret",
            part: algorithm, join: { AlgorithmSet($0) }, show: { $0.members.map(\.name) }
        ).column
        LineOption("user-claim", \.userClaim, .text, "the claim with the user's id")
        LineOption("tier-claim", \.tierClaim, .text, "the claim with the tier")
        LineOption(
            "tier-from", \.tierSource, .choice([("claim", .claim), ("account", .account), ("lookup", .lookup)]),
            "the source of the tier: the claim, the account that `user set-tier` or an import made for the subject, or the server at `tier-url`"
        ).column
        LineOption(
            "tier-url", ifSet: \.tierURL, .url, "a URL",
            "with `tier-from=lookup`: `GET URL?issuer=…&subject=…` is answered by `{\"tier\":…}`")
        LineOption(
            "tier-max-age", \.tierMaxAgeSeconds, .duration(1_000...86_400_000, unit: 1_000), values: "60s",
            "how long an answer counts before the server is asked again"
        ).when { $0.tierSource == .lookup }
        LineOption("email-claim", \.emailClaim, .text, "the claim with the email")
        LineOption(
            "max-lifetime", ifSet: \.maxLifetimeSeconds, .duration(1_000...315_360_000_000, unit: 1_000), "unbounded",
            "the maximum of `exp` minus `iat`")
        LineOption(
            "refresh", ifSet: \.refreshURL, .url, "a URL",
            "the endpoint that refreshes internal callers' expired tokens, and with `accounts=on` those of apps")
        LineOption(
            "refresh-contract", \.refreshContract, .choice(ContractID.allCases.filter { $0.sessionPolicy.refresh != .none }, \.name),
            "the request format of that endpoint"
        ).when { $0.refreshURL != nil }
        LineOption(
            "accounts", \.hasAccounts, .flag(),
            "`on`: the subject is the id of an imported account, or an imported identity whose provider is this line; contracts take the issuer's tokens until they end"
        )
    }
}

extension OptionForm where Value == [String] {
    /// Audiences; none for `any`.
    fileprivate static var audiences: Self {
        Self(plain: { text throws(ParseError) in
            if text == "any" { return [] }
            let names = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            guard !names.contains(""), !names.contains("any") else {
                throw ParseError("is no list of audiences, write names separated by commas, or any alone")
            }
            return names
        }) { OptionValue($0.isEmpty ? "any" : $0.joined(separator: ","), .list($0)) }
    }
}

extension KeySource {
    /// As `jwks=` names it, without secrets of a URL; nil for a secret.
    package var place: String? {
        switch self {
        case .url(let url): maskingURLSecrets(url)
        case .file(let path): path
        case .secret: nil
        }
    }
}

extension TrustDeclaration {
    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        line.refuseWords("key=value, like audience=NAME")
        if !line.has("audience") { line.fault("has no audience=, write audience=NAME, or audience=any to accept tokens for everyone") }
        switch (line.has("jwks"), line.has("secret-file")) {
        case (false, false): line.fault("has no keys, write jwks=URL, jwks=FILE or secret-file=FILE")
        case (true, true): line.fault("has both jwks= and secret-file=, keep one of them")
        case (true, false), (false, true): break
        }
        line.read(into: &self)
        algorithms = Self.allowed(line.has("algorithms") ? algorithms : nil, for: keySource, &line)
        checkTiers(&line)
        if line.has("refresh-contract"), !line.has("refresh") {
            line.fault("has refresh-contract= without refresh=, add refresh=URL or remove it")
        }
        if hasAccounts, Provider.documented.contains(where: { $0.rawValue == name }) {
            line.fault("has accounts=on and the name of a provider, whose identities sign in by ID token, choose another name")
        }
    }

    private func checkTiers(_ line: inout OptionLine) {
        if tierSource != .lookup {
            for key in ["tier-url", "tier-max-age"] where line.has(key) {
                line.fault("has \(key)= without tier-from=lookup, add that or remove \(key)=")
            }
        } else if !line.has("tier-url") {
            line.fault("has tier-from=lookup and no tier-url=, add the URL of the server that knows the tiers")
        }
        guard tierSource != .claim else { return }
        if line.has("tier-claim") {
            line.fault("has tier-claim= and tier-from=\(tierSource), which ignores the claim, remove one of them")
        }
        if Provider.documented.contains(where: { $0.rawValue == name }) {
            line.fault("has the name of a sign-in provider, whose subjects have no tier-from=\(tierSource), choose another name")
        }
    }

    fileprivate static func algorithm(_ text: String) throws(ParseError) -> SigningAlgorithm {
        guard let algorithm = SigningAlgorithm(name: text) else {
            let nearest = nearestName(to: text, in: SigningAlgorithm.allCases.map(\.name)) ?? ""
            throw ParseError("names an algorithm that is not known, the nearest to \(quoted(text)) is \(nearest)")
        }
        return algorithm
    }

    fileprivate static func readSecret(_ line: inout OptionLine, _ trust: inout TrustDeclaration) {
        guard let path = line.text("secret-file") else { return }
        let (sources, origin) = (line.context.sources, line.entry.origin)
        trust.secretFile = origin.path(path)
        let secret = line.parse("secret-file", path) { text throws(ParseError) in try SecretFile.read(origin.path(text), sources) }
        trust.keySource = .secret(secret ?? [])
    }

    /// The source in a `jwks=`: a URL, or a file that must contain usable keys when the configuration is loaded.
    static func jwksSource(_ line: inout OptionLine, _ text: String) -> KeySource {
        guard text.contains("://") else {
            let path = line.entry.origin.path(text)
            checkFile(&line, path)
            return .file(path)
        }
        _ = line.parse(quoting: "jwks=\(text)", text) { text throws(ParseError) in try TypedText.webURL(text) }
        return .url(text)
    }

    /// Reports a key set file that is unreadable or has no usable keys; warns of weak keys in it.
    private static func checkFile(_ line: inout OptionLine, _ path: String) {
        let shown = quoted("jwks=" + path)
        switch line.context.sources.readFile(path) {
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
