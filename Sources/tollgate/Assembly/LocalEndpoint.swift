internal import Contracts
internal import Gate
internal import Settings

/// The gateway's own endpoints on the main listeners, by their number in a route's `.local` target.
enum LocalEndpoint: UInt16, Sendable, CaseIterable {
    /// The public halves of the gateway's own keys.
    case ownKeys = 1
    case openIDConfiguration = 2
    case serverMetadata = 3
    /// Only while a contract with refresh tokens is mounted.
    case token = 4
    case revocation = 5
    case introspection = 6
    /// Only with `TOLLGATE_CONSOLE_ON_MAIN`, like the next two.
    case console = 7
    case adminAPI = 8
    /// The redirection from `/admin` and `/admin/` to the console.
    case admin = 9
    /// The documents of protected resources, below its path. Only while there are any.
    case resourceMetadata = 10
    /// Only with apps that belong to the domain, like the next.
    case iosApps = 11
    case androidApps = 12

    /// In logs and metrics. No configured route's name has a hyphen.
    var name: String { row.name }
    var path: String { row.path }

    private var row: (name: String, path: String) {
        switch self {
        case .ownKeys: ("own-keys", ServerMetadata.jwksPath)
        case .openIDConfiguration: ("own-openid", "/.well-known/openid-configuration")
        case .serverMetadata: ("own-metadata", "/.well-known/oauth-authorization-server")
        case .token: ("own-token", ServerMetadata.tokenPath)
        case .revocation: ("own-revocation", ServerMetadata.revocationPath)
        case .introspection: ("own-introspection", ServerMetadata.introspectionPath)
        case .console: ("own-console", "/console")
        case .adminAPI: ("own-admin-api", "/admin/api")
        case .admin: ("own-admin", "/admin")
        case .resourceMetadata: ("own-resources", ResourceDeclaration.metadataPath)
        case .iosApps: ("own-ios-apps", AppFiles.applePath)
        case .androidApps: ("own-android-apps", AppFiles.googlePath)
        }
    }

    private var isPrefix: Bool { self == .console || self == .adminAPI || self == .resourceMetadata }

    /// Whether it is a document under `/.well-known/`.
    var isDocument: Bool {
        switch self {
        case .ownKeys, .openIDConfiguration, .serverMetadata, .resourceMetadata, .iosApps, .androidApps: true
        case .token, .revocation, .introspection, .console, .adminAPI, .admin: false
        }
    }

    /// None for all.
    private var methods: [String] {
        switch self {
        case .ownKeys, .openIDConfiguration, .serverMetadata, .resourceMetadata, .iosApps, .androidApps, .admin: ["GET", "HEAD"]
        case .token, .revocation, .introspection: ["POST"]
        case .console, .adminAPI: []
        }
    }

    /// The route that leads to it. `cors` is that of all endpoints.
    func rule(_ cors: CORSRule?) -> RouteRule {
        // The prefix ends in a slash, so that `/consoles` is not the console's.
        var rule = RouteRule(
            name: name, methods: methods, path: isPrefix ? path + "/" : path, isPrefix: isPrefix, target: .local(rawValue), auth: .none)
        rule.bodyLimit = 65_536
        switch self {
        case .ownKeys, .openIDConfiguration, .serverMetadata, .iosApps, .androidApps:
            rule.errors = .problem
            rule.isDocument = isDocument
            rule.cors = cors
        case .resourceMetadata:
            rule.errors = .problem
            rule.isDocument = true
            // Pages of any origin may be such clients, and those of MCP send their version.
            rule.cors = CORSRule(.any)
            rule.cors?.requestFields = ["MCP-Protocol-Version"]
        case .token, .revocation:
            rule.errors = .oauth
            rule.isEndpoint = true
            rule.cors = cors
        case .introspection:
            // For services, so without CORS.
            rule.auth = .internal
            rule.errors = .oauth
            rule.isEndpoint = true
        case .console, .adminAPI:
            // For its own pages, so without CORS.
            rule.errors = .password
            // In a subject of an outside issuer: `users/django:a%2Fb`.
            rule.encodedSlashPasses = self == .adminAPI
        case .admin:
            rule.errors = .password
            rule.isEndpoint = true
        }
        return rule
    }

    /// Those that the settings mount and whose path none of `routes` takes.
    static func free(
        beside routes: [RouteRule], _ settings: Configuration, _ contracts: MountTable
    ) throws(RouteFault) -> [LocalEndpoint] {
        var taken: [(path: String, isPrefix: Bool, methods: [String])] = []
        for route in routes where route.host == nil {
            var path = String(decoding: try RouteTable.canonicalPath(route), as: UTF8.self)
            // `/m/*` also matches `/m`.
            if route.isPrefix, path.hasSuffix("/") { path.removeLast() }
            taken.append((path, route.isPrefix, route.methods))
        }
        var free = mounted(settings, contracts).filter { endpoint in
            !taken.contains { route in
                route.path == endpoint.path && route.isPrefix == endpoint.isPrefix && endpoint.shares(route.methods)
            }
        }
        // An upstream with pages of its own below `/admin` keeps that path, too.
        let hasOtherAdmin = taken.contains { $0.path == LocalEndpoint.admin.path || $0.path.hasPrefix(LocalEndpoint.admin.path + "/") }
        if hasOtherAdmin || !free.contains(.console) { free.removeAll { $0 == .admin } }
        return free
    }

    /// Those that the settings mount, unless a route has their path.
    private static func mounted(_ settings: Configuration, _ contracts: MountTable) -> [LocalEndpoint] {
        let refreshes = !contracts.refreshingContracts.isEmpty
        return allCases.filter { endpoint in
            switch endpoint {
            case .token: refreshes
            case .resourceMetadata: !settings.resources.isEmpty
            case .console, .adminAPI, .admin: settings.hasConsoleOnMain
            case .iosApps: !settings.iosApps.isEmpty
            case .androidApps: !settings.androidApps.isEmpty
            case .ownKeys, .openIDConfiguration, .serverMetadata, .revocation, .introspection: true
            }
        }
    }

    /// Whether a route of these methods, all if there are none, takes some of this one's.
    private func shares(_ others: [String]) -> Bool {
        others.isEmpty || methods.isEmpty || methods.contains { others.contains($0) }
    }

    /// Whether requests to it match a route with a wider path, whose upstream they do not reach.
    func takes(from route: RouteRule) -> Bool {
        route.host == nil && route.isPrefix && path.hasPrefix(route.path) && shares(route.methods)
    }

    /// Whether the path of a route names the first segment of its own. A route for all paths is no sign that its upstream has such an
    /// endpoint.
    func isNamed(by route: RouteRule) -> Bool { route.path.hasPrefix(path.split(separator: "/").first.map { "/\($0)/" } ?? "/") }
}
