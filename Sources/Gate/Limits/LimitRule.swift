/// Subject of a limit (`limit-by=`, `+by=`).
package enum LimitBy: Hashable, Sendable {
    /// The user; without one, the address.
    case user
    /// The client's address, IPv6 by its /64.
    case address
    /// The session; without one the user, then the address.
    case session
    /// The value of this field, named in lower case; without one, the address.
    case header(String)

    /// Parses `user`, `address`, `session` or `header:NAME`.
    package init?(parsing text: String) {
        switch text {
        case "user": self = .user
        case "address": self = .address
        case "session": self = .session
        default:
            let prefix = "header:"
            guard text.hasPrefix(prefix), text.utf8.count > prefix.utf8.count else { return nil }
            let name = text.dropFirst(prefix.count).lowercased()
            guard name.utf8.allSatisfy(MethodSet.isTokenByte) else { return nil }
            self = .header(name)
        }
    }

    package var text: String {
        switch self {
        case .user: "user"
        case .address: "address"
        case .session: "session"
        case .header(let name): "header:\(name)"
        }
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
                throw .init(message: "\"+\(part)\" is not known; write +by=user, address, session or header:NAME")
            }
            by = named
        }
        guard let rate = LimitRate(parsing: rest.joined(separator: "+")) else {
            throw .init(message: "\"\(text)\" is no rate; a rate is like 60/m, 10/h+burst=5, 100/s+lease or 60/m+by=address")
        }
        self.init(rate, by: by)
    }
}
