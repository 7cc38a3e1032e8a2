import Testing
import Wire

@testable import Credentials

/// Tokens that a gateway signs for upstreams, and `auth_time`.
@Suite struct IdentityTokenTests {
    private static let claims = #"{"iss":"https://issuer.test","aud":"api","sub":"u1","iat":1700000000,"exp":1700000060}"#

    private static func trust(_ key: SigningKey, audiences: [String] = [], use: TokenUse = .access) -> Trust {
        var issuer = TrustedIssuer(
            name: "own", issuer: "https://issuer.test", audiences: audiences, algorithms: AlgorithmSet(key.algorithm),
            keys: KeySet([key.verificationKey]))
        issuer.use = use
        return Trust(issuers: [issuer])
    }

    private static func verify(_ token: RawSpan, _ trust: Trust) -> Result<VerifiedToken, TokenFault> {
        var verifier = TokenVerifier()
        return verifier.verify(token, trust: trust, now: WallTime(seconds: now))
    }

    private static func issue(_ key: SigningKey) throws -> [UInt8] {
        guard let token = claims.withRawBytes({ key.identityToken($0) }) else { throw KeyFault("not signed") }
        return token
    }

    @Test(arguments: [SigningAlgorithm.ES256, .EdDSA, .RS256])
    func itIsSignedByTheKeyAndSaysSoInItsHeader(_ algorithm: SigningAlgorithm) throws {
        let key = algorithm == .ES256 ? Keys.es256 : algorithm == .EdDSA ? Keys.eddsa : Keys.rs256
        let token = try Self.issue(key)
        let inspection = try TokenInspection(token.rawBytes)
        #expect(inspection.header == #"{"alg":"\#(algorithm.name)","typ":"tollgate-identity+jwt","kid":"\#(key.kid ?? "")"}"#)
        #expect(inspection.payload == Self.claims)
        let parts = try TokenParts(token.rawBytes)
        let decoded = Base64URL.decode(token.rawBytes[parts.signature])
        var contexts = SignatureContexts()
        var signature = ByteBuffer()
        signature.append(try #require(decoded))
        let isProven = contexts.prove(signature, over: token.rawBytes[parts.signed], algorithm, by: key.verificationKey) != nil
        #expect(isProven)
    }

    /// For any trusted audience and use; the same claims under another type pass.
    @Test func noVerifierTakesIt() throws {
        let key = Keys.es256
        let token = try Self.issue(key)
        for use in [TokenUse.access, .identity, .refresh] {
            guard case .failure(.notAnAccessToken) = Self.verify(token.rawBytes, Self.trust(key, use: use)) else {
                Issue.record("\(use) takes it")
                continue
            }
        }
        guard case .failure(.notAnAccessToken) = Self.verify(token.rawBytes, Self.trust(key, audiences: ["api"])) else {
            return #expect(Bool(false))
        }
        let plain = try Self.claims.withRawBytes { try key.sign($0, type: "JWT") }
        guard case .success = Self.verify(plain.rawBytes, Self.trust(key)) else { return #expect(Bool(false)) }
    }

    /// A header that was read before must not let it pass.
    @Test func theHeaderOfTheTokenBeforeDoesNotCount() throws {
        let key = Keys.es256
        let (token, plain) = (try Self.issue(key), try Self.claims.withRawBytes { try key.sign($0, type: "JWT") })
        let trust = Self.trust(key)
        var verifier = TokenVerifier()
        var verdicts: [Bool] = []
        for text in [plain, token, token, plain, token] {
            if case .success = verifier.verify(text.rawBytes, trust: trust, now: WallTime(seconds: now)) {
                verdicts.append(true)
            } else {
                verdicts.append(false)
            }
        }
        #expect(verdicts == [true, false, false, true, false])
    }

    @Test func aSharedSecretSignsNone() {
        #expect(Self.claims.withRawBytes { Keys.hs256.identityToken($0) == nil })
    }

    @Test(
        arguments: [
            (#""auth_time":1699990000"#, 1_699_990_000), (#""auth_time":1699990000.9"#, 1_699_990_000), (#""auth_time":"1699990000""#, nil),
            (#""auth_time":null"#, nil), (#""auth_time":1e30"#, nil), (#""x":1"#, nil),
        ] as [(String, Int64?)])
    func theTimeOfTheSignInIsRead(_ member: String, _ expected: Int64?) throws {
        let payload = #"{"iss":"https://issuer.test","sub":"u1","exp":1700000060,\#(member)}"#
        let token = Forge.token(payload: payload, key: Keys.es256)
        guard case .success(let verified) = token.withRawBytes({ Self.verify($0, Self.trust(Keys.es256)) }) else {
            return #expect(Bool(false))
        }
        #expect(verified.authenticatedAt == expected)
    }

    @Test(arguments: [
        (#"{"aud":"api"}"#, ["api"]), (#"{"aud":["a","b"]}"#, ["a", "b"]), (#"{"aud":["a",1,["c"]]}"#, ["a"]), (#"{"aud":7}"#, []),
        ("{}", []),
    ])
    func audiencesAreListed(_ payload: String, _ expected: [String]) {
        let token = Forge.token(payload: payload, key: Keys.es256)
        #expect(token.withRawBytes { UnverifiedClaims($0, userClaim: "sub")?.audiences } == expected)
    }
}
