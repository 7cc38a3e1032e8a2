import Testing
import Wire

@testable import Credentials

/// The selection of issuer and key for a token.
@Suite struct TrustTests {
    private let first = Keys.hs256
    private let second = Keys.make(.HS256)

    private func issuer(
        _ name: String?, _ keys: [SigningKey]?, audiences: [String] = [], algorithms: AlgorithmSet = [.hmac, .asymmetric]
    ) -> TrustedIssuer {
        TrustedIssuer(
            name: name ?? "nameless", issuer: name, audiences: audiences, algorithms: algorithms,
            keys: keys.map { KeySet($0.map(\.verificationKey)) })
    }

    private func payload(_ iss: String?, _ more: String = "") -> String {
        #"{"# + (iss.map { #""iss":\#($0),"# } ?? "") + #""sub":"u1","exp":1700000600\#(more)}"#
    }

    @Test func theIssuerIsTakenByItsExactName() throws {
        let trusted = Trust(issuers: [issuer("a", [first]), issuer("b", [second]), issuer(nil, [Keys.es256])])
        let cases: [(String?, SigningKey, Int?)] = [
            (#""a""#, first, 0), (#""b""#, second, 1), (nil, Keys.es256, 2), (#""\u0061""#, first, 0),
            (#""A""#, first, nil), (#""a/""#, first, nil), (#""""#, first, nil), ("null", Keys.es256, nil), ("1", first, nil),
            (#"["a"]"#, first, nil),
        ]
        for (iss, key, index) in cases {
            let result = verify(Forge.token(payload: payload(iss), key: key), trusted)
            if let index { #expect(try result.get().issuerIndex == index) } else { #expect(result.fault == .wrongIssuer) }
        }
    }

    @Test func oneIssuersKeyDoesNotSignForAnother() {
        let trusted = Trust(issuers: [issuer("a", [first]), issuer("b", [second])])
        #expect(fault(Forge.token(payload: payload(#""a""#), key: second), trusted) == .unknownKey(issuer: 0))
        let nameless = Forge.token(header: #"{"alg":"HS256"}"#, payload: payload(#""b""#), key: first)
        #expect(fault(nameless, trusted) == .badSignature)
        #expect(fault(Forge.token(payload: payload(nil), key: first), trusted) == .wrongIssuer)
    }

    @Test func withoutKeysTheFaultIsOurs() {
        let trusted = Trust(issuers: [issuer("a", [first]), issuer("b", nil)])
        let result = fault(Forge.token(payload: payload(#""b""#), key: second), trusted)
        #expect(result == .keysUnavailable(issuer: 1))
        #expect(result?.issuerWithoutKeys == 1)
        #expect(result?.issuerOfUnknownKey == nil)
    }

    @Test func anUnknownKeyNamesTheIssuerToAskAgain() {
        let trusted = Trust(issuers: [issuer("a", [first]), issuer("b", [second])])
        let result = fault(Forge.token(payload: payload(#""b""#), key: Keys.make(.HS256)), trusted)
        #expect(result == .unknownKey(issuer: 1))
        #expect(result?.issuerOfUnknownKey == 1)
    }

    @Test func anIssuerBoundToAnotherAlgorithmRefuses() {
        let trusted = Trust(issuers: [issuer("a", [first, Keys.es256], algorithms: .ecdsa)])
        #expect(fault(Forge.token(payload: payload(#""a""#), key: first), trusted) == .algorithmNotAllowed)
        #expect(fault(Forge.token(payload: payload(#""a""#), key: Keys.es256), trusted) == nil)
    }

    @Test func withoutAKeyIDEveryFittingKeyIsTried() throws {
        let keys = [Keys.rs256, second, Keys.es256, first, Keys.eddsa]
        let trusted = Trust(issuers: [issuer("a", keys)])
        for key in keys {
            let token = Forge.token(header: #"{"alg":"\#(key.algorithm.name)"}"#, payload: payload(#""a""#), key: key)
            #expect(try verify(token, trusted).get().keyID == key.kid)
        }
        let stranger = Forge.token(header: #"{"alg":"HS256"}"#, payload: payload(#""a""#), key: Keys.make(.HS256))
        #expect(fault(stranger, trusted) == .badSignature)
    }

    @Test func aKeyWithoutIDServesTokensOfAnyID() throws {
        let secret = try secretKey("0123456789abcdef0123456789abcdef")
        let trusted = Trust(issuers: [issuer("a", [secret])])
        for header in [#"{"alg":"HS256","kid":"x"}"#, #"{"alg":"HS256"}"#, #"{"alg":"HS256","kid":""}"#] {
            #expect(fault(Forge.token(header: header, payload: payload(#""a""#), key: secret), trusted) == nil)
            #expect(fault(Forge.token(header: header, payload: payload(#""a""#), key: first), trusted) == .badSignature)
        }
        let mixed = Trust(issuers: [issuer("a", [secret, first])])
        let unknown = Forge.token(header: #"{"alg":"HS256","kid":"x"}"#, payload: payload(#""a""#), key: second)
        #expect(fault(unknown, mixed) == .unknownKey(issuer: 0))
        let known = Forge.token(header: #"{"alg":"HS256","kid":"\#(first.kid!)"}"#, payload: payload(#""a""#), key: second)
        #expect(fault(known, mixed) == .badSignature)
    }

    @Test func ofSeveralIssuersOfOneNameTheFittingOneIsFound() throws {
        let trusted = Trust(issuers: [
            issuer("a", [first], audiences: ["web"]), issuer("a", [first], audiences: ["app"]), issuer("a", [second]),
        ])
        let app = Forge.token(payload: payload(#""a""#, #","aud":"app""#), key: first)
        #expect(try verify(app, trusted).get().issuerIndex == 1)
        #expect(try verify(Forge.token(payload: payload(#""a""#), key: second), trusted).get().issuerIndex == 2)
    }

    @Test func theFaultOfTheFurthestIssuerIsReported() {
        let token = Forge.token(payload: payload(#""a""#, #","aud":"x""#), key: first)
        func told(_ issuers: [TrustedIssuer], at seconds: Int64 = now) -> [TokenFault?] {
            [issuers, issuers.reversed()].map { fault(token, Trust(issuers: $0), at: seconds) }
        }
        let other = issuer("a", [second])
        let unnamed = issuer("a", [try! secretKey("0123456789abcdef0123456789abcdef")])
        let notAllowed = issuer("a", [first], algorithms: .rsa)
        let wrongAudience = issuer("a", [first], audiences: ["y"])
        #expect(told([other, notAllowed]) == [.unknownKey(issuer: 0), .unknownKey(issuer: 1)])
        #expect(told([unnamed, notAllowed]) == [.badSignature, .badSignature])
        #expect(told([unnamed, wrongAudience]) == [.wrongAudience, .wrongAudience])
        #expect(told([other, wrongAudience, notAllowed]) == [.wrongAudience, .wrongAudience])
        #expect(told([issuer("a", [first]), wrongAudience], at: now + 6000) == [.expired, .expired])
        // The missing key set might hold the key: this is no 401.
        #expect(told([unnamed, issuer("a", nil)]) == [.keysUnavailable(issuer: 1), .keysUnavailable(issuer: 0)])
    }

    @Test func aNewSnapshotCountsAtOnce() {
        var verifier = TokenVerifier()
        let token = Forge.token(payload: payload(#""a""#), key: first).bytes
        let with = Trust(issuers: [issuer("a", [first])])
        let without = Trust(issuers: [issuer("a", [second])])
        for (trusted, expected) in [(with, nil), (without, .unknownKey(issuer: 0)), (with, nil)] as [(Trust, TokenFault?)] {
            let result = verifier.verify(token.rawBytes, trust: trusted, now: WallTime(seconds: now))
            #expect(result.fault == expected)
        }
    }

    /// Workers share the snapshot and its keys, and nothing else.
    @Test func manyWorkersVerifyWithTheSameKeysAtOnce() async {
        let keys = [first, Keys.rs256, Keys.es256, Keys.eddsa]
        let trusted = Trust(issuers: [issuer("a", keys)])
        let tokens = keys.map { Forge.token(payload: payload(#""a""#), key: $0).bytes }
        let verified = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 { group.addTask { countVerified(tokens, trusted, rounds: 25) } }
            return await group.reduce(0, +)
        }
        #expect(verified == 4 * 25 * tokens.count)
    }

    @Test func theVerifierKeepsTheAlgorithmOfTheLastToken() {
        var verifier = TokenVerifier()
        let cases: [(String, SigningAlgorithm?)] = [
            (Forge.token(payload: "{}", key: Keys.es256), .ES256), ("x", nil), (Forge.token(payload: "{}", key: first), .HS256),
            (Forge.token(header: #"{"alg":"none"}"#, key: first), nil),
        ]
        for (token, expected) in cases {
            let bytes = token.bytes
            _ = verifier.verify(bytes.rawBytes, trust: Trust(issuers: []), now: WallTime(seconds: now))
            let last = verifier.lastAlgorithm
            #expect(last == expected)
        }
    }

    @Test func rulesAreTheSameWhenOnlyKeysChange() {
        func make(_ issuers: [TrustedIssuer], skew: Int64 = 30) -> Trust {
            Trust(issuers: issuers, clockSkewSeconds: skew, requirements: [ClaimRequirement(name: "a", value: "b")])
        }
        let base = make([issuer("a", [first])])
        #expect(base.hasSameRules(as: make([issuer("a", [second])])))
        #expect(base.hasSameRules(as: make([issuer("a", nil)])))
        #expect(!base.hasSameRules(as: make([issuer("b", [first])])))
        #expect(!base.hasSameRules(as: make([issuer("a", [first], audiences: ["x"])])))
        #expect(!base.hasSameRules(as: make([issuer("a", [first])], skew: 31)))
        #expect(!base.hasSameRules(as: make([issuer("a", [first]), issuer("c", [first])])))
        #expect(!base.hasSameRules(as: Trust(issuers: [issuer("a", [first])])))
        var renamed = issuer("a", [first])
        renamed.name = "other"
        #expect(!base.hasSameRules(as: make([renamed])))
        #expect(base.liveKeySerials == [first.verificationKey.serial])
    }

    @Test func everyFaultHasItsOwnDescriptionFitForAHeader() {
        let faults: [TokenFault] = [
            .tooLarge, .malformed, .duplicateMember, .unsupportedAlgorithm, .criticalExtension, .wrongIssuer,
            .algorithmNotAllowed, .keysUnavailable(issuer: 0), .unknownKey(issuer: 0), .badSignature, .expired,
            .notYetValid, .noExpiry, .wrongAudience, .lifetimeTooLong, .notAnAccessToken, .noSubject, .unsafeClaim,
            .badClaim,
        ]
        #expect(Set(faults.map { $0.errorDescription.description }).count == faults.count)
        for fault in faults {
            let safe = fault.errorDescription.description.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }
            #expect(safe)
        }
    }
}

private func countVerified(_ tokens: [[UInt8]], _ trust: Trust, rounds: Int) -> Int {
    var verifier = TokenVerifier()
    var verified = 0
    for _ in 0..<rounds {
        for token in tokens {
            let result = verifier.verify(token.rawBytes, trust: trust, now: WallTime(seconds: now))
            if result.fault == nil { verified += 1 }
        }
    }
    return verified
}
