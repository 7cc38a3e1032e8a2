import Credentials
import Testing
import Wire

@testable import Gate

/// Tokens of an outside issuer whose subjects stand for accounts (`accounts=on`).
@Suite struct OutsideAccountTests {
    private static let ada = UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0001)

    private func harness(_ hasAccounts: Bool = true, tierFrom source: TierSource = .claim) throws -> AdmissionHarness {
        var old = AdmissionHarness.trusted(name: "old")
        old.hasAccounts = hasAccounts
        var own = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "own", issuer: "https://own.test")
        own.isOwn = true
        var endpoint = rule("me", "/auth/me")
        endpoint.target = .local(70)
        return AdmissionHarness(
            try Policy(
                rules: [rule("api", "/api/*"), endpoint], trust: AdmissionHarness.trust([old, own]), hasAccounts: true,
                tierSources: ["old": source]))
    }

    private func learn(_ harness: AdmissionHarness, _ status: SubjectStatus, _ subject: String = "42", of issuer: String = "old") {
        harness.admission.learn([KnownSubject(user: TokenUser(subject, of: issuer), status: status, learnedAt: harness.now.wall.seconds)])
    }

    private func users(_ judged: Judged) -> [String] { judged.identity.filter { $0.hasPrefix("X-User-Id") } }

    @Test func theUpstreamGetsTheAccountsIdOnEveryRequest() throws {
        let harness = try harness()
        let token = AdmissionHarness.token("42") { $0.email = "ada@x" }
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        learn(harness, .account(Self.ada))
        for source in [TokenSource.hit, .hit] {
            let judged = harness.get("/api/x", token: token)
            #expect(judged.status == 0 && judged.source == source)
            #expect(users(judged) == ["X-User-Id: \(Self.ada)"])
            #expect(judged.userID == Self.ada.text)
            #expect(judged.hasIdentity("X-Token-Issuer: \(AdmissionHarness.issuer)") && judged.hasIdentity("X-User-Tier: free"))
        }
    }

    /// `tier-from=account`: the account is found first, then its tier; one of the subject itself does not count.
    @Test func theTierThatIsSetHereIsThatOfTheAccount() throws {
        let harness = try harness(tierFrom: .account)
        let token = AdmissionHarness.token("42") { $0.tier = "premium" }
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        learn(harness, .account(Self.ada))
        harness.admission.learn([UserTier(user: TokenUser("42", of: "old"), status: .tier(Tier(rawValue: 1), until: .max), version: 1)])
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        harness.admission.learn([UserTier(user: TokenUser(Self.ada.text), status: .tier(.lowest, until: .max), version: 1)])
        #expect(harness.get("/api/x", token: token).hasIdentity("X-User-Tier: free"))
        let premium = UserTier(user: TokenUser(Self.ada.text), status: .tier(Tier(rawValue: 1), until: .max), version: 2, source: .pushed)
        harness.admission.learn([premium])
        learn(harness, .account(Self.ada))
        let judged = harness.get("/api/x", token: token)
        #expect(judged.hasIdentity("X-User-Tier: premium") && users(judged) == ["X-User-Id: \(Self.ada)"])
    }

    /// An import that is done again begins at the first version; answers that a deletion overtook are older.
    @Test func anAccountThatIsDeletedAndImportedAgainHasItsTier() throws {
        let harness = try harness(tierFrom: .account)
        let (token, user) = (AdmissionHarness.token("42"), TokenUser(Self.ada.text))
        func premium() -> UserTier {
            UserTier(user: user, status: .tier(Tier(rawValue: 1), until: .max), version: 1, learnedAt: harness.now.wall.seconds)
        }
        harness.admission.learn([premium()])
        harness.admission.learn([
            UserTier(
                user: user, status: .noAccount, version: .max, source: .pushed, learnedAt: harness.now.wall.seconds,
                freshUntil: WallTime(seconds: harness.now.wall.seconds + 10))
        ])
        harness.admission.learn([premium()])
        learn(harness, .account(Self.ada))
        #expect(harness.get("/api/x", token: token).hasIdentity("X-User-Tier: free"))
        harness.advance(milliseconds: 10_000)
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        harness.admission.learn([premium()])
        #expect(harness.get("/api/x", token: token).hasIdentity("X-User-Tier: premium"))
    }

    /// A tier server knows the subject, not the account.
    @Test func aTierServerIsAskedForTheSubject() throws {
        let harness = try harness(tierFrom: .lookup)
        let token = AdmissionHarness.token("42")
        learn(harness, .account(Self.ada))
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        harness.admission.learn([UserTier(user: TokenUser("42", of: "old"), status: .tier(Tier(rawValue: 1), until: .max), version: 1)])
        let judged = harness.get("/api/x", token: token)
        #expect(judged.hasIdentity("X-User-Tier: premium") && users(judged) == ["X-User-Id: \(Self.ada)"])
    }

    @Test func aSubjectWithoutAnAccountPassesAsItIsAndIsAskedAgain() throws {
        let harness = try harness()
        let token = AdmissionHarness.token("42")
        _ = harness.get("/api/x", token: token)
        learn(harness, .unknown)
        #expect(users(harness.get("/api/x", token: token)) == ["X-User-Id: 42"])
        harness.advance(milliseconds: 10_000)
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
    }

    /// A subject that is an account's id is nothing to an issuer that may not speak for accounts.
    @Test func withoutAccountsNothingIsLookedUp() throws {
        let harness = try harness(false)
        learn(harness, .account(Self.ada), Self.ada.text)
        let judged = harness.get("/api/x", token: AdmissionHarness.token(Self.ada.text))
        #expect(judged.status == 0 && users(judged) == ["X-User-Id: \(Self.ada)"])
    }

    @Test func aRefusedSubjectIsRefusedAndAnUnreadableOneIsToldToWait() throws {
        let harness = try harness()
        let token = AdmissionHarness.token("42")
        learn(harness, .refused)
        #expect(harness.get("/api/x", token: token).code == "TOKEN_REVOKED")
        learn(harness, .unavailable)
        #expect(harness.get("/api/x", token: token).status == 503)
        harness.advance(milliseconds: 1_000)
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        learn(harness, .unavailable)
        harness.now.wall = WallTime(seconds: harness.now.wall.seconds - 600)
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
    }

    @Test func aSubjectOfAnotherLineIsAnother() throws {
        let harness = try harness()
        learn(harness, .account(Self.ada), of: "other")
        #expect(harness.get("/api/x", token: AdmissionHarness.token("42")).verdict == .lookUp)
    }

    @Test func aChangedAccountIsLookedUpAgain() throws {
        let harness = try harness()
        let token = AdmissionHarness.token("42")
        learn(harness, .account(Self.ada))
        #expect(harness.get("/api/x", token: token).status == 0)
        harness.admission.learn([UserTier(user: TokenUser(UUID(high: 9, low: 9).text), status: .noAccount, version: .max, source: .pushed)])
        #expect(harness.get("/api/x", token: token).status == 0)
        harness.admission.learn([UserTier(user: TokenUser(Self.ada.text), status: .noAccount, version: .max, source: .pushed)])
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
        learn(harness, .account(Self.ada))
        #expect(harness.get("/api/x", token: token).status == 0)
        harness.admission.forgetUsers()
        #expect(harness.get("/api/x", token: token).verdict == .lookUp)
    }

    @Test func aTokenThatWasSignedOutIsRefusedAndAnotherOfTheSameUserIsNot() throws {
        let harness = try harness()
        let (first, second) = (AdmissionHarness.token("42") { $0.tokenID = "1" }, AdmissionHarness.token("42") { $0.tokenID = "2" })
        learn(harness, .account(Self.ada))
        for token in [first, second] { #expect(harness.get("/api/x", token: token).status == 0) }
        let id = try #require(first.withRawBytes { VerifiedToken.id(of: $0) })
        harness.admission.revoke([RevokedSession(id: id.text, until: .max)], at: harness.now.wall.seconds)
        #expect(harness.get("/api/x", token: first).code == "TOKEN_REVOKED")
        #expect(harness.get("/api/x", token: second).status == 0)
    }

    /// The id does not depend on how the signature is written.
    @Test func theIdOfATokenIsThatOfItsSigningInput() {
        func id(_ token: String) -> UUID? { token.withRawBytes { VerifiedToken.id(of: $0) } }
        #expect(id("aa.bb.cc") == id("aa.bb.dd") && id("aa.bb.cc") != id("aa.bc.cc") && id("aa.bb") == nil && id("") == nil)
    }

    @Test func anActorReachesNoEndpointOfOurs() throws {
        let harness = try harness()
        learn(harness, .account(Self.ada))
        #expect(harness.get("/auth/me", token: AdmissionHarness.token("42")).status == 0)
        let actor = AdmissionHarness.token("42") {
            $0.actorType = "team"
            $0.actorID = "1"
        }
        #expect(harness.get("/auth/me", token: actor).status == 403)
        let judged = harness.get("/api/x", token: actor)
        #expect(users(judged) == ["X-User-Id: \(Self.ada)"] && judged.hasIdentity("X-Actor-Id: 1"))
    }
}
