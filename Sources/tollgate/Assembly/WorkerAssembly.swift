internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Proxy
internal import Settings
internal import System
internal import Telemetry

extension MetricLabels {
    mutating func declare(_ configuration: GatewayConfiguration) {
        let settings = configuration.settings
        // In the order of the policy.
        let own: [LocalEndpoint]
        do throws(RouteFault) {
            own = try LocalEndpoint.free(beside: settings.routes.map(\.rule), settings, configuration.contracts)
        } catch {
            // Such routes make no policy.
            own = []
        }
        declare(
            routes: settings.routes.map(\.rule.name) + configuration.endpoints.map(\.endpoint.name) + own.map(\.name),
            upstreams: settings.upstreams.map(\.name),
            tiers: settings.tiers.names,
            issuers: settings.trusts.map(\.name) + [TrustDeclaration.ownName]
                + (settings.routes.contains { $0.rule.auth.takesKeys } ? [TrustedIssuer.apiKeys.name] : []))
    }
}

extension WorkerSettings {
    init(_ configuration: GatewayConfiguration, workers: Int) {
        self.init()
        headTimeout = UInt64(configuration.settings.headerTimeoutMilliseconds)
        idleTimeout = UInt64(configuration.settings.idleTimeoutMilliseconds)
        bodyTimeout = UInt64(configuration.settings.bodyTimeoutMilliseconds)
        bodyRate = UInt64(configuration.settings.bodyRate)
        cancelsOnHalfClose = configuration.settings.cancelsOnHalfClose
        sendTimeout = UInt64(configuration.settings.sendTimeoutMilliseconds)
        http2 = HTTP2Bounds(
            streams: configuration.settings.http2Streams, streamWindow: configuration.settings.http2StreamWindow,
            connectionWindow: configuration.settings.http2ConnectionWindow)
        let limits = LoadLimits(configuration.settings, workers: workers, descriptors: DescriptorLimit.raise())
        maxClients = max(1, limits.connections / workers)
        limitRequests(limits.requests, workers: workers)
        maxLocalRequests = limits.localRequests
        clientShare = ShareRule(percent: configuration.settings.clientShare)
        maxPipes = limits.pipesOfWorker
        maxBuffers = limits.buffers
        cacheBytes = configuration.settings.cacheSize / workers
        strictTransport = configuration.settings.strictTransport.map { Array("Strict-Transport-Security: \($0)\r\n".utf8) } ?? []
        sampler = configuration.settings.tracing.recordedShare
    }
}
