import Foundation
import Testing
import Wire

@testable import Credentials

/// A proof of possession to be made, and the request that it is judged for.
struct ProofCase {
    static let token = "the-access-token"

    var key = Keys.es256
    var header: [String: String] = [:]
    var claims: [String: String] = [:]
    var method = "GET"
    var scheme = ProofURL.Scheme.https
    var authority = "api.example.org"
    var path = "/orders/7?page=2"
    var alternative = ""
    var accessToken: String? = token
    var owner: KeyThumbprint?
    var skew: Int64 = 30
    var at = now

    /// A proof that holds but for these members, which replace others as raw JSON; "" leaves one out.
    init(header: [String: String] = [:], claims: [String: String] = [:], key: SigningKey = Keys.es256) {
        self.key = key
        self.header = header
        self.claims = claims
    }

    var proof: String {
        var head = ["typ": #""dpop+jwt""#, "alg": #""\#(key.algorithm.name)""#, "jwk": Self.jwk(key)]
        var body = [
            "jti": #""one""#, "htm": #""GET""#, "htu": #""https://api.example.org/orders/7""#, "iat": "\(now)",
            "ath": #""\#(Base64URL.encode(Digest.sha256(Self.token.bytes.rawBytes).rawBytes))""#,
        ]
        head.merge(header) { $1 }
        body.merge(claims) { $1 }
        return Forge.token(header: Self.object(head), payload: Self.object(body), key: key)
    }

    static func jwk(_ key: SigningKey) -> String {
        let members = RequiredMembers(key.verificationKey.material)?.members ?? []
        return object(Dictionary(uniqueKeysWithValues: members.map { ($0.name, "\"\($0.value)\"") }))
    }

    private static func object(_ members: [String: String]) -> String {
        "{" + members.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
            + "}"
    }

    func verify(_ verifier: inout DeviceProofVerifier, proof: [UInt8]? = nil) -> Result<DeviceProof, DeviceProofFault> {
        let (proof, method, authority, path) = (proof ?? self.proof.bytes, method.bytes, authority.bytes, path.bytes)
        let (alternative, token) = (alternative.bytes, accessToken?.bytes ?? [])
        let url = ProofURL(
            scheme: scheme, authority: authority.rawBytes, path: path.rawBytes, alternative: alternative.rawBytes)
        return verifier.verify(
            proof.rawBytes, method: method.rawBytes, url: url, accessToken: accessToken == nil ? nil : token.rawBytes, owner: owner,
            now: WallTime(seconds: at), skewSeconds: skew)
    }

    /// `ok`, or the fault's name.
    var outcome: String {
        var verifier = DeviceProofVerifier()
        switch verify(&verifier) {
        case .success: return "ok"
        case .failure(let fault): return "\(fault)"
        }
    }

    func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}

@Suite struct DeviceProofTests {
    /// RFC 9449 §7.1, and proofs that joserfc and jwcrypto made: `MAKER ALG THUMBPRINT PROOF`.
    @Test func proofsOfOthersHold() throws {
        let file = Bundle.module.resourceURL!.appending(path: "Vectors/device-proofs.ssv")
        var seen: [String] = []
        var verifier = DeviceProofVerifier()
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            var judged = ProofCase()
            if words[0] == "rfc9449" {
                judged.accessToken = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
                (judged.authority, judged.path, judged.at) = ("resource.example.org", "/protectedresource", 1_562_262_618)
            }
            // Twice: the second time its key is known.
            for _ in 0..<2 {
                let proof = try judged.verify(&verifier, proof: words[3].bytes).get()
                seen.append("\(words[0]) \(words[1]) \(proof.thumbprint.text == words[2])")
            }
            let damaged = words[3].dropLast(2) + (words[3].hasSuffix("AA") ? "BA" : "AA")
            if case .success = judged.verify(&verifier, proof: damaged.bytes) { seen.append("a damaged one") }
        }
        let makers = ["ES256", "EdDSA", "RS256", "PS256"]
        let all = ["rfc9449 ES256"] + makers.map { "joserfc \($0)" } + makers.map { "jwcrypto \($0)" }
        #expect(seen == all.flatMap { ["\($0) true", "\($0) true"] })
    }

