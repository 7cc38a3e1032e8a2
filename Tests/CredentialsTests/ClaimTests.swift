import Testing
import Wire

@testable import Credentials

/// The claims of tokens with a valid signature.
@Suite struct ClaimTests {
    private let key = Keys.hs256

    /// A payload with the usual claims, some of them replaced, removed (nil) or added.
    private func payload(_ changes: [(String, String?)]) -> String {
        var claims = [("iss", #""https://issuer.test""#), ("aud", #""api""#), ("sub", #""u1""#), ("exp", "1700000600")]
        for (name, value) in changes {
            claims.removeAll { $0.0 == name }
            if let value { claims.append((name, value)) }
        }
        return "{" + claims.map { #""\#($0.0)":\#($0.1)"# }.joined(separator: ",") + "}"
    }

    private func verdict(_ name: String, _ value: String?, _ trusted: Trust? = nil) -> TokenFault? {
        fault(Forge.token(payload: payload([(name, value)]), key: key), trusted ?? trust([key]))
    }

    @Test(
        arguments: [
            ("1700000600", nil), ("1700000600.9", nil), ("1.7000006e9", nil), ("253402300799", nil), ("1699999971", nil),
            ("1699999970", TokenFault.expired), ("1699999970.99", .expired), ("0", .expired), ("-0", .expired),
            ("-1700000600", .expired), ("-0.5", .expired), ("253402300800", .noExpiry), ("1700000600000", .noExpiry),
            ("1e400", .noExpiry), ("-1e400", .noExpiry), ("1e-400", .expired), ("9223372036854775807", .noExpiry),
            ("9223372036854775808", .noExpiry), ("1e18", .noExpiry), ("\"1700000600\"", .noExpiry), ("null", .noExpiry),
            ("true", .noExpiry), ("[1700000600]", .noExpiry), ("{}", .noExpiry),
        ] as [(String, TokenFault?)])
    func expiryIsADateOrTheTokenIsRefused(_ value: String, _ expected: TokenFault?) {
        #expect(verdict("exp", value) == expected)
    }

    @Test func aTokenWithoutExpiryIsRefused() { #expect(verdict("exp", nil) == .noExpiry) }

    @Test func aNumberOfManyDigitsTakesNoTime() {
        #expect(verdict("exp", String(repeating: "9", count: 9000)) == .noExpiry)
        #expect(verdict("exp", "0." + String(repeating: "9", count: 9000)) == .expired)
        #expect(verdict("exp", "1e" + String(repeating: "9", count: 9000)) == .noExpiry)
    }

    @Test(
        arguments: [
            ("1700000000", nil), ("1700000030", nil), ("1700000030.5", nil), ("1700000031", .notYetValid), ("-5", nil),
            ("1e400", .badClaim), ("null", .badClaim), ("\"1\"", .badClaim), ("1700000600000", .badClaim),
        ] as [(String, TokenFault?)])
    func notBeforeIsHonouredWithLeeway(_ value: String, _ expected: TokenFault?) {
        #expect(verdict("nbf", value) == expected)
    }

    @Test(
        arguments: [
            ("1700009999", nil), ("1e400", nil), ("-1", nil), ("0.5", nil), (nil, nil), ("\"x\"", .badClaim), ("\"1700000000\"", .badClaim),
            ("null", .badClaim), ("true", .badClaim), ("[]", .badClaim), ("[1700000000]", .badClaim), ("{}", .badClaim),
        ] as [(String?, TokenFault?)])
    func issuedAtIsAReasonToRefuseOnlyWhereItIsNoNumber(_ value: String?, _ expected: TokenFault?) {
        #expect(verdict("iat", value) == expected)
    }

    @Test(
        arguments: [
            ("1699996999", TokenFault.lifetimeTooLong), ("1699997000", nil), ("1700000600", nil), ("1700009999", nil),
            ("\"1\"", .badClaim), ("-1e400", .lifetimeTooLong), (nil, .lifetimeTooLong),
        ] as [(String?, TokenFault?)])
    func maxLifetimeBoundsExpiryMinusIssuedAt(_ value: String?, _ expected: TokenFault?) {
        #expect(verdict("iat", value, trust([key], maxLifetime: 3600)) == expected)
    }

    @Test(
        arguments: [
            (#""api""#, nil), (#"["x","api"]"#, nil), (#"["api"]"#, nil), (#""a\u0070i""#, nil), (#"[1,null,{"api":"api"},"api"]"#, nil),
            (#""API""#, .wrongAudience), (#""api ""#, .wrongAudience), (#"[]"#, .wrongAudience), (#"[["api"]]"#, .wrongAudience),
            (#"{"api":"api"}"#, .wrongAudience), (#"["x"]"#, .wrongAudience), ("null", .wrongAudience), (nil, .wrongAudience),
            ("1", .wrongAudience), ("true", .wrongAudience),
        ] as [(String?, TokenFault?)])
    func theAudienceMustBeOneOfOurs(_ value: String?, _ expected: TokenFault?) {
        #expect(verdict("aud", value) == expected)
        #expect(verdict("aud", value, trust([key], audiences: ["other", "api"])) == expected)
        #expect(verdict("aud", value, trust([key], audiences: [])) == nil)
    }

    @Test func anAudienceOfANumberDoesNotMatchItsText() {
        #expect(verdict("aud", "1", trust([key], audiences: ["1"])) == .wrongAudience)
        #expect(verdict("aud", "[1]", trust([key], audiences: ["1"])) == .wrongAudience)
    }

    @Test(
        arguments: [
            (#""a""#, nil), (#""Zoë""#, nil), (#""a b""#, nil), (#""auth0|123""#, nil), (#""日本""#, nil),
            (#""""#, .noSubject), ("null", .noSubject), (nil, .noSubject), ("5", .noSubject), (#"["a"]"#, .noSubject),
            ("{}", .noSubject), ("true", .noSubject),
            (#""a\u0000b""#, .unsafeClaim), (#""a\r\nX-User-Tier: premium""#, .unsafeClaim), (#""a\n""#, .unsafeClaim),
            (#""\t""#, .unsafeClaim), (#""a\u007f""#, .unsafeClaim), (#""a\u0085b""#, .unsafeClaim), (#"" a""#, .unsafeClaim),
            (#""a ""#, .unsafeClaim), (#"" ""#, .unsafeClaim),
        ] as [(String?, TokenFault?)])
    func theUserIsANonEmptyStringFitForAHeader(_ value: String?, _ expected: TokenFault?) {
        #expect(verdict("sub", value) == expected)
    }

    /// Django's ids are numbers; `sub` is a string by RFC 7519.
    @Test func anotherUserClaimMayBeAWholeNumber() {
        func named(_ value: String) -> TokenFault? { verdict("user_id", value, trust([key], userClaim: "user_id")) }
        #expect(named("42") == nil && named(#""42""#) == nil && named("0") == nil)
        for value in ["-1", "4.5", "1e3", "true", "null", "[42]"] { #expect(named(value) == .noSubject, "\(value)") }
    }

    @Test func theUserHasAtMost256Bytes() {
        #expect(verdict("sub", #""\#(String(repeating: "u", count: 256))""#) == nil)
        #expect(verdict("sub", #""\#(String(repeating: "u", count: 257))""#) == .noSubject)
        #expect(verdict("sub", #""\#(String(repeating: "ü", count: 129))""#) == .noSubject)
    }

    @Test(arguments: ["email", "tier", "sid", "actor_type", "actor_id"])
    func theOtherTextsAreOptionalButNeverUnsafe(_ name: String) {
        for absent in [nil, "null", "5", "true", "[\"a\"]", "{}", #""""#] { #expect(verdict(name, absent) == nil) }
        #expect(verdict(name, #""a\r\nb""#) == .unsafeClaim)
        #expect(verdict(name, #""a\u0000""#) == .unsafeClaim)
        #expect(verdict(name, #""\#(String(repeating: "u", count: 257))""#) == .unsafeClaim)
    }

    @Test(arguments: ["actor_type", "actor_id"])
    func anActorClaimOfAnyTypeCounts(_ name: String) throws {
        for (claim, hasActor) in [
            (nil, false), ("null", false), (#""""#, false), (#""m1""#, true), ("42", true), ("0", true), ("false", true), ("[]", true),
            ("{}", true),
        ] as [(String?, Bool)] {
            let token = Forge.token(payload: payload([(name, claim)]), key: key)
            #expect(try verify(token, trust([key])).get().hasActor == hasActor, "\(claim ?? "absent")")
        }
    }

    @Test func aTokenIDIsOnlyForLogs() throws {
        for value in [#""a\r\nb""#, #""\#(String(repeating: "u", count: 300))""#, "5"] {
            let token = Forge.token(payload: payload([("jti", value)]), key: key)
            #expect(try verify(token, trust([key])).get().tokenID.text == "")
        }
    }

    @Test(arguments: ["token_type", "token_use", "typ"])
    func refreshAndIDTokensAreNoBearers(_ name: String) {
        for use in ["refresh", "Refresh", "REFRESH", "id", "ID", "Offline", "refresh_token", "id_token", "r\\u0065fresh"] {
            #expect(verdict(name, #""\#(use)""#) == .notAnAccessToken)
        }
        for use in [#""access""#, #""Bearer""#, #""JWT""#, #""""#, "null", "1"] { #expect(verdict(name, use) == nil) }
    }

    @Test func everythingIsReadOff() throws {
        let more: [(String, String?)] = [
            ("email", #""a\u0040b.test""#), ("tier", #""premium""#), ("sid", #""s1""#), ("jti", #""j1""#), ("iat", "1699999999.5"),
            ("actor_type", #""org""#), ("actor_id", #""o1""#), ("sub", #""\u00e4""#),
        ]
        let token = try verify(Forge.token(payload: payload(more), key: key), trust([key])).get()
        #expect(token.userID.text == "ä")
        #expect(token.email.text == "a@b.test")
        #expect(token.tier.text == "premium")
        #expect(token.sessionID.text == "s1")
        #expect(token.tokenID.text == "j1")
        #expect(token.actorType.text == "org")
        #expect(token.actorID.text == "o1")
        #expect(token.issuedAt == 1_699_999_999)
        #expect(token.expiresAt == 1_700_000_600)
        #expect(token.keyID == key.kid)
        #expect(token.keySerial == key.verificationKey.serial)
        #expect(token.algorithm == .HS256)
        #expect(!token.isOwn)
    }

    @Test func anIssuerMayNameItsOwnClaims() throws {
        let issuer = TrustedIssuer(
            name: "other", issuer: "https://issuer.test", audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]),
            userClaim: "https://x.test/user", tierClaim: "plan", emailClaim: "mail", isOwn: true)
        let more: [(String, String?)] = [
            ("https://x.test/user", #""u2""#), ("plan", #""gold""#), ("mail", #""m@x""#), ("tier", #""free""#), ("sub", "5"),
        ]
        let token = try verify(Forge.token(payload: payload(more), key: key), Trust(issuers: [issuer])).get()
        #expect(token.userID.text == "u2")
        #expect(token.tier.text == "gold")
        #expect(token.email.text == "m@x")
        #expect(token.isOwn)
    }

    @Test func requirementsCompareAsText() throws {
        let wanted: [(String, String, String, Bool)] = [
            ("a", "x", #""x""#, true), ("a", "x", #""\u0078""#, true), ("a", "x", #""X""#, false), ("a", "5", "5", true),
            ("a", "5", "5.0", false), ("a", "true", "true", true), ("a", "false", "false", true), ("a", "true", "false", false),
            ("a", "x", #"["y","x"]"#, true), ("a", "5", "[1,5]", true), ("a", "true", "[true]", true),
            ("a", "x", #"[["x"]]"#, false), ("a", "x", #"[{"x":"x"}]"#, false), ("a", "x", #"{"x":"x"}"#, false),
            ("a", "null", "null", false), ("a", "null", "[null]", false), ("b", "x", #""x""#, false), ("a", "", #""""#, true),
        ]
        for (name, value, claim, holds) in wanted {
            let requirement = ClaimRequirement(name: name, value: value)
            let token = Forge.token(payload: payload([("a", claim)]), key: key)
            let mask = try verify(token, trust([key], requirements: [requirement])).get().requirementMask
            #expect(mask == (holds ? 1 : 0), "\(name)=\(value) against \(claim)")
        }
    }

    @Test func requirement63IsTheHighestBit() throws {
        let requirements = (0..<64).map { ClaimRequirement(name: "a", value: "\($0)") }
        let token = Forge.token(payload: payload([("a", "[0,63,7]")]), key: key)
        let mask = try verify(token, trust([key], requirements: requirements)).get().requirementMask
        let expected: UInt64 = 1 << 63 | 1 << 7 | 1
        #expect(mask == expected)
    }

    /// Faults about claims are reported only for tokens with a valid signature.
    @Test func aBadSignatureHidesEverythingElse() {
        for changes in [
            [("exp", "1")], [("nbf", "1800000000")], [("aud", #""x""#)], [("sub", "5")], [("typ", #""id""#)], [("sub", #""\n""#)],
        ] as [[(String, String?)]] {
            let token = Forge.token(payload: payload(changes), key: key)
            #expect(fault(token, trust([key])) != nil)
            let forged = Forge.token(
                header: #"{"alg":"HS256","kid":"\#(key.kid!)"}"#, payload: payload(changes), key: Keys.make(.HS256))
            #expect(fault(forged, trust([key])) == .badSignature)
        }
    }
}
