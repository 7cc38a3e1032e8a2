import Accounts
import Credentials
import Gate
import HTTP
import MemoryStore
import Storage
import Synchronization
import Telemetry
import Testing
import Wire

@testable import Admin

/// The admin API, request by request, over accounts in memory.
@Suite struct AdminAPITests {
    private let bench: AdminBench
    private var store: MemoryStore { bench.store }

    init() throws {
        bench = try AdminBench(
            tiers: try TierList(["free", "plus", "premium"]), issuers: [SubjectIssuer(name: "django", hasAccounts: false)]
        ) {
            ($0.refused, $0.addresses) = (Self.refused, Self.upstreams)
        }
        let scoped = AdminScope.allCases.map {
            ScopedToken(name: "for-\($0)", bytes: Array("a-token-with-\($0.rawValue)".utf8), scopes: [$0])
        }
        bench.now.scoped.withLock { $0 = scoped }
    }

    private func ask(
        _ line: String, _ body: String = "", token: String? = "Bearer the-admin-token", from address: IPAddress = IPAddress(v4: 0x7F00_0001)
    ) async -> AdminAnswer { await bench.ask(line, body, token.map { [("Authorization", $0)] } ?? [], from: address) }

    /// As the commands name it.
    @Test func anAccountIsNamedByItsIDItsEmailOrItsSubject() async throws {
        let ada = try await bench.open("ada@example.org", 7)
        for name in [ada.text, "ada%40example.org", "ADA%40example.org"] {
            #expect(await ask("GET users/\(name)").text.hasPrefix(#"{"id":"\#(ada.text)""#), "\(name)")
            #expect(await ask("PUT users/\(name)/tier", #"{"tier":"plus"}"#).status == 200, "\(name)")
            #expect(await ask("GET audit?user=\(name)").text.contains("tier-changed"), "\(name)")
            #expect(await ask("POST users/\(name)/revoke").status == 200, "\(name)")
        }
        #expect(await ask("GET users/eva%40example.org").status == 404)
        #expect(await ask("DELETE users/ada%40example.org").status == 200)
    }

    @Test func nothingIsReturnedWithoutTheToken() async throws {
        for token in [nil, "", "Bearer", "Bearer wrong", "Basic the-admin-token", "Bearer the-admin-token x"] {
            let answer = await ask("GET users", token: token)
            #expect(answer.status == 401, "\(token ?? "none")")
            #expect(answer["WWW-Authenticate"] == "Bearer realm=\"tollgate-admin\"")
        }
        #expect(store.calls == 0)
    }

    /// The operations that each scope opens. A new operation is added here.
    private static let opened: [AdminScope?: Set<String>] = [
        .usersRead: [
            "listUsers", "getUser", "listAuditEvents", "listPurchases", "getPurchase", "listStoreEvents", "listEvents",
            "listEventSubscribers",
        ], .usersWrite: ["mergeDone", "removePasskey", "banUser", "unbanUser", "resetFactors", "setAttributes", "changeAttributes"],
        .tier: ["setTier", "forgetTier", "syncPurchase", "replayStoreEvent"],
        .sessions: ["revokeUser", "revokeSession"], .delete: ["deleteUser"],
        .gatewayRead: ["getNow", "watch", "listUpstreams", "listDecisions", "listAPIKeys"],
        nil: ["getDescription", "signIn", "getSession", "signOut"],
    ]

    @Test func aTokenWithAScopeOpensItsOperationsAlone() async throws {
        #expect(
            Set(bench.api.operations.map(\.name))
                == Self.opened.values.reduce(["pretend", "replayEvents", "createAPIKey", "revokeAPIKey"]) { $0.union($1) })
        for scope in AdminScope.allCases {
            var refused: Set<String> = []
            for operation in bench.api.operations {
                let path = operation.path.replacing(/\{[a-z]+\}/, with: "x")
                let answer = await ask("\(operation.method) \(path)", "{}", token: "Bearer a-token-with-\(scope.rawValue)")
                if answer.status == 403, answer.text.contains(#""code":"FORBIDDEN","#) { refused.insert(operation.name) }
                #expect(answer.status != 401 || operation.access == .open, "\(scope) \(operation.name)")
            }
            let opened = (Self.opened[scope] ?? []).union(Self.opened[nil] ?? [])
            #expect(refused == Set(bench.api.operations.map(\.name)).subtracting(opened), "\(scope)")
        }
    }

