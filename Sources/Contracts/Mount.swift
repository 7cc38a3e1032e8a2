package import Accounts
package import Gate
import HTTP

/// That a contract answers below a base: one word of `TOLLGATE_CONTRACTS`, `id@base`.
package struct Mount: Hashable, Sendable {
    package let contract: ContractID
    /// Begins with a slash and does not end in one; empty for the root.
    package let base: String

    /// As it is written.
    package var text: String { "\(contract.name)@\(base.isEmpty ? "/" : base)" }

    /// What is wrong with a mount and what would be right, as the words behind the mount itself.
    package struct Fault: Error, Equatable, Sendable {
        package let message: String
    }

    package init(parsing text: String) throws(Fault) {
        guard let at = text.firstIndex(of: "@") else { throw Fault(message: "is no mount, write id@base, like password@/api/v1") }
        let (name, base) = (text[..<at], text[text.index(after: at)...])
        guard let contract = ContractID.allCases.first(where: { $0.name == name }) else {
            let names = ContractID.allCases.map(\.name).joined(separator: ", ")
            throw Fault(message: "names no contract, the contracts are \(names)")
        }
        guard Self.isPath(base) else { throw Fault(message: "has no path as its base, write one like /api/v1, or / alone") }
        self.contract = contract
        self.base = base.last == "/" ? String(base.dropLast()) : String(base)
    }

    /// A path that needs no change to be matched: plain characters, no empty segment but the last, no `.` or `..`.
    package static func isPath(_ text: some StringProtocol) -> Bool {
        guard text.first == "/", text.utf8.allSatisfy(isPlain) else { return false }
        let segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        return segments.dropLast().allSatisfy { !$0.isEmpty } && segments.allSatisfy { $0 != "." && $0 != ".." }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        default: false
        }
    }
}

/// The contracts that a gateway answers, and where: what the policy takes its local routes from.
package struct MountTable: Sendable, Equatable {
    package var mounts: [Mount] = []
    /// Paths of `dlauth` that the operator set, below its base, by the endpoint's name.
    package var dlauthPaths: [String: String] = [:]

    package init() {}

    /// One endpoint where it is mounted.
    package struct Place: Sendable {
        package let mount: Mount
        package let endpoint: CatalogueEndpoint
        package let path: String

        /// The route that brings its requests to the router.
        package var rule: RouteRule {
            var rule = RouteRule(
                name: endpoint.name, methods: endpoint.methods, path: endpoint.isPrefix ? path + "/" : path,
                isPrefix: endpoint.isPrefix, target: .local(endpoint.number), auth: endpoint.auth)
            rule.errors = endpoint.dialect
            rule.bodyLimit = 65_536
            rule.isEndpoint = !endpoint.isPrefix
            return rule
        }
    }

    /// The mount whose accounts the page at `/web/` shows: the first of `password`, whose document the page belongs to.
    package var pageMount: Mount? { mounts.first { $0.contract == .password } }

    /// The endpoints of the account page. Unlike those of a contract they give way, so that no route that was there before
    /// the page changes its meaning: each to a route of `routes` that has its path, and all to one that has the page's.
    package func pages(beside routes: [RouteRule]) throws(RouteFault) -> [Place] {
        guard let mount = pageMount else { return [] }
        let places = Catalogue.pageEndpoints.map { Place(mount: mount, endpoint: $0, path: $0.path) }
        var taken: [String: [RouteRule]] = [:]
        for route in routes where route.host == nil {
            taken[Self.bare(try RouteTable.canonicalPath(route)), default: []].append(route)
        }
        let free = places.filter { place in
            taken[place.path, default: []].allSatisfy { !$0.takesMethod(of: place.endpoint) }
        }
        return free.contains { $0.endpoint.name == WebPage.endpoint.name } ? free : []
    }

    private static func bare(_ path: [UInt8]) -> String {
        String(decoding: path.last == UInt8(ascii: "/") ? path.dropLast() : path[...], as: UTF8.self)
    }

    /// All endpoints of all mounts, in their order.
    package var places: [Place] {
        mounts.flatMap { mount in
            Catalogue.endpoints(of: mount.contract).map { endpoint in
                let own = mount.contract == .dlauth ? dlauthPaths[endpoint.shortName] : nil
                return Place(mount: mount, endpoint: endpoint, path: mount.base + (own ?? endpoint.path))
            }
        }
    }

    /// Two mounts that would answer the same requests; nil if there are none.
    package var clash: (first: Mount, second: Mount, request: String)? {
        var taken: [String: Mount] = [:]
        for place in places {
            let path = place.path.last == "/" ? String(place.path.dropLast()) : place.path
            for method in place.endpoint.methods {
                let request = "\(method) \(path)"
                if let first = taken.updateValue(place.mount, forKey: request) {
                    return (first, place.mount, request)
                }
            }
        }
        return nil
    }
}

extension RouteRule {
    fileprivate func takesMethod(of endpoint: CatalogueEndpoint) -> Bool {
        methods.isEmpty || methods.contains { endpoint.methods.contains($0) }
    }
}
