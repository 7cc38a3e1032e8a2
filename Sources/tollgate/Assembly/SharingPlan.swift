internal import Credentials
internal import Gate
internal import Issuers
internal import Limits
internal import Proxy
internal import Redis
internal import Settings
internal import Transport
internal import Wire

/// The configuration for counting limits in Redis, without connections: each worker makes its own, on its thread.
struct SharingPlan: Sendable {
    private let endpoint: RedisEndpoint
    private let tls: TLSClientContext?
    private let addresses: [SocketAddress]
    private let gateways: GatewayCount
    private let settings: SharedLimitClient.Settings
    private var line = RedisConnectionSettings()

    /// nil without `REDIS_URL`. `addresses` are those of its name, if it has one.
    init?(_ configuration: GatewayConfiguration, workers: Int, addresses: [SocketAddress]?) throws {
        guard let endpoint = configuration.redis else { return nil }
        self.endpoint = endpoint
        tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        self.addresses = endpoint.fixedAddresses ?? addresses ?? []
        gateways = GatewayCount(id: SecureRandom.bytes(8).rawBytes.load64(0))
        var settings = SharedLimitClient.Settings()
        settings.failureMode = configuration.settings.rateLimitFailure
        settings.workers = UInt32(clamping: workers)
        let deadline = UInt64(configuration.settings.redisTimeoutMilliseconds)
        line.replyDeadline = deadline
        line.responseTimeout = max(line.responseTimeout, 2 * deadline)
        settings.fit(deadline: deadline, responseTimeout: line.responseTimeout)
        self.settings = settings
    }

    /// Worker `id`'s part; called on its thread. The first worker sends the heartbeat that counts gateways.
    func counting(worker id: Int, limiter: SharedLimiter, seed: UInt64, now: MonotonicTime) -> SharedCounting {
        let line = line
        let token = Worker.redisToken
        let lease = RedisScript(name: RefreshLease.name, source: "\(RefreshLease.source)")
        return SharedCounting(settings, limiter: limiter, gateways: gateways, lease: lease, counts: id == 0, now: now) { [line] scripts in
            switch endpoint.topology {
            case .single, .sentinel:
                var line = line
                line.reportsLateReplies = true
                return RedisNodes(
                    RedisConnection(
                        endpoint, addresses: addresses, tls: tls, scripts: scripts, settings: line, token: token, seed: seed, now: now))
            case .cluster:
                let (endpoint, tls) = (endpoint, tls)
                var line = line
                line.isClusterNode = true
                return RedisNodes(firstToken: token) { [line] place, token, now in
                    RedisConnection(
                        endpoint.server(at: place.address), addresses: place.addresses, tls: tls, scripts: scripts, settings: line,
                        token: token, seed: seed ^ token, now: now)
                }
            }
        }
    }

    /// Hashes subjects into limit keys; gateways that count together must hash alike. Without `TOLLGATE_KEY_SECRET` the hash
    /// has no key, and a reader of Redis or of the log can test guesses at the subject of a limit key.
    static func hash(_ configuration: GatewayConfiguration) -> KeyedHash {
        guard configuration.redis != nil else { return .random() }
        guard let secret = configuration.settings.keySecret else { return KeyedHash(derivedFrom: ("" as StaticString).rawBytes) }
        return KeyedHash(derivedFrom: secret.rawBytes)
    }
}
