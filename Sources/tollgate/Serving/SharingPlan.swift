internal import Credentials
internal import Gate
internal import Proxy
internal import Redis
internal import Settings
internal import Transport
internal import Wire

/// What the workers need to count limits together with other gateways: everything but the connections, which each makes on
/// its own thread.
struct SharingPlan: Sendable {
    private let endpoint: RedisEndpoint
    private let tls: TLSClientContext?
    private let addresses: [SocketAddress]
    private let gateways: GatewayCount
    private let settings: SharedLimitClient.Settings

    /// nil where `REDIS_URL` is not set. `addresses` are those of its name, where it has one.
    init?(_ configuration: GatewayConfiguration, workers: Int, addresses: [SocketAddress]?) throws {
        guard let endpoint = configuration.redis else { return nil }
        self.endpoint = endpoint
        tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        self.addresses = endpoint.fixedAddresses ?? addresses ?? []
        gateways = GatewayCount(id: SecureRandom.bytes(8).rawBytes.load64(0))
        var settings = SharedLimitClient.Settings()
        settings.failureMode = configuration.rateLimitFailure
        settings.workers = UInt32(clamping: workers)
        self.settings = settings
    }

    /// Worker `id`'s part, made on its thread. The first worker asks for all how many gateways there are.
    func counting(worker id: Int, limiter: SharedLimiter, seed: UInt64, now: MonotonicTime) -> SharedCounting {
        SharedCounting(settings, limiter: limiter, gateways: gateways, counts: id == 0, now: now) { scripts, token in
            RedisConnection(
                endpoint, addresses: addresses, tls: tls, scripts: scripts, token: token, seed: seed, now: now)
        }
    }

    /// What limit keys are made with. Gateways that count together must make the same ones. Without a secret that they share
    /// it is a hash that everybody can compute: whoever reads Redis or the log can test a guess at whom a key counts.
    static func hash(_ configuration: GatewayConfiguration) -> KeyedHash {
        guard configuration.redis != nil else { return .random() }
        guard let secret = configuration.keySecret else { return KeyedHash(derivedFrom: ("" as StaticString).rawBytes) }
        return KeyedHash(derivedFrom: secret.rawBytes)
    }
}
