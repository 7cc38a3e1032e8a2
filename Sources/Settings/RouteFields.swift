internal import Gate
internal import Wire

/// The options of a route about the fields of its messages.
extension RouteDeclaration {
    static let fieldOptions = table {
        fields("request-set", \.rule.requestFields.set, .request, "fields that the upstream gets, in place of the client's")
        fields("request-remove", \.rule.requestFields.removed, .request, "fields of the client that the upstream does not get")
        fields(
            "response-set", \.rule.answerFields.set, .answer,
            "fields of every response, in place of the upstream's; the gateway's own refusals have them, too")
        fields("response-remove", \.rule.answerFields.removed, .answer, "fields of the upstream's responses that the client does not get")
    }

    private static func fields(
        _ key: String, _ path: LineOption<Self>.Path<[FieldSetting]>, _ owner: FieldOwner, _ doc: String
    ) -> LineOption<Self> {
        LineOption(
            key, list: path, "NAME:value,NAME:value", "\(doc); a value may name `{user}`, `{tier}`, `{request-id}` and `{route}`",
            part: { text throws(ParseError) in try FieldSetting(parsing: text, of: owner) }, join: { $0 }, show: { $0.map(\.text) })
    }

    private static func fields(
        _ key: String, _ path: LineOption<Self>.Path<[String]>, _ owner: FieldOwner, _ doc: String
    ) -> LineOption<Self> {
        LineOption(key, list: path, "NAME,NAME", doc) { text throws(ParseError) in
            try owner.check(text, isSet: false)
            return text
        }
    }

    static func checkFields(_ line: inout OptionLine, _ rule: RouteRule) {
        for (side, changes) in [("request", rule.requestFields), ("response", rule.answerFields)] {
            // As `FieldNames` folds them.
            let names = (changes.set.map(\.name) + changes.removed).map { name in
                String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
            }
            if Set(names).count < names.count {
                line.fault("\(side)-set= and \(side)-remove= name a field twice, keep one of them")
            }
            let asksIdentity = changes.set.contains { !Set($0.placeholders).isDisjoint(with: [.user, .tier]) }
            if rule.auth == .none, asksIdentity {
                line.fault("\(side)-set= does not go with auth=none where it names {user} or {tier}, write auth=optional")
            }
            let written = ["cache-control", "cdn-cache-control", "surrogate-control", "expires"].map { ("response", $0) }
            for (own, name) in [("request", "accept")] + written
            where side == own && !rule.filters.isEmpty && names.contains(name) {
                line.fault("\(side)-set= and \(side)-remove= cannot name \(name) beside filter=, which sets it, leave it out")
            }
        }
    }
}
