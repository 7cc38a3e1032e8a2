import Accounts
import Credentials
import Gate
import HTTP
import MemoryStore
import Proxy
import Settings
import Synchronization
import Telemetry
import Testing
import Threads
import Transport
import Wire

@testable import Admin
@testable import tollgate

/// The admin API, request by request, over accounts in memory.
@Suite struct AdminAPITests {
    private let store = MemoryStore()
    private let api: AdminAPI

    init() throws {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let context = AccountContext(store: store, clock: clock, notice: { _ in })
        let work = try #require(PasswordWork(threads: 1, queue: 1, start: WorkerThread.start))
        let trust = "TOLLGATE_TRUST_DJANGO=audience=any jwks=http://i/ tier-from=account\n"
        let configuration = try #require(load("TOLLGATE_TIERS=free plus premium\n" + trust + oneRoute).configuration)
        var gateway = AdminGateway(startedAt: EventLoop.now().wall, now: { EventLoop.now().wall }) {
            ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: ""))
        }
        gateway.refusals = { query in
            Array(Self.refused.filter { query.requestID == nil || query.requestID == $0.requestID }.prefix(query.limit))
        }
        gateway.upstreams = { Self.upstreams }
        gateway.writeRoutes = { configuration.writeRoutes(&$0, $1) }
        api = AdminAPI(
            token: { AdminToken(bytes: Array("the-admin-token".utf8), isNew: false) }, directory: AccountDirectory(context: context),
            administration: Administration(context: context, work: work, actor: .adminAPI()),
            limiter: AttemptCounts(AttemptRates(configuration), table: SharedLimiter(hash: .random())), gateway: gateway,
            plan: {
                AdminPlan(
                    tiers: configuration.settings.tiers, tierGraceSeconds: configuration.settings.tierGraceSeconds,
                    issuers: configuration.settings.trusts.map { SubjectIssuer(name: $0.name, hasAccounts: $0.hasAccounts) },
                    scopedTokens: AdminScope.allCases.map {
                        ScopedToken(name: "for-\($0)", bytes: Array("a-token-with-\($0.rawValue)".utf8), scopes: [$0])
                    })
            },
            now: { EventLoop.now().wall })
    }

    private func ask(
        _ line: String, _ body: String = "", token: String? = "Bearer the-admin-token", from address: String = "127.0.0.1"
    ) async throws -> (status: Int, text: String, fields: [String: String]) {
        let words = line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        let request = LocalRequest(
            method: words[0], target: words[1], path: "/admin/api/" + parts[0], query: parts.count > 1 ? "?" + parts[1] : "",
            fields: token.map { [(name: "Authorization", value: $0)] } ?? [], body: Array(body.utf8),
            client: try #require(IPAddress(parsing: address)), requestID: "r")
        let response = await api.answer(request)
        let fields = Dictionary(response.fields.map { ($0.name, $0.value) }) { first, _ in first }
        return (response.status, response.body.rawBytes.text, fields)
    }

    private func open(_ email: String, _ number: UInt64) async throws -> UUID {
        let id = UUID(random: (1, number))
        let session = NewSession(id: UUID(random: (2, number)), contract: .password, device: "phone")
        _ = try await store.open(
            NewAccount(id: id, openedBy: .password, email: try EmailAddress(email)), session: session,
            AuditContext(now: EventLoop.now().wall, address: nil))
        return id
    }

    @Test func nothingIsReturnedWithoutTheToken() async throws {
        for token in [nil, "", "Bearer", "Bearer wrong", "Basic the-admin-token", "Bearer the-admin-token x"] {
            let answer = try await ask("GET users", token: token)
            #expect(answer.status == 401, "\(token ?? "none")")
            #expect(answer.fields["WWW-Authenticate"] == "Bearer realm=\"tollgate-admin\"")
        }
        #expect(store.calls == 0)
    }

    /// The operations that each scope opens. A new operation is added here.
    private static let opened: [AdminScope?: Set<String>] = [
        .usersRead: ["listUsers", "getUser", "listAuditEvents"], .usersWrite: [], .tier: ["setTier", "forgetTier"],
        .sessions: ["revokeUser", "revokeSession"], .delete: ["deleteUser"],
        .gatewayRead: [
            "getKeys", "getLimits", "getConfiguration", "getNow", "watch", "listRoutes", "listUpstreams", "listDecisions", "explain",
        ],
        nil: ["getDescription", "signIn", "getSession", "signOut"],
    ]

    @Test func aTokenWithAScopeOpensItsOperationsAlone() async throws {
        #expect(Set(AdminOperation.all.map(\.name)) == Self.opened.values.reduce(["rotateKeys", "getOutbox"]) { $0.union($1) })
        for scope in AdminScope.allCases {
            var refused: Set<String> = []
            for operation in AdminOperation.all {
                let path = operation.path.replacing("{id}", with: "x")
                let answer = try await ask("\(operation.method) \(path)", "{}", token: "Bearer a-token-with-\(scope.rawValue)")
                if answer.status == 403, answer.text.contains(#""code":"FORBIDDEN","#) { refused.insert(operation.name) }
                #expect(answer.status != 401 || operation.access == .open, "\(scope) \(operation.name)")
            }
            let opened = (Self.opened[scope] ?? []).union(Self.opened[nil] ?? [])
            #expect(refused == Set(AdminOperation.all.map(\.name)).subtracting(opened), "\(scope)")
        }
    }

    @Test func aRefusalNamesTheTokenAndTheScopeThatIsMissing() async throws {
        let token = "Bearer a-token-with-users:read"
        let refused = try await ask("DELETE users/x", token: token)
        #expect(refused.text.contains("This needs the scope delete, the token for-usersRead has users:read"))
        #expect(try await ask("POST keys/rotate", token: token).text.contains("This needs the admin token, the token for-usersRead"))
        #expect(try await ask("GET nowhere", token: token).status == 404)
        #expect(try await ask("GET users", token: "Bearer a-token-with-users:rea").status == 401)
    }

    @Test func theAuditLogNamesTheToken() async throws {
        let ada = try await open("ada@example.org", 1)
        #expect(try await ask("PUT users/\(ada.text)/tier", #"{"tier":"premium"}"#, token: "Bearer a-token-with-tier").status == 200)
        #expect(try await ask("PUT users/\(ada.text)/tier", #"{"tier":"plus"}"#).status == 200)
        let audit = try await ask("GET audit?user=\(ada.text)", token: "Bearer a-token-with-users:read").text
        #expect(audit.contains(#""event":"tier-changed","user":"\#(ada.text)","email":"ada@example.org","actor":"admin-api","token":"for-tier","detail":"premium"}"#))
        #expect(audit.contains(#""actor":"admin-api","detail":"plus"}"#))
    }

    @Test func onlyGuessingAddressesAreStopped() async throws {
        var statuses: [Int] = []
        for _ in 0..<25 { statuses.append(try await ask("GET users", token: "Bearer guess", from: "192.0.2.7").status) }
        #expect(statuses.prefix(20).allSatisfy { $0 == 401 } && statuses.suffix(4).allSatisfy { $0 == 429 })
        let limited = try await ask("GET users", token: "Bearer guess", from: "192.0.2.7")
        #expect(limited.status == 429 && limited.fields["Retry-After"] != nil)
        #expect(try await ask("GET users", from: "192.0.2.7").status == 200, "the right token is never held up")
        #expect(try await ask("GET users", token: "Bearer guess", from: "192.0.2.7").status == 429, "nor does it lift the limit")
        #expect(try await ask("GET users", token: "Bearer guess").status == 401)
    }

    @Test func accountsAreListedAndFound() async throws {
        let ada = try await open("ada+x@example.org", 1), bob = try await open("bob@example.org", 2)
        #expect(try await ask("GET users").text.contains(#""id":"\#(bob.text)""#))
        let found = try await ask("GET users?email=ADA%2Bx@example.org").text
        #expect(found.hasPrefix(#"{"users":[{"id":"\#(ada.text)","email":"ada+x@example.org""#) && !found.contains(bob.text))
        #expect(try await ask("GET users?email=eve@example.org").text == #"{"users":[]}"#)
        let shown = try await ask("GET users/\(ada.text)").text
        #expect(shown.contains(#""sessions":[{"id":"\#(UUID(random: (2, 1)).text)","contract":"password","device":"phone""#))
        #expect(shown.hasSuffix(#""metadata":{}}"#))
    }

    @Test func aTierIsSetAndPrinted() async throws {
        let ada = try await open("ada@example.org", 1)
        let mark = try await store.changes(since: nil).next
        let answer = try await ask("PUT users/\(ada.text)/tier", #"{"tier":"premium","until":"2127-01-01T00:00:00Z"}"#)
        #expect(answer.status == 200)
        #expect(answer.text.contains(#""tier":"premium","tier_until":"2127-01-01T00:00:00.000Z","has_active_subscription":true"#))
        let logged = try await store.changes(since: mark).changes.map(\.change)
        #expect(logged == [.account(ada, try #require(try await store.standing(of: ada)))])
        #expect(try await ask("PUT users/\(ada.text)/tier", #"{"tier":"free"}"#).text.contains(#""tier":"free""#))
    }

    @Test func sessionsAndAccountsAreEnded() async throws {
        let ada = try await open("ada@example.org", 1), bob = try await open("bob@example.org", 2)
        let session = UUID(random: (2, 2)).text
        #expect(try await ask("DELETE sessions/\(session)").text == #"{"id":"\#(session)","ended":true}"#)
        #expect(try await ask("DELETE sessions/\(session)").status == 404)
        #expect(try await ask("POST users/\(bob.text)/revoke").text == #"{"id":"\#(bob.text)","deleted":false,"sessions_ended":0}"#)
        #expect(try await ask("DELETE users/\(ada.text)").text == #"{"id":"\#(ada.text)","deleted":true,"sessions_ended":1}"#)
        #expect(try await ask("GET users/\(ada.text)").status == 404)
    }

    @Test func theRoutesAreListedResolved() async throws {
        let text = try await ask("GET routes").text
        #expect(text.hasPrefix(#"{"routes":[{"name":"r","#))
        #expect(text.contains(#""endpoints":[{"name":"password-register","mount":"password@/api/v1""#))
    }

    /// A refusal as a worker tells it.
    private static func refusal(_ id: String) -> ExplainedRefusal {
        var note = DecisionRecord()
        do {
            let policy = try Policy(rules: [], trust: Trust(issuers: []))
            note.recordUnparsed(HTTPFault(.missingHost), from: IPAddress(high: 0, low: 1), policy)
            let explanation = Explanation(note, policy: policy)
            return ExplainedRefusal(requestID: id, at: WallTime(seconds: 1_800_000_000), method: "GET", host: "", path: "", explanation: explanation)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    private static let refused = [refusal("first"), refusal("second")]

    @Test func refusalsHaveTheStepsOfExplain() async throws {
        let one = try await ask("GET decisions?request_id=second").text
        #expect(
            one == #"{"decisions":[{"request_id":"second","time":"2027-01-15T08:00:00.000Z","method":"GET","host":"","path":"","steps":[{"step":"client","text":"::1"},{"step":"cause","text":"missing_host"},{"step":"verdict","text":"refused: 400 BAD_REQUEST, The request is malformed."}],"passes":false,"status":400,"code":"BAD_REQUEST"}]}"#)
        #expect(try await ask("GET decisions").text.contains(#""request_id":"first""#))
        #expect(try await !ask("GET decisions?limit=1").text.contains("second"))
        #expect(try await ask("GET decisions?request_id=third").text == #"{"decisions":[]}"#)
        #expect(try await ask("POST decisions").status == 405)
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
        #expect(try await ask("GET upstreams").text == expected)
        #expect(try await ask("POST upstreams").status == 405)
        #expect(try await ask("GET upstreams", token: nil).status == 401)
    }

    @Test func aUserOfAnOutsideIssuerIsNamedByItsSubject() async throws {
        #expect(try await ask("GET users/django:42").text.contains("There is no account of django:42"))
        #expect(try await ask("DELETE users/django:42").status == 404)
        for segment in ["django:42", "django:a%2Fb%3A%25%C3%A9%20c", "DJANGO%3A43", "django:a:b", "django:%2E%2E"] {
            let set = try await ask("PUT users/\(segment)/tier", #"{"tier":"plus"}"#)
            #expect(set.status == 200 && set.text.contains(#""tier":"plus""#), "\(segment): \(set.text)")
            #expect(try await ask("GET users/\(segment)").text.contains(#""provider":"django","subject""#))
        }
        let key = try #require(IdentityKey(IdentitySource(stored: "django"), subject: "a/b:%é c"))
        #expect(try await store.account(of: key)?.entitlement.tier == "plus")
        #expect(try await ask("GET users/django:43").status == 200)
        #expect(try await ask("PUT users/django:43/tier", #"{"tier":"free"}"#).text.contains(#""tier":"free""#))
        #expect(try await ask("POST users/django:43/revoke").status == 200)
        #expect(try await ask("DELETE users/django:43").text.contains(#""deleted":true"#))
        #expect(try await ask("GET users/django:43").status == 404)
    }

    @Test func aCachedTierIsForgottenByItsSubject() async throws {
        let answer = try await ask("DELETE users/django:a%2Fb/tier-cache")
        #expect(answer.status == 200 && answer.text == #"{"user":"django:a/b","forgotten":true}"#)
        let key = try #require(IdentityKey(IdentitySource(stored: "django"), subject: "a/b"))
        let mark = ChangeMark(value: 0)
        #expect(try await store.changes(since: mark).changes.map(\.change) == [.identity(key)])
    }

    static let bad: [(line: String, body: String, status: Int, says: String)] = [
        ("GET nothing", "", 404, "The admin API has no /admin/api/nothing"), ("POST users", "", 405, "The method is not allowed here"),
        ("GET users/ada", "", 404, "There is no user with this id"), ("GET users?limit=0", "", 400, "limit must be a number from 1 to 1000"),
        ("GET users?after=x", "", 400, "after must be the id of a user"), ("GET users?email=x", "", 400, "email is no email address"),
        // An unknown parameter must not be ignored: without it all accounts would be listed.
        ("GET users?email=%ff", "", 400, "email is not percent-encoded UTF-8"), ("GET users?email=ada%", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?email=%4", "", 400, "email is not percent-encoded UTF-8"), ("GET users?%65mail=%zz", "", 400, "email is not percent-encoded UTF-8"),
        ("GET users?em%ffail=ada@example.org", "", 400, "The query is not percent-encoded UTF-8"),
        ("GET users?search=ada&email=a@b", "", 400, "email does not go with search"), ("GET users?after=x&search=ada", "", 400, "after does not go with search"),
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
        ("DELETE users/ID/tier-cache", "", 404, "name one as NAME:SUBJECT"), ("DELETE users/rails:42/tier-cache", "", 400, "rails names no"),
        ("DELETE sessions/x", "", 404, "There is no session with this id"),
    ]

    @Test(arguments: bad)
    func anImpossibleRequestIsRefusedWithTheReason(_ line: String, _ body: String, _ status: Int, _ says: String) async throws {
        let ada = try await open("ada@example.org", 1)
        let answer = try await ask(line.replacing("ID", with: ada.text), body)
        #expect(answer.status == status)
        #expect(answer.text.contains(says), "\(answer.text)")
    }

    @Test func aStoreThatIsAwayIsUnavailable() async throws {
        store.fail([.unavailable("away")])
        let answer = try await ask("GET users")
        #expect(answer.status == 503 && answer.fields["Retry-After"] == "1")
    }
}

/// Which names a request to the admin listeners may be for.
@Suite struct AdminHostsTests {
    private let hosts = AdminHosts(["gate.example.org"])

    @Test(arguments: [
        "127.0.0.1", "127.0.0.1:9090", "10.0.0.1", "[::1]", "[::1]:9090", "[2001:DB8::1]", "localhost", "LocalHost:9090", "gate.example.org",
        "Gate.Example.org:443",
    ])
    func itsOwnNamesAndAddressesAreAnswered(_ host: String) { #expect(hosts.allows(host)) }

    @Test(arguments: [
        "", " ", "evil.example", "localhost.evil.example", "evil.localhost", "gate.example.org.evil.example", "x.gate.example.org", "gate.example.org.",
        "localhost.", "127.1", "2130706433", "0x7f000001", "127.0.0.1.nip.io", "127.0.0.1@evil.example", "evil@localhost", "[::1", "::1", "[127.0.0.1]",
        "localhost:x", "localhost:", "localhost:1:2", "localhost evil.example", "localhost,evil.example",
    ])
    func otherNamesAreNot(_ host: String) { #expect(!hosts.allows(host)) }
}
