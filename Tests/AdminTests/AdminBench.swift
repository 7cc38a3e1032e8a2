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

/// The admin API over accounts in memory, and what the gateway tells it. Its tokens and its clock are the test's.
struct AdminBench {
    final class Now: Sendable {
        let time = Mutex(WallTime(seconds: 1_800_000_000))
        let token = Mutex<[UInt8]?>(Array("the-admin-token".utf8))
        let scoped = Mutex<[ScopedToken]>([])
    }

    static let token = [("Authorization", "Bearer the-admin-token")]

    let store = MemoryStore()
    let now = Now()
    let api: AdminAPI

    init(
        _ controls: AdminControls = AdminBench.controls(), tiers: TierList = .standard, issuers: [SubjectIssuer] = [],
        _ change: (inout AdminGateway) -> Void = { _ in }
    ) throws {
        let context = AccountContext(store: store, clock: AccountClock(now: { EventLoop.now() }, pause: pause), notice: { _ in })
        let work = try #require(PasswordWork(threads: 1, queue: 1, start: WorkerThread.start))
        let now = now
        var gateway = AdminGateway(startedAt: WallTime(seconds: 1_799_999_000), now: { now.time.withLock { $0 } }) {
            ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: ""))
        }
        gateway.controls = controls
        change(&gateway)
        api = AdminAPI(
            token: { now.token.withLock { $0.map { AdminToken(bytes: $0, isNew: false) } } }, directory: AccountDirectory(context: context),
            administration: Administration(context: context, work: work, actor: .adminAPI()), limiter: StrictLimiter(), gateway: gateway,
            plan: { AdminPlan(tiers: tiers, tierGraceSeconds: 0, issuers: issuers, scopedTokens: now.scoped.withLock { $0 }) },
            now: { now.time.withLock { $0 } })
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

    func request(
        _ line: String, _ body: String = "", _ fields: [(String, String)] = AdminBench.token, from address: IPAddress = IPAddress(v4: 0x7F00_0001),
        isSecure: Bool = false
    ) -> LocalRequest {
        let words = line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        return LocalRequest(
            method: words[0], target: words[1], path: "/admin/api/" + parts[0], query: parts.count > 1 ? "?" + parts[1] : "",
            fields: fields.map { (name: $0.0, value: $0.1) }, body: Array(body.utf8), client: address, requestID: "r", isSecure: isSecure)
    }

    func ask(
        _ line: String, _ body: String = "", _ fields: [(String, String)] = AdminBench.token, from address: IPAddress = IPAddress(v4: 0x7F00_0001),
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
