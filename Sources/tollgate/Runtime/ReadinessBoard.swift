internal import Issuers
internal import Settings
internal import Telemetry
internal import Wire

/// The condition of everything the gateway depends on, and what `/readyz` says of it. Pure.
struct ReadinessBoard {
    private static let connecting = "connecting"

    let workers: Int
    var isDraining = false
    var store = StoreCondition()
    var redis = RedisConditions()
    var upstreams = UpstreamConditions()
    /// Files that are read again when they change: why some were not adopted.
    enum FileKind: CaseIterable { case networks, clientAuthority, upstreamCertificates }
    var fileFaults: [FileKind: [String]] = [:]
    /// Why changes are not announced on the bus; nil while they are, and without a bus.
    private var busProblem: String?

    init(workers: Int) { self.workers = workers }

    /// There is a bus, which is not connected yet.
    mutating func busExpected() { busProblem = Self.connecting }

    /// Returns whether the bus was lost or came back.
    mutating func busChanged(problem: String?) -> Bool {
        defer { busProblem = problem }
        return (busProblem == nil) != (problem == nil) || busProblem == Self.connecting
    }

    /// `metrics` has the carrier of the bus, the certificates and the bounds that are reached.
    func readiness(_ keys: [KeyStatus], _ metrics: ProcessMetrics, _ configuration: GatewayConfiguration, at now: Moment) -> Readiness {
        var readiness = Readiness()
        readiness.add("serving", isDraining ? .unready : .ready, isDraining ? "draining" : nil)
        if configuration.redis != nil { redis.add(to: &readiness, of: workers, configuration.settings.rateLimitFailure) }
        if configuration.settings.usesStore { readiness.add("accounts", degradedBy: store.reason) }
        if let carrier = metrics.bus.carrier {
            let consequence = "changes by other gateways are looked for in the database, and count within a second"
            readiness.add("bus", degradedBy: busProblem.map { "\(carrier): \($0); \(consequence)" })
        }
        if !configuration.settings.tlsPairs.isEmpty || !metrics.renewals.isEmpty {
            let expired = metrics.certificates.filter { $0.value <= now.wall }.keys.sorted()
            let late = metrics.renewals.filter { $0.value.isLate(at: now.wall) }.sorted { $0.key < $1.key }
            var reasons = late.map { "\($0.key): \($0.value.sentence)" }
            if !expired.isEmpty { reasons.insert("expired: \(expired.joined(separator: ", "))", at: 0) }
            readiness.add("certificates", degradedBy: reasons.isEmpty ? nil : reasons.joined(separator: "; "))
        }
        let notAdopted = FileKind.allCases.flatMap { fileFaults[$0] ?? [] }
        if !notAdopted.isEmpty { readiness.add("files", .degraded, notAdopted.joined(separator: "; ")) }
        for status in keys {
            readiness.add("keys of \(status.name)", degradedBy: status.problem ?? (status.keyCount == 0 ? "keys never fetched" : nil))
        }
        let overloads = metrics.overload.reachedByAll
        if !overloads.isEmpty {
            // Not unready: a load balancer that took an overloaded gateway away would give its load to the others.
            readiness.add("load", .degraded, "at its bound: " + overloads.map(\.text).joined(separator: ", "))
        }
        upstreams.add(to: &readiness, at: now.monotonic)
        return readiness
    }
}

extension Readiness {
    /// Degraded for a reason; ready without one.
    fileprivate mutating func add(_ name: String, degradedBy reason: String?) { add(name, reason == nil ? .ready : .degraded, reason) }
}
