package import Credentials
package import Gate
internal import Wire

// The rows of the settings.
extension Setting {
    static let attestations = [attestation, attestedSignIn]

    package static let attestation = Setting(
        "TOLLGATE_ATTEST_", .lines(\.attestations),
        "Who attests that requests come from a genuine app, for routes with `attest=NAME`: `header=X-Firebase-AppCheck issuer=… audience=… jwks=URL-or-file`, and `once=on` for tokens that count once. See [attestation](attestation.md)."
    )
    package static let attestedSignIn = Setting(
        "TOLLGATE_ATTEST_SIGNIN", .line(\.attestedSignIn),
        "The attestation that every contract's sign-in, sign-up and sending of codes asks for: the name of a `TOLLGATE_ATTEST_` line; `shadow=attest` only counts who would be refused."
    )
}

/// `TOLLGATE_ATTEST_<NAME>`: an issuer of attestations.
package struct AttestDeclaration: Hashable, Sendable {
    package var name: String
    package var field = ""
    package var issuer = ""
    package var audiences: [String] = []
    package var keySource = KeySource.secret([])
    package var isOnce = false
    package var origin: Origin

    /// As an issuer whose keys are fetched.
    package var source: TrustDeclaration {
        TrustDeclaration(
            name: AttestationRule.issuerName(name), issuer: issuer, audiences: audiences, keySource: keySource, algorithms: .asymmetric,
            origin: origin)
    }
}

extension AttestDeclaration: OptionTarget {
    package static let family = Setting.attestation
    package var lineName: String { name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption(
            "header", \.field, .plain(VersionGateDeclaration.field), values: "X-Firebase-AppCheck", "the request field that has the token")
        LineOption("issuer", \.issuer, .text, values: "https://firebaseappcheck.googleapis.com/NUMBER", "the exact `iss`")
        LineOption("audience", list: \.audiences, "projects/NUMBER", "accepted `aud` values, one of which must match", TypedText.item)
        LineOption("jwks", "a URL or a file", "the issuer's keys as a JWK Set") { line, attest in
            if let text = line.text("jwks") { attest.keySource = TrustDeclaration.jwksSource(&line, text) }
        } value: { attest, _ in
            attest.keySource.place.map { OptionValue($0) }
        }
        LineOption("once", \.isOnce, .flag(), "whether a token is accepted once, over all gateways")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        line.refuseWords("header=X-Firebase-AppCheck issuer=… audience=… jwks=URL")
        line.read(into: &self)
        line.require("header", "header=X-Firebase-AppCheck, the field that has the token")
        if field.lowercased() == "dpop" { line.fault("has header=DPoP, the field of device proofs, write that of the attestation") }
        line.require("issuer", "issuer=, the exact iss of the tokens")
        line.require("audience", "audience=projects/NUMBER, so that another project's apps do not pass")
        line.require("jwks", "jwks=URL, the issuer's keys")
    }
}

/// `TOLLGATE_ATTEST_SIGNIN`: the attestation of sign-ins.
package struct AttestedSignInDeclaration: Hashable, Sendable {
    package var name = ""
    package var isShadowed = false
    package var origin = Origin.builtIn
}

extension AttestedSignInDeclaration: OptionTarget {
    package static let grammar = "NAME key=value …"
    package static let family = Setting.attestedSignIn
    package var lineName: String { "attest-signin" }
    package static let bare = Self()

    package static let options = table {
        LineOption("shadow", flags: [("attest", \.isShadowed)], "attest", "the attestation is decided and counted, and not enforced")
    }

    package init?(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.read(into: &self)
        guard line.words.count == 1, let word = line.words.first else {
            line.fault("needs one name of a \(Setting.attestation.shownName), write it like \"APPCHECK shadow=attest\"")
            return nil
        }
        self.name = word.lowercased()
    }
}

extension RouteDeclaration {
    static let attestOptions = table {
        LineOption(
            "attest", ifSet: \.rule.attestation,
            OptionForm(plain: { text in AttestationRule(name: text.lowercased()) }, show: { OptionValue($0.name) }), "NAME",
            "the `TOLLGATE_ATTEST_<NAME>` whose token requests must bring; others get 403 `ATTESTATION_REQUIRED`")
    }
}

extension ConfigurationReader {
    /// Gives routes the fields of their attestations, and reports names without a line and lines without a use.
    mutating func resolveAttestations() {
        let lines = Dictionary(configuration.attestations.map { ($0.name, $0) }) { first, _ in first }
        let family = Setting.attestation.name
        for index in configuration.routes.indices {
            let route = configuration.routes[index]
            guard let name = route.rule.attestation?.name else {
                if route.rule.shadow.contains(.attestation) {
                    findings.fault(route, "shadow=attest needs attest=, add attest=NAME or remove it")
                }
                continue
            }
            if lines[name] == nil { findings.fault(route, "attest= names \(quoted(name)), and there is no \(family)\(name.uppercased())") }
            configuration.routes[index].rule.attestation = AttestationRule(lines[name], name: name)
        }
        if let signIn = configuration.attestedSignIn, lines[signIn.name] == nil {
            findings.fault(signIn, "names \(quoted(signIn.name)), and there is no \(family)\(signIn.name.uppercased())")
        }
        let used = Set(configuration.routes.compactMap(\.rule.attestation?.name) + [configuration.attestedSignIn?.name].compactMap(\.self))
        for line in configuration.attestations where !used.contains(line.name) {
            findings.warn(line, "is used by no route, write attest=\(line.name) on one, or set \(Setting.attestedSignIn.name)")
        }
    }
}

extension AttestationRule {
    fileprivate init(_ line: AttestDeclaration?, name: String) {
        self.init(name: name, field: line?.field ?? "", isOnce: line?.isOnce == true)
    }
}

extension Configuration {
    /// The attestation that sign-ins ask for; nil for none.
    package var signInAttestation: AttestationRule? {
        attestedSignIn.map { signIn in
            AttestationRule(attestations.first { $0.name == signIn.name }, name: signIn.name)
        }
    }
}
