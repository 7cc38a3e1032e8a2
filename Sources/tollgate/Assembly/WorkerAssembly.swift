internal import Contracts
internal import Credentials
internal import Gate
internal import Proxy
internal import Settings
internal import Telemetry

extension MetricLabels {
    mutating func declare(_ configuration: GatewayConfiguration) {
        // The gateway's own endpoints and its own issuer come last, as they do in the policy.
        declare(
            routes: configuration.routes.map(\.rule.name) + configuration.endpoints.map(\.endpoint.name) + ["own-keys"],
            upstreams: configuration.upstreams.map(\.name),
            tiers: configuration.tiers.names, issuers: configuration.trusts.map(\.name) + [TrustDeclaration.ownName])
    }
}

extension WorkerSettings {
    init(_ configuration: GatewayConfiguration, workers: Int) {
        self.init()
        headTimeout = UInt64(configuration.headerTimeoutMilliseconds)
        idleTimeout = UInt64(configuration.idleTimeoutMilliseconds)
        bodyTimeout = UInt64(configuration.bodyTimeoutMilliseconds)
        sendTimeout = UInt64(configuration.sendTimeoutMilliseconds)
        maxClients = max(1, configuration.maxConnections / workers)
    }
}
