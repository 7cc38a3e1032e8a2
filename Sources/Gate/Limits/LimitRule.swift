/// Subject of a limit (`limit-by=`, `+by=`). A new one is a case of `Kind` and its branch in `Admission.subject`.
package struct LimitBy: Hashable, Sendable {
    /// Kinds of subjects; their names are those in the settings.
    package enum Kind: UInt8, CaseIterable, Sendable {
        /// The user; without one, the address.
        case user
        /// The client's address, IPv6 by its /64.
        case address
        /// The session; without one the user, then the address.
        case session
        /// The value of a field; without one, the address.
        case header

        fileprivate var name: String { "\(self)" }
        fileprivate var form: String { self == .header ? "header:NAME" : name }
    }

    let kind: Kind
    /// Name of the field of `header`, in lower case; empty for other kinds.
    let field: String

    package static let user = LimitBy(kind: .user, field: "")
    package static let address = LimitBy(kind: .address, field: "")
    package static let session = LimitBy(kind: .session, field: "")

    /// By the value of the field with this name in lower case.
    package static func header(_ name: String) -> LimitBy { LimitBy(kind: .header, field: name) }

    private init(kind: Kind, field: String) {
        self.kind = kind
        self.field = field
    }

    /// Parses `user`, `address`, `session` or `header:NAME`.
    package init?(parsing text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let kind = Kind.allCases.first(where: { $0.name == parts[0] }), (parts.count == 2) == (kind == .header) else { return nil }
        let field = parts.count == 2 ? parts[1].lowercased() : ""
        guard kind != .header || !field.isEmpty, field.utf8.allSatisfy(MethodSet.isTokenByte) else { return nil }
        self.init(kind: kind, field: field)
    }

    package var text: String { kind == .header ? "header:\(field)" : kind.name }

    /// The forms of all kinds, for messages: `user, address, session or header:NAME`.
    package static var forms: String {
        let forms = Kind.allCases.map(\.form)
        return forms.dropLast().joined(separator: ", ") + " or " + (forms.last ?? "")
    }
}

/// A rate, with its own subject if it names one: `60/m+by=address`.
package struct LimitRule: Hashable, Sendable {
    package let rate: LimitRate
    /// nil: the route's `limit-by`.
    package let by: LimitBy?

    package init(_ rate: LimitRate, by: LimitBy? = nil) {
        self.rate = rate
        self.by = by
    }

    init(parsing text: String) throws(LimitPolicy.Fault) {
        var by: LimitBy?
        var rest: [Substring] = []
        for part in text.split(separator: "+", omittingEmptySubsequences: false) {
            guard part.hasPrefix("by=") else {
                rest.append(part)
                continue
            }
            guard by == nil else { throw .init(message: "\"\(text)\" counts by two things; write limit= once for each") }
            guard let named = LimitBy(parsing: String(part.dropFirst(3))) else {
                throw .init(message: "\"+\(part)\" is not known; write +by=\(LimitBy.forms)")
            }
            by = named
        }
        guard let rate = LimitRate(parsing: rest.joined(separator: "+")) else {
            throw .init(message: "\"\(text)\" is no rate; a rate is like 60/m, 10/h+burst=5, 100/s+lease or 60/m+by=address")
        }
        self.init(rate, by: by)
    }
}
