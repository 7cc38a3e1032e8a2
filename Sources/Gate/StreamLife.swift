import Credentials
package import Wire

/// The token, session and tier that a stream depends on; taken from the decision about its request.
package struct StreamLife: Equatable, Sendable {
    /// `exp` of the token, in seconds since 1970.
    package let expiresAt: Int64
    /// Seconds after `exp` for which the token still counts (`TOLLGATE_CLOCK_SKEW`).
    package let leeway: Int64
    /// The session whose refresh extends the stream; nil if nothing does.
    package let extendingSession: UUID?
    /// Key in the list of ended sessions; nil for a token of an outside issuer without accounts.
    let session: LimitKey?
    /// The subject of an outside issuer that stands for an account.
    let subject: LimitKey?
    /// The API key of the request.
    let apiKey: UUID?
    private(set) var tier: TierNeed?
    /// Key of the user's account in the tier cache; nil if its changes end nothing, or end the session too.
    private(set) var account: LimitKey?
    /// The attributes that the route requires, as bits of the policy's table.
    private(set) var attributes: UInt64 = 0
    /// Whether the token is the gateway's own.
    let isOwn: Bool

    /// The tier that an answer requires of a user whose tier may change.
    struct TierNeed: Equatable, Sendable {
        /// The route's `tier=`.
        let least: Tier
        /// The tier that the route's filter shows; a filtered answer requires it, too.
        var shown = Tier.lowest
        /// Key of the user in the tier cache; nil for an API key, whose tier does not change.
        let user: LimitKey?
        /// The tier of an API key, or of an own token whose user has no account.
        let claimed: Tier
        /// The scopes that the tier of an own user or of an API key must give, as bits of the policy's trust.
        var scopes: UInt64 = 0
    }

    /// Another list of tiers is in force, in which tiers have other ranks. In place of one that is gone the stream needs the next higher
    /// one, or else the highest.
    package mutating func adopt(_ tiers: TierList, insteadOf former: TierList) {
        guard let need = tier else { return }
        func moved(_ tier: Tier) -> Tier {
            // The lowest is no need, whatever its name.
            guard tier > .lowest else { return .lowest }
            return former.names.dropFirst(Int(tier.rawValue)).lazy.compactMap { tiers.rank(of: $0) }.first ?? tiers.highest
        }
        tier = TierNeed(
            least: moved(need.least), shown: moved(need.shown), user: need.user,
            claimed: tiers.rank(of: former.name(of: need.claimed)) ?? .lowest, scopes: need.scopes)
    }

    /// Another policy is in force, in which attributes and scopes have other bits. One that no route requires any more is no need.
    package mutating func adopt(_ policy: Policy, insteadOf former: Policy) {
        if policy.tiers != former.tiers { adopt(policy.tiers, insteadOf: former.tiers) }
        if let scopes = tier?.scopes, scopes != 0 {
            let named = former.trust.scopes.indices.filter { scopes >> UInt64($0) & 1 != 0 }.map { former.trust.scopes[$0] }
            tier?.scopes = AttributeTable.bits(named, in: policy.trust.scopes)
        }
        if attributes != 0 { attributes = policy.attributes.moved(attributes, from: former.attributes) }
    }

    /// Why a stream must end although its token has not expired.
    package enum End: Equatable, Sendable {
        /// Its session has ended, its account is banned or closed, or its API key revoked.
        case sessionEnded
        /// The tier is too low or gives a scope no more, or an attribute is gone.
        case tierLost
    }

    /// The state of what a stream depends on, as far as the worker knows it.
    package enum State: Equatable, Sendable {
        case live
        case over(End)
        /// The account of its subject must be looked up.
        case lacksSubject
        /// The tier of its user must be looked up.
        case lacksTier
        /// Its own account, or that of its subject, must be looked up.
        case lacksAccount
    }
}

