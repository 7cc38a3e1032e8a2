package import HTTP
package import Wire

/// Result of a lookup.
package enum RouteMatch: Equatable, Sendable {
    /// Index of the rule.
    case route(Int)
    /// Rules match the path with other methods; `by` is the index of the most specific one.
    case methodNotAllowed(MethodSet, by: Int)
    case none
}

/// Invalid rule, or two rules in conflict; `message` is for the operator.
package enum RouteFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// Two rules with equal host, path and number of methods match the same request.
    case equal(String, String)
    case badPath(String, PathFault)
    /// A brace that does not enclose the name of a whole segment.
    case badBraces(String)
    case badMethod(String, String)
    case badHost(String, String)
    case badStrip(String, String)
    /// A claim that the trust was not made with.
    case unknownRequirement(String, claim: String)
    /// `tier`, `claims`, `attributes` or `filter` on a route with auth=none.
    case identityNeeded(String)
    /// More than `LimitCharge.capacity`.
    case tooManyLimits(String)
    /// All routes together require, or forward, more than `AttributeTable.capacity`.
    case tooManyAttributes(String)

    package var description: String { message }

    package var message: String {
        switch self {
        case .equal(let first, let second): "the routes \(first) and \(second) take the same requests"
        case .badPath(let route, let fault): "the path of the route \(route) is not canonical: \(fault.message)"
        case .badBraces(let route): "the path of the route \(route) has braces that enclose no name of a whole segment"
        case .badMethod(let route, let method): "the route \(route) names the method \"\(method)\", which is none"
        case .badHost(let route, let host): "the route \(route) names the host \"\(host)\"; a name without port is wanted"
        case .badStrip(let route, let strip): "the route \(route) strips \"\(strip)\", which is no path"
        case .unknownRequirement(let route, let claim): "the route \(route) asks for the claim \(claim), which is not known"
        case .identityNeeded(let route):
            "the route \(route) has auth=none, so no identity can meet its tier=, claims=, attributes= or filter="
        case .tooManyLimits(let route): "the route \(route) has more than \(LimitCharge.capacity) limits"
        case .tooManyAttributes(let route):
            "the route \(route) brings the different attributes of all routes to more than \(AttributeTable.capacity)"
        }
    }
}

