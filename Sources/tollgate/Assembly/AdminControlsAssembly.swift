internal import Admin
internal import Cluster
internal import Credentials
internal import Gate
internal import Issuers
internal import Mail
internal import Redis
internal import Settings
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

extension AdminControls {
    /// The controls of a running gateway.
    init(
        active: ActiveConfiguration, health: ConditionLog, workers: WorkerBroadcast, keySets: KeySetRefresher, cluster: ClusterMember
    ) {
        let rotation = KeyRotation(active: active, keySets: keySets) { await cluster.changed($0) }
        self.init()
        ring = { active.keys.own }
        outsideKeys = { OutsideKeys.all(active.configuration.settings, keySets.statuses) }
        rotate = { () async throws(RotationRefusal) -> SigningKeyRing in try await rotation.rotate() }
        limits = { LimitLine.all(active.configuration.settings) }
        hottest = { await workers.hottestKeys(limit: $0) }
        redis = { () -> RedisState? in
            guard let redis = active.configuration.redis else { return nil }
            let readiness = health.readiness(keySets.statuses, active.configuration, at: EventLoop.now())
            let check = readiness.checks.first { $0.name == "redis" }
            return RedisState(topology: redis.topology.name, state: "\((check?.state ?? .unready).text)", reason: check?.reason)
        }
        outbox = { await ShownOutbox.read(active.configuration) }
        configuration = { ShownConfiguration(active) }
    }
}

extension OutsideKeys {
    /// The issuers and providers of the configuration, in its order.
    fileprivate static func all(_ settings: Configuration, _ statuses: [KeyStatus]) -> [OutsideKeys] {
        let providers = settings.providers.map(\.source)
        return (settings.trusts + providers).map { trust in
            let status = statuses.first { $0.name == trust.name } ?? KeyStatus(name: trust.name)
            var keys = OutsideKeys(name: trust.name, issuer: trust.issuer, keys: status.keyCount)
            switch trust.keySource {
            case .url(let url): keys.url = maskingURLSecrets(url)
            case .file(let path): keys.file = path
            case .secret: break
            }
            keys.fetchedAt = status.confirmedAt
            keys.nextFetchAt = status.nextFetchAt
            keys.fetches = status.fetches
            keys.failures = status.failures
            keys.lastFault = status.problem
            return keys
        }
    }
}

extension LimitLine {
    /// The limits of the routes, in the order of the configuration.
    fileprivate static func all(_ settings: Configuration) -> [LimitLine] {
        settings.routes.map(\.rule).flatMap { rule in
            rule.limits.indices.map { index in
                let by = rule.limits[index].anonymous.by ?? rule.limitBy
                return LimitLine(
                    route: rule.name, policy: rule.limitName(index), limit: rule.limits[index].text, by: by.text,
                    failure: settings.rateLimitFailure.name, isShadowed: rule.shadow.contains(.limit))
            }
        }
    }
}

extension ShownOutbox {
    /// Reads the outbox on a thread of its own, because it may block.
    fileprivate static func read(_ configuration: GatewayConfiguration) async -> Result<ShownOutbox, Fault> {
        let outbox = Outbox(dataDirectory: configuration.settings.dataDirectory)
        let channels = configuration.mail.channelsInOutbox.map(\.rawValue)
        return await withCheckedContinuation { continuation in
            do throws(SystemFault) {
                _ = try WorkerThread(name: "outbox") {
                    do throws(SystemFault) {
                        let messages = try outbox.read().map(Message.init)
                        continuation.resume(returning: .success(ShownOutbox(channels: channels, messages: messages)))
                    } catch {
                        continuation.resume(returning: .failure(Fault("The outbox cannot be read: \(error)")))
                    }
                }
            } catch {
                continuation.resume(returning: .failure(Fault("The outbox cannot be read: \(error)")))
            }
        }
    }
}

extension ShownOutbox.Message {
    fileprivate init(_ entry: OutboxEntry) {
        self.init(
            at: entry.at, channel: entry.channel.rawValue, kind: entry.kind, to: entry.to, subject: entry.subject, text: entry.text)
        switch entry.secret {
        case .code(let code): self.code = code
        case .link(let link): self.link = link
        case .none: break
        }
    }
}

extension ShownConfiguration {
    fileprivate init(_ active: ActiveConfiguration) {
        let loads = active.loads.now
        self.init(
            loadedAt: loads.loadedAt, version: loads.version,
            settings: active.configuration.settings.effective.map { setting in
                Setting(
                    name: setting.name, value: setting.value, source: setting.origin.text, isSecret: setting.isSecret,
                    needsRestart: setting.needsRestart)
            },
            lastReload: loads.lastReload.map { reload in
                Reload(at: reload.at, faults: reload.faults.map(maskingURLSecrets), warnings: reload.warnings.map(maskingURLSecrets))
            })
    }
}
