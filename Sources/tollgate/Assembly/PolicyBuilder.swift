internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Settings
internal import Wire

/// Endpoints of the gateway itself on the main listeners, as a route's `.local` numbers them.
enum LocalEndpoint: UInt16, Sendable, CaseIterable {
    /// `/.well-known/jwks.json`: the public halves of the gateway's own keys.
    case ownKeys = 1
}

/// A configuration and the keys of the moment make the policy that workers decide by.
enum PolicyBuilder {
    /// The rules in order: the routes as configured, then the endpoints of the contracts, then the account page's and the
    /// gateway's own, each of these unless a route took its place.
    static func policy(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, version: Int, now: WallTime
    ) throws(RouteFault) -> Policy {
        let rules = try rules(configuration)
        let trust = trust(configuration, keys: keys, rules: rules, now: now)
        return try Policy(
            version: version, tiers: configuration.tiers, rules: rules, trust: trust,
            trustedProxies: configuration.trustedProxies, internals: configuration.internals.map(internalCaller),
            upgradeURL: configuration.upgradeURL, hasAccounts: configuration.hasAccounts,
            refreshers: Set(configuration.trusts.filter { $0.refresh != nil }.map(\.name)))
    }

    /// Every rule, in the order in which the policy counts them.
    static func rules(_ configuration: GatewayConfiguration) throws(RouteFault) -> [RouteRule] {
        try withEndpoints(configuration.routes.map(\.rule) + configuration.endpoints.map(\.rule))
    }

    /// Outside issuers in the configuration's order, then the gateway's own tokens.
    static func trust(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, rules: [RouteRule], now: WallTime
    ) -> Trust {
        var issuers = configuration.trusts.map { issuer($0, keys: keys.outside[$0.name]) }
        issuers.append(ownIssuer(configuration, keys: keys.own, now: now))
        return Trust(
            issuers: issuers, clockSkewSeconds: configuration.clockSkewSeconds,
            requirements: RouteRule.requirements(of: rules))
    }

    private static func issuer(_ trust: TrustDeclaration, keys: KeySet?) -> TrustedIssuer {
        TrustedIssuer(
            name: trust.name, issuer: trust.issuer, audiences: trust.audiences, algorithms: trust.algorithms, keys: keys,
            userClaim: trust.userClaim, tierClaim: trust.tierClaim, emailClaim: trust.emailClaim,
            maxLifetimeSeconds: trust.maxLifetimeSeconds)
    }

    private static func ownIssuer(_ configuration: GatewayConfiguration, keys: SigningKeyRing?, now: WallTime) -> TrustedIssuer {
        let algorithms = AlgorithmSet(keys?.entries.map(\.key.algorithm) ?? [])
        return TrustedIssuer(
            name: TrustDeclaration.ownName, issuer: configuration.issuer, audiences: [configuration.audience],
            algorithms: algorithms, keys: keys?.keySet(now: now), isOwn: true)
    }

    private static func internalCaller(_ caller: InternalDeclaration) -> InternalCaller {
        InternalCaller(
            name: caller.name, keySHA256: caller.keyDigest, networks: caller.networks, certificateName: caller.certificateName)
    }

    private static func withEndpoints(_ routes: [RouteRule]) throws(RouteFault) -> [RouteRule] {
        // A hyphen, which no configured route's name has.
        var keys = RouteRule(
            name: "own-keys", methods: ["GET", "HEAD"], path: "/.well-known/jwks.json", isPrefix: false,
            target: .local(LocalEndpoint.ownKeys.rawValue), auth: .none)
        keys.errors = .problem
        keys.isDocument = true
        do {
            _ = try RouteTable(routes + [keys])
            return routes + [keys]
        } catch RouteFault.equal(_, keys.name) {
            return routes
        }
    }
}