/// Route table: finds the most specific rule for a request. Exact host before any host; then segment by segment from the left
/// a literal before a braced name before `*`, a longer literal before a `*` before a shorter one; fewer methods before more.
///
/// One compressed path trie per host. A lookup allocates nothing. Without braced names it takes time in the length of the path;
/// with them it may backtrack, and visits no node twice.
package final class RouteTable: Sendable {
    package let rules: [RouteRule]
    private let methods: MethodNames
    private let hosts: HostIndex
    /// Whether a rule names a host.
    let namesHosts: Bool
    /// Root of the rules without a host.
    private let anyHost: Int
    let nodes: [PathTrie.Node]
    private let entries: [PathTrie.Entry]
    private let labels: [UInt8]

    /// Whether a folded path of a rule differs from the rule's own, in a table of folded paths.
    let hasUnfoldedRules: Bool

    package convenience init(_ rules: [RouteRule]) throws(RouteFault) {
        try self.init(rules, Array(rules.indices), folds: false)
    }

    /// The table of the folded paths of the `strictest` of the rules. Of two that still take the same requests the first counts.
    convenience init(folding rules: [RouteRule], strictest: [Int]) throws(RouteFault) {
        try self.init(rules, strictest, folds: true)
    }

    private init(_ rules: [RouteRule], _ indices: [Int], folds: Bool) throws(RouteFault) {
        var methods = MethodNames()
        var builder = PathTrie()
        var hosts = HostIndex.Builder()
        let anyHost = builder.newRoot()
        var hasUnfoldedRules = false
        for index in indices {
            let rule = rules[index]
            let set = try Self.methodSet(rule, &methods)
            let path = try folds ? Self.foldedPattern(rule) : Self.pattern(rule)
            if folds, try path != Self.pattern(rule) { hasUnfoldedRules = true }
            var root = anyHost
            if let host = rule.host { root = try hosts.root(of: host, rule.name) { builder.newRoot() } }
            let entry = PathTrie.Entry(route: Int32(index), methods: set, isEndpoint: rule.isEndpoint)
            var twin = builder.insert(entry, path: path, isPrefix: rule.isPrefix, root: root)
            if rule.isEndpoint {
                twin = twin ?? builder.insert(entry, path: path.appendingSlash, isPrefix: false, root: root)
            }
            if let twin, !folds { throw .equal(rules[twin].name, rule.name) }
        }
        self.rules = rules
        self.hasUnfoldedRules = hasUnfoldedRules
        self.methods = methods
        self.hosts = hosts.finish()
        namesHosts = rules.contains { $0.host != nil }
        self.anyHost = anyHost
        let flat = builder.flattened()
        nodes = flat.nodes
        entries = flat.entries
        labels = flat.labels
    }

    /// Another object for the same table: see `Policy.init(unshared:)`.
    init(unshared other: RouteTable) {
        rules = other.rules
        hasUnfoldedRules = other.hasUnfoldedRules
        methods = other.methods
        hosts = other.hosts
        namesHosts = other.namesHosts
        anyHost = other.anyHost
        nodes = other.nodes
        entries = other.entries
        labels = other.labels
    }

    private static func methodSet(_ rule: RouteRule, _ names: inout MethodNames) throws(RouteFault) -> MethodSet {
        if rule.methods.isEmpty { return .all }
        var set = MethodSet()
        for method in rule.methods {
            guard let bit = names.intern(method) else { throw .badMethod(rule.name, method) }
            set.insert(bit: bit)
        }
        return set
    }

    /// The path of a rule in canonical form.
    package static func canonicalPath(_ rule: RouteRule) throws(RouteFault) -> [UInt8] {
        let passes: CanonicalPath.EncodedSlash = rule.encodedSlashPasses ? .pass : .refuse
        var out = ByteBuffer()
        let outcome = rule.path.withRawBytes { CanonicalPath.canonicalise($0, into: &out, encodedSlash: passes) }
        switch outcome {
        case .same: return Array(rule.path.utf8)
        case .rewritten: return out.readable.array
        case .refused(let fault): throw .badPath(rule.name, fault)
        }
    }

    private static func pattern(_ rule: RouteRule) throws(RouteFault) -> PathPattern { try pattern(rule, of: canonicalPath(rule)) }

    /// The pattern of a rule's folded path.
    static func foldedPattern(_ rule: RouteRule) throws(RouteFault) -> PathPattern {
        let path = try canonicalPath(rule)
        var folded = ByteBuffer()
        CanonicalPath.appendFolded(path.rawBytes, keepsEnd: rule.isPrefix, to: &folded)
        return try pattern(rule, of: folded.readable.array)
    }

    private static func pattern(_ rule: RouteRule, of path: [UInt8]) throws(RouteFault) -> PathPattern {
        // `/a/{x}*` would match more than the segment of the name.
        let isStarred = rule.isPrefix && path.last == UInt8(ascii: "}")
        guard let pattern = PathPattern(path), !isStarred else { throw .badBraces(rule.name) }
        return pattern
    }

    /// Finds the rule of a request. `host` may have a port, a final dot and any case; `path` is canonical.
    package func match(host: RawSpan, path: RawSpan, method: Method, methodText: RawSpan) -> RouteMatch {
        match(host: host, path: path, bit: methods.bit(method, methodText))
    }

    /// Whether a rule is for this host, in the same form.
    func names(_ host: RawSpan) -> Bool { hosts.root(of: host) != nil }

    private func match(host: RawSpan, path: RawSpan, bit: UInt64) -> RouteMatch {
        guard path.byteCount > 0, path[0] == UInt8(ascii: "/") else { return .none }
        var refused = Refused()
        if let root = hosts.root(of: host), let route = find(below: root, at: 0, path, bit, &refused) { return .route(route) }
        if let route = find(below: anyHost, at: 0, path, bit, &refused) { return .route(route) }
        return refused.first < 0 ? .none : .methodNotAllowed(refused.allowed, by: Int(refused.first))
    }

    /// Rules that match the path with other methods.
    private struct Refused {
        var allowed = MethodSet()
        /// Index of the most specific; -1 for none.
        var first: Int32 = -1
        var isAtEndpoint = false

        mutating func add(_ entry: PathTrie.Entry) {
            allowed.formUnion(entry.methods)
            if first < 0 { first = entry.route }
            if entry.isEndpoint { isAtEndpoint = true }
        }
    }

    /// The methods of `set`, as `Allow` lists them.
    package func writeAllow(_ set: MethodSet, into out: inout ByteBuffer) { methods.write(set, into: &out) }

    /// Calls `body` with each piece of that list, in order.
    func forEachPiece(ofAllow set: MethodSet, _ body: (RawSpan) -> Void) { methods.forEachPiece(of: set, body) }

    /// The methods of `path` that have a name here and whose rule `isMeant`. Looks each of them up, so it is not for every
    /// request.
    func methods(host: RawSpan, path: RawSpan, where isMeant: (Int) -> Bool) -> MethodSet {
        var found = MethodSet()
        for bit in 0..<methods.endOfBits where bit != UInt64(Method.other.rawValue) {
            if case .route(let route) = match(host: host, path: path, bit: bit), isMeant(route) { found.insert(bit: bit) }
        }
        return found
    }

    /// Whether `method` is a valid name that neither HTTP nor any rule has: only rules for all methods take it.
    func isUnnamed(_ method: RawSpan) -> Bool {
        let known = Method(method)
        guard known == .other, methods.bit(known, method) == UInt64(Method.other.rawValue), !method.isEmpty else { return false }
        for offset in 0..<method.byteCount where !MethodSet.isTokenByte(method[offset]) { return false }
        return true
    }

    /// The rule below the node `first` for `path` from `start` on; collects rules for other methods on the way.
    ///
    /// Descends along literals, then backtracks to the nearest braced name or `*` that matches the rest.
    private func find(below first: Int, at start: Int, _ path: RawSpan, _ bit: UInt64, _ refused: inout Refused) -> Int? {
        let text = labels
        let labels = text.rawBytes
        var node = first
        var offset = start
        var fallback = nodes[first].isFallback ? first : -1
        while offset < path.byteCount {
            let next = child(of: node, path, offset, labels)
            guard next >= 0 else { break }
            node = next
            offset += Int(nodes[node].label.count)
            if nodes[node].isFallback { fallback = node }
        }
        if offset == path.byteCount {
            if let route = pick(nodes[node].exact, bit, &refused) { return route }
            if refused.isAtEndpoint { return nil }
            if let route = pick(nodes[node].bare, bit, &refused) { return route }
        }
        while fallback >= 0 {
            let braced = Int(nodes[fallback].braced)
            if braced >= 0 {
                let begin = start + Int(nodes[fallback].depth - nodes[first].depth)
                let end = PathPattern.endOfSegment(path, from: begin)
                if end > begin, let route = find(below: braced, at: end, path, bit, &refused) { return route }
                if refused.isAtEndpoint { return nil }
            }
            if let route = pick(nodes[fallback].prefix, bit, &refused) { return route }
            fallback = Int(nodes[fallback].outerFallback)
        }
        return nil
    }

    /// The child of `node` whose whole label is at `offset` in `path`; -1 if there is none.
    private func child(of node: Int, _ path: RawSpan, _ offset: Int, _ labels: RawSpan) -> Int {
        let first = path[offset]
        var next = Int(nodes[node].firstChild)
        while next >= 0 {
            if nodes[next].first == first {
                return path.dropping(offset).hasPrefix(labels[nodes[next].label]) ? next : -1
            }
            next = Int(nodes[next].nextSibling)
        }
        return -1
    }

    /// The first entry with method `bit`; entries with fewer methods come first.
    private func pick(_ range: PathTrie.EntryRange, _ bit: UInt64, _ refused: inout Refused) -> Int? {
        for index in Int(range.start)..<Int(range.end) {
            let entry = entries[index]
            if entry.methods.contains(bit: bit) { return Int(entry.route) }
            refused.add(entry)
        }
        return nil
    }
}