    @Test func eachCheckRefusesWhatItIsFor() throws {
        let other = ProofCase.jwk(Keys.make(.ES256))
        let own = ProofCase.jwk(Keys.es256)
        let withMember = { (name: String) in String(own.dropLast()) + #","\#(name)":"AQAB"}"# }
        let cases: [(String, ProofCase)] = [
            ("ok", ProofCase()),
            ("ok", ProofCase(key: Keys.eddsa)),
            ("ok", ProofCase(header: ["alg": #""Ed25519""#], key: Keys.eddsa)),
            ("badKey", ProofCase(header: ["alg": #""Ed25519""#])),
            ("ok", ProofCase(header: ["jwk": ProofCase.jwk(Keys.eddsa).dropLast() + #","alg":"Ed25519"}"#], key: Keys.eddsa)),
            ("ok", ProofCase(key: Keys.rs256)),
            ("wrongType", ProofCase(header: ["typ": #""jwt""#])),
            ("wrongType", ProofCase(header: ["typ": ""])),
            ("wrongType", ProofCase(header: ["typ": "7"])),
            ("wrongType", ProofCase(header: ["crit": #"["exp"]"#])),
            ("wrongType", ProofCase(header: ["b64": "false"])),
            ("algorithm", ProofCase(header: ["alg": #""none""#])),
            ("algorithm", ProofCase(header: ["alg": #""HS256""#])),
            ("algorithm", ProofCase(header: ["alg": ""])),
            ("algorithm", ProofCase(key: Keys.es384)),
            ("badKey", ProofCase(header: ["alg": #""EdDSA""#])),
            ("badKey", ProofCase(header: ["jwk": ""])),
            ("badKey", ProofCase(header: ["jwk": #""x""#])),
            ("badKey", ProofCase(header: ["jwk": #"{"kty":"oct","k":"AAAA"}"#])),
            ("badKey", ProofCase(header: ["jwk": withMember("d")])),
            ("badKey", ProofCase(header: ["jwk": withMember("k")])),
            ("badKey", ProofCase(header: ["jwk": withMember("use")])),
            ("badKey", ProofCase(header: ["jwk": withMember("alg")])),
            ("badKey", ProofCase(header: ["jwk": own.replacing("P-256", with: "P-384")])),
            ("badSignature", ProofCase(header: ["jwk": other])),
            ("wrongMethod", ProofCase(claims: ["htm": #""get""#])),
            ("wrongMethod", ProofCase().with { $0.method = "POST" }),
            ("malformed", ProofCase(claims: ["htm": ""])),
            ("malformed", ProofCase(claims: ["htu": "1"])),
            ("malformed", ProofCase(claims: ["jti": ""])),
            ("malformed", ProofCase(claims: ["jti": #""""#])),
            ("malformed", ProofCase(claims: ["jti": "7"])),
            ("ok", ProofCase(claims: ["jti": #""\#(String(repeating: "x", count: 256))""#])),
            ("malformed", ProofCase(claims: ["jti": #""\#(String(repeating: "x", count: 257))""#])),
            ("malformed", ProofCase(claims: ["iat": ""])),
            ("malformed", ProofCase(claims: ["iat": #""1700000000""#])),
            ("malformed", ProofCase(claims: ["pad": #""\#(String(repeating: "x", count: 4_096))""#])),
            ("wrongToken", ProofCase(claims: ["ath": ""])),
            ("wrongToken", ProofCase().with { $0.accessToken = "another" }),
            ("ok", ProofCase(claims: ["ath": ""]).with { $0.accessToken = nil }),
            ("stale", ProofCase(claims: ["iat": "\(now - 61)"])),
            ("ok", ProofCase(claims: ["iat": "\(now - 60)"])),
            ("ok", ProofCase(claims: ["iat": "\(now + 30)"])),
            ("stale", ProofCase(claims: ["iat": "\(now + 31)"])),
            ("ok", ProofCase(claims: ["iat": "\(now).5"])),
            ("stale", ProofCase(claims: ["iat": "\(now + 61)"]).with { $0.skew = 600 }),
            ("stale", ProofCase(claims: ["iat": "9223372036854775807"])),
            ("malformed", ProofCase(claims: ["iat": "1e999"])),
            ("ok", ProofCase().with { $0.owner = KeyThumbprint.of(Keys.es256) }),
            ("otherKey", ProofCase().with { $0.owner = KeyThumbprint.of(Keys.eddsa) }),
        ]
        let found = cases.map { $0.1.outcome }
        #expect(found == cases.map(\.0), "\(zip(cases, found).filter { $0.0 != $1 }.map { ($0.0, $0.1.proof, $1) })")
    }

    @Test func urlsAreComparedAsURLs() {
        let cases: [(String, String)] = [
            ("https://api.example.org/orders/7", "ok"), ("HTTPS://API.Example.ORG/orders/7", "ok"),
            (#"https:\/\/api.example.org\/orders\/7"#, "ok"), ("https://api.example.org:443/orders/7", "ok"),
            ("https://api.example.org:/orders/7", "ok"), ("https://api.example.org/orders/7?page=9#top", "ok"),
            ("https://api.example.org/%6Frders/%37", "ok"), ("https://api.example.org/orders%2F7", "wrongURL"),
            ("https://api.example.org/Orders/7", "wrongURL"), ("https://api.example.org/orders/7/", "wrongURL"),
            ("https://api.example.org/orders/", "wrongURL"), ("https://api.example.org/orders/77", "wrongURL"),
            ("https://api.example.org", "wrongURL"), ("https://api.example.org:80/orders/7", "wrongURL"),
            ("https://api.example.org:8443/orders/7", "wrongURL"), ("http://api.example.org/orders/7", "wrongURL"),
            ("https://user@api.example.org/orders/7", "wrongURL"), ("https://api.example.org.evil.test/orders/7", "wrongURL"),
            ("//api.example.org/orders/7", "wrongURL"), ("/orders/7", "wrongURL"), ("https:/orders/7", "wrongURL"),
            ("ftp://api.example.org/orders/7", "wrongURL"),
            ("https://api.example.org/orders/7%", "wrongURL"), ("https:///orders/7", "wrongURL"), ("", "wrongURL"),
            ("http://auth.test:8080/base/orders/7", "ok"), ("http://auth.test:8080/orders/7", "wrongURL"),
            ("http://auth.test:8080/base", "wrongURL"),
        ]
        let found = cases.map { claim, _ in
            ProofCase(claims: ["htu": "\"\(claim)\""]).with { $0.alternative = "http://auth.test:8080/base" }.outcome
        }
        #expect(found == cases.map(\.1))
        let root = ProofCase(claims: ["htu": #""http://[::1]""#]).with { ($0.scheme, $0.authority, $0.path) = (.http, "[::1]:80", "/") }
        #expect([root.with { $0.scheme = .either }.outcome, root.with { $0.scheme = .https }.outcome] == ["ok", "wrongURL"])
        #expect(
            [root.outcome, root.with { $0.path = "/a" }.outcome, root.with { $0.authority = "" }.outcome] == ["ok", "wrongURL", "wrongURL"])
        let encoded = ProofCase(claims: ["htu": #""https://api.example.org/a%c3%A9~""#])
        #expect(encoded.with { $0.path = "/a%C3%a9%7e" }.outcome == "ok")
    }

    @Test func aProofIsToldFromOthersByKeyAndID() throws {
        var verifier = DeviceProofVerifier()
        let digest = { (proof: ProofCase) in try proof.verify(&verifier).get().tokenIDDigest }
        let one = try digest(ProofCase())
        #expect(try digest(ProofCase(claims: ["iat": "\(now - 5)", "jti": #""\u006fne""#])) == one)
        let others = try [ProofCase(claims: ["jti": #""One""#]), ProofCase(key: Keys.eddsa)].map(digest)
        #expect(Set(others + [one]).count == 3)
    }

    @Test func noncesCountForTwoPeriodsAtAllGateways() throws {
        var gateways = [ProofNonces(secret: [1]), ProofNonces(secret: [1]), ProofNonces(secret: [2])]
        let given = gateways[0].current(at: WallTime(seconds: 600))
        var verifier = DeviceProofVerifier()
        let sent = try ProofCase(claims: ["nonce": #""\#(given.text)""#]).verify(&verifier).get().nonce
        var counts: [Bool] = []
        for time in [299, 300, 600, 899, 900, 1_199, 1_200] as [Int64] {
            counts.append(gateways[1].accepts(sent, at: WallTime(seconds: time)))
        }
        #expect(counts == [false, true, true, true, true, true, false])
        let foreign = gateways[2].accepts(sent, at: WallTime(seconds: 600))
        let none = gateways[0].accepts(nil, at: WallTime(seconds: 600))
        #expect(!foreign && !none)
        #expect(given.text.utf8.count == 16 && Base64URL.decode(given.text.bytes.rawBytes) != nil)
        #expect(try ProofCase(claims: ["nonce": #""short""#]).verify(&verifier).get().nonce == nil)
    }

    @Test func aThumbprintHasItsBytesAndText() throws {
        let text = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
        let read = { (text: String) in KeyThumbprint(base64url: text.bytes.rawBytes) }
        let thumbprint = try #require(read(text))
        #expect(thumbprint.text == text && KeyThumbprint(bytes: thumbprint.bytes) == thumbprint)
        for wrong in ["", "0ZcO", text + "A", String(text.dropLast()) + "=", String(text.dropLast()) + "J"] {
            #expect(read(wrong) == nil, "\(wrong)")
        }
        #expect(KeyThumbprint(bytes: [1]) == nil)
    }

    @Test func theKeysThatAreKeptAreBounded() throws {
        var verifier = DeviceProofVerifier()
        let same = Keys.eddsa
        for number in 0..<5_000 { _ = try ProofCase(header: ["kid": "\"\(number)\""], key: same).verify(&verifier).get() }
        #expect(verifier.keptKeys <= 4_096 && verifier.keptKeys > 2_000)
    }

    /// No bytes trap, and no damaged proof holds.
    @Test func damagedProofsAreRefused() {
        var mutator = Mutator(seed: 9449)
        var verifier = DeviceProofVerifier()
        let proofs = [ProofCase(), ProofCase(key: Keys.eddsa)]
        let words = ["..", ".", "e30", "\"", "{", "htu", "\u{0}", "AAAA", String(repeating: "x", count: 5_000)].map(\.bytes)
        for round in 0..<10_000 {
            let judged = proofs[round % 2]
            let whole = judged.proof.bytes
            let bytes = round % 5 == 0 ? mutator.bytes(mutator.below(400)) : mutator.mutate(whole, words)
            if bytes == whole { continue }
            if case .success = judged.verify(&verifier, proof: bytes) {
                Issue.record("\(String(decoding: bytes, as: UTF8.self))")
            }
        }
        for round in 0..<20_000 {
            var judged = ProofCase()
            let claim = mutator.mutate("https://api.example.org:443/orders/7".bytes, ["%", "%2f", "//", "@", "[", ":", "?"].map(\.bytes))
            judged.path = "/" + (round % 2 == 0 ? "%%4" : "") + String(decoding: mutator.bytes(mutator.below(6)), as: UTF8.self)
            let url = ProofURL(
                scheme: .either, authority: claim.rawBytes, path: claim.rawBytes, alternative: claim.rawBytes)
            _ = url.matches(claim.rawBytes)
        }
    }
}

extension KeyThumbprint {
    static func of(_ key: SigningKey) -> Self? {
        RequiredMembers(key.verificationKey.material).flatMap { Self(base64url: $0.thumbprint.bytes.rawBytes) }
    }
}
