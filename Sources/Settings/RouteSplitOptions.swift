internal import Gate
internal import Wire

/// The options of a route about other upstreams that get some of its requests.
extension RouteDeclaration {
    static let splitOptions = table {
        LineOption(
            "split", ifSet: \.rule.split, OptionForm(plain: split) { OptionValue("\($0.percent)%:\($0.upstreamName)") }, "5%:UPSTREAM",
            "the share of the requests that goes to another upstream; `tollgate split` changes it while gateways run")
        LineOption(
            "split-by", \.rule.splitBy, .choice(RouteSplit.Subject.allCases, \.rawValue), "whose requests go to the same side of `split`"
        ).when { $0.rule.split != nil }
        LineOption(
            "when", "tier:NAME,header:NAME=VALUE,attribute:NAME=VALUE",
            "requests that `split` is about, all of these must hold; a comma or a space of a value is written `%2C` or `%20`", kind: .list
        ) { line, route in
            let tiers = line.context.tiers
            if let all = line.list("when", { text throws(ParseError) in try SplitCondition(parsing: text, tiers: tiers) }) {
                route.rule.splitWhen = all
            }
        } value: { route, _ in
            OptionValue(list: route.rule.splitWhen.map(\.text))
        }.when { $0.rule.split != nil }
        LineOption(
            "split-guard", ifSet: \.rule.splitGuard, OptionForm(plain: watch) { OptionValue("\($0.factor)x") }, "2x",
            "how many times as often requests may fail on the split side as on the other, counted by users, before the share goes back to 0"
        )
        LineOption(
            "mirror", ifSet: \.rule.mirror, OptionForm(plain: mirror) { OptionValue("\($0.upstreamName):\($0.percent)%") }, "UPSTREAM:10%",
            "the upstream that gets copies of so many requests, whose answers are dropped")
    }

    private static func watch(_ text: String) throws(ParseError) -> SplitWatch {
        guard text.hasSuffix("x"), let factor = Int(text.dropLast()), 1...100 ~= factor else {
            throw ParseError("is no factor, write one from 1x to 100x")
        }
        return SplitWatch(factor: factor)
    }

    private static func mirror(_ text: String) throws(ParseError) -> RouteSplit {
        let (percent, name) = try shareAndName(text.split(separator: ":", maxSplits: 1).map(String.init).reversed(), "UPSTREAM:10%")
        return RouteSplit(percent: percent, upstreamName: name)
    }

    private static func split(_ text: String) throws(ParseError) -> RouteSplit {
        let (percent, name) = try shareAndName(text.split(separator: ":", maxSplits: 1).map(String.init), "5%:UPSTREAM")
        return RouteSplit(percent: percent, upstreamName: name)
    }

    private static func shareAndName(_ parts: [String], _ right: String) throws(ParseError) -> (Int, String) {
        guard parts.count == 2 else { throw ParseError("is no share of an upstream, write \(right)") }
        return (try TypedText.percentage(parts[0], 0...100), parts[1].lowercased())
    }

    static func checkSplit(_ line: inout OptionLine, _ rule: RouteRule) {
        for key in ["split-by", "split-guard", "when"] where rule.split == nil && line.has(key) && !line.has("split") {
            line.fault("\(key)= needs a split, add split=5%:UPSTREAM or remove it")
        }
        let kinds = rule.splitWhen.map { $0.text.prefix { $0 != "=" } }
        if Set(kinds.map { $0.hasPrefix("tier:") ? "tier" : $0.lowercased() }).count < kinds.count {
            line.fault("when= asks twice for the tier, or for one header or attribute, keep one of them")
        }
        let asksUser = rule.splitWhen.contains { $0.text.hasPrefix("tier:") || $0.text.hasPrefix("attribute:") }
        if rule.auth == .none, rule.split != nil, asksUser || rule.splitBy != .address {
            line.fault("split= does not go with auth=none by user, session, tier or attribute: write split-by=address, or auth=optional")
        }
    }
}
