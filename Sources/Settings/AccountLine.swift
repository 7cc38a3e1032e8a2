package import Gate
internal import Wire

/// `TOLLGATE_ACCOUNT`: the endpoints by which users of all contracts see and change their accounts.
package struct AccountDeclaration: Hashable, Sendable {
    /// The base path, without a slash at its end.
    package var base = ""
    /// The attributes that users may write.
    package var writable: [AttributeName] = []
    package var origin: Origin
}

extension AccountDeclaration: OptionTarget {
    package static let grammar = "/PATH key=value …"
    package static let family = Setting.account
    package var lineName: String { "account" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption(
            "writable", list: \.writable, "name,locale", "the attributes that users may write", part: AttributeName.part, join: { $0 },
            show: { $0.map(\.text) })
    }

    package init?(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.read(into: &self)
        guard line.words.count == 1, let path = line.words.first, path.hasPrefix("/"), path != "/" else {
            line.fault("needs one path, write it like \"/account writable=name,locale\"")
            return nil
        }
        base = path.hasSuffix("/") ? String(path.dropLast()) : path
    }
}

/// `TOLLGATE_FACTOR`.
package enum FactorChoice: Hashable, Sendable {
    case off, offered
    /// Users of this tier and above must prove one.
    case required(Tier)

    init(_ text: String, _ tiers: TierList) throws(ParseError) {
        let required = "required:"
        switch text {
        case "off": self = .off
        case "offered": self = .offered
        case _ where text.hasPrefix(required):
            guard let tier = tiers.rank(of: String(text.dropFirst(required.count))) else {
                throw ParseError("names no tier behind required:, write one of \(tiers.names.joined(separator: ", "))")
            }
            self = .required(tier)
        default: throw ParseError("must be off, offered or required:TIER")
        }
    }

    /// The tier from which on users must prove one; nil for none.
    package var leastTier: Tier? { if case .required(let tier) = self { tier } else { nil } }
}

extension AttributeName {
    /// A name in the list of an option.
    static func part(_ text: String) throws(ParseError) -> AttributeName {
        guard let name = AttributeName(text) else {
            throw ParseError("is no list of attributes, write up to 64 letters, digits, _, - and . for each, like role,plan")
        }
        return name
    }
}
