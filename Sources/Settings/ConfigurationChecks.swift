internal import Credentials
internal import Gate
internal import Wire

/// The checks across several settings, and of secrets' bytes. Each reports a fault or a warning.
extension ConfigurationReader {
    /// Requires at least one listener, distinct addresses, and a certificate for TLS.
    mutating func checkListeners() {
        let hasNone = [Setting.listen, .listenTLS, .checkListen].allSatisfy { values.entry($0).value.allSatisfy(\.isWhitespace) }
        if hasNone {
            fault(.listen, "leaves no address to listen on, set it or TOLLGATE_LISTEN_TLS, like 127.0.0.1:8000")
        }
        if !configuration.tlsListeners.isEmpty, configuration.tlsPairs.isEmpty, configuration.acmeDirectory == nil {
            fault(.listenTLS, "needs a certificate, set TOLLGATE_TLS_CERT and TOLLGATE_TLS_KEY, or TOLLGATE_ACME")
        }
        if !configuration.tlsListeners.contains(where: { $0.address.port != nil }),
            let listener = configuration.listeners.first(where: { $0.redirectPort == 0 })
        {
            fault(
                .listen,
                "\(quoted(listener.text)) has no TLS address to lead to, set TOLLGATE_LISTEN_TLS or write a port like ;redirect=443")
        }
        let groups: [(Setting, [ListenerDeclaration])] = [
            (.listen, configuration.listeners), (.listenTLS, configuration.tlsListeners),
            (.acmeListen, configuration.acmeListeners), (.adminListen, configuration.adminListeners),
            (.checkListen, configuration.checkListeners),
        ]
        if let first = configuration.checkListeners.first, configuration.trustedProxies.isEmpty {
            let message =
                "has no proxy in \(Setting.trustedProxies.name), every client counts as the proxy that asks: name the proxies' addresses there"
            findings.warn(Finding(first.origin, Setting.checkListen.name, message))
        }
        var used: [SocketAddress: Setting] = [:]
        for (setting, listeners) in groups {
            for listener in listeners where !listener.address.isAnyPort {
                if let other = used.updateValue(setting, forKey: listener.address), other != setting {
                    fault(setting, "\(listener.address) is already used by \(other.name), give it an address of its own")
                }
            }
        }
    }

    /// Refuses lists of revoked certificates without a CA that they could be of.
    mutating func checkRevocationLists() {
        guard !configuration.tlsRevocationLists.isEmpty, configuration.tlsClientAuthority == nil else { return }
        fault(.tlsClientCRL, "needs the CA whose certificates it revokes, set \(Setting.tlsClientCA.name) or remove it")
    }

    /// Refuses to demand what users can prove nowhere.
    mutating func checkFactor() {
        let needed = "needs the endpoints at which users prove a second factor, set"
        if configuration.factor != .off, configuration.account == nil {
            fault(.factor, "\(needed) \(Setting.account.name) to a path like /account")
        }
        // A value with a fault leaves the choice at off, too.
        guard text(.factor) == "off" else { return }
        for route in configuration.routes where route.rule.factorSeconds != nil {
            findings.fault(route, "has factor=, which \(needed) \(Setting.factor.name)=offered")
        }
    }

    /// Refuses routes that no caller can use: an API key is bound to no device. Warns of nonces that each gateway would make for itself.
    mutating func checkProofs() {
        for route in configuration.routes where route.rule.proof == .required && route.rule.auth == .key {
            findings.fault(route, "has proof=required, which no API key can satisfy, remove it or auth=key")
        }
        let isShared = configuration.keySecret != nil || configuration.jwtSecret != nil
        if configuration.asksForNonces, !isShared, !values.entry(.redisURL).value.isEmpty {
            warn(.keySecret, "is not set, so each gateway has nonces of its own that no other takes: set it alike at all of them")
        }
    }

    /// Refuses routes that would make a second `Strict-Transport-Security`.
    mutating func checkStrictTransport() {
        guard configuration.strictTransport != nil else { return }
        if configuration.tlsListeners.isEmpty {
            warn(.strictTransport, "has no effect, as answers without TLS do not have it: set \(Setting.listenTLS.name), or remove it")
        }
        for route in configuration.routes
        where route.rule.answerFields.set.contains(where: { $0.name.lowercased() == "strict-transport-security" }) {
            findings.fault(route, "sets Strict-Transport-Security, as TOLLGATE_HSTS does for all, remove one of them")
        }
    }

