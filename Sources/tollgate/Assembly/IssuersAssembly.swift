internal import Accounts
internal import Contracts
internal import Credentials
internal import Issuers
internal import Limits
internal import Proxy
internal import Settings
internal import Storage
internal import Transport

extension IssuersPlan {
    init(_ configuration: GatewayConfiguration) {
        let settings = configuration.settings
        let sharing = configuration.database.flatMap { $0.isServer ? $0 : nil }.flatMap { location in
            settings.keySecret.map { KeySharing(location: location, secret: $0) }
        }
        let issuers = settings.trusts.map { KeyHolder(name: $0.name, source: $0.keySource, algorithms: $0.algorithms) }
        let providers = settings.providers.map(\.source).map {
            KeyHolder(name: $0.name, source: $0.keySource, algorithms: $0.algorithms, isProvider: true)
        }
        let attestations = settings.attestations.map(\.source).map {
            KeyHolder(name: $0.name, source: $0.keySource, algorithms: $0.algorithms)
        }
        self.init(
            dataDirectory: settings.dataDirectory, ownSecret: settings.jwtSecret,
            algorithm: settings.signingAlgorithm, sharing: settings.jwtSecret == nil ? sharing : nil,
            outside: issuers + providers + attestations)
    }
}

extension RefreshForm {
    /// Of a contract with refresh tokens.
    init(_ contract: ContractID) {
        let names = Catalogue.refreshNames(of: contract)
        self.init(token: names.token, access: names.access)
    }
}

extension OutsideRedeemer {
    /// Asks the issuers of the trust lines in force that have `accounts=on` and `refresh=`.
    init(_ refresher: ExternalRefresher, active: ActiveConfiguration, keySets: KeySetRefresher) {
        self.init(
            issuers: {
                let (settings, keys) = (active.configuration.settings, active.keys)
                return settings.trusts.filter(\.hasAccounts).compactMap { trust in
                    trust.refresh.map { refresh in
                        RedeemingIssuer(
                            issuer: PolicyBuilder.issuer(trust, keys: keys.outside[trust.name]),
                            contract: refresh.contract, clockSkewSeconds: settings.clockSkewSeconds)
                    }
                }
            }, refresher: refresher, keysWanted: { keySets.sawUnknownKey(of: $0) })
    }
}

extension ExternalRefresher {
    /// Refreshes at the servers of the trust lines in force; the lease is taken over the first worker's Redis connection.
    convenience init(
        _ configuration: GatewayConfiguration, active: ActiveConfiguration, workers: WorkerBroadcast, log: ServerLog
    ) {
        let redis = workers.first
        let lease = LeaseScript(
            secret: { active.configuration.settings.keySecret ?? active.configuration.settings.jwtSecret },
            call: { keys, arguments in
                let call = LeaseCall(keys: keys, arguments: arguments)
                let reply = await redis.ask { .lease(call, $0) } ?? nil
                return reply.flatMap { RefreshLease.Reply(word: $0.word, value: $0.value) }
            })
        self.init(
            server: { issuer in
                let declared = active.configuration.settings.trusts.first { $0.name == issuer }?.refresh
                return declared.map { RefreshServer(url: $0.url, form: RefreshForm($0.contract)) }
            },
            lease: configuration.redis == nil ? nil : lease,
            onFailure: { log.warning("a token cannot be refreshed", ("issuer", $0), ("error", $1)) })
    }
}
