import Credentials
import Testing
import Wire

@testable import Gate

@Suite struct RefusedTokensTests {
    private let rules = [rule("api", "/api/*")]
    private let hash = KeyedHash(first: 5, second: 6)

    private func key(_ token: String, _ tokens: borrowing RefusedTokens) -> LimitKey { token.withRawBytes { tokens.key(of: $0) } }

    @Test func aTokenIsFoundWithItsAlgorithmUntilTheCacheIsEmptied() {
        var tokens = RefusedTokens(hash: hash)
        let refused = key("head.claims.signature", tokens)
        #expect(tokens.find(refused) == nil)
        tokens.insert(refused, .ES256)
        #expect(tokens.find(refused) == .ES256)
        for other in ["Head.claims.signature", "head.claims.signaturf", "head.claims.signatur", "head.claims.signature="] {
            #expect(tokens.find(key(other, tokens)) == nil)
        }
        tokens.removeAll()
        #expect(tokens.find(refused) == nil)
    }

    @Test func aFloodOfTokensTakesBoundedMemory() {
        var tokens = RefusedTokens(hash: hash)
        for number in 0..<3 * RefusedTokens.maxTokens { tokens.insert(key("token-\(number)", tokens), .HS256) }
        #expect(tokens.count <= RefusedTokens.maxTokens)
        #expect(tokens.find(key("token-\(3 * RefusedTokens.maxTokens - 1)", tokens)) == .HS256)
    }

    @Test func aBadSignatureIsCheckedOnceAndRefusedAlikeEachTime() throws {
        let harness = try AdmissionHarness(rules)
        let bad = AdmissionHarness.token(key: AdmissionHarness.otherKey)
        let first = harness.get("/api/x", token: bad)
        #expect(first.code == "UNAUTHORIZED" && first.reason == .badSignature)
        #expect(harness.admission.verifier.lastAlgorithm == .HS256)
        // Leaves the verifier without an algorithm.
        #expect(harness.get("/api/x", token: "a.b.c").reason == .malformed)
        #expect(harness.get("/api/x", token: bad) == first)
        #expect(harness.admission.verifier.lastAlgorithm == nil, "it was verified again")
        #expect(harness.get("/api/x", token: AdmissionHarness.token()).status == 0)
    }

    @Test func aKeyThatArrivesLaterVerifiesTheTokenThatWasRefused() throws {
        let harness = try AdmissionHarness(rules)
        let token = AdmissionHarness.token(key: AdmissionHarness.otherKey)
        for _ in 0..<2 { #expect(harness.get("/api/x", token: token).reason == .badSignature) }
        let trust = AdmissionHarness.trust([AdmissionHarness.trusted(AdmissionHarness.otherKey)])
        harness.admission.adopt(try Policy(rules: rules, trust: trust))
        #expect(harness.get("/api/x", token: token).status == 0)
        harness.admission.adopt(try Policy(rules: rules, trust: AdmissionHarness.trust()))
        #expect(harness.get("/api/x", token: token).reason == .badSignature)
    }

    @Test func otherFaultsAreJudgedEachTime() throws {
        let harness = try AdmissionHarness(rules)
        let token = AdmissionHarness.token(lifetime: -120)
        for _ in 0..<2 { #expect(harness.get("/api/x", token: token).reason == .expired) }
        harness.now.wall = WallTime(seconds: harness.now.wall.seconds - 600)
        #expect(harness.get("/api/x", token: token).status == 0)
    }
}
