internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Settings
internal import Wire

/// The gateway's own endpoints on the main listeners, by their number in a route's `.local` target.
enum LocalEndpoint: UInt16, Sendable, CaseIterable {
    /// `/.well-known/jwks.json`: the public halves of the gateway's own keys.
    case ownKeys = 1
}

/// Builds the policy that workers decide by from a configuration and the keys in force.
enum PolicyBuilder {
    /// Rules in order: configured routes, endpoints of contracts, the account page's and the gateway's own; the last two
    /// only where no route has their path.
    static func policy(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, version: Int, now: WallTime
    ) throws(RouteFault) -> Policy {
        let settings = configuration.settings
        let rules = try rules(configuration)
        let trust = trust(configuration, keys: keys, rules: rules, now: now)
        return try Policy(
            version: version, tiers: settings.tiers, rules: rules, trust: trust,
            trustedProxies: settings.trustedProxies, internals: settings.internals.map(internalCaller),
            upgradeURL: settings.upgradeURL, hasAccounts: settings.hasAccounts,
            refreshers: Set(settings.trusts.filter { $0.refresh != nil }.map(\.name)),
            tierSources: Dictionary(settings.trusts.map { ($0.name, TierSource($0.tierSource)) }) { first, _ in first },
            cors: settings.corsRule, ownOrigin: OriginPattern.origin(ofURL: settings.publicURL))
    }

    /// Every rule, in the policy's order.
    static func rules(_ configuration: GatewayConfiguration) throws(RouteFault) -> [RouteRule] {
        let cors = configuration.settings.corsRule
        let endpoints = configuration.endpoints.map { place in
            var rule = place.rule
            rule.cors = cors
            return rule
        }
        return try withEndpoints(configuration.settings.routes.map(\.rule) + endpoints, cors)
    }

    /// Outside issuers in the configuration's order, then the gateway's own tokens.
    static func trust(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, rules: [RouteRule], now: WallTime
    ) -> Trust {
        var issuers = configuration.settings.trusts.map { issuer($0, keys: keys.outside[$0.name]) }
        issuers.append(ownIssuer(configuration, keys: keys.own, now: now))
        return Trust(
            issuers: issuers, clockSkewSeconds: configuration.settings.clockSkewSeconds,
            requirements: RouteRule.requirements(of: rules))
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

    private static func internalCaller(_ caller: InternalDeclaration) -> InternalCaller {
        InternalCaller(
            name: caller.name, keySHA256: caller.keyDigest, networks: caller.networks, certificateName: caller.certificateName)
    }

    private static func withEndpoints(_ routes: [RouteRule], _ cors: CORSRule?) throws(RouteFault) -> [RouteRule] {
        // No configured route's name has a hyphen.
        var keys = RouteRule(
            name: "own-keys", methods: ["GET", "HEAD"], path: "/.well-known/jwks.json", isPrefix: false,
            target: .local(LocalEndpoint.ownKeys.rawValue), auth: .none)
        keys.errors = .problem
        keys.isDocument = true
        keys.cors = cors
        do {
            _ = try RouteTable(routes + [keys])
            return routes + [keys]
        } catch RouteFault.equal(_, keys.name) {
            return routes
        }
    }
}

extension TierSource {
    init(_ declaration: TierDeclaration) {
        switch declaration {
        case .claim: self = .claim
        case .account: self = .account
        case .lookup: self = .lookup
        }
    }
}