    @Test func aRefusalNamesTheTokenAndTheScopeThatIsMissing() async throws {
        let token = "Bearer a-token-with-users:read"
        let refused = await ask("DELETE users/x", token: token)
        #expect(refused.text.contains("This needs the scope delete, the token for-usersRead has users:read"))
        #expect(await ask("POST pretend/x", token: token).text.contains("This needs the admin token, the token for-usersRead"))
        #expect(await ask("GET nowhere", token: token).status == 404)
        #expect(await ask("GET users", token: "Bearer a-token-with-users:rea").status == 401)
    }

    @Test func theAuditLogNamesTheToken() async throws {
        let ada = try await bench.open("ada@example.org", 1)
        #expect(await ask("PUT users/\(ada.text)/tier", #"{"tier":"premium"}"#, token: "Bearer a-token-with-tier").status == 200)
        #expect(await ask("PUT users/\(ada.text)/tier", #"{"tier":"plus"}"#).status == 200)
        let audit = await ask("GET audit?user=\(ada.text)", token: "Bearer a-token-with-users:read").text
        #expect(
            audit.contains(
                #""event":"tier-changed","user":"\#(ada.text)","email":"ada@example.org","actor":"admin-api","token":"for-tier","detail":"premium"}"#
            ))
        #expect(audit.contains(#""actor":"admin-api","detail":"plus"}"#))
    }

    @Test func onlyGuessingAddressesAreStopped() async throws {
        var statuses: [Int] = []
        for _ in 0..<25 { statuses.append(await ask("GET users", token: "Bearer guess", from: IPAddress(v4: 0xC000_0207)).status) }
        #expect(statuses.prefix(20).allSatisfy { $0 == 401 } && statuses.suffix(4).allSatisfy { $0 == 429 })
        let limited = await ask("GET users", token: "Bearer guess", from: IPAddress(v4: 0xC000_0207))
        #expect(limited.status == 429 && limited["Retry-After"] != nil)
        #expect(await ask("GET users", from: IPAddress(v4: 0xC000_0207)).status == 200, "the right token is never held up")
        #expect(await ask("GET users", token: "Bearer guess", from: IPAddress(v4: 0xC000_0207)).status == 429, "nor does it lift the limit")
        #expect(await ask("GET users", token: "Bearer guess").status == 401)
    }

    @Test func accountsAreListedAndFound() async throws {
        let ada = try await bench.open("ada+x@example.org", 1), bob = try await bench.open("bob@example.org", 2)
        #expect(await ask("GET users").text.contains(#""id":"\#(bob.text)""#))
        let found = await ask("GET users?email=ADA%2Bx@example.org").text
        #expect(found.hasPrefix(#"{"users":[{"id":"\#(ada.text)","email":"ada+x@example.org""#) && !found.contains(bob.text))
        #expect(await ask("GET users?email=eve@example.org").text == #"{"users":[]}"#)
        let shown = await ask("GET users/\(ada.text)").text
        #expect(shown.contains(#""sessions":[{"id":"\#(UUID(random: (2, 1)).text)","contract":"password","device":"phone""#))
        #expect(shown.hasSuffix(#""metadata":{},"attributes":{}}"#))
    }

    /// The id of a merged account answers as the account.
    @Test func aMergedAccountAnswersAsTheOther() async throws {
        let (ada, guest) = (try await bench.open("ada@example.org", 1), UUID(random: (1, 9)))
        let session = NewSession(id: UUID(random: (2, 9)), contract: .anonymous, device: nil)
        let audit = AuditContext(now: WallTime(seconds: 1_800_000_000), address: nil)
        _ = try await store.open(NewAccount(id: guest, openedBy: .anonymous), session: session, audit)
        _ = try await store.merge(Merging(guest: session.id, into: ada, by: nil, .none), audit)
        let (shown, whole) = (await ask("GET users/\(guest.text)").text, await ask("GET users/\(ada.text)").text)
        #expect(shown == whole && shown.contains(#""merges":[{"from":"\#(guest.text)","until":""#))
        #expect(await ask("PUT users/\(guest.text)/tier", #"{"tier":"premium"}"#).text.hasPrefix(#"{"id":"\#(ada.text)""#))
        #expect(await ask("GET users?search=\(guest.text)").text.hasPrefix(#"{"users":[{"id":"\#(ada.text)""#))
        let done = #"{"id":"\#(ada.text)","merged_from":"\#(guest.text)","done":true}"#
        for user in [ada, ada, guest] { #expect(await ask("POST users/\(user.text)/merges/\(guest.text)/done").text == done) }
        #expect(await ask("GET users/\(ada.text)").text.contains(#""merges":[]"#))
        for from in [ada.text, "x"] { #expect(await ask("POST users/\(ada.text)/merges/\(from)/done").status == 404) }
    }

    @Test func aTierIsSetAndPrinted() async throws {
        let ada = try await bench.open("ada@example.org", 1)
        let mark = try await store.changes(since: nil).next
        let answer = await ask("PUT users/\(ada.text)/tier", #"{"tier":"premium","until":"2127-01-01T00:00:00Z"}"#)
        #expect(answer.status == 200)
        #expect(answer.text.contains(#""tier":"premium","tier_until":"2127-01-01T00:00:00.000Z","has_active_subscription":true"#))
        let logged = try await store.changes(since: mark).changes.map(\.change)
        #expect(logged == [.account(ada, try #require(try await store.standing(of: ada)))])
        #expect(await ask("PUT users/\(ada.text)/tier", #"{"tier":"free"}"#).text.contains(#""tier":"free""#))
    }

    @Test func attributesAreReplacedAndMerged() async throws {
        let ada = try await bench.open("ada@example.org", 1)
        let path = "users/ada%40example.org/attributes"
        #expect(await ask("GET users/\(ada.text)").text.hasSuffix(#""attributes":{}}"#))
        let put = await ask("PUT \(path)", #"{"attributes":{"role": "editor","x":null,"plan":1}}"#)
        #expect(put.status == 200 && put.text == #"{"id":"\#(ada.text)","attributes":{"role":"editor","plan":1}}"#)
        let patch = await ask("PATCH \(path)", #"{"attributes":{"plan":null,"tags":["a"]}}"#, token: "Bearer a-token-with-users:write")
        #expect(patch.text == #"{"id":"\#(ada.text)","attributes":{"role":"editor","tags":["a"]}}"#)
        #expect(await ask("GET users/\(ada.text)").text.hasSuffix(#""attributes":{"role":"editor","tags":["a"]}}"#))
        let audit = await ask("GET audit?user=\(ada.text)").text
        #expect(audit.contains(#""event":"attributes-changed""#) && audit.contains(#""token":"for-usersWrite""#))
        for body in ["", "{}", #"{"attributes":[]}"#, #"{"attributes":"a"}"#, #"{"attributes":null}"#] {
            #expect(await ask("PUT \(path)", body).status == 400, "\(body)")
        }
        let large = #"{"attributes":{"a":"\#(String(repeating: "x", count: 4_100))"}}"#
        for method in ["PUT", "PATCH"] { #expect(await ask("\(method) \(path)", large).text.contains("at most 4096 bytes")) }
        #expect(await ask("PUT users/eva%40example.org/attributes", "{}").status == 404)
        #expect(await ask("PUT \(path)", #"{"attributes":{}}"#).text.hasSuffix(#""attributes":{}}"#))
    }

    @Test func sessionsAndAccountsAreEnded() async throws {
        let ada = try await bench.open("ada@example.org", 1), bob = try await bench.open("bob@example.org", 2)
        let session = UUID(random: (2, 2)).text
        #expect(await ask("DELETE sessions/\(session)").text == #"{"id":"\#(session)","ended":true}"#)
        #expect(await ask("DELETE sessions/\(session)").status == 404)
        #expect(await ask("POST users/\(bob.text)/revoke").text == #"{"id":"\#(bob.text)","deleted":false,"sessions_ended":0}"#)
        #expect(await ask("DELETE users/\(ada.text)").text == #"{"id":"\#(ada.text)","deleted":true,"sessions_ended":1}"#)
        #expect(await ask("GET users/\(ada.text)").status == 404)
    }

    /// A refusal as a worker tells it.
    private static func refusal(_ id: String) -> ExplainedRefusal {
        var note = DecisionRecord()
        do {
            let policy = try Policy(rules: [], trust: Trust(issuers: []))
            note.recordUnparsed(HTTPFault(.missingHost), from: IPAddress(high: 0, low: 1), policy)
            let explanation = Explanation(note, policy: policy)
            return ExplainedRefusal(
                requestID: id, at: WallTime(seconds: 1_800_000_000), method: "GET", host: "", path: "", explanation: explanation)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    private static let refused = [refusal("first"), refusal("second")]

    @Test func refusalsHaveTheStepsOfExplain() async throws {
        let one = await ask("GET decisions?request_id=second").text
        #expect(
            one
                == #"{"decisions":[{"request_id":"second","time":"2027-01-15T08:00:00.000Z","method":"GET","host":"","path":"","steps":[{"step":"client","text":"::1"},{"step":"cause","text":"missing_host"},{"step":"verdict","text":"refused: 400 BAD_REQUEST, The request is malformed."}],"passes":false,"status":400,"code":"BAD_REQUEST"}]}"#
        )
        #expect(await ask("GET decisions").text.contains(#""request_id":"first""#))
        #expect(await !ask("GET decisions?limit=1").text.contains("second"))
        #expect(await ask("GET decisions?request_id=third").text == #"{"decisions":[]}"#)
        #expect(await ask("POST decisions").status == 405)
    }

    private static let upstreams: [UpstreamStatus] = {
        var ejected = UpstreamStatus.Address(text: "10.0.0.1:80/v2")
        ejected.state = .ejected
        ejected.reason = "failures"
        ejected.detail = "5 failures in a row"
        ejected.since = WallTime(seconds: 1_800_000_000)
        ejected.until = WallTime(seconds: 1_800_000_010)
        ejected.share = 0
        ejected.ejections = 1
        var status = UpstreamStatus(name: "api", addresses: [ejected, UpstreamStatus.Address(text: "10.0.0.2:80")])
        status.isPanicking = true
        return [status]
    }()

    @Test func upstreamsSayWhyAnAddressIsOut() async throws {
        let expected =
            #"{"upstreams":[{"name":"api","panic":true,"bounded_requests":0,"bounded_pending":0,"retries":0,"addresses":["#
            + #"{"address":"10.0.0.1:80/v2","state":"ejected","reason":"failures","detail":"5 failures in a row","since":"2027-01-15T08:00:00.000Z","until":"2027-01-15T08:00:10.000Z","share":0,"ejections":1,"requests":0,"connections":0},"#
            + #"{"address":"10.0.0.2:80","state":"in","share":100,"ejections":0,"requests":0,"connections":0}]}]}"#
        #expect(await ask("GET upstreams").text == expected)
        #expect(await ask("POST upstreams").status == 405)
        #expect(await ask("GET upstreams", token: nil).status == 401)
    }

    @Test func withoutRequestsThereIsNoLatency() async throws {
        let text = await ask("GET now").text
        #expect(
            text.contains(#""latency_seconds":{"p50":null,"p90":null,"p99":null}"#) && text.contains(#"{"le":0.0005,"count":0}"#), "\(text)"
        )
    }

    @Test func aUserOfAnOutsideIssuerIsNamedByItsSubject() async throws {
        #expect(await ask("GET users/django:42").text.contains("There is no account of django:42"))
        #expect(await ask("DELETE users/django:42").status == 404)
        for segment in ["django:42", "django:a%2Fb%3A%25%C3%A9%20c", "DJANGO%3A43", "django:a:b", "django:%2E%2E"] {
            let set = await ask("PUT users/\(segment)/tier", #"{"tier":"plus"}"#)
            #expect(set.status == 200 && set.text.contains(#""tier":"plus""#), "\(segment): \(set.text)")
            #expect(await ask("GET users/\(segment)").text.contains(#""provider":"django","subject""#))
        }
        let key = try #require(IdentityKey(IdentitySource(stored: "django"), subject: "a/b:%é c"))
        #expect(try await store.account(of: key)?.entitlement.tier == "plus")
        #expect(await ask("GET users/django:43").status == 200)
        #expect(await ask("PUT users/django:43/tier", #"{"tier":"free"}"#).text.contains(#""tier":"free""#))
        #expect(await ask("POST users/django:43/revoke").status == 200)
        #expect(await ask("DELETE users/django:43").text.contains(#""deleted":true"#))
        #expect(await ask("GET users/django:43").status == 404)
    }

    @Test func aCachedTierIsForgottenByItsSubject() async throws {
        let answer = await ask("DELETE users/django:a%2Fb/tier-cache")
        #expect(answer.status == 200 && answer.text == #"{"user":"django:a/b","forgotten":true}"#)
        let key = try #require(IdentityKey(IdentitySource(stored: "django"), subject: "a/b"))
        let mark = ChangeMark(value: 0)
        #expect(try await store.changes(since: mark).changes.map(\.change) == [.identity(key)])
    }

    static let bad: [(line: String, body: String, status: Int, says: String)] = [
        ("GET nothing", "", 404, "The admin API has no /admin/api/nothing"), ("POST users", "", 405, "The method is not allowed here"),
        ("GET users/ada", "", 404, "There is no user with this id"),
        ("GET users?limit=0", "", 400, "limit must be a number from 1 to 1000"),
        ("GET users?after=x", "", 400, "after must be the id of a user"), ("GET users?email=x", "", 400, "email is no email address"),
        // An unknown parameter must not be ignored: without it all accounts would be listed.
        ("GET users?email=%ff", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?email=ada%", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?email=%4", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?%65mail=%zz", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?em%ffail=ada@example.org", "", 400, "The query is not percent-encoded UTF-8"),
        ("GET users?search=ada&email=a@b", "", 400, "email does not go with search"),
        ("GET users?after=x&search=ada", "", 400, "after does not go with search"),
        ("GET users?search=ada&limit=1", "", 400, "limit does not go with search"),
        ("GET users?mail=ada@example.org", "", 400, "There is no parameter mail here, use email, search, after or limit"),
        ("GET users?email=ada@example.org&email=eve@example.org", "", 400, "email is given twice"),
        ("GET users?email", "", 400, "email is no email address"), ("GET users?limit=%ff", "", 400, "limit is not percent-encoded UTF-8"),
        ("GET decisions?request_id=%ff", "", 400, "request_id is not percent-encoded UTF-8"),
        ("GET decisions?id=first", "", 400, "There is no parameter id here, use request_id, route, code, status, user or limit"),
        ("PUT users/ID/tier", "", 400, "The body must be a JSON object"), ("PUT users/ID/tier", "{}", 400, "tier is required"),
        ("PUT users/ID/tier", #"{"tier":5}"#, 400, "tier must be a string"),
        ("PUT users/ID/tier", #"{"tier":"gold"}"#, 400, "names no tier, the tiers are free, plus, premium"),
        ("PUT users/ID/tier", #"{"tier":"plus","until":"soon"}"#, 400, "is no RFC 3339 time in UTC"),
        ("PUT users/ID/tier", #"{"tier":"plus","until":"2020-01-01T00:00:00Z"}"#, 400, "until 2020-01-01T00:00:00.000Z is past"),
        ("PUT users/ID/tier", #"{"tier":"free","until":"2127-01-01T00:00:00Z"}"#, 400, "until goes with a tier above free"),
        ("PUT users/rails:42/tier", #"{"tier":"plus"}"#, 400, "rails names no TOLLGATE_TRUST_… line, they are django"),
        ("PUT users/django:/tier", #"{"tier":"plus"}"#, 400, "a subject has 1 to 255 bytes"),
        ("PUT users/django:a%0Ab/tier", #"{"tier":"plus"}"#, 400, "no control characters"),
        ("PUT users/django:%ff/tier", #"{"tier":"plus"}"#, 400, "The user is not percent-encoded UTF-8"),
        ("PUT users/django:42/tier", #"{"tier":"gold"}"#, 400, "names no tier"), ("GET users/django:42/tier-cache", "", 405, "not allowed"),
        ("DELETE users/ID/tier-cache", "", 404, "name one as NAME:SUBJECT"),
        ("DELETE users/rails:42/tier-cache", "", 400, "rails names no"),
        ("DELETE sessions/x", "", 404, "There is no session with this id"),
    ]

    @Test(arguments: bad)
    func anImpossibleRequestIsRefusedWithTheReason(_ line: String, _ body: String, _ status: Int, _ says: String) async throws {
        let ada = try await bench.open("ada@example.org", 1)
        let answer = await ask(line.replacing("ID", with: ada.text), body)
        #expect(answer.status == status)
        #expect(answer.text.contains(says), "\(answer.text)")
    }

    @Test func aStoreThatIsAwayIsUnavailable() async throws {
        store.fail([.unavailable("away")])
        let answer = await ask("GET users")
        #expect(answer.status == 503 && answer["Retry-After"] == "1")
    }
}

/// Which names a request to the admin listeners may be for.
@Suite struct AdminHostsTests {
    private let hosts = AdminHosts(["gate.example.org"])

    @Test(arguments: [
        "127.0.0.1", "127.0.0.1:9090", "10.0.0.1", "[::1]", "[::1]:9090", "[2001:DB8::1]", "localhost", "LocalHost:9090",
        "gate.example.org",
        "Gate.Example.org:443",
    ])
    func itsOwnNamesAndAddressesAreAnswered(_ host: String) { #expect(hosts.allows(host)) }

    @Test(arguments: [
        "", " ", "evil.example", "localhost.evil.example", "evil.localhost", "gate.example.org.evil.example", "x.gate.example.org",
        "gate.example.org.",
        "localhost.", "127.1", "2130706433", "0x7f000001", "127.0.0.1.nip.io", "127.0.0.1@evil.example", "evil@localhost", "[::1", "::1",
        "[127.0.0.1]",
        "localhost:x", "localhost:", "localhost:1:2", "localhost evil.example", "localhost,evil.example",
    ])
    func otherNamesAreNot(_ host: String) { #expect(!hosts.allows(host)) }
}
