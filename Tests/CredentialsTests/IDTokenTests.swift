import Testing
import Wire

@testable import Credentials

/// The validation of ID tokens of Apple and Google.
@Suite struct IDTokenTests {
    private let key = Keys.rs256
    private let clients = ["com.example.app", "web.example"]

    private func rules(
        keys: [SigningKey]? = nil, unnamedNonce: IDTokenRules.UnnamedNonce = .ignored, trustsEmail: Bool = true
    ) -> IDTokenRules {
        IDTokenRules(
            provider: "google", issuers: ["https://accounts.google.com", "accounts.google.com"], clientIDs: clients,
            keys: KeySet((keys ?? [key]).map(\.verificationKey)), unnamedNonce: unnamedNonce, trustsEmail: trustsEmail)
    }

    /// A token with the usual claims, some of them replaced, removed (nil) or added.
    private func token(_ changes: [(String, String?)] = [], key: SigningKey? = nil) -> String {
        var claims = [
            ("iss", #""https://accounts.google.com""#), ("aud", #""com.example.app""#), ("sub", #""1234""#),
            ("exp", "1700000600"), ("iat", "1700000000"), ("email", #""Ada@example.com""#), ("email_verified", "true"),
        ]
        for (name, value) in changes {
            claims.removeAll { $0.0 == name }
            if let value { claims.append((name, value)) }
        }
        return Forge.token(
            payload: "{" + claims.map { #""\#($0.0)":\#($0.1)"# }.joined(separator: ",") + "}", key: key ?? self.key)
    }

    private func verify(_ text: String, nonce: String? = nil, _ rules: IDTokenRules? = nil) -> Result<IDToken, IDTokenFault> {
        text.withRawBytes { (rules ?? self.rules()).verify($0, nonce: nonce, now: WallTime(seconds: now)) }
    }

    private func fault(_ changes: [(String, String?)], nonce: String? = nil) -> IDTokenFault? {
        switch verify(token(changes), nonce: nonce) {
        case .success: nil
        case .failure(let fault): fault
        }
    }

    @Test func itReturnsSubjectAndEmail() throws {
        let said = try verify(token()).get()
        #expect(said.subject == "1234")
        #expect(said.email == "Ada@example.com")
        #expect(said.isEmailVerified)
    }

    @Test func itSaysWhenTheUserWasThere() throws {
        #expect(try verify(token()).get().authenticatedAt == 1_700_000_000)
        #expect(try verify(token([("auth_time", "1699990000")])).get().authenticatedAt == 1_699_990_000)
        #expect(try verify(token([("iat", nil)])).get().authenticatedAt == nil)
    }

    /// The changed claims of a notification, and whether it tells of a user; nil for one that is not authentic.
    @Test func aNotificationIsProvenBySignatureIssuerAndAudience() {
        let event = #"{"type":"email-disabled","sub":"1","email":"a@x","event_time":1700000000}"#
        let text = "\"\(event.replacing("\"", with: "\\\""))\""
        let milliseconds = event.replacing("1700000000", with: "1700000000123")
        let cases: [([(String, String?)], Bool?)] = [
            ([("events", text)], true), ([("events", event)], true), ([("events", milliseconds)], true),
            ([("events", event), ("exp", nil), ("sub", nil), ("iat", nil)], true), ([("events", event), ("exp", "1")], true),
            ([], false), ([("events", "\"x\"")], false), ([("events", "[]")], false), ([("events", "1")], false),
            ([("events", event.replacing("1700000000", with: "\"1\""))], false), ([("events", event.replacing("sub", with: "s"))], false),
            ([("events", event), ("aud", #""other""#)], nil), ([("events", event), ("iss", #""https://x""#)], nil),
        ]
        for (changes, says) in cases {
            switch token(changes).withRawBytes({ rules().notice($0) }) {
            case .success(let notice):
                let told = notice.map { ($0.type, $0.subject, $0.email, $0.at) == ("email-disabled", "1", "a@x", 1_700_000_000) }
                #expect((told ?? false) == says, "\(changes)")
            case .failure: #expect(says == nil, "\(changes)")
            }
        }
        let forged = token([("events", event)], key: Keys.es256)
        for rules in [rules(), rules(keys: [])] {
            if case .success = forged.withRawBytes({ rules.notice($0) }) { Issue.record("another key signed it") }
        }
    }

    @Test func bothSpellingsOfTheIssuerWillDo() {
        #expect(fault([("iss", #""accounts.google.com""#)]) == nil)
        #expect(fault([("iss", #""https://accounts.google.com/""#)]) == .token(.wrongIssuer))
        #expect(fault([("iss", #""https://appleid.apple.com""#)]) == .token(.wrongIssuer))
        #expect(fault([("iss", nil)]) == .token(.wrongIssuer))
    }

    @Test func oneOfTheAppsMustBeMeant() {
        #expect(fault([("aud", #""web.example""#)]) == nil)
        #expect(fault([("aud", #"["web.example"]"#)]) == nil)
        #expect(fault([("aud", #""other""#)]) == .token(.wrongAudience))
        #expect(fault([("aud", nil)]) == .token(.wrongAudience))
    }

    /// `aud`, `azp`, and whether the token is accepted (OpenID Connect Core §3.1.3.7). With a single audience `azp` is ignored: in
    /// Google's flow for Android it is the app, and `aud` the server.
    @Test(
        arguments: [
            (#""com.example.app""#, #""android.example""#, true), (#"["com.example.app"]"#, #""android.example""#, true),
            (#""com.example.app""#, nil, true), (#""com.example.app""#, "5", true),
            (#"["other","com.example.app"]"#, nil, false), (#"["com.example.app","web.example"]"#, nil, false),
            (#"["other","com.example.app"]"#, #""other""#, false), (#"["other","com.example.app"]"#, #""""#, false),
            (#"["other","com.example.app"]"#, "null", false), (#"["other","com.example.app"]"#, #"["com.example.app"]"#, false),
            (#"["com.example.app","com.example.app"]"#, nil, false), (#"["com.example.app",5]"#, nil, false),
            (#"["com.example.app",["web.example"]]"#, nil, false),
            (#"["other","com.example.app"]"#, #""com.example.app""#, true), (#"["other","com.example.app"]"#, #""web.example""#, true),
            (#"["other","com.example.app"]"#, #""com.\u0065xample.app""#, true), (#"["other"]"#, #""com.example.app""#, false),
            (#"["other","another"]"#, #""com.example.app""#, false),
        ] as [(String, String?, Bool)])
    func ofSeveralAudiencesOneOfTheAppsMustHaveAskedForIt(_ audience: String, _ party: String?, _ isAccepted: Bool) {
        #expect((fault([("aud", audience), ("azp", party)]) == nil) == isAccepted)
    }

    @Test(
        arguments: [
            ("true", true), (#""true""#, true), ("false", false), (#""false""#, false), (#""TRUE""#, false), ("1", false),
            ("null", false), (nil, false),
        ] as [(String?, Bool)])
    func theEmailIsVerifiedOnlyByTheClaim(_ claim: String?, _ expected: Bool) throws {
        #expect(try verify(token([("email_verified", claim)])).get().isEmailVerified == expected)
    }

    @Test func theClaimOfAProviderThatIsNotTrustedVerifiesNothing() throws {
        let found = try verify(token([("email_verified", "true")]), rules(trustsEmail: false)).get()
        #expect(!found.isEmailVerified && found.email != nil)
    }

    @Test func aTokenWithoutEmailHasNone() throws {
        #expect(try verify(token([("email", nil)])).get().email == nil)
        #expect(try verify(token([("email", "null")])).get().email == nil)
    }

    @Test(
        arguments: [
            ("1700000000", nil), ("1700000060", nil), ("1700000061", IDTokenFault.issuedInTheFuture), ("1", nil), (nil, nil),
            (#""1""#, .token(.badClaim)), ("1700000000000", .issuedInTheFuture),
        ] as [(String?, IDTokenFault?)])
    func itWasNotIssuedInTheFuture(_ claim: String?, _ expected: IDTokenFault?) {
        #expect(fault([("iat", claim)]) == expected)
    }

    /// The SHA-256 of `abc`.
    private static let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    @Test(
        arguments: [
            (nil, nil, nil), ("x", nil, nil), ("abc", "abc", nil), (hash, "abc", nil), (hash, hash, nil),
            ("abc", "abd", IDTokenFault.wrongNonce), (nil, "abc", .wrongNonce), ("abc", hash, .wrongNonce), (nil, "", .wrongNonce),
            ("", "abc", .wrongNonce),
        ] as [(String?, String?, IDTokenFault?)])
    func theNonceIsTheCallersOrItsHash(_ claim: String?, _ nonce: String?, _ expected: IDTokenFault?) {
        #expect(fault([("nonce", claim.map { #""\#($0)""# })], nonce: nonce) == expected)
    }

    /// Whether a token with this nonce is accepted from a provider that adds none itself.
    @Test(
        arguments: [
            (nil, nil, true), (#""abc""#, nil, false), (#""""#, nil, false), ("null", nil, false), ("5", nil, false),
            (#""abc""#, "abc", true), (#""\#(hash)""#, "abc", true), (#""abc""#, "abd", false), (nil, "abc", false), (#""abc""#, "", false),
        ] as [(String?, String?, Bool)])
    func aNonceThatTheCallerDoesNotNameIsRefused(_ claim: String?, _ nonce: String?, _ isAccepted: Bool) {
        let outcome = verify(token([("nonce", claim)]), nonce: nonce, rules(unnamedNonce: .refused))
        switch outcome {
        case .success: #expect(isAccepted)
        case .failure(let fault): #expect(!isAccepted && fault == .wrongNonce)
        }
    }

    @Test func aProviderMayDemandThatTheCallerNamesANonce() {
        let rules = rules(unnamedNonce: .required)
        for (claim, nonce, isAccepted) in [(nil, nil, false), ("abc", nil, false), (nil, "abc", false), ("abc", "abc", true)] {
            let outcome = verify(token([("nonce", claim.map { #""\#($0)""# })]), nonce: nonce, rules)
            #expect((outcome != .failure(.wrongNonce)) == isAccepted)
        }
    }

    @Test func aNonceOfAnotherTypeIsNone() { #expect(fault([("nonce", "5")], nonce: "5") == .wrongNonce) }

    @Test func expiryAndSubjectAreThoseOfEveryToken() {
        #expect(fault([("exp", "1699999939")]) == .token(.expired))
        #expect(fault([("exp", "1699999941")]) == nil)
        #expect(fault([("exp", nil)]) == .token(.noExpiry))
        #expect(fault([("sub", nil)]) == .token(.noSubject))
        #expect(fault([("email", #""a\n@b""#)]) == .token(.unsafeClaim))
    }

    @Test func aRefreshTokenIsNoIDToken() {
        #expect(fault([("token_type", #""refresh""#)]) == .token(.badClaim))
        #expect(fault([("token_use", #""id""#)]) == nil)
        #expect(fault([("typ", #""ID""#)]) == nil)
    }

    @Test func onlyTheProvidersKeysAndAlgorithmsSign() {
        let other = Keys.make(.RS256)
        let foreign = verify(token(key: other))
        #expect(foreign == .failure(.token(.unknownKey(issuer: 0))))
        let symmetric = verify(token(key: Keys.hs256), rules(keys: [Keys.hs256]))
        #expect(symmetric == .failure(.token(.algorithmNotAllowed)))
        let curve = verify(token(key: Keys.es256), rules(keys: [Keys.es256]))
        #expect((try? curve.get()) != nil)
    }

    @Test func missingKeysAreNotTheCallersFault() {
        let rules = IDTokenRules(
            provider: "apple", issuers: ["https://accounts.google.com"], clientIDs: clients, keys: nil, unnamedNonce: .ignored)
        let outcome = verify(token(), rules)
        guard case .failure(let fault) = outcome else { return #expect(Bool(false), "accepted without a key") }
        #expect(fault.isForWantOfKeys)
        #expect(!fault.isForUnknownKey)
        #expect(IDTokenFault.token(.unknownKey(issuer: 0)).isForUnknownKey)
    }
}
