import HTTP
import Wire

/// The limits of a policy, compiled: keys hashed and header texts rendered. Immutable, so a waiting request keeps the value
/// it was charged by across a reload.
///
/// Each route with limits has a row for anonymous callers, then one per tier. A row has a line per limit.
///
/// One object for each worker: its reference count is changed by requests, and would move between cores.
package final class CompiledLimits: Sendable {
    struct Line: Sendable {
        let rate: LimitRate
        /// The policy's half of the key.
        let key: LimitKey
        let subject: LimitBy.Kind
        /// Name of the field that is the subject, in lower case; empty for other kinds.
        let field: Slice
        /// Rendered by `LimitHeaders`; `item` and `tail` are empty in a row of one line.
        let item: Slice
        let tail: Slice
        /// The rate's name in the log, behind the key: `@60/m+burst=10`.
        let mark: Slice
    }

    struct Row: Sendable {
        let first: Int
        let count: Int
        let head: Slice
    }

    /// The row of a route without limits, whose requests may be charged to their keys' own.
    static let noRow = 0

    private let hash: KeyedHash
    /// The policy's half of the keys of API keys' own limits.
    let ownKey: LimitKey
    let rows: [Row]
    let lines: [Line]
    /// Rendered text before the numbers of `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    let remaining: Slice
    let reset: Slice
    /// First row of each route; -1 without limits.
    private let starts: [Int]
    /// By whom each route counts open WebSockets; nil where it does not.
    private let socketLines: [Line?]
    private let texts: [UInt8]

    /// Keys are hashed by `hash`.
    init(_ rules: [RouteRule], _ tiers: TierList, _ hash: KeyedHash) {
        self.hash = hash
        ownKey = LimitSubject.policy("key", .nothing, .user, hash)
        var draft = Draft(hash: hash)
        draft.rows.append(Row(first: 0, count: 0, head: Slice()))
        var starts: [Int] = []
        for rule in rules {
            starts.append(rule.limits.isEmpty ? -1 : draft.rows.count)
            guard !rule.limits.isEmpty else { continue }
            draft.addRow(rule, nil)
            for rank in tiers.names.indices { draft.addRow(rule, Tier(rawValue: UInt8(rank))) }
        }
        self.starts = starts
        socketLines = rules.map { draft.socketLine($0) }
        remaining = draft.keep(LimitHeaders.next("X-RateLimit-Remaining"))
        reset = draft.keep(LimitHeaders.next("X-RateLimit-Reset"))
        rows = draft.rows
        lines = draft.lines
        texts = draft.texts
    }

    /// Another object for the same limits: see `Policy.init(unshared:)`.
    init(unshared other: CompiledLimits) {
        hash = other.hash
        ownKey = other.ownKey
        rows = other.rows
        lines = other.lines
        remaining = other.remaining
        reset = other.reset
        starts = other.starts
        socketLines = other.socketLines
        texts = other.texts.map { $0 }
    }

    /// Those of `policy` with keys by `hash`: the policy's own, unless it was made without that hash.
    static func of(_ policy: Policy, _ hash: KeyedHash) -> CompiledLimits {
        if let limits = policy.limits, limits.hash == hash { return limits }
        return CompiledLimits(policy.rules, policy.tiers, hash)
    }

    /// Row index for a caller of a route with limits; `tier` is nil for an anonymous caller.
    func row(_ route: Int, _ tier: Tier?) -> Int { starts[route] + (tier.map { Int($0.rawValue) + 1 } ?? 0) }

    /// The line by which the route counts open WebSockets, of which only key and subject mean something.
    func socketLine(_ route: Int) -> Line? { socketLines[route] }

    /// Appends a rendered text.
    func append(_ slice: Slice, to edits: inout FieldEdits) {
        let texts = texts
        edits.append(rendered: texts.rawBytes[slice])
    }

    /// Appends the counts of `charge`, made by row `row`, for the log: `KEY@RATE`, separated by spaces.
    func appendMarks(_ row: Int, _ charge: inout LimitCharge, to out: inout ByteBuffer) {
        for index in 0..<charge.count {
            if index > 0 { out.append(UInt8(ascii: " ")) }
            charge[index].key.write(into: &out)
            guard index < rows[row].count else {
                out.append("@\(charge[index].rate.text)")
                continue
            }
            let texts = texts
            out.append(texts.rawBytes[lines[rows[row].first + index].mark])
        }
    }

    /// Result of looking for a limit's field in a request.
    enum CountedField {
        case missing
        /// Position of its value in the head.
        case sole(Slice)
        case repeated
    }

    /// Finds the field of `line`. Names are folded as CGI servers fold them: `X_Key` is `X-Key`. Hop-by-hop fields do not
    /// count, because the upstream does not receive them.
    func countedField(_ line: Line, _ fields: borrowing FieldTable, _ bytes: RawSpan) -> CountedField {
        let texts = texts
        let name = texts.rawBytes[line.field]
        var found = CountedField.missing
        for index in 0..<fields.count where !fields[index].endsHere {
            guard FoldedName.matches(bytes[fields[index].name], name) else { continue }
            guard case .missing = found else { return .repeated }
            found = .sole(fields[index].value)
        }
        return found
    }
}

/// Builder of the tables.
private struct Draft {
    let hash: KeyedHash
    var rows: [CompiledLimits.Row] = []
    var lines: [CompiledLimits.Line] = []
    var texts: [UInt8] = []

    mutating func addRow(_ rule: RouteRule, _ tier: Tier?) {
        let rules = rule.limits.map { $0.rule(of: tier) }
        let names = rules.indices.map(rule.limitName)
        rows.append(.init(first: lines.count, count: rules.count, head: keep(LimitHeaders.head(names, rules.map(\.rate)))))
        for (name, limit) in zip(names, rules) {
            let by = limit.by ?? rule.limitBy
            lines.append(
                .init(
                    rate: limit.rate, key: LimitSubject.policy(name, limit.rate, by, hash), subject: by.kind,
                    field: keep(Array(by.field.utf8)), item: rules.count == 1 ? Slice() : keep(LimitHeaders.item(name)),
                    tail: rules.count == 1 ? Slice() : keep(LimitHeaders.tail(limit.rate)),
                    mark: keep(Array("@\(limit.rate.text)".utf8))))
        }
    }

    mutating func socketLine(_ rule: RouteRule) -> CompiledLimits.Line? {
        guard rule.maxWebSockets != nil else { return nil }
        let rate = LimitRate.nothing
        return .init(
            rate: rate, key: LimitSubject.policy("websocket \(rule.name)", rate, rule.limitBy, hash), subject: rule.limitBy.kind,
            field: keep(Array(rule.limitBy.field.utf8)), item: Slice(), tail: Slice(), mark: Slice())
    }

    mutating func keep(_ text: [UInt8]) -> Slice {
        let slice = Slice(start: texts.count, count: text.count)
        texts += text
        return slice
    }
}
