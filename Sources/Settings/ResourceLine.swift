internal import Credentials
package import Gate
internal import Wire

/// `TOLLGATE_RESOURCE_<NAME>`: a path below which outside issuers give out tokens of their own, such as an MCP server.
package struct ResourceDeclaration: Hashable, Sendable {
    package var name: String
    package var path = ""
    package var scopes: [String] = []
    /// The names of trust lines.
    package var issuers: [String] = []
    package var origin: Origin

    /// Its metadata are at this path, and below it for a resource with a path.
    package static let metadataPath = "/.well-known/oauth-protected-resource"

    /// Its identifier, under the public URL.
    package func resource(_ publicURL: String) -> ProtectedResource {
        let base = publicURL.hasSuffix("/") ? String(publicURL.dropLast()) : publicURL
        let suffix = path == "/" ? "" : path
        return ProtectedResource(url: base + suffix, metadataURL: base + Self.metadataPath + suffix)
    }

    /// Whether the paths of a route are its own or below.
    package func holds(_ rule: RouteRule) -> Bool {
        path == "/" || rule.path == path || rule.path.hasPrefix(path + "/")
    }
}

extension ResourceDeclaration: OptionTarget {
    package static let family = Setting.resource
    package var lineName: String { name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption(
            "path", \.path, .plain(path), values: "/mcp", "the path of the resource; routes at it and below take tokens for it alone")
        LineOption(
            "scopes", list: \.scopes, "mcp:read,mcp:write", "scopes that its metadata tell clients of; `scope=` of a route asks for them",
            TypedText.scope)
        LineOption("issuers", list: \.issuers, "NAME,NAME", "the trust lines whose tokens it takes", TypedText.item)
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        line.refuseWords("path=/mcp issuers=NAME")
        line.read(into: &self)
        issuers = issuers.map { $0.lowercased() }
        if !line.has("path") { line.fault("has no path, write path=/mcp") }
        if !line.has("issuers") { line.fault("has no issuers, write issuers=NAME with a trust line") }
    }

    private static func path(_ text: String) throws(ParseError) -> String {
        let isPlain = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "/-_.".utf8.contains($0) }
        guard text == "/" || isPlain && text.hasPrefix("/") && !text.hasSuffix("/") && !text.contains("//") && !text.contains("/.") else {
            throw ParseError("is no path of a resource, write one of letters, digits, - and _ like /mcp, without a slash at its end")
        }
        return text
    }
}

extension ConfigurationReader {
    /// Gives routes their resources, of several the one with the longest path, and reports resources that cannot work.
    mutating func resolveResources() {
        let resources = configuration.resources.sorted { $0.path.utf8.count > $1.path.utf8.count }
        for index in configuration.routes.indices {
            guard let found = resources.first(where: { $0.holds(configuration.routes[index].rule) }) else { continue }
            configuration.routes[index].rule.resource = found.resource(configuration.publicURL)
            checkCallers(of: configuration.routes[index], below: found)
        }
        checkMetadataAddress()
        for (index, resource) in configuration.resources.enumerated() {
            if let other = configuration.resources[..<index].first(where: { $0.path == resource.path }) {
                findings.fault(resource, "has the path of \(other.variable), keep one of them")
            }
            for name in resource.issuers {
                let trust = configuration.trusts.first { $0.name == name }
                if trust == nil {
                    findings.fault(resource, "issuers= names \(quoted(name)), and there is no \(Setting.trust.name)\(name.uppercased())")
                } else if trust?.issuer == nil {
                    findings.fault(resource, "issuers= names \(quoted(name)), whose line has no issuer= to tell clients of, add it")
                }
            }
            if !configuration.routes.contains(where: { resource.holds($0.rule) }) {
                findings.fault(
                    resource,
                    "has no route at its path or below, add one like \(Setting.route.name)\(resource.name.uppercased())=\"\(resource.path)* upstream=NAME\""
                )
            }
        }
        for resource in configuration.resources { warnOfGaps(in: resource) }
        if let last = configuration.resources.last, configuration.resources.count > Trust.maximumResources {
            findings.fault(last, "brings the resources to \(configuration.resources.count), have at most \(Trust.maximumResources)")
        }
    }

    /// Warns of a broader route without tokens that takes requests below a resource, where the resource's own routes do not match.
    private mutating func warnOfGaps(in resource: ResourceDeclaration) {
        let rules = configuration.routes.map(\.rule)
        let whole = rules.filter { resource.holds($0) && $0.methods.isEmpty && $0.host == nil }
        let isCovered = [resource.path, resource.path + "/"].allSatisfy { path in
            whole.contains { $0.isPrefix ? path.hasPrefix($0.path) : $0.path == path && path == resource.path }
        }
        let open = configuration.routes.first { route in
            route.rule.auth == .none && route.rule.isPrefix && !resource.holds(route.rule) && resource.path.hasPrefix(route.rule.path)
        }
        guard !isCovered, let open else { return }
        findings.warn(
            open,
            "has auth=none and takes what no route of \(resource.variable) does at \(resource.path) and below, without a token: add a route for \(resource.path)*"
        )
    }

    /// Refuses routes below a resource that look at no token, and warns of those that need none.
    private mutating func checkCallers(of route: RouteDeclaration, below resource: ResourceDeclaration) {
        if route.rule.auth == .none {
            findings.fault(
                route,
                "has auth=none below the path of \(resource.variable), whose tokens are not looked at then, write auth=required or move it")
        } else if route.rule.auth == .optional, route.rule.scopes.isEmpty {
            findings.warn(
                route,
                "has auth=optional below the path of \(resource.variable), so requests without a token pass: write auth=required, or scope="
            )
        }
    }

    /// Refuses a public URL with a path beside resources: the gateway cannot answer where their clients look.
    private mutating func checkMetadataAddress() {
        guard let resource = configuration.resources.first else { return }
        let parts = configuration.publicURL.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, !parts[3].isEmpty else { return }
        let host = parts[..<3].joined(separator: "/")
        fault(
            .plain(\.publicURL),
            "has a path, so clients look for the metadata of \(resource.variable) at \(host)\(ResourceDeclaration.metadataPath)/\(parts[3]) and below (RFC 9728, 3.1), outside of it: write \(host), or remove the resource"
        )
    }
}
