import Testing
import Wire

@testable import Credentials

/// Key sets: accepted, ignored and refused keys.
@Suite struct KeySetTests {
    private static let point = #""x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#
    private static let good = #"{"kty":"EC","kid":"good","crv":"P-256",\#(point)}"#

    private static func number(_ bytes: [UInt8]) -> String { Base64URL.encode(bytes.rawBytes) }

    private static func rsa(bytes: Int, last: UInt8 = 0xFF, exponent: [UInt8] = [1, 0, 1], first: UInt8 = 0xC0) -> String {
        var modulus = [UInt8](repeating: 0x5A, count: bytes)
        modulus[0] = first
        modulus[bytes - 1] = last
        return #"{"kty":"RSA","kid":"weak","n":"\#(number(modulus))","e":"\#(number(exponent))"}"#
    }

    @Test func theLargestKeysAreTaken() throws {
        let set = try keySet(#"{"keys":[\#(Self.rsa(bytes: 1024, exponent: [0xFF, 0xFF, 0xFF, 0xFF]))]}"#)
        #expect(set.keys.count == 1 && set.refusals.isEmpty)
    }

    @Test func aByteOrderMarkInFrontIsIgnored() throws {
        #expect(try keySet("\u{FEFF}{\"keys\":[\(Self.good)]}").keys.map(\.kid) == ["good"])
        let file = Array("\u{FEFF} {\"keys\":[\(Self.good)]}".utf8)
        #expect(try KeySet(file: file.rawBytes).keys.count == 1)
        #expect(throws: KeyFault.self) { try keySet("\u{FEFF}\u{FEFF}{\"keys\":[\(Self.good)]}") }
    }

    /// The faults of the keys beside one good key, which stays usable.
    private func refusals(_ jwk: String) throws -> [String] {
        let set = try keySet(#"{"keys":[\#(jwk),\#(Self.good)]}"#)
        #expect(set.keys.map(\.kid) == ["good"])
        return set.refusals.map(\.message)
    }

    @Test(arguments: [
        (rsa(bytes: 128), "key 'weak' has 1024 bits, but RSA needs at least 2048"),
        (rsa(bytes: 256, first: 0x7F), "key 'weak' has 2047 bits, but RSA needs at least 2048"),
        (rsa(bytes: 1025), "key 'weak' has 8200 bits, but RSA may have at most 8192"),
        (rsa(bytes: 256, last: 0xFE), "key 'weak' has an even RSA modulus"),
        (rsa(bytes: 256, exponent: [1]), "key 'weak' has an RSA exponent that is even or 1"),
        (rsa(bytes: 256, exponent: [2]), "key 'weak' has an RSA exponent that is even or 1"),
        (rsa(bytes: 256, exponent: [1, 0, 0]), "key 'weak' has an RSA exponent that is even or 1"),
        (rsa(bytes: 256, exponent: [1, 0, 0, 0, 1]), "key 'weak' has an RSA exponent of more than 32 bits"),
        (#"{"kty":"RSA","kid":"weak","e":"AQAB"}"#, "key 'weak' has no n in base64url"),
        (#"{"kty":"RSA","kid":"weak","n":"AQAB=","e":"AQAB"}"#, "key 'weak' has no n in base64url"),
        (#"{"kty":"RSA","kid":"weak","n":65537,"e":"AQAB"}"#, "key 'weak' has no n in base64url"),
        (
            #"{"kty":"EC","kid":"off","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4"}"#,
            "key 'off' is no point on P-256"
        ),
        (
            #"{"kty":"EC","kid":"zero","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            "key 'zero' is no point on P-256"
        ),
        (
            #"{"kty":"EC","kid":"short","crv":"P-384",\#(point)}"#,
            "key 'short' has coordinates that are not 48 bytes long, as P-384 has them"
        ),
        (#"{"kty":"EC","kid":"x","crv":"P-256","x":"AA"}"#, "key 'x' has no y in base64url"),
        (#"{"kty":"EC","kid":"x"}"#, "key 'x' has no crv"),
        (#"{"kty":"OKP","kid":"ed","crv":"Ed25519","x":"AAAA"}"#, "key 'ed' is no Ed25519 key of 32 bytes"),
        (
            #"{"kty":"oct","kid":"s","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg"}"#,
            "key 's' has 31 bytes, but a shared secret needs at least 32"
        ),
        (
            #"{"kty":"oct","kid":"s","alg":"HS384","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}"#,
            "key 's' cannot be used for HS384: it has 32 bytes and needs at least 48"
        ),
        (
            #"{"kty":"oct","kid":"s","k":"\#("-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQ".base64URL)"}"#,
            "key 's' is PEM text, which is no shared secret"
        ),
        (#"{"kty":"EC","kid":"a","alg":"RS256","crv":"P-256",\#(point)}"#, "key 'a' cannot be used for RS256"),
        (#"{"kty":"EC","kid":"a","alg":"ES384","crv":"P-256",\#(point)}"#, "key 'a' cannot be used for ES384"),
        (#"{"kty":"EC","kid":"a","alg":"HS256","crv":"P-256",\#(point)}"#, "key 'a' cannot be used for HS256"),
        (#"{"kid":"a"}"#, "key 'a' has no kty"),
        (#"{"kty":"EC","kid":5,"crv":"P-256",\#(point)}"#, "key number 1 has a kid that is no string"),
        (#"{"kty":"EC","kid":"a","kid":"b","crv":"P-256",\#(point)}"#, "key number 1 is no JSON object with distinct members"),
        ("5", "key number 1 is no JSON object"),
        ("[[{}],{}]", "key number 1 is no JSON object"),
        ("null", "key number 1 is no JSON object"),
    ])
    func weakAndBrokenKeysAreLeftOutAndNamed(_ jwk: String, _ message: String) throws {
        #expect(try refusals(jwk) == [message])
    }

    @Test(arguments: [
        #"{"kty":"EC","use":"enc","crv":"P-256",\#(point)}"#, #"{"kty":"EC","key_ops":["deriveKey"],"crv":"P-256",\#(point)}"#,
        #"{"kty":"EC","crv":"secp256k1",\#(point)}"#, #"{"kty":"OKP","crv":"X25519","x":"AAAA"}"#, #"{"kty":"AKP","x":1}"#,
        #"{"kty":"EC","alg":"ECDH-ES","crv":"P-256",\#(point)}"#, #"{"kty":"EC","alg":"none","crv":"P-256",\#(point)}"#,
        #"{"kty":"EC","alg":5,"crv":"P-256",\#(point)}"#, #"{"kty":"EC","use":null,"crv":"P-256",\#(point)}"#,
    ])
    func keysForOtherUsesArePassedOver(_ jwk: String) throws { #expect(try refusals(jwk) == []) }

    @Test(arguments: [
        (#"{"kty":"EC","crv":"P-256",\#(point)}"#, AlgorithmSet.ecdsa.intersection([AlgorithmSet(.ES256)])),
        (#"{"kty":"EC","use":"sig","key_ops":["verify"],"alg":"ES256","crv":"P-256",\#(point)}"#, AlgorithmSet(.ES256)),
        (rsa(bytes: 256), .rsa), (rsa(bytes: 256, exponent: [3]), .rsa), (rsa(bytes: 1024), .rsa),
        (#"{"kty":"oct","k":"\#(String(repeating: "A", count: 43))"}"#, AlgorithmSet(.HS256)),
        (#"{"kty":"oct","k":"\#(String(repeating: "A", count: 64))"}"#, AlgorithmSet([.HS256, .HS384])),
        (#"{"kty":"oct","k":"\#(String(repeating: "A", count: 86))"}"#, .hmac),
        (#"{"kty":"oct","alg":"HS256","k":"\#(String(repeating: "A", count: 86))"}"#, AlgorithmSet(.HS256)),
        (#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#, .ed25519),
    ])
    func aKeyAllowsTheAlgorithmsThatFitIt(_ jwk: String, _ algorithms: AlgorithmSet) throws {
        let set = try keySet(#"{"keys":[\#(jwk)]}"#)
        #expect(set.keys.map(\.algorithms) == [algorithms])
        #expect(set.refusals.isEmpty)
    }

    @Test(arguments: [
        "", "{}", "[]", #"{"keys":{}}"#, #"{"keys":[]}"#, #"{"keys":[],"keys":[]}"#, #"{"keys":[{"kty":"x"}]}"#, "{", "null",
        #"{"keys":["#, #"{"keys":[\#(good)]} x"#, #"{"keys":[\#(good)"#,
    ])
    func aDocumentWithoutAUsableKeyIsAFault(_ jwks: String) { #expect(throws: KeyFault.self) { try keySet(jwks) } }

    @Test func aSetHasABound() throws {
        func jwks(_ count: Int) -> String { #"{"keys":["# + [String](repeating: Self.good, count: count).joined(separator: ",") + "]}" }
        #expect(try keySet(jwks(128)).keys.count == 128)
        #expect(throws: KeyFault("the key set has more than 128 keys")) { try keySet(jwks(129)) }
    }

    // MARK: ROCA

    private static let theWayOut =
        "has the ROCA fingerprint (CVE-2017-15361): its private key can be computed; replace it with a key from OpenSSL or a patched device"

    @Test(arguments: [2_048, 3_072, 4_096])
    func keysThatInfineonsLibraryMadeAreLeftOutAndTheOthersStay(_ bits: Int) throws {
        for seed: UInt64 in 1...3 {
            let modulus = Infineon.modulus(bits: bits, seed: seed)
            let jwk = #"{"kty":"RSA","kid":"card","n":"\#(Self.number(modulus))","e":"AQAB"}"#
            #expect(try refusals(jwk) == ["key 'card' \(Self.theWayOut)"])
            #expect(throws: KeyFault("key 'card' \(Self.theWayOut)", isForgeable: true)) { try keySet(#"{"keys":[\#(jwk)]}"#) }
        }
    }

    @Test func oneBitAwayFromTheFingerprintAKeyIsLikeAnyOther() throws {
        var modulus = Infineon.modulus(bits: 2_048, seed: 1)
        modulus[100] ^= 4
        let jwk = #"{"kty":"RSA","n":"\#(Self.number(modulus))","e":"AQAB"}"#
        #expect(try keySet(#"{"keys":[\#(jwk)]}"#).keys.count == 1)
    }

    @Test func keysInPEMAreLookedAtAlike() throws {
        let modulus = Infineon.modulus(bits: 2_048, seed: 9)
        let der = DER.rsaPublicKey(modulus: modulus.rawBytes, exponent: [1, 0, 1].rawBytes)
        let pem = Array("-----BEGIN PUBLIC KEY-----\n\(Base64.encode(der.rawBytes, isPadded: true))\n-----END PUBLIC KEY-----\n".utf8)
        #expect(throws: KeyFault("PEM block 1 \(Self.theWayOut)", isForgeable: true)) { try pemKeySet(pem) }
    }

    @Test func thePrivateKeyIsLookedAtAlike() throws {
        var numbers = ByteBuffer()
        for number in [[0], Infineon.modulus(bits: 2_048, seed: 4), [1, 0, 1], [7], [11], [13], [1], [1], [1]] as [[UInt8]] {
            DER.appendUnsigned(number.rawBytes, to: &numbers)
        }
        var der = ByteBuffer()
        der.append(0x30)
        DER.appendLength(numbers.count, to: &der)
        der.append(numbers.readable)
        let label = "RSA PRIVATE KEY"
        let pem = Array("-----BEGIN \(label)-----\n\(Base64.encode(der.readable, isPadded: true))\n-----END \(label)-----\n".utf8)
        #expect(throws: KeyFault("the signing key \(Self.theWayOut)", isForgeable: true)) { try signingKey(pem, .RS256) }
    }

    /// 65537¹²⁸, which is a power of 65537 modulo every prime.
    @Test func aPowerOfTheGeneratorHasTheFingerprint() {
        var number: [UInt8] = [1]
        for power in 0...128 {
            #expect(ROCAFingerprint.isOn(number), "65537 to the power of \(power)")
            #expect(!ROCAFingerprint.isOn(Infineon.timesThree(number)), "three times that")
            number = Infineon.timesGenerator(number)
        }
    }

    @Test func keysOfOpenSSLHaveNoFingerprint() throws {
        for _ in 0..<3 {
            let key = Keys.make(.RS256)
            #expect(try signingKey(try key.pem(), .RS256).kid == key.kid)
        }
    }

    @Test func theSameKeyHasTheSameSerialAndAnotherHasNot() throws {
        func serial(_ jwk: String) throws -> UInt32 { try keySet(#"{"keys":[\#(jwk)]}"#).keys[0].serial }
        let plain = try serial(Self.good)
        #expect(try serial(Self.good) == plain)
        #expect(try serial(#"{"crv":"P-256",\#(Self.point),"kid":"good","kty":"EC","x5t":"z"}"#) == plain)
        let others = [
            try serial(#"{"kty":"EC","kid":"other","crv":"P-256",\#(Self.point)}"#),
            try serial(#"{"kty":"EC","crv":"P-256",\#(Self.point)}"#), try serial(#"{"kty":"EC","kid":"","crv":"P-256",\#(Self.point)}"#),
            try serial(Self.rsa(bytes: 256)), try serial(Self.rsa(bytes: 256).dropLast() + #","alg":"PS256"}"#),
        ]
        #expect(Set(others + [plain]).count == others.count + 1)
    }

    @Test func aPrivateKeyAndItsPublicHalfHaveOneSerial() throws {
        let key = Keys.es256
        let jwks = SigningKeyRing(only: key, now: WallTime(seconds: now)).jwks(now: WallTime(seconds: now))
        #expect(try jwksKeySet(jwks).keys[0].serial == key.verificationKey.serial)
    }

    @Test func aSharedSecretMustBeLongEnoughForEachAlgorithmItIsNamedFor() throws {
        let secret = [UInt8](repeating: 7, count: 32)
        #expect(try VerificationKey(secret: secret.rawBytes).algorithms == AlgorithmSet(.HS256))
        #expect(try VerificationKey(secret: secret.rawBytes, algorithms: AlgorithmSet(.HS256)).kid == nil)
        #expect(throws: KeyFault("TOLLGATE_X cannot be used for HS512: it has 32 bytes and needs at least 64")) {
            try VerificationKey(secret: secret.rawBytes, algorithms: AlgorithmSet([.HS256, .HS512]), name: "TOLLGATE_X")
        }
        #expect(throws: KeyFault("the shared secret cannot be used for RS256")) {
            try VerificationKey(secret: secret.rawBytes, algorithms: AlgorithmSet(.RS256))
        }
        #expect(throws: KeyFault("the shared secret is allowed no algorithm")) {
            try VerificationKey(secret: secret.rawBytes, algorithms: [])
        }
    }
}
