import HTTP
package import Wire

/// Attributes and merges of the user's account, on routes that look at them.
extension Admission {
    /// Whether the account has what the route requires, and what the upstream is to be told of it is known. False if the request is
    /// refused, or waits for the look-up (`.lookUp`).
    mutating func readAccount(_ gate: RouteGate, _ now: WallTime, _ decision: inout Decision) -> Bool {
        guard decision.identity != nil else { return gate.attributes == 0 || refuseAnonymous(&decision) }
        guard let key = decision.accountKey else { return gate.attributes == 0 || refuseAttributes(&decision) }
        guard let known = tierCache.entry(of: key, at: now) else { return lookUpAccount(&decision) }
        // A merge that is not announced now is announced later.
        if known.isUnavailable { return gate.attributes | gate.forwardedAttributes == 0 || refuseUnknownTier(&decision) }
        guard known.hasDetail else { return gate.attributes == 0 || refuseAttributes(&decision) }
        guard let detail = accountDetails.find(key) else { return lookUpAccount(&decision) }
        guard detail.held & gate.attributes == gate.attributes else { return refuseAttributes(&decision) }
        decision.detailSerial = detail.serial
        return true
    }

    private func lookUpAccount(_ decision: inout Decision) -> Bool {
        decision.effects.asksAccount = decision.account != nil
        decision.verdict = .lookUp
        return false
    }

    private func refuseAttributes(_ decision: inout Decision) -> Bool {
        decision.refuse(.forbidden(.attributes), .refused, .attributes)
        return false
    }

    /// The details that `readAccount` has found; nil if the account has none.
    mutating func detail(_ decision: borrowing Decision) -> AccountDetail? {
        decision.detailSerial == 0 ? nil : decision.accountKey.flatMap { accountDetails.find($0) }
    }

    /// Adds what the upstream of the route is told of the account. `now` is in seconds since 1970.
    mutating func addAccount(_ gate: RouteGate, _ now: Int64, _ decision: inout Decision) {
        guard let detail = detail(decision) else { return }
        detail.append(gate.forwardedAttributes, to: &decision.requestEdits)
        if gate.announcesMerges { decision.announcedMerges = detail.appendMerges(at: now, to: &decision.requestEdits) }
    }

    /// The key of the account whose merges the upstream is told of; nil for none.
    package func announced(_ decision: borrowing Decision) -> LimitKey? { decision.announcedMerges == 0 ? nil : decision.accountKey }

    /// The account of this key, if the merge of `from` into it is announced to upstreams.
    package mutating func account(_ key: LimitKey, with from: UUID) -> UUID? {
        guard let detail = accountDetails.find(key), detail.merges.contains(where: { $0.from == from }) else { return nil }
        return detail.account
    }
}
