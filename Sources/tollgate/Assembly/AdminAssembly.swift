internal import Accounts
internal import Admin
internal import Gate
internal import Glibc
internal import HTTP
internal import Issuers
internal import Limits
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

extension AccountsAssembly {
    /// The admin API over these accounts, and over the running gateway.
    func adminAPI(
        _ workers: WorkerBroadcast, keySets: KeySetRefresher, limiter table: SharedLimiter, spans: SpanExporter, startedAt: WallTime
    ) -> AdminAPI {
        let (active, health) = (active, health)
        var gateway = AdminGateway(startedAt: startedAt, now: { EventLoop.now().wall }) {
            health.process({ keySets.statuses }, limitEvictions: table.evictions, spans: spans.counts, now: EventLoop.now().wall)
        }
        gateway.instance = machineName()
        gateway.workers = workers.mailboxes.count
        gateway.reports = { await workers.reports() }
        let readiness: @Sendable () -> Readiness = {
            health.readiness(keySets.statuses, active.configuration, at: EventLoop.now())
        }
        gateway.readiness = readiness
        gateway.refusals = { await workers.refusals($0) }
        gateway.newRefusals = { await workers.newRefusals(since: $0, limit: $1) }
        gateway.upstreams = { await workers.upstreams() }
        gateway.writeRoutes = { active.configuration.writeRoutes(&$0, $1) }
        let explainer = Explainer(active: active, readiness: readiness)
        gateway.explain = { await explainer.explain($0) }
        gateway.controls = AdminControls(active: active, health: health, workers: workers, keySets: keySets, cluster: cluster)
        return AdminAPI(
            token: { active.adminToken }, directory: AccountDirectory(context: context),
            administration: Administration(context: context, work: work, actor: .adminAPI()), limiter: limiter, gateway: gateway,
            plan: {
                let settings = active.configuration.settings
                return AdminPlan(
                    tiers: settings.tiers, tierGraceSeconds: settings.tierGraceSeconds,
                    issuers: settings.trusts.map { SubjectIssuer(name: $0.name, hasAccounts: $0.hasAccounts) },
                    scopedTokens: settings.scopedAdminTokens.map(\.token))
            },
            now: { EventLoop.now().wall })
    }

    private func machineName() -> String {
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// `POST /admin/api/explain`: the walk of `tollgate explain` under the policy in force. One at a time, on a thread of its own, because it
/// asks the store and outside servers.
private final class Explainer: Sendable {
    private let active: ActiveConfiguration
    private let readiness: @Sendable () -> Readiness
    private let isBusy = Mutex(false)

    init(active: ActiveConfiguration, readiness: @escaping @Sendable () -> Readiness) {
        self.active = active
        self.readiness = readiness
    }

    func explain(_ question: ExplainQuestion) async -> ExplainOutcome {
        let request: ExplainCommand.Request
        do throws(UsageFault) {
            request = try ExplainCommand.Request(
                method: question.method, url: question.url, token: question.token,
                headers: question.headers.map { "\($0.name): \($0.value)" }, from: question.from)
        } catch {
            return .invalid(error.message)
        }
        let mayStart = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard mayStart else { return .busy }
        return await withCheckedContinuation { continuation in
            do throws(SystemFault) {
                _ = try WorkerThread(name: "explain") { [self] in
                    let outcome = walk(request)
                    isBusy.withLock { $0 = false }
                    continuation.resume(returning: outcome)
                }
            } catch {
                isBusy.withLock { $0 = false }
                continuation.resume(returning: .failed("No thread can be started"))
            }
        }
    }

    private func walk(_ request: ExplainCommand.Request) -> ExplainOutcome {
        let walk = ExplainedWalk(request, active.configuration, active.currentPolicy, at: EventLoop.now()) { upstream in
            AddressDiagnosis.reasons(readiness(), prefix: "upstream \(upstream) ")
        }
        return .explained(steps: walk.steps, explanation: walk.explanation, route: walk.route)
    }
}