    /// Requires a client CA and a TLS listener for `cert-san=`: without them no client sends a certificate.
    mutating func checkInternals() {
        for caller in configuration.internals where caller.caller.certificateName != nil {
            if configuration.tlsClientAuthority == nil {
                findings.fault(caller, "has cert-san= and no authority to verify certificates by, set \(Setting.tlsClientCA.name)")
            } else if configuration.tlsListeners.isEmpty {
                findings.warn(caller, "has cert-san= and there is no TOLLGATE_LISTEN_TLS, it never matches")
            }
        }
    }

    /// Warns of proxies that are everybody.
    mutating func checkProxies() {
        for network in configuration.trustedProxies where network.isWholeFamily {
            let message =
                "contains all of \(network.isIPv4 ? "IPv4" : "IPv6") (\(network.text)), so every client is believed about the address it comes from: name the proxies' networks alone"
            findings.warn(Finding(configuration.origin(of: .trustedProxies), Setting.trustedProxies.name, message))
        }
    }

    /// Warns of lists that refuse everybody, and of networks whose host bits are ignored.
    mutating func checkNetworks() {
        for network in configuration.denyFrom?.networks ?? [] where network.isWholeFamily {
            let family = network.isIPv4 ? "IPv4" : "IPv6"
            warn(
                .denyFrom,
                "contains all of \(family) (\(network.text)), so every client that comes over it is refused: name the networks meant")
        }
        let entries =
            [values.entry(.trustedProxies), values.entry(.denyFrom)] + (values.family(.route) + values.family(.internalCaller)).map(\.entry)
        for entry in entries {
            for word in entry.value.split(whereSeparator: { " \t,=\"".contains($0) }).map(String.init) {
                guard let host = CIDR.hostWithBits(word), let network = CIDR(parsing: word) else { continue }
                let message =
                    "has \(word), which is \(network.text), as bits behind the /length are ignored: write that, or \(host.text) for the one address"
                findings.warn(Finding(entry.origin, entry.name, message))
            }
        }
    }

    mutating func checkSecrets() {
        if let token = configuration.adminToken { checkAdminToken(token) }
        checkScopedTokens()
        if let secret = configuration.jwtSecret { checkSigningSecret(secret) }
        if let secret = configuration.keySecret, secret.count < 32 {
            secretFault(.keySecret, "is easy to guess, give 32 random bytes or more")
        }
    }

