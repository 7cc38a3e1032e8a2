import Credentials
import Testing
import Wire

@testable import Gate

/// `factor=` and `TOLLGATE_FACTOR=required:TIER`.
@Suite struct FactorTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"
    private static let premium = Tier(rawValue: 1)

    private static func harness(_ rules: [RouteRule], isOwn: Bool = true) throws -> AdmissionHarness {
        var own = AdmissionHarness.trusted()
        own.isOwn = isOwn
        return AdmissionHarness(try Policy(rules: rules, trust: AdmissionHarness.trust([own]), hasAccounts: false))
    }

    private static func route(_ seconds: UInt32?, auth: AuthMode = .required, from tier: Tier? = nil, maxAge: UInt32? = nil) -> RouteRule {
        var rule = rule("r", "/r", auth: auth)
        (rule.factorSeconds, rule.factorTier, rule.maxAgeSeconds) = (seconds, tier, maxAge)
        return rule
    }

    private static func token(_ tier: String? = nil, session: String? = session) -> String {
        AdmissionHarness.token(user, tier: tier, lifetime: 40 * 86_400) { $0.sessionID = session }
    }

    /// A proof so many seconds ago; nil for one that counts no more.
    private func prove(_ harness: AdmissionHarness, _ age: Int64?, session: String = session, isWhole: Bool = false) {
        let now = harness.now.wall.seconds
        let at = age.map { WallTime(seconds: now - $0) }
        harness.admission.learn([ProvenSession(id: UUID(parsing: session)!, at: at)], isWhole: isWhole, at: now)
    }

    @Test func aProofUpgradesTheSessionsTokenForAsLongAsTheRouteSays() throws {
        let harness = try Self.harness([Self.route(600)])
        let refused = harness.get("/r", token: Self.token())
        #expect(refused.code == "UNAUTHORIZED" && refused.reason == .noFactor)
        #expect(
            refused.headers == [
                #"WWW-Authenticate: Bearer realm="tollgate", error="insufficient_user_authentication", error_description="A second factor is required", acr_values="urn:tollgate:acr:factor", max_age="600""#
            ])
        #expect(refused.explanation.step("factor") == "a second factor at most 600 s ago is needed, the session has proven none")
        for (age, passes) in [(0, true), (600, true), (601, false), (-30, true), (-31, false), (.max, false), (nil, false)]
            as [(Int64?, Bool)]
        {
            prove(harness, age)
            #expect((harness.get("/r", token: Self.token()).status == 0) == passes, "\(age ?? -1)")
        }
        prove(harness, 10)
        prove(harness, 0, session: "0193a1b2-0000-7000-8000-0000000000bb", isWhole: true)
        #expect(harness.get("/r", token: Self.token()).reason == .noFactor, "all that count were told")
        prove(harness, 10)
        #expect(harness.get("/r", token: Self.token()).explanation.step("factor")?.hasSuffix("it was proven 10 s ago") == true)
        harness.advance(milliseconds: 591_000)
        #expect(harness.get("/r", token: Self.token()).reason == .noFactor)
    }

    @Test func noOtherTokenHasAFactor() throws {
        let harness = try Self.harness([Self.route(600)])
        prove(harness, 0)
        #expect(harness.get("/r").reason == .missing)
        for session in [nil, "", "0193a1b2-0000-7000-8000-0000000000ab"] {
            #expect(harness.get("/r", token: Self.token(session: session)).reason == .noFactor)
        }
        let foreign = try Self.harness([Self.route(600)], isOwn: false)
        prove(foreign, 0)
        #expect(foreign.get("/r", token: Self.token()).reason == .noFactor, "an outside issuer's")
        #expect(throws: RouteFault.identityNeeded("r")) { try Self.harness([Self.route(600, auth: .none)]) }
    }

    @Test func fromATierOnTheSettingDemandsOneWithinThirtyDays() throws {
        let harness = try Self.harness([Self.route(nil, auth: .optional, from: Self.premium)])
        #expect(harness.get("/r").status == 0, "an anonymous caller has no tier")
        #expect(harness.get("/r", token: Self.token()).status == 0)
        let refused = harness.get("/r", token: Self.token("premium"))
        #expect(refused.reason == .noFactor && refused.headers.first?.hasSuffix(#"max_age="2592000""#) == true)
        for (age, passes) in [(2_592_000, true), (2_592_001, false)] as [(Int64, Bool)] {
            prove(harness, age)
            #expect((harness.get("/r", token: Self.token("premium")).status == 0) == passes)
        }
        let foreign = try Self.harness([Self.route(nil, from: Self.premium)], isOwn: false)
        #expect(foreign.get("/r", token: Self.token("premium")).status == 0, "its issuer decides")
    }

    @Test func theSignInIsLookedAtFirst() throws {
        let harness = try Self.harness([Self.route(600, maxAge: 300)])
        #expect(harness.get("/r", token: Self.token()).reason == .signInTooOld)
    }

    @Test func theProofOfAnEndedSessionCountsNoMore() throws {
        let harness = try Self.harness([Self.route(600)])
        prove(harness, 0)
        let key = Self.session.withRawBytes { LimitSubject.session($0, issuer: harness.admission.ownIssuer, harness.admission.hash) }
        #expect(harness.admission.proven[key] == harness.now.wall.seconds)
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: harness.now.wall.seconds)
        #expect(harness.admission.proven[key] == .min)
    }

    @Test func theListOfProofsIsBounded() {
        let hash = KeyedHash(first: 1, second: 2)
        var proven = ProvenSessions()
        func key(_ number: Int) -> LimitKey { "\(number)".withRawBytes { LimitSubject.session($0, issuer: "i", hash) } }
        for number in 0..<100_000 { proven.note(key(number), at: Int64(number), now: Int64(number) + ProvenSessions.mostSeconds - 100) }
        #expect(proven[key(99_999)] == 99_999)
        #expect((0..<100_000).count { proven[key($0)] != nil } < 1_000)
        // Those of sessions that have ended make room at once.
        proven.removeAll()
        for number in 0..<100_000 {
            proven.note(key(number), at: 1, now: 1)
            proven.end(key(number))
        }
        #expect((0..<100_000).count { proven[key($0)] != nil } < 1_000)
    }
}
