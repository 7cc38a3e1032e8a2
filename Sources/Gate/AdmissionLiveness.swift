import Credentials
import HTTP
package import Wire

/// Checks of a verified token: whether its session was revoked or its account banned or closed, the user's current tier, and whether its
/// email is still theirs.
extension Admission {
    /// `Retry-After` when a tier cannot be looked up, in seconds.
    static var accountsRetrySeconds: UInt32 { 1 }

    /// Whether neither the session nor the account is refused. Finds the account of an outside identity, and sets the tier of the decision.
    /// False with `.lookUp` if the account or the tier must be looked up first.
    mutating func isLive(_ identity: Identity, _ now: WallTime, _ decision: inout Decision) -> Bool {
        if identity.isOwn && revoked.contains(identity.session) {
            decision.sessionEndedAt = revoked.endedAt(identity.session)
            decision.refuse(.unauthorized(.revoked), .refused, .revoked)
            return false
        }
        var accountKey: LimitKey?
        if policy.hasAccounts, let outside = identity.outside, !findAccount(outside, now.seconds, &accountKey, &decision) { return false }
        let issuer = Int(identity.issuerIndex)
        let source = policy.tierSources[issuer]
        decision.accountKey = accountKey
        if source == .claim || source == .ownAccount && !identity.mayHaveAccount {
            decision.replaceUser()
            setClaimed(identity, &decision)
            return true
        }
        // The tier that was set here for a subject is that of its account, where it has one.
        let key = source == .account ? accountKey : nil
        let tierKey = key ?? identity.user.combined(with: tierKeys[issuer])
        decision.tierKey = tierKey
        if source == .ownAccount { decision.accountKey = tierKey }
        guard let known = tierCache.entry(of: tierKey, at: now) else {
            decision.effects.asksAccount = key != nil
            decision.verdict = .lookUp
            return false
        }
        if let bar = known.bar, bar.isInForce(at: now) { return refuse(bar, &decision) }
        decision.replaceUser()
        if let claimed = identity.email, known.contradicts(claimed, issuedAt: identity.issuedAt) { decision.hidesEmail = true }
        switch known.status {
        // A contract issues tokens for accounts alone. One that is newer than the look-up may be of an account that is, too.
        case .noAccount where identity.contract != nil && known.learnedAt > identity.issuedAt: return refuse(.closed, &decision)
        case .noAccount where source == .ownAccount: setClaimed(identity, &decision)
        case .noAccount:
            decision.tierOrigin = .noAccount(at: known.learnedAt)
            decision.tier = .lowest
        case .tier(let tier, _):
            decision.tierOrigin = source == .lookup ? .lookup(at: known.learnedAt) : .account(known.source, at: known.learnedAt)
            decision.tier = tier
        case .unavailable: break
        }
        return true
    }

    /// Returns false.
    private func refuse(_ bar: AccountMarks.Bar, _ decision: inout Decision) -> Bool {
        decision.refuse(.unauthorized(.revoked), .refused, bar == .closed ? .closed : .banned)
        return false
    }

    private func setClaimed(_ identity: Identity, _ decision: inout Decision) {
        decision.tierOrigin = .claim(identity.tierClaim)
        decision.tier = identity.tier
    }

    /// Settles the tier of an outside issuer's user that could not be looked up. Where the route filters by tier, the request is
    /// refused, because its answer would lack what the user may see; elsewhere the tier is the lowest. False if it was refused.
    func settleUnknownTier(_ gate: RouteGate, _ decision: inout Decision) -> Bool {
        guard decision.tier == nil, let identity = decision.identity, !identity.isOwn else { return true }
        guard !gate.filters else { return refuseUnknownTier(&decision) }
        decision.tier = .lowest
        return true
    }

    /// Returns false.
    func refuseUnknownTier(_ decision: inout Decision) -> Bool {
        let refusal = Refusal.unavailable(.accounts, retryAfterSeconds: Self.accountsRetrySeconds)
        decision.refuse(refusal, .unavailable, .accountsUnavailable)
        return false
    }

    /// The user of a decision `.lookUp`.
    package func tokenUser(_ decision: borrowing Decision) -> TokenUser {
        if decision.effects.asksAccount, let account = decision.account { return TokenUser(account.text) }
        let issuer = decision.identity.map { policy.trust.issuers[Int($0.issuerIndex)] }
        return TokenUser(decision.userID, of: issuer.flatMap { $0.isOwn ? nil : $0.name })
    }

