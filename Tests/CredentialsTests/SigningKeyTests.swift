import Testing
import Wire

@testable import Credentials

/// The gateway's own keys.
@Suite struct SigningKeyTests {
    private let start = WallTime(seconds: now)

    private func claims() -> TokenClaims {
        var claims = TokenClaims(
            issuer: "https://issuer.test", audience: "api", subject: "u1", issuedAt: now, expiresAt: now + 600)
        claims.email = "a\"b@x.test"
        claims.sessionID = "s1"
        return claims
    }

    @Test(arguments: SigningAlgorithm.allCases)
    func aKeysSignatureVerifiesWithItsPublicHalf(_ algorithm: SigningAlgorithm) throws {
        let key = try SigningKey.generate(algorithm)
        let token = try key.issue(claims())
        let verified = try verify(token, trust([key])).get()
        #expect(verified.userID.text == "u1")
        #expect(verified.email.text == "a\"b@x.test")
        #expect(verified.keyID == key.kid)
        #expect(key.kid?.utf8.count == 43)
        #expect(fault(token, trust([try SigningKey.generate(algorithm)])) == .unknownKey(issuer: 0))
    }

    @Test(arguments: SigningAlgorithm.allCases)
    func aKeyComesBackFromItsPEM(_ algorithm: SigningAlgorithm) throws {
        let key = try SigningKey.generate(algorithm)
        let again = try signingKey(key.pem(), algorithm)
        #expect(again.kid == key.kid)
        #expect(again.verificationKey.serial == key.verificationKey.serial)
        #expect(fault(try again.issue(claims()), trust([key])) == nil)
    }

