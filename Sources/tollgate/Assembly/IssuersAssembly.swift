internal import Settings
internal import Storage

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
