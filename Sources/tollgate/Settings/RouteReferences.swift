internal import Accounts
internal import Contracts
internal import Credentials
internal import Gate
internal import Wire

/// Routes: each line by itself, then what they name, then whether they can stand side by side.
extension ConfigurationReader {
    mutating func readRoutes() {
        var routes: [RouteDeclaration] = []
        for (name, entry) in family(.route) {
            let (route, found) = RouteLine.parse(entry, name: name, tiers: configuration.tiers)
            findings.add(found)
            routes.append(resolved(route))
        }
        configuration.routes = routes
        checkSideBySide(routes)
        checkUse(routes)
    }

    private func variable(_ route: RouteDeclaration) -> String { Setting.route.name + route.rule.name.uppercased() }

    private mutating func resolved(_ route: RouteDeclaration) -> RouteDeclaration {
        var route = route
        let names = configuration.upstreams.map(\.name)
        if let index = names.firstIndex(of: route.upstream) {
            route.rule.target = .upstream(index)
        } else if !route.upstream.isEmpty {
            let nearest = nearestName(to: route.upstream, in: names)
            let right = nearest.map { "the nearest is \($0)" } ?? "set TOLLGATE_UPSTREAM_\(route.upstream.uppercased())"
            let message = "upstream=\(route.upstream) names no upstream, \(right)"
            findings.fault(Finding(route.origin, variable(route), message))
        }
        return route
    }

    /// Asks the route table until it takes the rest, so that each fault is told and none hides another.
    private mutating func checkSideBySide(_ routes: [RouteDeclaration]) {
        var rest = withoutCopies(routes)
        // Two mounts that clash have been told of.
        let endpoints = configuration.contracts.clash == nil ? configuration.contracts.places.map(\.rule) : []
        while true {
            do throws(RouteFault) {
                let rules = endpoints + rest.map(\.rule)
                _ = try RouteTable(rules)
                configuration.pages = try configuration.contracts.pages(beside: rules)
                break
            } catch {
                let culprit = report(error, among: rest)
                let before = rest.count
                rest.removeAll { $0.rule.name == culprit }
                guard rest.count < before else { break }
            }
        }
        let requirements = RouteRule.requirements(of: routes.map(\.rule))
        if requirements.count > Trust.maximumRequirements, let last = routes.last(where: { !$0.rule.claims.isEmpty }) {
            let message = "brings the routes to \(requirements.count) different claims, have at most \(Trust.maximumRequirements)"
            findings.fault(Finding(last.origin, variable(last), message))
        }
    }

    /// The routes whose pattern was not there before; the others are told. What the table would find too, but one by one.
    private mutating func withoutCopies(_ routes: [RouteDeclaration]) -> [RouteDeclaration] {
        var first: [String: String] = [:]
        return routes.filter { route in
            guard let earlier = first[route.rule.pattern] else {
                first[route.rule.pattern] = route.rule.name
                return true
            }
            _ = report(.equal(earlier, route.rule.name), among: routes)
            return false
        }
    }

    /// Tells of one fault of the table, and answers the name of the route that has it.
    private mutating func report(_ fault: RouteFault, among routes: [RouteDeclaration]) -> String {
        switch fault {
        case .equal(let first, let second):
            return tell(second, "takes the same requests as \(owner(first, routes)), change or remove one", routes)
        case .badPath(let name, let path):
            return tell(name, "has a path that cannot be matched: \(path.message), write it as clients should send it", routes)
        case .badMethod(let name, let method):
            return tell(name, "\(quoted(method)) is no method, write names like GET,HEAD", routes)
        case .badHost(let name, let host):
            return tell(name, "\(quoted(host)) is no host, write a name without a port like api.example.org", routes)
        case .badStrip(let name, let strip):
            return tell(name, "strip=\(strip) is no path to remove, write one like /content", routes)
        case .unknownRequirement(let name, let claim):
            return tell(name, "claims=\(claim) cannot be asked for, remove it", routes)
        case .tooManyLimits(let name):
            return tell(name, "has more than \(LimitCharge.capacity) limits, keep \(LimitCharge.capacity) at most", routes)
        case .identityNeeded(let name):
            return tell(name, "has auth=none, so nobody can meet its tier=, claims= or filter=, write auth=required", routes)
        }
    }

    /// Where a route or an endpoint of a contract comes from.
    private func owner(_ name: String, _ routes: [RouteDeclaration]) -> String {
        if let route = routes.first(where: { $0.rule.name == name }) {
            return "\(Setting.route.name)\(name.uppercased()) (\(route.origin.text))"
        }
        guard let place = configuration.contracts.places.first(where: { $0.endpoint.name == name }) else { return name }
        return "\(place.rule.pattern) of \(place.mount.text) in \(Setting.contracts.name) (\(values.entry(.contracts).origin.text))"
    }

    private mutating func tell(_ name: String, _ message: String, _ routes: [RouteDeclaration]) -> String {
        if let route = routes.first(where: { $0.rule.name == name }) {
            findings.fault(Finding(route.origin, variable(route), message))
        }
        return name
    }

    /// What works and is hardly meant.
    private mutating func checkUse(_ routes: [RouteDeclaration]) {
        if routes.isEmpty && configuration.contracts.mounts.isEmpty {
            findings.warn(Finding(.builtIn, Setting.route.shownName, "is not set, every request is answered 404"))
        }
        let used = Set(routes.map(\.upstream))
        for upstream in configuration.upstreams where !used.contains(upstream.name) {
            let name = Setting.upstream.name + upstream.name.uppercased()
            findings.warn(Finding(upstream.origin, name, "is used by no route"))
        }
        guard configuration.internals.isEmpty else { return }
        for route in routes where route.rule.auth == .internal {
            findings.warn(Finding(route.origin, variable(route), "has auth=internal and there is no TOLLGATE_INTERNAL_<NAME>, nobody can pass"))
        }
    }
}