    /// Adds the fields of an identity and its tier that the upstream of the route may see.
    func addIdentity(_ gate: RouteGate, _ decision: inout Decision) {
        guard let isEmailProven = decision.identity?.isEmailProven else { return }
        if decision.cache != nil, gate.cacheSharing == .everyone { return }
        if decision.cache != nil, gate.cacheSharing == .tier { return addTier(&decision) }
        let view = IdentityView(
            forwardsName: gate.forwardsName, forwardsEmail: gate.forwardsEmail, isEmailProven: isEmailProven,
            hidesEmail: decision.hidesEmail)
        decision.identity?.fields.append(view, from: decision.identityLines, to: &decision.requestEdits)
        addTier(&decision)
    }

    private func addTier(_ decision: inout Decision) {
        guard let tier = decision.tier else { return }
        let texts = policy.texts
        decision.requestEdits.append(rendered: texts.rawBytes[policy.tierLines[min(Int(tier.rawValue), policy.tierLines.count - 1)]])
    }

    /// Refuses tokens of these sessions from now on. `now` is in seconds since 1970.
    package mutating func revoke(_ sessions: [RevokedSession], at now: Int64) {
        for session in sessions {
            let key = session.id.withRawBytes { LimitSubject.session($0, issuer: ownIssuer, hash) }
            revoked.insert(key, until: session.until, endedAt: session.endedAt, at: now)
            proven.end(key)
        }
    }

    /// Whether tokens of this session, or the outside token with this id, are refused.
    package func hasEnded(_ id: UUID) -> Bool {
        revoked.contains(id.text.withRawBytes { LimitSubject.session($0, issuer: ownIssuer, hash) })
    }

    /// Updates the tier cache. What was pushed also invalidates the subjects of the account.
    package mutating func learn(_ users: [UserTier]) {
        for user in users {
            let email = user.email.map { $0.withRawBytes { LimitSubject.email($0, hash) } }
            if let key = tierKey(of: user.user) { learn(user, key, email: email) }
            if user.source == .pushed, user.user.issuer == nil, let id = UUID(parsing: user.user.id) { subjects.accountChanged(id, hash) }
        }
    }

    private mutating func learn(_ user: UserTier, _ key: LimitKey, email: LimitKey?) {
        let account = user.user.issuer == nil && policy.attributes.concerns(user.marks) ? UUID(parsing: user.user.id) : nil
        guard tierCache.learn(user, of: key, email: email, hasDetail: account != nil), let account else { return }
        accountDetails.learn(user.marks, of: account, policy.attributes, key)
    }

    /// Has these users looked up again.
    package mutating func forget(_ users: [TokenUser]) {
        for user in users {
            if let key = tierKey(of: user) { tierCache.forget(key) }
            if let issuer = user.issuer { subjects.forget(LimitSubject.subject(user.bytes, of: issuer, hash)) }
        }
    }

    /// Key of a user in the tier cache; nil for a user of an issuer that the policy does not have.
    func tierKey(of user: TokenUser) -> LimitKey? {
        let index = policy.trust.issuers.firstIndex { user.issuer == nil ? $0.isOwn : !$0.isOwn && $0.name == user.issuer }
        guard let index else { return nil }
        let issuer = policy.trust.issuers[index]
        return LimitSubject.user(user.bytes, issuer: issuer.issuer ?? issuer.name, hash).combined(with: tierKeys[index])
    }

    /// The issuers' parts of the keys of the tier cache. They are made from names, because two trust lines may have the same
    /// `issuer=`, and one the gateway's own.
    static func tierKeys(_ policy: Policy, _ hash: KeyedHash) -> [LimitKey] {
        policy.trust.issuers.map { LimitSubject.issuer($0.name, hash) }
    }

    /// Empties the caches of tiers and subjects, so that every user is looked up again.
    package mutating func forgetUsers() {
        tierCache.removeAll()
        accountDetails.removeAll()
        subjects.removeAll()
    }

    /// Whether tokens of the issuer of this number in the policy's trust are the gateway's own.
    package func isOwn(issuer: Int) -> Bool { policy.trust.issuers[issuer].isOwn }

    /// The issuer of the gateway's own tokens, as identities name it.
    var ownIssuer: String { policy.trust.ownIssuer }
}

extension RouteGate {
    /// At an endpoint for all contracts, refusals from here on have the format of the contract that issued the caller's token.
    @inline(__always)
    func useDialect(of contract: ContractID?, _ decision: inout Decision) {
        if dialectIsOfToken, let contract { decision.use(Dialect(contract)) }
    }
}

extension Trust {
    /// The issuer of the gateway's own tokens, as identities name it; empty if there is none.
    var ownIssuer: String { issuers.first(where: \.isOwn).map { $0.issuer ?? $0.name } ?? "" }
}
