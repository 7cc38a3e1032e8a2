import Credentials
import HTTP
import Wire

/// The part of a rule by which one route is stricter than another: its demands of callers, and its filters. Those in shadow mode are
/// not enforced, so they are left out.
struct RouteDemands: Hashable, Sendable {
    /// A limit with its subject.
    private struct Limit: Hashable {
        /// For anonymous callers, then by tier.
        let rules: [LimitRule]

        init(_ policy: LimitPolicy, by subject: LimitBy) {
            rules = ([policy.anonymous] + policy.tiers).map { LimitRule($0.rate, by: $0.by ?? subject) }
        }

        /// Whether it admits no more than `other` to anyone.
        func isWithin(_ other: Self) -> Bool {
            rules.count == other.rules.count
                && zip(rules, other.rules).allSatisfy {
                    $0.by == $1.by && $0.rate.burst <= $1.rate.burst && $0.rate.interval >= $1.rate.interval
                }
        }
    }

    private struct Filter: Hashable {
        let paths: [FilterPath]
        let isStrict: Bool
        let unlabelled: UnlabelledRule
    }

    /// The callers whom `auth=` admits, as bits: anonymous ones 1, with a token 2, with an API key 4, internal ones 8.
    private let admitted: UInt8
    private let proof: ProofMode
    private let tier: Tier
    private let claims: [ClaimRequirement]
    private let scopes: [String]
    private let resource: ProtectedResource?
    private let attributes: [AttributeRequirement]
    private let maxAgeSeconds: UInt32
    private let factorSeconds: UInt32
    private let limits: [Limit]
    private let filter: Filter?
    private let denyFrom: NetworkList?
    private let allowFrom: NetworkList?
    private let attestation: AttestationRule?

    init(_ rule: RouteRule) {
        admitted = Self.admitted(rule.auth)
        proof = rule.proof
        tier = rule.shadow.contains(.tier) ? .lowest : rule.tier ?? .lowest
        claims = rule.claims
        scopes = rule.scopes
        resource = rule.resource
        attributes = rule.attributes
        maxAgeSeconds = rule.maxAgeSeconds ?? .max
        factorSeconds = rule.factorSeconds ?? .max
        limits = rule.shadow.contains(.limit) ? [] : rule.limits.map { Limit($0, by: rule.limitBy) }
        denyFrom = rule.denyFrom
        allowFrom = rule.allowFrom
        attestation = rule.shadow.contains(.attestation) ? nil : rule.attestation
        let isFiltered = !rule.filters.isEmpty && !rule.shadow.contains(.filter)
        filter = isFiltered ? Filter(paths: rule.filters, isStrict: rule.filterIsStrict, unlabelled: rule.unlabelled) : nil
    }

    /// `optional` protects nothing by itself: a caller can leave the token out.
    private static func admitted(_ auth: AuthMode) -> UInt8 {
        switch auth {
        case .none, .optional: 15
        case .required: 8 | 2
        case .requiredOrKey: 8 | 4 | 2
        case .key: 8 | 4
        case .internal: 8
        }
    }

    /// Whether it refuses a caller, or withholds from one, what `other` lets through. Each of two may be stricter than the other.
    func isStricter(than other: Self) -> Bool {
        if other.admitted & ~admitted != 0 || tier > other.tier || maxAgeSeconds < other.maxAgeSeconds { return true }
        if factorSeconds < other.factorSeconds { return true }
        if let filter, filter != other.filter { return true }
        if denyFrom != nil && denyFrom != other.denyFrom || allowFrom != nil && allowFrom != other.allowFrom { return true }
        if attestation != nil && attestation != other.attestation { return true }
        if !claims.allSatisfy(other.claims.contains) || !attributes.allSatisfy(other.attributes.contains) { return true }
        if proof.rawValue > other.proof.rawValue, proof == .required || admitted & 1 == 0 { return true }
        // Each takes tokens that the other refuses.
        if resource != other.resource, admitted & 1 == 0 { return true }
        if !scopes.allSatisfy(other.scopes.contains) { return true }
        return !limits.allSatisfy { mine in other.limits.contains { $0.isWithin(mine) } }
    }
}

