import Credentials
import Testing
import Wire

@testable import Settings
@testable import tollgate

@Suite struct TrustLineTests {
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)
    static let jwks = Array(
        #"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#.utf8)

    private func parse(_ value: String) -> (TrustDeclaration?, [String]) {
        let loaded = load("TOLLGATE_TRUST_T=\"\(value)\"\n" + oneRoute, files: ["s": Self.secret, "k.json": Self.jwks, "bad.json": [65]])
        return (loaded.partial.settings.trusts.first, loaded.findings.faults.map(\.message))
    }

    @Test func anIssuerWithAKeySetIsRead() throws {
        let (trust, faults) = parse("issuer=https://i audience=a,b jwks=https://i/jwks algorithms=RS256,ES256 user-claim=uid tier-claim=plan email-claim=mail max-lifetime=7d")
        let found = try #require(trust)
        #expect(faults == [])
        #expect(found.name == "t")
        #expect(found.issuer == "https://i")
        #expect(found.audiences == ["a", "b"])
        #expect(found.keySource == .url("https://i/jwks"))
        #expect(found.algorithms == AlgorithmSet([.RS256, .ES256]))
        #expect([found.userClaim, found.tierClaim, found.emailClaim] == ["uid", "plan", "mail"])
        #expect(found.maxLifetimeSeconds == 604_800)
    }

    @Test func omittedOptionsHaveSafeDefaults() throws {
        let url = try #require(parse("audience=any jwks=http://i/").0)
        #expect(url.issuer == nil)
        #expect(url.audiences == [])
        #expect(url.algorithms == .asymmetric)
        #expect(url.maxLifetimeSeconds == nil)
        let shared = try #require(parse("audience=a secret-file=s").0)
        #expect(shared.algorithms == AlgorithmSet(.HS256))
        #expect(shared.keySource == .secret(Self.secret))
        #expect(try #require(parse("audience=a jwks=k.json").0).keySource == .file("k.json"))
    }

    static let bad: [(String, [String])] = [
        ("jwks=http://i", ["has no audience=, write audience=NAME, or audience=any to accept tokens for everyone"]),
        ("audience=a,any jwks=http://i", [#""audience=a,any" is no list of audiences, write names separated by commas, or any alone"#]),
        ("audience=a", ["has no keys, write jwks=URL, jwks=FILE or secret-file=FILE"]),
        ("audience=a jwks=http://i secret-file=s", ["has both jwks= and secret-file=, keep one of them"]),
        ("audience=a jwks=ftp://i", [#""jwks=ftp://i" is no URL, write one like https://example.org/path"#]),
        ("audience=a jwks=gone.json", [#""jwks=gone.json" cannot be read (no such file or directory), give a URL or the path of a readable file"#]),
        ("audience=a jwks=http://i algorithms=HS256", ["has jwks= with a URL and an HS algorithm, whose secret must not be public, write secret-file=FILE"]),
        ("audience=a jwks=http://i algorithms=none", [#""algorithms=none" names an algorithm that is not known, the nearest to "none" is HS256"#]),
        ("audience=a secret-file=s algorithms=RS256", ["has a secret-file= and an algorithm that needs a key pair, write algorithms=HS256, HS384 or HS512"]),
        ("audience=a secret-file=s algorithms=HS512", ["secret-file= has no usable secret (the shared secret cannot be used for HS512: it has 32 bytes and needs at least 64), give 64 random bytes"]),
        ("audience=a secret-file=gone", [#""secret-file=gone" names a file that cannot be read (no such file or directory), give the path of a readable file"#]),
        ("audience=a jwks=http://i max-lifetime=0s", [#""max-lifetime=0s" is out of range, write a duration from 1s to 3650d"#]),
        ("audience=a jwks=http://i RS256", [#""RS256" is no option, write key=value, like audience=NAME"#]),
        ("audience=a jwks=http://i tier=x", [#""tier" is no option here, the nearest is tier-claim"#]),
        ("audience=a jwks=http://i isuer=x", [#""isuer" is no option here, the nearest is issuer"#]),
    ]

    @Test(arguments: bad) func anInvalidIssuerIsAFault(_ value: String, _ messages: [String]) {
        #expect(parse(value).1 == messages)
    }

    @Test func anInvalidKeySetFileIsAFaultWithTheReason() {
        let found = parse("audience=a jwks=bad.json").1
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("\"jwks=bad.json\" has no usable keys (") == true)
    }

    /// One key whose private half can be computed is one too many in a file that the operator holds.
    @Test func aForgeableKeyInAFileIsAFaultAndAWeakOneAWarning() {
        func found(_ key: String) -> Findings {
            let jwks = #"{"keys":[\#(key),{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#
            return load("TOLLGATE_TRUST_T=\"audience=a jwks=k.json\"\n" + oneRoute, files: ["k.json": Array(jwks.utf8)]).findings
        }
        let forgeable = found(forgeableJWK)
        #expect(forgeable.faults.map(\.message) == [#""jwks=k.json": key 'card' \#(forgeableReason)"#] && forgeable.warnings.isEmpty)
        let weak = found(#"{"kty":"RSA","kid":"weak","n":"wf8","e":"AQAB"}"#)
        #expect(weak.faults.isEmpty && weak.warnings.count == 1)
        let provider = load("TOLLGATE_PROVIDER_APPLE=\"client-ids=x jwks=k.json\"\n" + oneRoute, files: ["k.json": Array(#"{"keys":[\#(forgeableJWK)]}"#.utf8)])
        #expect(provider.findings.faults.map(\.message).first?.contains(forgeableReason) == true)
    }

    @Test func faultsNeverContainTheSecret() {
        let loaded = load("TOLLGATE_TRUST_T=\"audience=a secret-file=s algorithms=HS512\"\n" + oneRoute, files: ["s": Self.secret])
        #expect(!loaded.findings.faults.map(\.text).joined().contains("0123456789"))
    }

    @Test func anAuthServerIsItsURLAndItsForm() {
        let line = "audience=a jwks=http://i"
        #expect(parse(line).0?.refresh == nil)
        #expect(parse(line + " refresh=https://i/r").0?.refresh == RefreshDeclaration(url: "https://i/r", contract: .password))
        let named = parse(line + " refresh=https://i/r refresh-contract=dlauth")
        #expect(named.0?.refresh == RefreshDeclaration(url: "https://i/r", contract: .dlauth) && named.1 == [])
        let faults = [
            (" refresh=i/r", #""refresh=i/r" is no URL, write one like https://example.org/path"#),
            (" refresh-contract=dlauth", "has refresh-contract= without refresh=, add refresh=URL or remove it"),
            // Its document has no refresh.
            (" refresh=https://i/r refresh-contract=apple", #""refresh-contract=apple" is not known, write password, provider, dlauth or anonymous"#),
        ]
        for (more, fault) in faults { #expect(parse(line + more).1 == [fault]) }
    }

    @Test func theTierComesFromTheClaimUnlessTheLineSaysOtherwise() {
        let line = "audience=a jwks=http://i"
        #expect(parse(line).0?.tierSource == .claim)
        #expect(parse(line + " tier-from=claim tier-claim=plan").0?.tierSource == .claim)
        #expect(parse(line + " tier-from=account").0?.tierSource == .account)
        let asked = parse(line + " tier-from=lookup tier-url=https://i/tier?key=1")
        #expect(asked.0?.tierSource == .lookup(url: "https://i/tier?key=1", maxAgeSeconds: 60) && asked.1 == [])
        let short = parse(line + " tier-from=lookup tier-url=http://i tier-max-age=5m")
        #expect(short.0?.tierSource == .lookup(url: "http://i", maxAgeSeconds: 300))
    }

    static let badTiers: [(String, [String])] = [
        ("tier-from=database", [#""tier-from=database" is not known, write claim, account or lookup"#]),
        ("tier-from=lookup", ["has tier-from=lookup and no tier-url=, add the URL of the server that knows the tiers"]),
        ("tier-from=lookup tier-url=i/tier", [#""tier-url=i/tier" is no URL, write one like https://example.org/path"#]),
        ("tier-url=http://i", ["has tier-url= without tier-from=lookup, add that or remove tier-url="]),
        ("tier-from=account tier-max-age=5s", ["has tier-max-age= without tier-from=lookup, add that or remove tier-max-age="]),
        ("tier-from=account tier-claim=plan", ["has tier-claim= and tier-from=account, which ignores the claim, remove one of them"]),
        ("tier-from=lookup tier-url=http://i tier-claim=plan", ["has tier-claim= and tier-from=lookup, which ignores the claim, remove one of them"]),
        ("tier-from=lookup tier-url=http://i tier-max-age=500ms", [#""tier-max-age=500ms" is out of range, write a duration from 1s to 1d"#]),
    ]

    @Test(arguments: badTiers) func anImpossibleSourceOfTiersIsAFault(_ more: String, _ messages: [String]) {
        #expect(parse("audience=a jwks=http://i " + more).1 == messages)
    }

    @Test func aTrustLineOfAProvidersNameHasNoAccountsOfItsOwn() {
        let line = "TOLLGATE_TRUST_APPLE=\"audience=a jwks=http://i"
        #expect(faults("\(line)\"\n" + oneRoute) == [])
        #expect(faults("\(line) tier-from=account\"\n" + oneRoute) == [
            "a.env:1: TOLLGATE_TRUST_APPLE: has the name of a sign-in provider, whose subjects have no tier-from=account, choose another name"
        ])
    }

    @Test func onlyAccountsOnReachesAccounts() {
        let line = "audience=a jwks=http://i"
        #expect(parse(line).0?.hasAccounts == false && parse(line + " accounts=off").0?.hasAccounts == false)
        #expect(parse(line + " accounts=on").0?.hasAccounts == true)
        #expect(parse(line + " accounts=yes").1 == [#""accounts=yes" is not known, write off or on"#])
        let named = faults("TOLLGATE_TRUST_APPLE=\"audience=a jwks=http://i accounts=on\"\n" + oneRoute)
        #expect(named == ["a.env:1: TOLLGATE_TRUST_APPLE: has accounts=on and the name of a provider, whose identities sign in by ID token, choose another name"])
    }

    @Test func accountsWithoutEffectAreAWarning() {
        func warnings(_ contracts: String, _ lines: String...) -> [String] {
            let trusts = lines.enumerated().map { "TOLLGATE_TRUST_T\($0.offset)=\"audience=a jwks=http://i accounts=on \($0.element)\"\n" }
            return load("TOLLGATE_CONTRACTS=\"\(contracts)\"\n" + trusts.joined() + oneRoute).findings.warnings.map(\.message)
        }
        #expect(warnings("", "") == ["has accounts=on and there are no accounts, mount a contract by TOLLGATE_CONTRACTS"])
        #expect(warnings("dlauth@/", "refresh=http://a/r", "refresh=http://b/r refresh-contract=dlauth") == [])
        #expect(warnings("dlauth@/", "refresh=http://a/r", "refresh=http://b/r") == ["and TOLLGATE_TRUST_T1 both have accounts=on and refresh-contract=password: only refresh tokens that are JWTs with the iss of one of them are redeemed"])
    }

    @Test func theNameOfTheGatewaysOwnTokensIsTaken() {
        #expect(faults("TOLLGATE_TRUST_TOLLGATE=\"audience=a jwks=http://i\"\n" + oneRoute) == ["a.env:1: TOLLGATE_TRUST_TOLLGATE: has the name of the gateway's own tokens, choose another"])
    }
}

@Suite struct InternalLineTests {
    private func parse(_ value: String) -> (InternalDeclaration, [String]) {
        let (caller, findings) = InternalLine.parse(EnvEntry(name: "I", value: value, origin: .environment), name: "i")
        return (caller, findings.faults.map(\.message))
    }

    @Test func aCallerIsItsKeyAndWhereItCallsFrom() {
        let (caller, faults) = parse("key-sha256=\(String(repeating: "aB", count: 32)) cidr=10.0.0.0/8,::1/128")
        #expect(faults == [])
        #expect(caller.keyDigest == [UInt8](repeating: 0xAB, count: 32))
        #expect(caller.networks.map(\.text) == ["10.0.0.0/8", "::1/128"])
    }

    static let bad: [(String, String)] = [
        ("", "has no condition, write key-sha256=HEX, cidr=10.0.0.0/8, cert-san=NAME or several of them"),
        ("key-sha256=abc", #""key-sha256=abc" is no SHA-256, write 64 hex digits, as sha256sum prints them"#),
        ("cidr=10.0.0.0/8,", #""cidr=10.0.0.0/8," is no network, write one like 10.0.0.0/8 or fd00::/8"#),
        ("cidr=::/0 key", #""key" is no option, write key-sha256=HEX, cidr=10.0.0.0/8 or cert-san=NAME"#),
    ]

    @Test(arguments: bad) func anInvalidInternalCallerIsAFault(_ value: String, _ message: String) {
        #expect(parse(value).1 == [message])
    }
}

/// A public key with the ROCA fingerprint: its modulus is 65537¹²⁸, which is a power of 65537 modulo every prime.
let forgeableJWK: String = {
    var number: [UInt8] = [1]
    for _ in 0..<128 {
        var carry = 0
        let (high, low) = (number + [0, 0], [0, 0] + number)
        number = zip(high, low).reversed().map { pair in
            carry = carry >> 8 + Int(pair.0) + Int(pair.1)
            return UInt8(carry & 0xFF)
        }.reversed()
        if carry > 0xFF { number.insert(1, at: 0) }
    }
    return #"{"kty":"RSA","kid":"card","n":"\#(Base64URL.encode(number.rawBytes))","e":"AQAB"}"#
}()
let forgeableReason = "has the ROCA fingerprint (CVE-2017-15361): its private key can be computed; replace it with a key from OpenSSL or a patched device"
