import Accounts
import Credentials
import Gate
import HTTP
import MemoryStore
import Storage
import Synchronization
import Telemetry
import Testing
import Threads
import Transport
import Wire

@testable import Admin

/// The gateway that the admin API is told about.
struct PretendGateway: AdminGateway {
    let now: AdminBench.Now
    var instance = ""
    var refused: [ExplainedRefusal] = []
    var addresses: [UpstreamStatus] = []

    let workerCount = 1
    let startedAt = WallTime(seconds: 1_799_999_000)
    var time: WallTime { now.time.withLock { $0 } }
    func reports() async -> [MetricsSnapshot] { [] }
    func process() -> ProcessMetrics { ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: "")) }
    func readiness() -> Readiness { Readiness() }
    func refusals(_ query: RefusalQuery) async -> [ExplainedRefusal] {
        Array(refused.filter { query.requestID == nil || query.requestID == $0.requestID }.prefix(query.limit))
    }
    func newRefusals(since counts: [Int: Int], limit: Int) async -> [Int: NewRefusals] { [:] }
    func upstreams() async -> [UpstreamStatus] { addresses }
}

/// The admin API over accounts in memory, and what the gateway tells it. Its tokens and its clock are the test's.
struct AdminBench {
    final class Now: Sendable {
        let time = Mutex(WallTime(seconds: 1_800_000_000))
        let token = Mutex<[UInt8]?>(Array("the-admin-token".utf8))
        let scoped = Mutex<[ScopedToken]>([])
    }

    static let token = [("Authorization", "Bearer the-admin-token")]

    let store = MemoryStore()
    let purchases = ScriptedPurchases()
    let now = Now()
    let api: AdminAPI

    /// An operation beside the API's own, for which no scope is enough.
    private static let further = AdminOperation(
        "POST", "pretend/{id}", "pretend", "Does nothing", access: .operator, answers: .list("done")
    ) { _, call in call.arguments }

    init(
        tiers: TierList = .standard, issuers: [SubjectIssuer] = [], storefronts: [ScriptedStorefront] = [],
        _ change: (inout PretendGateway) -> Void = { _ in }
    ) throws {
        let context = AccountContext(store: store, clock: AccountClock(now: { EventLoop.now() }, pause: pause), notice: { _ in })
        let work = try #require(PasswordWork(threads: 1, queue: 1, start: WorkerThread.start))
        let now = now
        var gateway = PretendGateway(now: now)
        change(&gateway)
        api = AdminAPI(
            token: { now.token.withLock { $0.map { AdminToken(bytes: $0, isNew: false) } } }, scopedTokens: { now.scoped.withLock { $0 } },
            directory: AccountDirectory(context: context), administration: Administration(context: context, work: work, actor: .adminAPI()),
            purchases: PurchaseAdministration(
                context: context, records: purchases, stores: { Stores(storefronts, .none) }, actor: .adminAPI()),
            plan: { OperatorPlan(tiers: tiers, tierGraceSeconds: 0, issuers: issuers) }, limiter: StrictLimiter(), gateway: gateway,
            operations: [Self.further])
    }

    /// Opens an account with a session from this address.
    func open(_ email: String, _ number: UInt64, from address: IPAddress? = nil) async throws -> UUID {
        let id = UUID(random: (1, number))
        let session = NewSession(id: UUID(random: (2, number)), contract: .password, device: "phone", address: address)
        _ = try await store.open(
            NewAccount(id: id, openedBy: .password, email: try EmailAddress(email)), session: session,
            AuditContext(now: EventLoop.now().wall, address: address))
        return id
    }

    func request(
        _ line: String, _ body: String = "", _ fields: [(String, String)] = AdminBench.token,
        from address: IPAddress = IPAddress(v4: 0x7F00_0001),
        isSecure: Bool = false
    ) -> LocalRequest {
        let words = line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        return LocalRequest(
            method: words[0], target: words[1], path: "/admin/api/" + parts[0], query: parts.count > 1 ? "?" + parts[1] : "",
            fields: fields.map { (name: $0.0, value: $0.1) }, body: Array(body.utf8), client: address, requestID: "r", isSecure: isSecure)
    }

    func ask(
        _ line: String, _ body: String = "", _ fields: [(String, String)] = AdminBench.token,
        from address: IPAddress = IPAddress(v4: 0x7F00_0001),
        isSecure: Bool = false
    ) async -> AdminAnswer {
        AdminAnswer(response: await api.answer(request(line, body, fields, from: address, isSecure: isSecure)))
    }
}

struct AdminAnswer {
    let response: LocalResponse

    var status: Int { response.status }
    var text: String { response.body.rawBytes.text }
    var cookie: String? { self["Set-Cookie"] }
    subscript(_ name: String) -> String? { response.fields.first { $0.name == name }?.value }
}
