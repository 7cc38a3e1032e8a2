import HTTP
import Wire

/// The limits of a policy, ready to be charged and to be told of. Immutable, so that a request that waits for its answer
/// keeps the sheet it was charged by while a reload makes another.
///
/// Each route with limits has a row for callers without identity, then one for each tier; a row has a line for each limit.
final class CompiledLimits: Sendable {
    /// What a limit counts by.
    enum Subject: UInt8 { case user, address, session, header }

    struct Line: Sendable {
        let rate: LimitRate
        /// The policy's half of the key.
        let key: LimitKey
        let subject: Subject
        /// The name of the field that is counted by, in lower case.
        let field: Slice
        /// As `LimitHeaders` renders them; both empty where the row has one line.
        let item: Slice
        let tail: Slice
        /// How the log names the rate, behind the key: `@60/m+burst=10`.
        let mark: Slice
    }

    struct Row: Sendable {
        let first: Int
        let count: Int
        let head: Slice
    }

    let rows: [Row]
    let lines: [Line]
    /// What stands between the numbers, rendered: up to that of `X-RateLimit-Remaining`, and of `X-RateLimit-Reset`.
    let remaining: Slice
    let reset: Slice
    /// Where each route's rows begin; -1 without a limit.
    private let starts: [Int]
    private let texts: [UInt8]

    init(_ policy: Policy, _ hash: KeyedHash) {
        var draft = Draft(hash: hash)
        var starts: [Int] = []
        for rule in policy.rules {
            starts.append(rule.limits.isEmpty ? -1 : draft.rows.count)
            guard !rule.limits.isEmpty else { continue }
            draft.addRow(rule, nil)
            for rank in policy.tiers.names.indices { draft.addRow(rule, Tier(rawValue: UInt8(rank))) }
        }
        self.starts = starts
        remaining = draft.keep(LimitHeaders.next("X-RateLimit-Remaining"))
        reset = draft.keep(LimitHeaders.next("X-RateLimit-Reset"))
        rows = draft.rows
        lines = draft.lines
        texts = draft.texts
    }

    /// The row of a caller on a route with limits; `tier` is nil for one without identity.
    func row(_ route: Int, _ tier: Tier?) -> Int { starts[route] + (tier.map { Int($0.rawValue) + 1 } ?? 0) }

    /// Appends what `LimitHeaders` rendered.
    func append(_ slice: Slice, to edits: inout FieldEdits) {
        let texts = texts
        edits.append(rendered: texts.rawBytes[slice])
    }

    /// Appends whom `charge`, made by row `row`, counts, for the log: `KEY@RATE`, separated by spaces.
    func appendMarks(_ row: Int, _ charge: inout LimitCharge, to out: inout ByteBuffer) {
        for index in 0..<charge.count {
            if index > 0 { out.append(UInt8(ascii: " ")) }
            charge[index].key.write(into: &out)
            let texts = texts
            out.append(texts.rawBytes[lines[rows[row].first + index].mark])
        }
    }

    /// The field of a request that a line counts by.
    enum CountedField {
        case missing
        /// Where its value stands in the head.
        case sole(Slice)
        case repeated
    }

    /// The field among `fields` that `line` counts by, however its name is spelled: to an upstream behind CGI, `X_Key` is
    /// `X-Key`. One that ends here is not there for the upstream, and so is not counted by.
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

/// A sheet in the making.
private struct Draft {
    let hash: KeyedHash
    var rows: [CompiledLimits.Row] = []
    var lines: [CompiledLimits.Line] = []
    var texts: [UInt8] = []

    mutating func addRow(_ rule: RouteRule, _ tier: Tier?) {
        let terms = rule.limits.map { $0.term(of: tier) }
        let names = terms.indices.map(rule.limitName)
        rows.append(.init(first: lines.count, count: terms.count, head: keep(LimitHeaders.head(names, terms.map(\.rate)))))
        for (name, term) in zip(names, terms) {
            let by = term.by ?? rule.limitBy
            lines.append(
                .init(
                    rate: term.rate, key: LimitSubject.policy(name, term.rate, by, hash), subject: .init(by),
                    field: keep(Array(by.field.utf8)), item: terms.count == 1 ? Slice() : keep(LimitHeaders.item(name)),
                    tail: terms.count == 1 ? Slice() : keep(LimitHeaders.tail(term.rate)),
                    mark: keep(Array("@\(term.rate.text)".utf8))))
        }
    }

    mutating func keep(_ text: [UInt8]) -> Slice {
        let slice = Slice(start: texts.count, count: text.count)
        texts += text
        return slice
    }
}

extension LimitBy {
    /// The field that is counted by; empty for none.
    fileprivate var field: String {
        switch self {
        case .user, .address, .session: ""
        case .header(let name): name
        }
    }
}

extension CompiledLimits.Subject {
    fileprivate init(_ by: LimitBy) {
        switch by {
        case .user: self = .user
        case .address: self = .address
        case .session: self = .session
        case .header: self = .header
        }
    }
}
