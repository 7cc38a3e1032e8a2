internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Settings
internal import Wire

/// Builds the policy that workers decide by from a configuration and the keys in force.
enum PolicyBuilder {
    /// Rules in order: configured routes, endpoints of contracts, the account page's and the gateway's own; the last two
    /// only where no route has their path.
    static func policy(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, switches: RouteSwitches = RouteSwitches(),
        networks: [NetworkList: NetworkSet], version: Int, now: WallTime
    ) throws(RouteFault) -> Policy {
        let settings = configuration.settings
        let rules = try rules(configuration, switches)
        let trust = trust(configuration, keys: keys, rules: rules, now: now)
        let signer = keys.own.flatMap {
            IdentitySigner(key: $0.active, issuer: settings.issuer, publicURL: settings.publicURL)
        }
        return try Policy(
            version: version, tiers: settings.tiers, rules: rules, trust: trust,
            trustedProxies: settings.trustedProxies, internals: settings.internals.map(\.caller),
            upgradeURL: settings.upgradeURL, envelopes: Catalogue.envelopes, hasAccounts: settings.hasAccounts,
            refreshers: Set(settings.trusts.filter { $0.refresh != nil }.map(\.name)),
            tierSources: Dictionary(settings.trusts.map { ($0.name, $0.tierSource) }) { first, _ in first },
            identitySigner: signer, cors: settings.corsRule, ownOrigin: OriginPattern.origin(ofURL: settings.publicURL),
            contractBases: contractBases(configuration), tierScopes: settings.tierScopes,
            versionGates: settings.versionGates.map(\.gate),
            appHash: KeyedHash(derivedFrom: (Array("apps".utf8) + (settings.keySecret ?? settings.jwtSecret ?? [])).rawBytes),
            denyFrom: settings.denyFrom, networks: networks,
            nonceSecret: nonceSecret(configuration), publicURL: settings.publicURL)
    }

    /// That from which the nonces of proofs are made; nil where proofs need none.
    static func nonceSecret(_ configuration: GatewayConfiguration) -> [UInt8]? {
        let settings = configuration.settings
        return settings.asksForNonces ? settings.keySecret ?? settings.jwtSecret ?? processSecret : nil
    }

    /// Of a gateway that shares no secret with others.
    private static let processSecret = SecureRandom.bytes(32)

    /// The bases of the mounted contracts but the root, below which all paths are; of several at one base the first.
    private static func contractBases(_ configuration: GatewayConfiguration) -> [ContractBase] {
        var seen: Set<String> = [""]
        return configuration.contracts.endpoints.filter { seen.insert($0.base).inserted }
            .map { ContractBase(path: $0.base, dialect: $0.endpoint.dialect) }
    }

    /// Every rule, in the policy's order, as the live switches change it.
    static func rules(
        _ configuration: GatewayConfiguration, _ switches: RouteSwitches = RouteSwitches()
    ) throws(RouteFault) -> [RouteRule] {
        let (cors, attestation) = (configuration.settings.corsRule, configuration.settings.signInAttestation)
        let isShadowed = configuration.settings.attestedSignIn?.isShadowed == true
        let endpoints = configuration.endpoints.map { place in
            var rule = place.rule
            guard !place.endpoint.isForServers else { return rule }
            rule.cors = cors
            rule.maintenance = switches.ofContracts
            if place.endpoint.signsIn { rule.attestation = attestation }
            if isShadowed { rule.shadow.insert(.attestation) }
            return rule
        }
        var routes = configuration.settings.routes.map(\.rule)
        for index in routes.indices { routes[index].factorTier = configuration.settings.factor.leastTier }
        let own = try LocalEndpoint.free(beside: routes, configuration.settings, configuration.contracts).map { endpoint in
            var rule = endpoint.rule(cors)
            if endpoint == .token || endpoint == .revocation { rule.maintenance = switches.ofContracts }
            return rule
        }
        return routes.map(switches.applied(to:)) + endpoints + own
    }

    /// Outside issuers in the configuration's order, then the gateway's own tokens, the place of API keys if a route takes any, and those of
    /// attestations.
    static func trust(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, rules: [RouteRule], now: WallTime
    ) -> Trust {
        var issuers = configuration.settings.trusts.map { issuer($0, keys: keys.outside[$0.name]) }
        issuers.append(ownIssuer(configuration, keys: keys.own, now: now))
        if rules.contains(where: \.auth.takesKeys) { issuers.append(.apiKeys) }
        issuers += configuration.settings.attestations.map(\.source).map { source in
            var issuer = issuer(source, keys: keys.outside[source.name])
            issuer.use = .attestation
            return issuer
        }
        return Trust(
            issuers: issuers, clockSkewSeconds: configuration.settings.clockSkewSeconds,
            requirements: RouteRule.requirements(of: rules), scopes: RouteRule.scopes(of: rules),
            resources: configuration.settings.resources.map {
                ResourceAudience(url: $0.resource(configuration.settings.publicURL).url, issuers: $0.issuers)
            })
    }

    static func issuer(_ trust: TrustDeclaration, keys: KeySet?) -> TrustedIssuer {
        TrustedIssuer(
            name: trust.name, issuer: trust.issuer, audiences: trust.audiences, algorithms: trust.algorithms, keys: keys,
            userClaim: trust.userClaim, tierClaim: trust.tierClaim, emailClaim: trust.emailClaim,
            maxLifetimeSeconds: trust.maxLifetimeSeconds, hasAccounts: trust.hasAccounts)
    }

    private static func ownIssuer(_ configuration: GatewayConfiguration, keys: SigningKeyRing?, now: WallTime) -> TrustedIssuer {
        let algorithms = AlgorithmSet(keys?.entries.map(\.key.algorithm) ?? [])
        return TrustedIssuer(
            name: TrustDeclaration.ownName, issuer: configuration.settings.issuer, audiences: [configuration.settings.audience],
            algorithms: algorithms, keys: keys?.keySet(now: now), isOwn: true)
    }
}
