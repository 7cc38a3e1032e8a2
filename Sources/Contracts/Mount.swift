import Accounts
package import Credentials
package import Gate
import HTTP

/// A contract and the base path below which it answers: one word of `TOLLGATE_CONTRACTS`, `id@base`.
package struct Mount: Hashable, Sendable {
    package let contract: ContractID
    /// Begins with a slash and does not end in one; empty for the root.
    package let base: String

    /// As `TOLLGATE_CONTRACTS` spells it.
    package var text: String { "\(contract.name)@\(base.isEmpty ? "/" : base)" }

    /// Why a word is no mount, and how to write one: the rest of a sentence that begins with the word.
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

    /// Whether `text` is a path in canonical form: plain characters, no empty segment but the last, no `.` or `..`.
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

/// The mounted contracts of a gateway, from which the policy takes its local routes.
package struct MountTable: Sendable, Equatable {
    package var mounts: [Mount] = []
    /// Paths that the operator has set, relative to the base, by endpoint name. Only for endpoints with `hasSettablePath`.
    package var paths: [String: String] = [:]
    /// Those of accounts and purchases.
    package var own: [OwnMount] = []

    package init() {}

    /// The mount whose API the page at `/web/` uses: the first of `password`.
    package var pageMount: Mount? { mounts.first { $0.contract == .password } }

    /// The mounted contracts that have refresh tokens.
    package var refreshingContracts: Set<ContractID> {
        Set(mounts.map(\.contract).filter { !Catalogue.refreshNames(of: $0).token.isEmpty })
    }

    /// The endpoints of the account page. Configured routes have precedence over them: a route of `routes` with the path of an
    /// endpoint replaces that endpoint, and one with the path of the page replaces them all.
    package func pages(beside routes: [RouteRule]) throws(RouteFault) -> [MountedEndpoint] {
        guard let mount = pageMount else { return [] }
        let endpoints = Catalogue.pageEndpoints.map { MountedEndpoint(mount: mount.text, base: mount.base, endpoint: $0, path: $0.path) }
        var taken: [String: [RouteRule]] = [:]
        for route in routes where route.host == nil {
            taken[Self.withoutSlash(try RouteTable.canonicalPath(route)), default: []].append(route)
        }
        let free = endpoints.filter { mounted in
            taken[mounted.path, default: []].allSatisfy { !$0.takesMethod(of: mounted.endpoint) }
        }
        return free.contains { $0.endpoint.name == WebPage.endpoint.name } ? free : []
    }

    private static func withoutSlash(_ path: [UInt8]) -> String {
        String(decoding: path.last == UInt8(ascii: "/") ? path.dropLast() : path[...], as: UTF8.self)
    }

    /// All endpoints of all mounts, in the order of the mounts, and the own ones.
    package var endpoints: [MountedEndpoint] {
        mounts.flatMap { mount in
            Catalogue.endpoints(of: mount.contract).map { endpoint in
                MountedEndpoint(
                    mount: mount.text, base: mount.base, endpoint: endpoint, path: mount.base + (paths[endpoint.name] ?? endpoint.path))
            }
        } + own.flatMap(\.endpoints)
    }

    /// Two mounts that answer the same request; nil if there are none.
    package var clash: (first: String, second: String, request: String)? {
        var taken: [String: String] = [:]
        for mounted in endpoints {
            let path = mounted.path.last == "/" ? String(mounted.path.dropLast()) : mounted.path
            for method in mounted.endpoint.methods {
                // One for all below a path leaves the path itself to another.
                let request = "\(method) \(path)\(mounted.endpoint.isPrefix ? "/*" : "")"
                if let first = taken.updateValue(mounted.mount, forKey: request) {
                    return (first, mounted.mount, request)
                }
            }
        }
        return nil
    }
}

/// Endpoints beside those of contracts, below a base path, which begins with a slash and does not end in one.
package struct OwnMount: Sendable, Equatable {
    /// Like `purchases@/purchases`.
    package let text: String
    package let base: String
    package let endpoints: [MountedEndpoint]

    /// nil for a base that is no path, or the root.
    package init?(_ name: String, base: String, _ endpoints: [CatalogueEndpoint]) {
        guard Mount.isPath(base), base != "/" else { return nil }
        let base = base.last == "/" ? String(base.dropLast()) : base
        let text = "\(name)@\(base)"
        (self.text, self.base) = (text, base)
        self.endpoints = endpoints.map { MountedEndpoint(mount: text, base: base, endpoint: $0, path: base + $0.path) }
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.text == right.text && left.endpoints.map(\.endpoint.number) == right.endpoints.map(\.endpoint.number)
    }
}

/// An endpoint at its full path.
package struct MountedEndpoint: Sendable {
    /// The text of its mount, like `password@/api/v1`, and its base.
    package let mount: String
    package let base: String
    package let endpoint: CatalogueEndpoint
    package let path: String

    /// The route that leads to the endpoint.
    package var rule: RouteRule {
        var rule = RouteRule(
            name: endpoint.name, methods: endpoint.methods, path: endpoint.isPrefix ? path + "/" : path,
            isPrefix: endpoint.isPrefix, target: .local(endpoint.number), auth: endpoint.auth)
        rule.errors = endpoint.dialect
        rule.errorsAreOfToken = endpoint.owner.isForAllContracts
        rule.bodyLimit = endpoint.isForServers ? 262_144 : 65_536
        rule.isEndpoint = !endpoint.isPrefix
        return rule
    }
}

extension RouteRule {
    fileprivate func takesMethod(of endpoint: CatalogueEndpoint) -> Bool {
        methods.isEmpty || methods.contains { endpoint.methods.contains($0) }
    }
}
