internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Settings
internal import Wire

/// Checks that routes and endpoints of contracts fit into one route table, and reports every fault.
struct RouteChecks {
    let configuration: Configuration
    let contracts: MountTable
    var findings = Findings()
    /// The endpoints of the account page whose paths no route takes.
    private(set) var pages: [MountedEndpoint] = []
    /// The paths that routes for all paths lose.
    private(set) var taken: [TakenPaths] = []

    init(_ configuration: Configuration, _ contracts: MountTable) {
        self.configuration = configuration
        self.contracts = contracts
        checkSideBySide(configuration.routes)
    }

    /// Builds the table again without each route that it refuses, so that no fault hides another.
    private mutating func checkSideBySide(_ routes: [RouteDeclaration]) {
        var rest = withoutCopies(routes)
        // Two mounts that clash have been reported already.
        let endpoints = contracts.clash == nil ? contracts.endpoints.map(\.rule) : []
        while true {
            do throws(RouteFault) {
                let rules = endpoints + rest.map(\.rule)
                _ = try RouteTable(rules)
                try RouteRule.checkAttributes(rules)
                pages = try contracts.pages(beside: rules)
                try checkShadowed(rest, contracts.clash == nil ? contracts.endpoints : [])
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
            findings.fault(last, message)
        }
        let scopes = RouteRule.scopes(of: routes.map(\.rule))
        if scopes.count > Trust.maximumRequirements, let last = routes.last(where: { !$0.rule.scopes.isEmpty }) {
            let message = "brings the routes to \(scopes.count) different scopes, have at most \(Trust.maximumRequirements)"
            findings.fault(last, message)
        }
    }

    /// Finds the paths of routes that contracts, the account page or the gateway itself answer, so that their upstream never gets those
    /// requests, and warns of them. A route for all paths is no sign that its upstream has such paths: `doctor` asks it.
    private mutating func checkShadowed(_ routes: [RouteDeclaration], _ endpoints: [MountedEndpoint]) throws(RouteFault) {
        var found = try ownEndpoints(routes)
        let mounted = endpoints + pages
        let alone = try RouteTable(routes.map(\.rule))
        let all = try RouteTable(mounted.map(\.rule) + routes.map(\.rule))
        for (index, place) in mounted.enumerated() {
            guard case .route(let route) = alone.match(place), all.match(place) == .route(index) else { continue }
            let (owner, right) = takeBack(place)
            let path = place.endpoint.owner == .page ? WebPage.path + "*" : place.path
            let name = routes[route].rule.name
            if let known = found.firstIndex(where: { $0.route.rule.name == name && $0.owner == owner }) {
                if !found[known].paths.contains(path) { found[known].paths.append(path) }
            } else {
                found.append(
                    TakenPaths(
                        route: routes[route], owner: owner, right: right, paths: [path], isExpected: routes[route].rule.takesAllPaths))
            }
        }
        taken = found.filter(\.isExpected)
        for paths in found where !paths.isExpected { findings.warn(paths.route, paths.message) }
    }

    /// The paths below those of routes that the gateway itself answers.
    private func ownEndpoints(_ routes: [RouteDeclaration]) throws(RouteFault) -> [TakenPaths] {
        let mounted = try LocalEndpoint.free(beside: routes.map(\.rule), configuration, contracts)
        return routes.flatMap { route in
            [true, false].compactMap { isExpected -> TakenPaths? in
                let paths = mounted.filter { $0.takes(from: route.rule) && $0.isNamed(by: route.rule) != isExpected }.map(\.path)
                guard !paths.isEmpty else { return nil }
                let right = "give the upstream a route with that path if it should answer"
                return TakenPaths(route: route, owner: "the gateway", right: right, paths: paths, isExpected: isExpected)
            }
        }
    }

    /// The owner of an endpoint, and what the operator does if the upstream should have its path.
    private func takeBack(_ place: MountedEndpoint) -> (owner: String, right: String) {
        switch place.endpoint.owner {
        case .contract:
            let right = "mount the contract elsewhere or leave it out of \(Setting.contracts.name) if the upstream should answer"
            return ("\(place.mount) of \(Setting.contracts.name)", right)
        case .page: return ("the account page", "give the upstream a route with the path \(WebPage.path)* if it should answer")
        case .purchases, .account, .factors, .passkeys:
            let name = place.setting.name
            return ("\(place.mount) of \(name)", "set \(name) to another path if the upstream should answer")
        }
    }

    /// Reports all routes that repeat an earlier pattern, and returns the others.
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

    /// Reports one fault of the table, and returns the name of its route.
    private mutating func report(_ fault: RouteFault, among routes: [RouteDeclaration]) -> String {
        switch fault {
        case .equal(let first, let second):
            return report(second, "takes the same requests as \(owner(first, routes)), change or remove one", routes)
        case .badPath(let name, let path):
            return report(name, "has a path that cannot be matched: \(path.message), write it as clients should send it", routes)
        case .badBraces(let name):
            return report(name, "has a brace that encloses no whole segment, write one like /items/{id}/review", routes)
        case .badMethod(let name, let method):
            return report(name, "\(quoted(method)) is no method, write names like GET,HEAD", routes)
        case .badHost(let name, let host):
            return report(name, "\(quoted(host)) is no host, write a name without a port like api.example.org", routes)
        case .badStrip(let name, let strip):
            return report(name, "strip=\(strip) is no path to remove, write one like /content", routes)
        case .unknownRequirement(let name, let claim):
            return report(name, "claims=\(claim) cannot be asked for, remove it", routes)
        case .tooManyLimits(let name):
            return report(name, "has more than \(LimitCharge.capacity) limits, keep \(LimitCharge.capacity) at most", routes)
        case .tooManyAttributes(let name):
            return report(name, "brings the routes to more than 64 different attributes= or forward-attributes=, name fewer", routes)
        case .identityNeeded(let name):
            return report(
                name, "has auth=none, so nobody can meet its tier=, claims=, scope=, attributes= or filter=, write auth=required", routes)
        }
    }

    /// The setting that a route or endpoint comes from.
    private func owner(_ name: String, _ routes: [RouteDeclaration]) -> String {
        if let route = routes.first(where: { $0.rule.name == name }) {
            return "\(route.variable) (\(route.origin.text))"
        }
        guard let place = contracts.endpoints.first(where: { $0.endpoint.name == name }) else { return name }
        return "\(place.rule.pattern) of \(place.mount) in \(place.setting.name) (\(configuration.origin(of: place.setting).text))"
    }

    private mutating func report(_ name: String, _ message: String, _ routes: [RouteDeclaration]) -> String {
        if let route = routes.first(where: { $0.rule.name == name }) {
            findings.fault(route, message)
        }
        return name
    }
}

/// Paths of one route that its upstream never gets, because another part of the gateway answers there.
struct TakenPaths: Sendable {
    let route: RouteDeclaration
    /// Who answers there.
    let owner: String
    /// The operator's way to change that, if the upstream should answer.
    let right: String
    /// Those of pages end in `*`.
    var paths: [String]
    /// Whether the route is for all paths, of which these are expected to be missing.
    let isExpected: Bool

    var message: String {
        "\(paths.joined(separator: " ")) never \(paths.count == 1 ? "reaches" : "reach") upstream=\(route.upstream): \(owner) answers there, \(right)"
    }
}

extension MountedEndpoint {
    /// The setting that mounts it.
    fileprivate var setting: Setting {
        switch endpoint.owner {
        case .purchases: .plain(\.purchasesPath)
        case .account, .factors, .passkeys: .account
        case .contract, .page: .contracts
        }
    }
}

extension RouteRule {
    fileprivate var takesAllPaths: Bool { path == "/" && isPrefix }
}

extension RouteTable {
    /// The rule for requests to an endpoint, under any host without routes of its own.
    fileprivate func match(_ place: MountedEndpoint) -> RouteMatch {
        let method = place.endpoint.method
        return place.path.withRawBytes { path in
            match(host: RawSpan(), path: path, method: method, methodText: method.text.rawBytes)
        }
    }
}
