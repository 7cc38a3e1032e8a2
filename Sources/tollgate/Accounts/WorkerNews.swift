internal import Accounts
internal import Gate
internal import Wire

/// Brings to the workers of this gateway what must count at once.
struct WorkerNews: AccountEvents {
    let control: ControlState
    let memory: AccountMemory

    func ended(_ sessions: [EndedSession]) async {
        for session in sessions { memory.forget(session.user) }
        control.revoke(sessions.map(RevokedSession.init))
    }

    func changed(_ entitlement: Entitlement, of user: UUID) async {
        memory.update(entitlement, of: user)
        control.learn([UserStanding(user, entitlement, tiers: control.configuration.tiers)])
    }
}

extension RevokedSession {
    /// No token of the session outlives the longest life that any has, and the leeway that clocks get.
    init(_ session: EndedSession) {
        let until = session.endedAt.seconds + SessionPolicy.longestAccessSeconds + 600
        self.init(id: session.id.text, until: until)
    }
}

extension UserStanding {
    /// A tier that the gateway no longer has counts as the lowest.
    init(_ user: UUID, _ entitlement: Entitlement, tiers: TierList) {
        let tier = entitlement.tier.flatMap { tiers.rank(of: $0) } ?? .lowest
        let until = entitlement.until?.seconds ?? .max
        self.init(user: user.text, standing: .tier(tier, until: until), version: entitlement.version)
    }
}
