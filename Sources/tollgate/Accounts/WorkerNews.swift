internal import Accounts
internal import Gate
internal import Settings
internal import Transport
internal import Wire

/// Brings to the workers of this gateway at once what happens here; `ChangeWatch` brings what happens elsewhere.
struct WorkerNews: AccountEvents {
    let control: ControlState

    func ended(_ sessions: [EndedSession]) async { control.revoke(sessions.map(RevokedSession.init)) }

    func changed(_ entitlement: Entitlement, of user: UUID) async {
        control.learn([UserTier(user, entitlement, control.configuration, .pushed, at: EventLoop.now().wall)])
    }
}

extension RevokedSession {
    /// No token of the session outlives the longest life that any has, and the leeway that clocks get.
    init(_ session: EndedSession) {
        let until = session.endedAt.seconds + SessionPolicy.longestAccessSeconds + 600
        self.init(id: session.id.text, until: until, endedAt: session.endedAt.seconds)
    }
}

extension UserTier {
    /// A tier that the gateway no longer has counts as the lowest.
    init(_ user: UUID, _ entitlement: Entitlement, _ configuration: GatewayConfiguration, _ source: Source, at now: WallTime) {
        let tier = entitlement.tier.flatMap { configuration.tiers.rank(of: $0) } ?? .lowest
        let until = entitlement.until.map { $0.seconds + configuration.tierGraceSeconds } ?? .max
        self.init(
            user: user.text, status: .tier(tier, until: until), version: entitlement.version, source: source,
            learnedAt: now.seconds)
    }

    /// No later word of such an account can come: its id is never used again.
    static func deleted(_ user: UUID, at now: WallTime) -> UserTier {
        UserTier(user: user.text, status: .noAccount, version: .max, source: .pushed, learnedAt: now.seconds)
    }
}
