import Credentials

/// The compiled parts of a route for the requests and answers that it lets through. Each is nil on a route without it.
struct RoutePlan: Sendable {
    let filter: FilterPlan?
    let requestFields: FieldPlan?
    let answerFields: FieldPlan?
    let compression: CompressionPlan?
    let split: SplitPlan?
    let edge: EdgePlan?
    let addresses: AddressRule?

    init(_ rule: RouteRule, tiers: TierList, _ trust: Trust, _ attributes: AttributeTable, _ networks: [NetworkList: NetworkSet]) {
        filter = FilterPlan(rule, tiers: tiers)
        var changes = rule.requestFields
        if rule.auth.takesKeys { changes.removed.append("\(Admission.keyField)") }
        if let field = rule.attestation?.field { changes.removed.append(field) }
        requestFields = FieldPlan(changes, of: rule)
        answerFields = FieldPlan(rule.allAnswerFields, of: rule)
        compression = CompressionPlan(rule)
        split = SplitPlan(rule, attributes)
        edge = EdgePlan(rule, trust)
        addresses = AddressRule(denying: rule.denyFrom, allowing: rule.allowFrom, networks)
    }
}

extension Admission {
    /// Whether the answer may go through stages.
    package func hasStages(_ decision: borrowing Decision) -> Bool { policy.gates[decision.routeIndex].hasStages }
}

extension FilterPlan {
    /// The filters of a route; nil if it has none.
    convenience init?(_ rule: RouteRule, tiers: TierList) {
        guard !rule.filters.isEmpty else { return nil }
        self.init(
            rule.filters, tiers: tiers, isStrict: rule.filterIsStrict, unlabelled: rule.unlabelled,
            isShadow: rule.shadow.contains(.filter))
    }
}
