internal import Issuers
internal import Proxy
internal import Settings
internal import Storage
internal import Transport

extension IssuersPlan {
    init(_ configuration: GatewayConfiguration) {
        let sharing = configuration.database.flatMap { $0.isServer ? $0 : nil }.flatMap { location in
            configuration.keySecret.map { KeySharing(location: location, secret: $0) }
        }
        let holders = configuration.trusts + configuration.providers.map(\.source)
        self.init(
            dataDirectory: configuration.dataDirectory, ownSecret: configuration.jwtSecret,
            algorithm: configuration.signingAlgorithm, sharing: configuration.jwtSecret == nil ? sharing : nil,
            outside: holders.map { KeyHolder(name: $0.name, source: $0.keySource, algorithms: $0.algorithms) })
    }
}

extension RefreshForm {
    init(_ contract: RefreshContract) {
        switch contract {
        case .password: self = .password
        case .provider: self = .provider
        case .dlauth: self = .dlauth
        case .anonymous: self = .anonymous
        }
    }
}

extension ExternalRefresher {
    /// Asks the servers of the trust lines that are in force; Redis is asked over the first worker's connection.
    convenience init(_ configuration: GatewayConfiguration, control: ControlState) {
        let redis = control.mailboxes[0]
        let lease = LeaseScript(
            secret: { control.configuration.keySecret ?? control.configuration.jwtSecret },
            call: { keys, arguments in
                await withCheckedContinuation { continuation in
                    let call = LeaseCall(keys: keys, arguments: arguments)
                    let isTaken = redis.post(.lease(call) { continuation.resume(returning: $0) })
                    if !isTaken { continuation.resume(returning: nil) }
                }
            })
        self.init(
            server: { issuer in
                let declared = control.configuration.trusts.first { $0.name == issuer }?.refresh
                return declared.map { RefreshServer(url: $0.url, form: RefreshForm($0.contract)) }
            },
            lease: configuration.redis == nil ? nil : lease,
            onFailure: { control.log.warning("a token cannot be refreshed", ("issuer", $0), ("error", $1)) })
    }
}
