import Testing
import Wire

@testable import Credentials

/// Known attacks on other verifiers.
@Suite struct AttackTests {
    private let trusted = trust([Keys.hs256, Keys.rs256, Keys.es256, Keys.eddsa])

    private func header(_ alg: String, _ more: String = "") -> String { #"{"alg":"\#(alg)"\#(more)}"# }

    @Test(arguments: ["none", "None", "NONE", "nOnE", "none ", "", "HS", "hs256", "RS1", "A128KW", "ES256K", "n\\u006fne"])
    func unknownAlgorithmsAndNoneAreRefusedWithAnySignature(_ alg: String) {
        let input = header(alg).base64URL + "." + Forge.claims.base64URL
        for signature in ["", "AA", Forge.signature(of: input, Keys.hs256, .HS256)] {
            #expect(fault(input + "." + signature, trusted) == .unsupportedAlgorithm)
        }
    }

    @Test(arguments: [#"{}"#, #"{"alg":null}"#, #"{"alg":["HS256"]}"#, #"{"alg":256}"#, #"{"typ":"JWT"}"#, #"{"Alg":"HS256"}"#])
    func aHeaderWithoutAnAlgorithmIsRefused(_ header: String) {
        #expect(fault(Forge.token(header: header, key: Keys.hs256), trusted) == .unsupportedAlgorithm)
    }

    @Test func anAlgorithmMayBeSpelledWithEscapes() {
        #expect(fault(Forge.token(header: #"{"\u0061lg":"HS25\u0036"}"#, key: Keys.hs256), trusted) == nil)
    }

    /// Algorithm confusion (RFC 8725 §2.1): an issuer's public key as the HMAC secret.
    @Test func aPublicKeyNeverServesAsASecret() throws {
        for key in [Keys.rs256, Keys.es256] {
            let der = try #require(key.verificationKey.material.native?.publicDER)
            let input = header("HS256").base64URL + "." + Forge.claims.base64URL
            let code = Digest.hmacSHA256(input.bytes.rawBytes, key: der.rawBytes)
            let token = input + "." + Base64URL.encode(code.rawBytes)
            #expect(fault(token, trust([key], algorithms: [.asymmetric, .hmac])) == .unknownKey(issuer: 0))
            #expect(fault(token, trust([key])) == .algorithmNotAllowed)
        }
        let pem = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n".bytes
        #expect(throws: KeyFault("the shared secret is PEM text, which is no shared secret")) {
            try VerificationKey(secret: pem.rawBytes)
        }
        let prefixed = Array("  \n--".utf8) + pem
        #expect(throws: KeyFault.self) { try VerificationKey(secret: prefixed.rawBytes) }
    }

    @Test func anAlgorithmOfAnotherFamilyIsRefusedThoughTheIssuerAllowsIt() {
        let token = Forge.token(header: header("PS256", #","kid":"\#(Keys.rs256.kid!)""#), key: Keys.rs256, as: .PS256)
        #expect(fault(token, trust([Keys.rs256], algorithms: .rsa)) == .algorithmNotAllowed)
    }

    @Test(arguments: [
        "../../../../dev/null", "' OR 1=1 --", "a\\u0000b", "", "\\\"", "http://attacker.test/key", String(repeating: "k", count: 3000),
    ])
    func anInventedKeyIDIsOnlyUnknown(_ kid: String) {
        let token = Forge.token(header: header("HS256", #","kid":"\#(kid)""#), key: Keys.hs256)
        #expect(fault(token, trusted) == .unknownKey(issuer: 0))
    }

    @Test(arguments: ["null", "1", "[\"a\"]", "{}", "true"])
    func aKeyIDThatIsNoStringIsMalformed(_ kid: String) {
        #expect(fault(Forge.token(header: header("HS256", #","kid":\#(kid)"#), key: Keys.hs256), trusted) == .malformed)
    }

    @Test(arguments: [
        #","crit":["exp"],"exp":1"#, #","crit":[]"#, #","crit":null"#, #","crit":["b64"],"b64":false"#, #","b64":false"#,
        #","b64":0"#, #","cr\u0069t":["x"]"#,
    ])
    func extensionsAreRefused(_ more: String) {
        #expect(fault(Forge.token(header: header("HS256", more), key: Keys.hs256), trusted) == .criticalExtension)
    }

    @Test(arguments: [
        #"{"alg":"none","alg":"HS256"}"#, #"{"alg":"HS256","alg":"HS256"}"#, #"{"alg":"HS256","\u0061lg":"none"}"#,
        #"{"alg":"HS256","kid":"a","kid":"b"}"#, #"{"alg":"HS256","x":1,"x":1}"#,
    ])
    func aHeaderMemberMayNotStandTwice(_ header: String) {
        #expect(fault(Forge.token(header: header, key: Keys.hs256), trusted) == .duplicateMember)
    }

    @Test(arguments: [
        #"{"exp":1700000600,"exp":1,"sub":"u1"}"#, #"{"sub":"u1","s\u0075b":"admin","exp":1700000600}"#,
        #"{"a":{"x":1,"x":2},"a":1}"#,
    ])
    func aClaimMayNotStandTwice(_ payload: String) {
        #expect(fault(Forge.token(payload: payload, key: Keys.hs256), trusted) == .duplicateMember)
    }

    /// Keys in or behind a token's header are ignored (RFC 8725 §3.10).
    @Test func embeddedKeysAreIgnored() throws {
        let own = Keys.make(.ES256)
        let members = try #require(RequiredMembers(own.verificationKey.material)).members
        let jwk = "{" + members.map { #""\#($0.name)":"\#($0.value)""# }.joined(separator: ",") + "}"
        for more in [
            #","jwk":\#(jwk)"#, #","jku":"https://attacker.test/jwks""#, #","x5u":"https://attacker.test/c""#,
            #","x5c":["AAAA"]"#, #","jwk":\#(jwk),"kid":"\#(Keys.es256.kid!)""#,
        ] {
            let token = Forge.token(header: header("ES256", more), key: own)
            #expect(fault(token, trust([Keys.es256])) == .badSignature)
        }
    }

    /// CVE-2022-21449 and similar: r and s out of range.
    @Test func psychicSignaturesFail() {
        let input = header("ES256").base64URL + "." + Forge.claims.base64URL
        let order: [UInt8] = [
            0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xBC, 0xE6, 0xFA, 0xAD,
            0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
        ]
        let zero = [UInt8](repeating: 0, count: 32)
        let one = zero.dropLast() + [1]
        let full = [UInt8](repeating: 0xFF, count: 32)
        for r in [zero, Array(one), order, full] {
            for s in [zero, Array(one), order, full] {
                let token = input + "." + Base64URL.encode((r + s).rawBytes)
                #expect(fault(token, trust([Keys.es256])) == .badSignature)
            }
        }
        let der: [UInt8] = [0x30, 6, 2, 1, 0, 2, 1, 0]
        #expect(fault(input + "." + Base64URL.encode(der.rawBytes), trust([Keys.es256])) == .badSignature)
    }

    @Test func anECDSASignatureInDERIsRefused() {
        let input = header("ES256").base64URL + "." + Forge.claims.base64URL
        let raw = Forge.signatureBytes(of: input, Keys.es256, .ES256)
        var der = ByteBuffer()
        DER.appendSignature(halves: raw.rawBytes, to: &der)
        #expect(fault(input + "." + Base64URL.encode(raw.rawBytes), trust([Keys.es256])) == nil)
        #expect(fault(input + "." + Base64URL.encode(der.readable), trust([Keys.es256])) == .badSignature)
    }

    @Test(arguments: [SigningAlgorithm.HS256, .RS256, .ES256, .EdDSA])
    func aSignatureCutOrLengthenedFails(_ algorithm: SigningAlgorithm) throws {
        let key = try #require([Keys.hs256, Keys.rs256, Keys.es256, Keys.eddsa].first { $0.algorithm == algorithm })
        let input = header(algorithm.name).base64URL + "." + Forge.claims.base64URL
        let good = Forge.signatureBytes(of: input, key, algorithm)
        for bad in [Array(good.dropLast()), good + [0], [0] + good, Array(good.dropFirst()), good + good, []] {
            #expect(fault(input + "." + Base64URL.encode(bad.rawBytes), trust([key])) == .badSignature)
        }
        #expect(fault(input + "." + Base64URL.encode(good.rawBytes), trust([key])) == nil)
    }

    /// A respelled token must not verify, since caches and revocation compare the text.
    @Test func onlyTheCanonicalSpellingOfASignatureCounts() {
        let token = Forge.token(key: Keys.hs256)
        #expect(fault(token, trusted) == nil)
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let last = letters.firstIndex(of: token.last!)!
        for other in last + 1...last + 3 {
            #expect(fault(token.dropLast() + String(letters[other]), trusted) == .malformed)
        }
        for tail in ["=", "==", "\n", " ", "%3D", "\0"] { #expect(fault(token + tail, trusted) == .malformed) }
        #expect(fault(token.replacing("-", with: "+").replacing("_", with: "/") + "+", trusted) == .malformed)
        #expect(fault(" " + token, trusted) == .malformed)
        #expect(fault("Bearer " + token, trusted) == .malformed)
    }

    @Test(arguments: [
        "", ".", "..", "...", "a", "a.b", "a.b.c.d", "a.b.c.d.e", "....", "e30.e30.e30", ".e30.AA", "e30..AA", "null.null.null",
    ])
    func tokensWithoutThreePartsAreRefused(_ token: String) {
        #expect([.malformed, .unsupportedAlgorithm].contains(fault(token, trusted)))
    }

    @Test func aTokenWithFiveParts() {
        let token = Forge.token(key: Keys.hs256)
        #expect(fault(token + ".AA.AA", trusted) == .malformed)
        #expect(fault(token + ".", trusted) == .malformed)
        #expect(fault("." + token, trusted) == .malformed)
    }

    @Test func anEmptyPayloadOrSignatureIsRefused() {
        #expect(fault(header("HS256").base64URL + "..AA", trusted) == .malformed)
        #expect(fault(header("HS256").base64URL + "." + Forge.claims.base64URL + ".", trusted) == .badSignature)
    }

    @Test(arguments: [
        "null", "[]", "\"x\"", "1", "{", #"{"a":1}x"#, #"{"a":1,}"#, "{'a':1}", "\u{FEFF}{}", #"{"a":01}"#, #"{"\ud800":"a"}"#,
        #"{"a":NaN}"#, " ",
    ])
    func aPayloadThatIsNoObjectIsRefused(_ payload: String) {
        #expect(fault(Forge.token(payload: payload, key: Keys.hs256), trusted) == .malformed)
    }

    /// Half a surrogate pair (RFC 8259 §8.2) in a claim that nothing reads does no harm; one that is read is as if it had no text.
    @Test func halfASurrogatePairIsNoTextOfAClaim() {
        func payload(_ sub: String, _ more: String, aud: String = "\"api\"") -> String {
            Forge.token(payload: #"{"iss":"https://issuer.test","aud":\#(aud),"sub":"\#(sub)","exp":1700000600\#(more)}"#, key: Keys.hs256)
        }
        let half = #""x\ud83d""#
        for more in [
            #","name":\#(half)"#, #","a":[\#(half),{"b":\#(half)}]"#, #","tier":\#(half)"#, #","email":\#(half)"#, #","jti":\#(half)"#,
        ] {
            #expect(fault(payload("u1", more), trusted) == nil, "\(more)")
        }
        #expect(fault(payload("u1", "", aud: #"[\#(half),"api"]"#), trusted) == nil)
        #expect(fault(payload("u1", "", aud: half), trusted) == .wrongAudience)
        #expect(fault(payload(#"x\ud83d"#, ""), trusted) == fault(payload("", ""), trusted) && fault(payload("", ""), trusted) != nil)
        for more in [#","iat":\#(half)"#, #","nbf":\#(half)"#, #","\ud83d":1"#] {
            #expect(fault(payload("u1", more), trusted) != nil, "\(more)")
        }
        let header = #"{"alg":"HS256","kid":"x\ud83d"}"#
        #expect(fault(Forge.token(header: header, key: Keys.hs256), trusted) == .malformed)
    }

    /// A forged token costs no more than a few verifications, however many keys an issuer has.
    @Test func aTokenIsTriedWithEightKeysAtMost() throws {
        let others = try (0..<12).map { number in
            try VerificationKey(secret: Array("0123456789abcdef0123456789abcd\(number + 10)".utf8).rawBytes)
        }
        func verify(_ keys: [VerificationKey]) -> (fault: TokenFault?, tries: Int) {
            let issuers = (0..<2).map { number in
                TrustedIssuer(
                    name: "\(number)", issuer: "https://issuer.test", audiences: ["api"], algorithms: .hmac,
                    keys: KeySet(number == 0 ? Array(keys.prefix(6)) : Array(keys.dropFirst(6))))
            }
            var verifier = TokenVerifier()
            let token = Array(Forge.token(header: header("HS256"), key: Keys.hs256).utf8)
            let result = verifier.verify(
                token.rawBytes, trust: Trust(issuers: issuers, clockSkewSeconds: 30), now: WallTime(seconds: 1_700_000_000))
            if case .failure(let fault) = result { return (fault, verifier.tries) }
            return (nil, verifier.tries)
        }
        let right = Keys.hs256.verificationKey
        #expect(verify(others) == (.badSignature, 8))
        #expect(verify(Array(others.prefix(7)) + [right]) == (nil, 8))
        #expect(verify(Array(others.prefix(8)) + [right]) == (.badSignature, 8))
    }

    @Test func textThatIsNotUnicodeIsRefused() {
        let payload = Array(#"{"sub":"u"#.utf8) + [0xFF] + Array(#"","exp":1700000600}"#.utf8)
        let input = header("HS256").base64URL + "." + Base64URL.encode(payload.rawBytes)
        #expect(fault(input + "." + Forge.signature(of: input, Keys.hs256, .HS256), trusted) == .malformed)
    }

    @Test func deepNestingIsRefused() {
        func payload(_ depth: Int) -> String {
            #"{"iss":"https://issuer.test","aud":"api","sub":"u1","exp":1700000600,"x":"#
                + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
        }
        #expect(fault(Forge.token(payload: payload(31), key: Keys.hs256), trusted) == nil)
        #expect(fault(Forge.token(payload: payload(32), key: Keys.hs256), trusted) == .malformed)
        #expect(fault(Forge.token(payload: payload(3000), key: Keys.hs256), trusted) == .malformed)
    }

    @Test func sizesAreBounded() {
        let open = #"{"iss":"https://issuer.test","aud":"api","sub":"u1","exp":1700000600,"x":""#
        let large = Forge.token(payload: open + String(repeating: "x", count: 12000) + #""}"#, key: Keys.hs256)
        #expect(large.utf8.count <= 16384)
        #expect(fault(large, trusted) == nil)
        let larger = Forge.token(payload: open + String(repeating: "x", count: 12300) + #""}"#, key: Keys.hs256)
        #expect(fault(larger, trusted) == .tooLarge)
        let pad = header("HS256", #","x":""#).dropLast()
        let fits = pad + String(repeating: "x", count: 4096 - pad.utf8.count - 2) + #""}"#
        #expect(fault(Forge.token(header: String(fits), key: Keys.hs256), trusted) == nil)
        let exceeds = pad + String(repeating: "x", count: 4096 - pad.utf8.count - 1) + #""}"#
        #expect(fault(Forge.token(header: String(exceeds), key: Keys.hs256), trusted) == .tooLarge)
    }

    @Test func thousandsOfClaimsAreRefusedAndNotCompared() {
        func payload(_ count: Int) -> String {
            #"{"iss":"https://issuer.test","aud":"api","sub":"u1","exp":1700000600"#
                + (4..<count).map { #","c\#($0)":1"# }.joined() + "}"
        }
        #expect(fault(Forge.token(payload: payload(256), key: Keys.hs256), trusted) == nil)
        #expect(fault(Forge.token(payload: payload(257), key: Keys.hs256), trusted) == .malformed)
        #expect(fault(Forge.token(payload: payload(1200), key: Keys.hs256), trusted) == .malformed)
    }
}
