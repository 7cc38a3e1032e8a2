package import Wire

/// The bar, attributes and merges of an account, as sent to the workers beside its tier and its email.
package struct AccountMarks: Equatable, Sendable {
    /// Why the account's tokens are refused.
    package enum Bar: Equatable, Sendable {
        /// nil for good.
        case banned(until: WallTime?)
        /// Its user has closed it.
        case closed

        func isInForce(at now: WallTime) -> Bool {
            switch self {
            case .banned(let until): until.map { now < $0 } ?? true
            case .closed: true
            }
        }
    }

    /// A ban stays here after its end.
    package var bar: Bar?
    /// One JSON object; empty if the account has no attributes.
    package var attributes: [UInt8]
    /// The merges into the account that services have not confirmed.
    package var merges: [AnnouncedMerge]

    /// Whether tokens of the account are refused.
    package func isBarred(at now: WallTime) -> Bool { bar?.isInForce(at: now) ?? false }

    package init(bar: Bar? = nil, attributes: [UInt8] = [], merges: [AnnouncedMerge] = []) {
        self.bar = bar
        self.attributes = attributes
        self.merges = merges
    }
}

/// An account that was merged into another one, as routes with `merge=announce` tell their upstreams.
package struct AnnouncedMerge: Equatable, Sendable {
    /// The account that ended.
    package let from: UUID
    /// The end of the announcement, in seconds since 1970.
    package let until: Int64

    package init(from: UUID, until: Int64) {
        self.from = from
        self.until = until
    }
}

/// An attribute that a route requires of accounts (`attributes=`): a string, number or boolean with one of these texts, or an array that
/// contains one.
package struct AttributeRequirement: Hashable, Sendable {
    package let name: String
    /// At least one.
    package let values: [String]

    package init(name: String, values: [String]) {
        self.name = name
        self.values = values
    }

    /// As in the settings.
    package var text: String { "\(name)=\(values.joined(separator: "|"))" }
}

/// The name of an attribute that a route forwards (`forward-attributes=`), or users write (`writable=`): letters, digits, `_`, `-`, `.`.
package struct AttributeName: Hashable, Sendable {
    package let text: String

    package init?(_ text: String) {
        let isPlain = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x5F || $0 == 0x2D || $0 == 0x2E }
        guard (1...64).contains(text.utf8.count), isPlain else { return nil }
        self.text = text
    }

    /// The field's name: words with a capital, and `-` between them, because servers read `_` and `.` as that.
    package var field: String {
        var (words, beginsWord) = ("\(IdentityHeaders.attributePrefix)", true)
        for byte in text.utf8.map({ FoldedName.folded($0) }) {
            words.unicodeScalars.append(Unicode.Scalar(beginsWord && byte.isASCIILetter ? byte & ~0x20 : byte))
            beginsWord = byte == UInt8(ascii: "-")
        }
        return words
    }
}

/// The attributes that the routes of a policy look at. Bits and slots of `AccountDetail` are indices into it.
struct AttributeTable: Equatable, Sendable {
    static let capacity = 64

    /// The distinct requirements, and the distinct names that are forwarded.
    let requirements: [AttributeRequirement]
    let forwarded: [AttributeName]
    /// The fields of the names that are forwarded.
    let fields: [[UInt8]]
    /// Whether a route announces merges.
    let announcesMerges: Bool

    init(_ rules: [RouteRule]) throws(RouteFault) {
        var (requirements, forwarded): ([AttributeRequirement], [AttributeName]) = ([], [])
        for rule in rules {
            for requirement in rule.attributes where !requirements.contains(requirement) { requirements.append(requirement) }
            for requirement in rule.splitAttributes where !requirements.contains(requirement) { requirements.append(requirement) }
            for name in rule.forwardedAttributes where !forwarded.contains(name) { forwarded.append(name) }
            guard max(requirements.count, forwarded.count) <= Self.capacity else { throw .tooManyAttributes(rule.name) }
        }
        self.requirements = requirements
        self.forwarded = forwarded
        fields = forwarded.map { Array($0.field.utf8) }
        announcesMerges = rules.contains { $0.announcesMerges }
    }

    /// Whether a route looks at some of these.
    func concerns(_ marks: AccountMarks) -> Bool {
        !marks.attributes.isEmpty && !(requirements.isEmpty && forwarded.isEmpty) || !marks.merges.isEmpty && announcesMerges
    }

    /// The bits of what a rule requires.
    func required(by rule: RouteRule) -> UInt64 { Self.bits(rule.attributes, in: requirements) }
    /// The bits of what a rule's split looks at.
    func split(by rule: RouteRule) -> UInt64 { Self.bits(rule.splitAttributes, in: requirements) }
    /// The bits of what a rule forwards.
    func forwarded(by rule: RouteRule) -> UInt64 { Self.bits(rule.forwardedAttributes, in: forwarded) }

    /// The same requirements in this table; those that no route has any more are left out.
    func moved(_ bits: UInt64, from former: Self) -> UInt64 {
        Self.bits(former.requirements.indices.filter { bits >> UInt64($0) & 1 != 0 }.map { former.requirements[$0] }, in: requirements)
    }

    /// A bit for each of these elements, by its place among all.
    static func bits<Element: Equatable>(_ some: [Element], in all: [Element]) -> UInt64 {
        some.compactMap(all.firstIndex).reduce(0) { $0 | 1 << UInt64($1) }
    }
}

extension RouteRule {
    /// Throws for the rule with which there are more attributes than a table holds.
    package static func checkAttributes(_ rules: [RouteRule]) throws(RouteFault) { _ = try AttributeTable(rules) }
}