/// The rules by their folded paths (`CanonicalPath.appendFolded`): finds the paths that an upstream may serve as those of a stricter route.
package struct FoldedRoutes: Sendable {
    private let table: RouteTable
    /// The distinct demands of all rules, and which of them each rule has.
    private let demands: [RouteDemands]
    private let demandsOfRule: [Int]

    /// nil if all rules demand the same.
    init?(_ rules: [RouteRule]) throws(RouteFault) {
        var numbers: [RouteDemands: Int] = [:]
        var distinct: [RouteDemands] = []
        demandsOfRule = rules.map { rule in
            let demands = RouteDemands(rule)
            if let known = numbers[demands] { return known }
            numbers[demands] = distinct.count
            distinct.append(demands)
            return distinct.count - 1
        }
        guard Set(zip(rules, demandsOfRule).filter { !$0.0.target.isLocal }.map(\.1)).count > 1 else { return nil }
        demands = distinct
        table = try RouteTable(folding: rules, strictest: Self.strictest(rules, demandsOfRule, distinct))
    }

    /// The same, for one worker alone: see `Policy.init(unshared:)`.
    init(unshared other: Self) {
        table = RouteTable(unshared: other.table)
        demands = other.demands.map { $0 }
        demandsOfRule = other.demandsOfRule.map { $0 }
    }

    /// The indices of the rules to keep: of those with the same folded pattern one than which no other is stricter.
    private static func strictest(_ rules: [RouteRule], _ demandsOfRule: [Int], _ demands: [RouteDemands]) throws(RouteFault) -> [Int] {
        var kept: [String: Int] = [:]
        // An upstream never has the paths of the gateway's own endpoints.
        for (index, rule) in rules.enumerated() where !rule.target.isLocal {
            let path = String(decoding: try RouteTable.foldedPattern(rule).bytes, as: UTF8.self)
            let methods = rule.methods.sorted().joined(separator: ",")
            let pattern = "\(methods) \(rule.host?.lowercased() ?? "")\(path)\(rule.isPrefix ? "*" : "")"
            guard let other = kept[pattern], !demands[demandsOfRule[index]].isStricter(than: demands[demandsOfRule[other]]) else {
                kept[pattern] = index
                continue
            }
        }
        return kept.values.sorted()
    }

    /// Whether `other`, a rule of an upstream's, is stricter than `rule`.
    func isStricter(_ other: Int, than rule: Int) -> Bool {
        demandsOfRule[other] != demandsOfRule[rule] && demands[demandsOfRule[other]].isStricter(than: demands[demandsOfRule[rule]])
    }

    /// Whether the path of some rule differs from its folded form.
    var hasUnfoldedRules: Bool { table.hasUnfoldedRules }

    /// Whether a rule is stricter than `rule`. Compares it with so many kinds of demands at most; with more it may be wrong about one
    /// that is not, which costs its requests a look-up.
    func mayHide(behind rule: Int) -> Bool {
        let mine = demands[demandsOfRule[rule]]
        return demands.count > 64 || demands.contains { $0.isStricter(than: mine) }
    }

    /// The stricter rule than `rule` to which the canonical `path` of its request belongs when it is folded; nil if there is none.
    /// `room` is for the folded path. The caller has asked `hasUnfoldedRules` and `needsFolding`, which spare most paths this.
    func stricter(than rule: Int, host: RawSpan, path: RawSpan, method: Method, methodText: RawSpan, _ room: inout ByteBuffer) -> Int? {
        room.removeAll()
        CanonicalPath.appendFolded(path, to: &room)
        guard case .route(let other) = table.match(host: host, path: room.readable, method: method, methodText: methodText),
            isStricter(other, than: rule)
        else { return nil }
        return other
    }
}

extension FoldedRoutes {
    /// The rules some of whose paths are refused because they may be read as those of stricter rules, with these, for `check`.
    package static func pairs(of rules: [RouteRule]) -> [(rule: RouteRule, stricter: [RouteRule])] {
        do throws(RouteFault) {
            guard let folded = try FoldedRoutes(rules) else { return [] }
            return try pairs(rules, RouteTable(rules), folded)
        } catch {
            return []  // Such rules have been reported.
        }
    }

    private static func pairs(
        _ rules: [RouteRule], _ table: RouteTable, _ folded: Self
    ) throws(RouteFault) -> [(rule: RouteRule, stricter: [RouteRule])] {
        var found: [Int: Set<Int>] = [:]
        for rule in rules {
            for spelling in try spellings(rule) {
                let host = Array((rule.host ?? "").utf8)
                let text = Array((rule.methods.first ?? "GET").utf8)
                let method = Method(text.rawBytes)
                var room = ByteBuffer()
                guard
                    case .route(let route) = table.match(
                        host: host.rawBytes, path: spelling.rawBytes, method: method, methodText: text.rawBytes),
                    !rules[route].target.isLocal, !rules[route].upstreamPathsAreExact,
                    let other = folded.stricter(
                        than: route, host: host.rawBytes, path: spelling.rawBytes, method: method, methodText: text.rawBytes, &room)
                else { continue }
                found[route, default: []].insert(other)
            }
        }
        return found.sorted { $0.key < $1.key }.map { (rules[$0.key], $0.value.sorted().map { rules[$0] }) }
    }

    /// Paths that differ from one of the rule in case, the last slash, or a blank at the end.
    private static func spellings(_ rule: RouteRule) throws(RouteFault) -> [[UInt8]] {
        let path =
            Array(try RouteTable.foldedPattern(rule).literals.joined(separator: [UInt8(ascii: "x")]))
            + (rule.isPrefix ? [UInt8(ascii: "x")] : [])
        // In upper case from each slash on: the rule that is hidden may lie below the one that hides it.
        let upper = path.indices.filter { path[$0] == UInt8(ascii: "/") }.map { start in
            Array(path[..<start]) + Array(String(decoding: path[start...], as: UTF8.self).uppercased().utf8)
        }
        return [path, path + [UInt8(ascii: "/")], path + Array("%20".utf8)] + upper
    }
}