extension Admission {
    /// Sets `life` to the dependencies of this request's answer, should it become a stream; nil if nothing ends it. Every request with a
    /// token asks, so it reads the identity and the gate where they are, without copies.
    package func setLife(_ life: inout StreamLife?, of decision: borrowing Decision) {
        let route = decision.routeIndex
        guard decision.identity != nil, policy.gates[route].streams.expiry != .keep else { return life = nil }
        let (isOwn, apiKey, ownSession) = (decision.identity!.isOwn, decision.identity!.apiKey, decision.identity!.ownSession)
        // A ban ends the sessions of the account, so that a token with a session needs no look at it.
        let isBare = isOwn ? ownSession == nil : policy.tierSources[Int(decision.identity!.issuerIndex)] == .account
        let extends = policy.gates[route].streams.expiry == .extend && isOwn && !decision.identity!.hasActor
        let attributes = policy.gates[route].attributes
        life = StreamLife(
            expiresAt: decision.identity!.expiresAt, leeway: apiKey == nil ? policy.trust.clockSkewSeconds : 0,
            extendingSession: extends ? ownSession : nil,
            session: isOwn ? decision.identity!.session : decision.identity!.outside?.endKey,
            subject: decision.account == nil ? nil : decision.identity!.outside?.subject, apiKey: apiKey,
            tier: tierNeed(route, hasOwn: isOwn || apiKey != nil, decision),
            account: isBare || attributes != 0 ? decision.accountKey : nil, attributes: attributes, isOwn: isOwn)
    }

    /// `hasOwn`: the identity is the gateway's own, or an API key.
    private func tierNeed(_ route: Int, hasOwn: Bool, _ decision: borrowing Decision) -> StreamLife.TierNeed? {
        let least = policy.gates[route].shadow.contains(.tier) ? .lowest : policy.gates[route].tier ?? .lowest
        let shown = policy.gates[route].filters ? decision.tier ?? .lowest : .lowest
        let scopes = hasOwn ? policy.gates[route].scopes : 0
        guard max(least, shown) > .lowest || scopes != 0, decision.tierKey != nil || decision.identity!.apiKey != nil else { return nil }
        return StreamLife.TierNeed(
            least: least, shown: shown, user: decision.tierKey, claimed: hasOwn ? decision.identity!.tier : .lowest, scopes: scopes)
    }

    /// Whether the session of a stream has ended.
    package func hasEnded(_ life: StreamLife) -> Bool {
        life.session.map { revoked.contains($0) } ?? life.apiKey.map { keys.hasEnded($0) } ?? false
    }

    /// The state of a stream's session and tier. A tier that cannot be looked up is no reason to end a stream. `isFiltered`: its
    /// content is filtered.
    package mutating func state(of life: StreamLife, isFiltered: Bool = false, at now: WallTime) -> StreamLife.State {
        if hasEnded(life) { return .over(.sessionEnded) }
        if let subject = life.subject {
            guard let known = subjects.find(subject, at: now.seconds, hash) else { return .lacksSubject }
            if case .refused = known.status { return .over(.sessionEnded) }
        }
        if let account = life.account {
            guard let known = tierCache.entry(of: account, at: now) else { return .lacksAccount }
            if let bar = known.bar, bar.isInForce(at: now) { return .over(.sessionEnded) }
            if life.attributes != 0, !known.isUnavailable {
                let detail = known.hasDetail ? accountDetails.find(account) : nil
                if known.hasDetail, detail == nil { return .lacksAccount }
                guard (detail?.held ?? 0) & life.attributes == life.attributes else { return .over(.tierLost) }
            }
        }
        guard let need = life.tier else { return .live }
        let least = isFiltered ? max(need.least, need.shown) : need.least
        guard least > .lowest || need.scopes != 0 else { return .live }
        guard let user = need.user else { return meets(need, least, need.claimed) ? .live : .over(.tierLost) }
        guard let known = tierCache.entry(of: user, at: now) else { return .lacksTier }
        switch known.status {
        case .tier(let tier, _): return meets(need, least, tier) ? .live : .over(.tierLost)
        case .noAccount: return meets(need, least, need.claimed) ? .live : .over(.tierLost)
        case .unavailable: return .live
        }
    }

    private func meets(_ need: StreamLife.TierNeed, _ least: Tier, _ tier: Tier) -> Bool {
        tier >= least && (need.scopes == 0 || policy.scopes(of: tier) & need.scopes == need.scopes)
    }

    /// The user whose tier or account a stream lacks, or the subject whose account it lacks; `request` is the decision about its request. nil
    /// for outside issuers after a reload, which may have given their numbers to others.
    package func user(lackedBy life: StreamLife, _ request: borrowing DecisionRecord, _ state: StreamLife.State) -> TokenUser? {
        if life.isOwn || state == .lacksAccount { return TokenUser(request.userID) }
        let number = Int(request.issuerIndex)
        guard request.policyVersion == policy.version, policy.trust.issuers.indices.contains(number) else { return nil }
        let issuer = policy.trust.issuers[number]
        let isAccount = life.subject != nil && policy.tierSources[number] == .account
        if state == .lacksTier && isAccount { return TokenUser(request.userID) }
        return TokenUser(life.subject == nil ? request.userID : request.subject, of: issuer.name)
    }
}