    @Test func aPEMThatDoesNotFitIsRefused() throws {
        let rsa = try Keys.rs256.pem()
        #expect(throws: KeyFault("the signing key cannot be used for ES256")) { try signingKey(rsa, .ES256) }
        #expect(throws: KeyFault("the signing key cannot be used for HS256")) { try signingKey(rsa, .HS256) }
        #expect(throws: KeyFault("there is not exactly one PEM block")) {
            try signingKey(rsa + rsa, .RS256)
        }
        #expect(throws: KeyFault("there is not exactly one PEM block")) { try signingKey([], .RS256) }
        let cut = Array(rsa.prefix(rsa.count - 40))
        #expect(throws: KeyFault("PEM block 1 is broken")) { try signingKey(cut, .RS256) }
        let secret = try Keys.hs256.pem()
        #expect(throws: KeyFault("the signing key cannot be used for RS256")) { try signingKey(secret, .RS256) }
        #expect(throws: KeyFault.self) { try pemKeySet(secret) }
    }

    @Test func aGivenSecretHasNoKeyID() throws {
        let key = try secretKey("0123456789abcdef0123456789abcdef")
        let token = try key.issue(claims())
        #expect(fault(token, trust([key])) == nil)
        #expect(try inspect(token).header == #"{"alg":"HS256","typ":"JWT"}"#)
        #expect(throws: KeyFault("the shared secret cannot be used for HS512: it has 32 bytes and needs at least 64")) {
            try secretKey("0123456789abcdef0123456789abcdef", .HS512)
        }
    }

    @Test func furtherClaimsKeepTheirTypesAndTheirPlace() throws {
        var claims = claims()
        var added = [claims.add("role", .string("admin")), claims.add("n", .integer(-5)), claims.add("b", .boolean(true))]
        added.append(claims.add("list", .strings(["x", "y\n"])))
        #expect(added == [true, true, true, true])
        let refused = ["role", "sub", "exp", "iss", "token_type"].map { claims.add($0, .string("x")) }
        #expect(refused == [false, false, false, false, false])
        let token = try Keys.es256.issue(claims)
        #expect(
            try inspect(token).payload
                == #"{"iss":"https://issuer.test","aud":"api","sub":"u1","iat":1700000000,"exp":1700000600,"sid":"s1","email":"a\"b@x.test","role":"admin","n":-5,"b":true,"list":["x","y\n"]}"#
        )
    }

    @Test func aRefreshTokenOfOursIsNoBearer() throws {
        var claims = claims()
        claims.tokenType = "refresh"
        #expect(fault(try Keys.es256.issue(claims), trust([Keys.es256])) == .notAnAccessToken)
    }

    @Test func aRingHasOneActiveKeyAndPublishesTheNext() throws {
        let ring = try SigningKeyRing.generate(.ES256, now: start)
        #expect(ring.entries.map(\.state) == [.active, .next])
        #expect(ring.active.kid == ring.entries[0].key.kid)
        let published = try jwksKeySet(ring.jwks(now: start))
        #expect(published.keys.map(\.kid) == ring.entries.map(\.key.kid))
        #expect(published.keys.map(\.serial) == ring.keySet(now: start).keys.map(\.serial))
        #expect(published.keys.allSatisfy { $0.algorithms == AlgorithmSet(.ES256) })
    }

    @Test func rotationPromotesTheNextAndKeepsTheOldUntilItsLastTokenEnds() throws {
        var ring = try SigningKeyRing.generate(.ES256, now: start)
        let (old, next) = (ring.entries[0].key, ring.entries[1].key)
        let token = try ring.active.issue(claims())
        try ring.rotate(to: .ES256, lifetimeSeconds: 600, now: start)
        #expect(ring.active.kid == next.kid)
        #expect(ring.entries.map(\.state) == [.active, .next, .retired(until: now + 600)])
        func kids(_ seconds: Int64) -> [String?] { ring.keySet(now: WallTime(seconds: seconds)).keys.map(\.kid) }
        #expect(kids(now + 599).contains(old.kid))
        #expect(!kids(now + 600).contains(old.kid))
        let set = ring.keySet(now: WallTime(seconds: now + 599))
        let issuer = TrustedIssuer(
            name: "own", issuer: "https://issuer.test", audiences: ["api"], algorithms: .ecdsa, keys: set, isOwn: true)
        #expect(fault(token, Trust(issuers: [issuer]), at: now + 599) == nil)
        try ring.rotate(to: .ES256, lifetimeSeconds: 600, now: WallTime(seconds: now + 601))
        #expect(ring.entries.count == 3)
        #expect(!ring.entries.contains { $0.key.kid == old.kid })
    }

    @Test func rotationToAnotherAlgorithmMakesNewKeys() throws {
        var ring = try SigningKeyRing.generate(.ES256, now: start)
        let next = ring.entries[1].key.kid
        try ring.rotate(to: .EdDSA, lifetimeSeconds: 600, now: start)
        #expect(ring.active.algorithm == .EdDSA)
        #expect(ring.entries.map(\.key.algorithm) == [.EdDSA, .EdDSA, .ES256])
        #expect(!ring.entries.contains { $0.key.kid == next })
    }

    @Test(arguments: [SigningAlgorithm.ES256, .EdDSA, .RS256, .HS256])
    func aRingComesBackFromItsFile(_ algorithm: SigningAlgorithm) throws {
        var ring = try SigningKeyRing.generate(algorithm, now: start)
        try ring.rotate(to: .ES256, lifetimeSeconds: 5, now: start)
        let text = try ring.serialised()
        let again = try keyRing(String(decoding: text, as: UTF8.self))
        #expect(again.entries.map(\.key.kid) == ring.entries.map(\.key.kid))
        #expect(again.entries.map(\.state) == ring.entries.map(\.state))
        #expect(again.entries.map(\.createdAt) == ring.entries.map(\.createdAt))
        #expect(try again.serialised() == text)
        let windows = try keyRing(String(decoding: text, as: UTF8.self).replacing("\n", with: "\r\n"))
        #expect(windows.entries.count == ring.entries.count)
    }

    @Test func aBrokenRingIsRefusedWithItsLine() throws {
        let ring = try SigningKeyRing.generate(.ES256, now: start)
        let text = String(decoding: try ring.serialised(), as: UTF8.self)
        func message(_ text: String) -> String? {
            do throws(KeyFault) {
                _ = try keyRing(text)
                return nil
            } catch {
                return error.message
            }
        }
        #expect(message(text) == nil)
        #expect(message("# a note\n\n" + text) == nil)
        #expect(message("") == "the key ring has 0 active keys in place of one")
        #expect(message("hello\n") == "line 1: neither a key nor a comment")
        #expect(message(text.replacing("state=next", with: "state=active")) == "the key ring has 2 active keys in place of one")
        #expect(message(text.replacing("state=active", with: "state=next")) == "the key ring has 0 active keys in place of one")
        #expect(message(text.replacing("alg=ES256", with: "alg=none")) == "line 2: alg is missing or not known")
        #expect(
            message(text.replacing("alg=ES256", with: "alg=RS256"))
                == "the key that ends at line 7: the signing key cannot be used for RS256")
        #expect(
            message(text.replacing("state=next", with: "state=retired"))?.hasSuffix("state is not active, next, or retired with until")
                == true)
        #expect(message(text.replacing("created=", with: "created=x")) == "line 2: created is missing or no number")
        #expect(message(text.replacing("# key", with: "# kee")) == "line 7: the key above has no '# key' line")
        #expect(message(String(text.dropLast(30))) == "the key ring ends inside a key")
        #expect(message(text + "# key alg=ES256 state=next created=1\n") == "the key ring ends inside a key")
    }

    @Test func secretsAreNeverPublished() throws {
        let ring = try SigningKeyRing.generate(.HS256, now: start)
        #expect(ring.jwks(now: start) == Array(#"{"keys":[]}"#.utf8))
        let mixed = try SigningKeyRing.generate(.RS256, now: start)
        let text = String(decoding: mixed.jwks(now: start), as: UTF8.self)
        for member in [#""d":"#, #""p":"#, #""q":"#, #""k":"#, #""dp":"#] { #expect(!text.contains(member)) }
    }

    @Test func inspectionDecodesWithoutVerifying() throws {
        let token = try inspect("eyJhbGciOiJub25lIn0.e30.")
        #expect(token.header == #"{"alg":"none"}"#)
        #expect(token.payload == "{}")
        #expect(token.signatureBytes == 0)
        let broken = try inspect("e30=.e30x.A")
        #expect(broken.header == nil)
        #expect(broken.payload == nil)
        #expect(broken.signatureBytes == nil)
        #expect(throws: TokenFault.malformed) { try inspect("a.b") }
        #expect(throws: TokenFault.tooLarge) { try inspect(String(repeating: ".", count: 20000)) }
    }
}
