import Accounts
import Credentials
import Gate
import HTTP
import Issuers
import MemoryStore
import Proxy
import Settings
import Telemetry
import Testing
import Threads
import Transport
import Wire

@testable import Admin
@testable import tollgate

/// The gateway that the operations are told about.
struct PretendGateway: OperatedGateway {
    var configuration: GatewayConfiguration
    var loads = LoadHistory.State(loadedAt: WallTime(seconds: 0))
    var ring: SigningKeyRing?
    var keyStatuses: [KeyStatus] = []
    var rotation: Result<SigningKeyRing, RotationRefusal> = .failure(.secret)
    var hottest: [HotKey] = []
    var checks = Readiness()

    init(_ configuration: GatewayConfiguration) { self.configuration = configuration }

    let instance = ""
    let workerCount = 1
    let startedAt = WallTime(seconds: 1_799_999_000)
    let time = WallTime(seconds: 1_800_000_000)
    func reports() async -> [MetricsSnapshot] { [] }
    func process() -> ProcessMetrics { ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: "")) }
    func readiness() -> Readiness { checks }
    func refusals(_ query: RefusalQuery) async -> [ExplainedRefusal] { [] }
    func newRefusals(since counts: [Int: Int], limit: Int) async -> [Int: NewRefusals] { [:] }
    func upstreams() async -> [UpstreamStatus] { [] }
    func rotate() async throws(RotationRefusal) -> SigningKeyRing { try rotation.get() }
    func hottestKeys(limit: Int) async -> [HotKey] { Array(hottest.prefix(limit)) }
    var uses: [AppUse] = []
    func appUses() async throws(AccountFailure) -> [AppUse] { uses }
    let board = SwitchBoard()
    func switches(_ kind: String) -> [LiveSwitch] { board.all(kind, at: time) }
    func set(_ name: String, to value: String?, until: WallTime?) async throws(AccountFailure) {
        _ = board.setOwn(name, to: value, until: until, after: nil, at: time)
    }
    var certificates: [ShownCertificate] { [] }
    func wish(for certificate: String) async throws(AccountFailure) {}
    func explain(_ request: ExplainCommand.Request) async throws(ExplainRefusal) -> ExplainedWalk { throw .busy }
    func stored(_ selector: CacheSelector) async -> CacheTotals {
        var totals = CacheTotals()
        totals.entries = selector.route == nil ? 1 : 0
        return totals
    }
    func purge(_ selector: CacheSelector) async throws(AccountFailure) -> CacheTotals {
        var totals = await stored(selector)
        totals.entries += 2
        return totals
    }
}

/// The admin API with the operations on a gateway of these settings. Its tokens are the admin token and one for each scope.
struct OperationsBench {
    let api: AdminAPI

    init(_ text: String = "", _ change: (inout PretendGateway) -> Void = { _ in }) throws {
        let context = AccountContext(store: MemoryStore(), clock: AccountClock(now: { EventLoop.now() }, pause: pause), notice: { _ in })
        let work = try #require(PasswordWork(threads: 1, queue: 1, start: WorkerThread.start))
        let configuration = try #require(load(text + oneRoute).configuration)
        var gateway = PretendGateway(configuration)
        change(&gateway)
        api = AdminAPI(
            token: { AdminToken(bytes: Array("the-admin-token".utf8), isNew: false) },
            scopedTokens: {
                AdminScope.allCases.map { ScopedToken(name: "for-\($0)", bytes: Array("a-token-with-\($0.rawValue)".utf8), scopes: [$0]) }
            },
            directory: AccountDirectory(context: context), administration: Administration(context: context, work: work, actor: .adminAPI()),
            purchases: PurchaseAdministration(context: context, stores: { .none }, actor: .adminAPI()),
            plan: { OperatorPlan(configuration.settings) }, limiter: StrictLimiter(), gateway: gateway,
            operations: AdminOperation.ofGateway(gateway))
    }

    func request(_ line: String, _ body: String = "", token: String = "the-admin-token") -> LocalRequest {
        let words = line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        return LocalRequest(
            method: words[0], target: words[1], path: "/admin/api/" + parts[0], query: parts.count > 1 ? "?" + parts[1] : "",
            fields: [(name: "Authorization", value: "Bearer " + token)], body: Array(body.utf8), client: IPAddress(v4: 0x7F00_0001),
            requestID: "r")
    }

    func ask(_ line: String, _ body: String = "", token: String = "the-admin-token") async -> (status: Int, text: String) {
        let response = await api.answer(request(line, body, token: token))
        return (response.status, response.body.rawBytes.text)
    }
}
