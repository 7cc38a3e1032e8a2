internal import Gate
internal import Wire

// The forms in which values of a route's options are written.

extension OptionForm where Value == LimitPolicy {
    static var limit: Self {
        Self({ text, context throws(ParseError) in
            do throws(LimitPolicy.Fault) {
                return try LimitPolicy(parsing: text, tiers: context.tiers)
            } catch {
                throw ParseError("is no limit: \(error.message)")
            }
        }) { limit, _ in OptionValue(limit.text) }
    }
}

extension OptionForm where Value == Tier {
    static var tier: Self {
        Self({ text, context throws(ParseError) in
            guard let tier = context.tiers.rank(of: text) else {
                throw ParseError("names no tier, the tiers are \(context.tiers.names.joined(separator: ", "))")
            }
            return tier
        }) { OptionValue($1.name(of: $0)) }
    }
}

extension OptionForm where Value == UnlabelledRule {
    static var unlabelled: Self {
        Self({ text, context throws(ParseError) in
            switch text {
            case "keep": return .keep
            case "drop": return .drop
            default:
                guard let tier = context.tiers.rank(of: text) else {
                    throw ParseError("is not known, write keep, drop or a tier: \(context.tiers.names.joined(separator: ", "))")
                }
                return .tier(tier)
            }
        }) { rule, tiers in
            switch rule {
            case .byForm: nil
            case .keep: OptionValue("keep")
            case .drop: OptionValue("drop")
            case .tier(let tier): OptionValue(tiers.name(of: tier))
            }
        }
    }
}

extension OptionForm where Value == LimitBy {
    static var limitBy: Self {
        Self(plain: { text throws(ParseError) in
            guard let limitBy = LimitBy(parsing: text) else { throw ParseError("is not known, write \(LimitBy.forms)") }
            return limitBy
        }) { OptionValue($0.text) }
    }
}

extension OptionForm where Value == FilterPath {
    static var filter: Self {
        Self(plain: { text throws(ParseError) in
            do throws(FilterPath.Fault) { return try FilterPath(parsing: text) } catch {
                throw ParseError("is no filter: \(error.message)")
            }
        }) { OptionValue($0.text) }
    }
}
