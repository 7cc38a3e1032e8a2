import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

@Suite struct ExplanationTests {
    private func harness() throws -> AdmissionHarness {
        var premium = rule("export", "POST /export", auth: .required)
        premium.tier = Tier(rawValue: 1)
        premium.limits = [try LimitPolicy(parsing: "1/h", tiers: .standard)]
        premium.bodyLimit = 100
        var shadowed = rule("shadow", "/shadow", auth: .optional)
        shadowed.tier = Tier(rawValue: 1)
        shadowed.limits = [try LimitPolicy(parsing: "1/h", tiers: .standard)]
        shadowed.shadow = [.tier, .limit]
        var claiming = rule("claims", "GET /claims/*")
        claiming.claims = [ClaimRequirement(name: "role", value: "admin")]
        var cached = rule("cached", "/cached", auth: .none)
        cached.cache.freshSeconds = 60
        cached.cache.sharing = .tier
        return try AdmissionHarness(
            [
                premium, cached, shadowed, claiming, rule("open", "/open/*", auth: .none), rule("inner", "/inner", auth: .internal),
                rule("maybe", "host.test/maybe/*", auth: .optional),
            ],
            proxies: ["10.0.0.0/8"], internals: [InternalCaller(name: "backend", networks: [CIDR(parsing: "192.0.2.0/24")!])])
    }

    @Test func everyStepIsExplained() throws {
        let harness = try harness()
        let token = AdmissionHarness.token("u7", tier: "premium")
        let request = "POST //export HTTP/1.1\nHost: a\nX-Forwarded-For: 203.0.113.4\nAuthorization: Bearer \(token)"
        let told = harness.ask(request, from: "10.0.0.1").explanation
        #expect(told.steps.map(\.name) == ["client", "path", "route", "identity", "standing", "tier", "limit", "verdict"])
        #expect(told.step("client") == "203.0.113.4, named by a trusted proxy")
        #expect(told.step("path") == "//export becomes /export")
        #expect(told.step("route") == "export: POST /export, auth=required")
        #expect(told.step("identity") == "user u7 of test, tier premium, by HS256")
        #expect(told.step("standing") == "the tier is what the token claims")
        #expect(told.step("tier") == "premium is needed and held")
        #expect(told.step("limit") == "1/h by user: 0 left")
        #expect(told.step("verdict") == "passes, to upstream 0")
        #expect(told.status == 0 && told.code == nil)
        let again = harness.ask(request, from: "10.0.0.1").explanation
        #expect(again.step("limit") == "1/h by user: 0 left, again in 3600 s")
        #expect(again.step("verdict") == "refused: 429 RATE_LIMITED, Too many requests. Try again later.")
    }

    @Test func anOwnEndpointDecidesByItselfAfterTheSteps() throws {
        var own = rule("account-factors", "/account/factors", auth: .none)
        own.target = .local(3)
        #expect(
            try AdmissionHarness([own]).get("/account/factors").explanation.step("verdict")
                == "passes, to the gateway's own endpoint account-factors, which decides by itself")
    }

    @Test func whoSharesAStoredAnswerIsExplained() throws {
        let harness = try harness()
        let stored = "a stored answer for each tier that is at most 60 s old, else the upstream's"
        for (method, told) in [("GET", stored), ("HEAD", stored), ("POST", "POST asks the upstream")] {
            #expect(harness.ask("\(method) /cached HTTP/1.1\nHost: a").explanation.step("cache") == told)
        }
        #expect(harness.get("/open/x").explanation.step("cache") == nil)
    }

    /// A record is used again for a later request, of which nothing is known if it cannot be parsed.
    @Test func aRequestThatCannotBeParsedHasNothingOfTheOneBefore() throws {
        let harness = try harness()
        var note = DecisionRecord()
        harness.record("POST /export HTTP/1.1\nHost: a\nOrigin: b\nAuthorization: Bearer \(AdmissionHarness.token("u7"))", in: &note)
        #expect(note.user == "u7" && note.route(harness.admission.policy) == "export")
        let policy = harness.admission.policy
        note.recordUnparsed(HTTPFault(.missingHost), from: IPAddress(high: 0, low: 1), policy)
        let told = [note.method, note.host, note.sentPath, note.path, note.origin, note.userID, note.subject]
        #expect(told.allSatisfy(\.isEmpty) && note.user == nil && note.route(policy) == nil && note.limitResult == .none)
    }

    @Test func aRefusalExplainsItsStep() throws {
        let harness = try harness()
        #expect(harness.get("/a/../..").explanation.step("path") == "/a/../..: The path leads above the root.")
        #expect(harness.get("/nowhere").explanation.step("route") == "none")
        #expect(harness.get("/export").explanation.step("route") == "none for this method")
        #expect(harness.get("/claims/x").explanation.step("identity") == "refused: missing")
        #expect(harness.get("/claims/x", token: "bad").explanation.step("identity") == "refused: malformed")
        let claims = harness.get("/claims/x", token: AdmissionHarness.token()).explanation
        #expect(claims.step("identity") == "user user-1 of test, tier free, by HS256; refused: claims")
        let stranger = harness.get("/inner", from: "203.0.113.1").explanation
        #expect(stranger.step("caller") == "no internal caller matches" && stranger.step("identity") == nil)
        #expect(harness.get("/inner").explanation.step("caller") == "backend")
        #expect(harness.get("/shadow").explanation.step("tier") == "premium is needed and missing, shadow mode lets it pass")
        #expect(harness.get("/open/x").explanation.step("identity") == "not checked")
    }

    /// The command and the gateway have the same verdict, over every combination of request features, asked of two
    /// gates that count alike.
    @Test func theExplainedVerdictIsTheVerdict() throws {
        let telling = try harness()
        let deciding = try harness()
        var codes: Set<String> = []
        for path in ["/export", "/shadow", "/claims/x", "/open//x", "/inner", "/maybe/x", "/none", "/a%2fb", "/x/../../y"] {
            for method in ["GET", "POST"] {
                for authorization in [
                    "", "Authorization: Bearer bad", "Authorization: Bearer \(AdmissionHarness.token(tier: "premium"))",
                    "Authorization: Bearer \(AdmissionHarness.token())", "Authorization: Bearer \(AdmissionHarness.token(lifetime: -99))",
                    "Authorization: Basic x", "Authorization: Bearer a\nAuthorization: Bearer b",
                ] {
                    for from in ["192.0.2.1", "10.0.0.1"] {
                        for length in [0, 101] {
                            let more = [authorization, "Content-Length: \(length)"].filter { !$0.isEmpty }.joined(separator: "\n")
                            let request = "\(method) \(path) HTTP/1.1\nHost: host.test\n\(more)"
                            let told = telling.ask(request, from: from).explanation
                            let decided = deciding.ask(request, from: from)
                            #expect(told.status == decided.status && (told.code ?? "") == decided.code, "\(request)")
                            #expect(told.steps.last?.name == "verdict")
                            #expect(told.step("verdict")?.hasPrefix(decided.status == 0 ? "passes" : "refused: \(decided.status)") == true)
                            codes.insert(decided.code)
                        }
                    }
                }
            }
        }
        #expect(
            codes == [
                "", "BAD_REQUEST", "UNAUTHORIZED", "TOKEN_EXPIRED", "FORBIDDEN", "PREMIUM_REQUIRED", "NOT_FOUND",
                "METHOD_NOT_ALLOWED", "PAYLOAD_TOO_LARGE", "RATE_LIMITED",
            ])
    }
}