    private mutating func checkAdminToken(_ token: [UInt8]) {
        if !token.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
            secretFault(.adminToken, "contains characters that a bearer token must not, use visible ASCII characters without spaces")
        } else if token.count < 16 {
            let origin = configuration.origin(of: .adminToken)
            findings.warn(Finding(origin, Setting.adminToken.name, "is easy to guess, use 16 characters or more"))
        }
    }

    /// Refuses a token that two settings have: it would have the scopes of whichever is read first.
    private mutating func checkScopedTokens() {
        var owners = configuration.adminToken.map { [$0: Setting.adminToken.name] } ?? [:]
        for declaration in configuration.scopedAdminTokens {
            if let owner = owners.updateValue(declaration.variable, forKey: declaration.token.bytes) {
                findings.fault(declaration, "has the token of \(owner), give each its own")
            }
        }
    }

    private mutating func checkSigningSecret(_ secret: [UInt8]) {
        do {
            _ = try VerificationKey(secret: secret.rawBytes, algorithms: AlgorithmSet(.HS256))
        } catch {
            secretFault(.jwtSecret, "is no usable secret (\(error.message)), give 32 random bytes or more")
        }
        let algorithm = values.entry(Setting.plain(\.signingAlgorithm))
        if algorithm.origin != .builtIn, algorithm.value != SigningAlgorithm.HS256.name {
            fault(Setting.plain(\.signingAlgorithm), "does not go with TOLLGATE_JWT_SECRET, which signs with HS256, remove one of them")
        }
    }

    /// Refuses a trust line with the gateway's own name; warns of one with its own issuer, and of `accounts=on` without effect.
    mutating func checkIssuers() {
        for trust in configuration.trusts {
            if trust.name == TrustDeclaration.ownName {
                findings.fault(trust, "has the name of the gateway's own tokens, choose another")
            }
            if trust.name == TrustedIssuer.apiKeys.name || trust.issuer == TrustedIssuer.apiKeys.issuer {
                findings.fault(
                    trust, "has the name or issuer \(TrustedIssuer.apiKeys.name), by which upstreams know API keys, choose another")
            }
            if let provider = Provider(rawValue: trust.name), !Provider.documented.contains(provider),
                let other = configuration.providers.first(where: { $0.name == provider })
            {
                findings.fault(other, "has the name of \(trust.variable), whose users are others, choose another name")
            }
            if trust.issuer == configuration.issuer {
                findings.warn(trust, "has the issuer of the gateway's own tokens, set TOLLGATE_ISSUER if they are not the same")
            }
            if trust.hasAccounts, !configuration.hasAccounts {
                findings.warn(trust, "has accounts=on and there are no accounts, mount a contract by TOLLGATE_CONTRACTS")
            }
            let rival = configuration.trusts.first { other in
                trust.hasAccounts && other.hasAccounts && other.name != trust.name && trust.refresh != nil
                    && other.refresh?.contract == trust.refresh?.contract
            }
            if let rival, trust.name < rival.name {
                findings.warn(
                    trust,
                    "and \(rival.variable) both have accounts=on and refresh-contract=\(trust.refresh?.contract.name ?? ""): only refresh tokens that are JWTs with the iss of one of them are redeemed"
                )
            }
        }
    }

    /// Resolves each route's upstream from its name to its index, and its CORS policy.
    mutating func resolveRoutes() {
        let names = configuration.upstreams.map(\.name)
        let numbers = Dictionary(names.enumerated().map { ($1, $0) }) { first, _ in first }
        for index in configuration.routes.indices { resolve(index, numbers, names) }
    }

    private mutating func resolve(_ number: Int, _ upstreams: [String: Int], _ names: [String]) {
        let route = configuration.routes[number]
        configuration.routes[number].rule.cors = corsRule(of: route)
        configuration.routes[number].rule.compression.codings = configuration.compressionCodings
        configuration.routes[number].rule.compression.types = configuration.compressionTypes
        if let index = upstreams[route.upstream] {
            configuration.routes[number].rule.target = .upstream(index)
            configuration.routes[number].rule.upstreamPathsAreExact = configuration.upstreams[index].pathsAreExact
            configuration.routes[number].rule.upstreamSpeaksHTTP2 = configuration.upstreams[index].speaksHTTP2
            if route.rule.takesWebSockets, configuration.upstreams[index].speaksHTTP2 {
                findings.fault(
                    route,
                    "has websocket=on, which needs an upstream over HTTP/1.1, and \(route.upstream) has http2=on: name another upstream")
            }
        } else if !route.upstream.isEmpty {
            reportUnknown(route.upstream, "upstream", of: route, names)
        }
        if let mirror = route.rule.mirror {
            if let index = upstreams[mirror.upstreamName] {
                configuration.routes[number].rule.mirror?.upstream = index
                if mirror.upstreamName == route.upstream {
                    findings.fault(route, "has mirror=\(mirror.upstreamName), which gets its requests already: name another upstream")
                }
            } else {
                reportUnknown(mirror.upstreamName, "mirror", of: route, names)
            }
        }
        if let split = route.rule.split { resolve(split, number, upstreams, names) }
    }

    /// Resolves the other upstream of a split. The route can count on what both upstreams do.
    private mutating func resolve(_ split: RouteSplit, _ number: Int, _ upstreams: [String: Int], _ names: [String]) {
        let route = configuration.routes[number]
        guard let index = upstreams[split.upstreamName] else {
            return reportUnknown(split.upstreamName, "split", of: route, names)
        }
        guard split.upstreamName != route.upstream else {
            return findings.fault(route, "split= names the route's own upstream \(route.upstream), name another or remove it")
        }
        if !configuration.hasAccounts, route.rule.splitWhen.contains(where: { $0.text.hasPrefix("attribute:") }) {
            findings.fault(
                route,
                "has when=attribute:, and there are no accounts that could have one: mount a contract by TOLLGATE_CONTRACTS, or remove it")
        }
        let other = configuration.upstreams[index]
        configuration.routes[number].rule.split?.upstream = index
        if !other.pathsAreExact { configuration.routes[number].rule.upstreamPathsAreExact = false }
        if !other.speaksHTTP2 { configuration.routes[number].rule.upstreamSpeaksHTTP2 = false }
        if route.rule.takesWebSockets, other.speaksHTTP2 {
            findings.fault(
                route,
                "has websocket=on, which needs upstreams over HTTP/1.1, and \(other.name) of split= has http2=on: name another upstream")
        }
    }

    private mutating func reportUnknown(_ name: String, _ key: String, of route: RouteDeclaration, _ names: [String]) {
        let nearest = nearestName(to: name, in: names)
        let right = nearest.map { "the nearest is \($0)" } ?? "set TOLLGATE_UPSTREAM_\(name.uppercased())"
        findings.fault(route, "\(key)=\(name) names no upstream, \(right)")
    }

    /// Refuses signed identities where the gateway signs with a secret.
    mutating func checkSignedIdentities() {
        guard configuration.jwtSecret != nil || configuration.signingAlgorithm.isSymmetric else { return }
        let setting = configuration.jwtSecret != nil ? Setting.jwtSecret.name : "\(Setting.plain(\.signingAlgorithm).name)=HS256"
        for route in configuration.routes where route.rule.signsIdentity {
            findings.fault(
                route,
                "has identity=signed, which needs a key pair: with \(setting) an upstream that could verify the identity could also sign tokens of any user; remove \(setting), or identity=signed"
            )
        }
    }

    /// Warns of what is valid but probably a mistake: no routes, unused upstreams, routes without callers.
    mutating func checkUse() {
        let routes = configuration.routes
        if routes.isEmpty && configuration.contracts.isEmpty {
            findings.warn(Finding(.builtIn, Setting.route.shownName, "is not set, every request is answered 404"))
        }
        let used = Set(routes.flatMap { [$0.upstream, $0.rule.split?.upstreamName, $0.rule.mirror?.upstreamName].compactMap(\.self) })
        for upstream in configuration.upstreams where !used.contains(upstream.name) {
            findings.warn(upstream, "is used by no route")
        }
        guard configuration.internals.isEmpty else { return }
        for route in routes where route.rule.auth == .internal {
            findings.warn(route, "has auth=internal and there is no TOLLGATE_INTERNAL_<NAME>, every request is refused")
        }
    }

    /// Warns of routes that ask for an attribute that every user may give to himself.
    mutating func checkAttributes() {
        let writable = Set(configuration.account?.writable.map(\.text) ?? [])
        for route in configuration.routes {
            for attribute in route.rule.attributes where writable.contains(attribute.name) {
                findings.warn(
                    route,
                    "has attributes=\(attribute.text) and \(Setting.account.name) has writable=\(attribute.name), so users can give it to themselves: leave it out of writable="
                )
            }
        }
    }
}

extension ConfigurationReader {
    /// Warns of scopes that only tokens of outside issuers can have, if there are any. Below a resource only those pass, and API keys.
    mutating func checkScopes() {
        let granted = Set(configuration.tierScopes.flatMap(\.self))
        for route in configuration.routes {
            let takesKeysAlone = route.rule.auth == .key
            guard route.rule.resource == nil || takesKeysAlone else { continue }
            guard let scope = route.rule.scopes.first(where: { !granted.contains($0) }) else { continue }
            let others =
                configuration.trusts.isEmpty || takesKeysAlone ? "so every request gets 403" : "so only tokens of outside issuers pass"
            findings.warn(route, "has scope=\(scope), which \(Setting.scopes.name) gives no tier, \(others): name it there or remove it")
        }
    }
}

extension TrustDeclaration {
    /// The issuer name of the gateway's own tokens, reserved among trust lines.
    package static let ownName = "tollgate"
}
