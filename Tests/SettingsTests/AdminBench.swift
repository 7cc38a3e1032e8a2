import Accounts
import Credentials
import Gate
import HTTP
import MemoryStore
import Settings
import Telemetry
import Testing
import Threads
import Transport
import Wire

@testable import Admin
@testable import tollgate

/// The admin API over accounts in memory, and what the gateway tells it.
struct AdminBench {
    let store = MemoryStore()
    let api: AdminAPI

    init(_ controls: AdminControls = AdminBench.controls(), trust: String = "") throws {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let context = AccountContext(store: store, clock: clock, notice: { _ in })
        let work = try #require(PasswordWork(threads: 1, queue: 1, start: WorkerThread.start))
        let configuration = try #require(load(trust + oneRoute).configuration)
        var gateway = AdminGateway(startedAt: EventLoop.now().wall, now: { EventLoop.now().wall }) {
            ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: ""))
        }
        gateway.controls = controls
        api = AdminAPI(
            token: { AdminToken(bytes: Array("the-admin-token".utf8), isNew: false) }, directory: AccountDirectory(context: context),
            administration: Administration(context: context, work: work, actor: .adminAPI()),
            limiter: AttemptCounts(AttemptRates(configuration), table: SharedLimiter(hash: .random())),
            gateway: gateway,
            plan: {
                AdminPlan(
                    tiers: configuration.settings.tiers, tierGraceSeconds: 0,
                    issuers: configuration.settings.trusts.map { SubjectIssuer(name: $0.name, hasAccounts: $0.hasAccounts) })
            },
            now: { EventLoop.now().wall })
    }

    /// Controls without keys, limits and settings, but for those given.
    static func controls(
        ring: SigningKeyRing? = nil, outside: [OutsideKeys] = [],
        rotate: @escaping @Sendable () async throws(RotationRefusal) -> SigningKeyRing = { () throws(RotationRefusal) -> SigningKeyRing in throw .secret },
        limits: [LimitLine] = [], hottest: [HotKey] = [], redis: RedisState? = nil,
        configuration: ShownConfiguration = ShownConfiguration(loadedAt: WallTime(seconds: 0), version: 1, settings: [], lastReload: nil)
    ) -> AdminControls {
        var controls = AdminControls()
        controls.ring = { ring }
        controls.outsideKeys = { outside }
        controls.rotate = rotate
        controls.limits = { limits }
        controls.hottest = { Array(hottest.prefix($0)) }
        controls.redis = { redis }
        controls.configuration = { configuration }
        return controls
    }

    func ask(_ line: String, _ body: String = "") async throws -> (status: Int, text: String) {
        let words = line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        let request = LocalRequest(
            method: words[0], target: words[1], path: "/admin/api/" + parts[0], query: parts.count > 1 ? "?" + parts[1] : "",
            fields: [(name: "Authorization", value: "Bearer the-admin-token")], body: Array(body.utf8),
            client: try #require(IPAddress(parsing: "127.0.0.1")), requestID: "r")
        let response = await api.answer(request)
        return (response.status, response.body.rawBytes.text)
    }
}
