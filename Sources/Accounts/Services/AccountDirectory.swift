package import Credentials
package import Wire

/// Reads accounts and what belongs to them, for contracts, the operator and the caches of gateways.
package struct AccountDirectory: Sendable {
    private let context: AccountContext

    package init(context: AccountContext) { self.context = context }

    /// nil if there is no such account.
    package func account(_ id: UUID) async throws(AccountFailure) -> Account? {
        try await context.ask(await context.store.account(id))
    }

    /// The account for which the id of a merged one stands; nil if there is none.
    package func account(mergedFrom id: UUID) async throws(AccountFailure) -> Account? {
        try await context.ask(await context.store.account(mergedFrom: id))
    }

    package func account(email: EmailAddress) async throws(AccountFailure) -> Account? {
        try await context.ask(await context.store.account(email: email))
    }

    /// At most `limit` accounts with ids above `after`, in the order of their ids, which is that of their creation.
    package func accounts(after: UUID? = nil, limit: Int = 100) async throws(AccountFailure) -> [Account] {
        try await context.ask(await context.store.accounts(after: after, limit: limit))
    }

    /// The account that a subject of an outside issuer stands for.
    package func subject(_ key: IdentityKey) async throws(AccountFailure) -> SubjectVerdict {
        try await context.ask(await context.store.subject(key))
    }

    package var apiKeys: APIKeys { APIKeys(context: context) }

    /// The live switches that have not ended.
    package func switches() async throws(AccountFailure) -> [LiveSwitch] { try await context.ask(await context.store.switches()) }

    /// Sets a live switch, or removes it, as `SwitchRecords.set` does.
    package func set(
        _ name: String, to value: String?, until: WallTime?, after version: Int64?
    ) async throws(AccountFailure) -> Int64? {
        try await context.ask(await context.store.set(name, to: value, until: until, after: version))
    }

    /// Adds to the census of apps.
    package func add(_ uses: [AppUse]) async throws(AccountFailure) { try await context.ask(await context.store.add(uses)) }

    /// The census from this day on.
    package func appUses(since day: Int64) async throws(AccountFailure) -> [AppUse] {
        try await context.ask(await context.store.appUses(since: day))
    }

    /// The account's sessions that can still be refreshed, newest first.
    package func sessions(of user: UUID) async throws(AccountFailure) -> [Session] {
        let now = context.storeTime
        return try await context.ask(await context.store.sessions(of: user, now: now))
    }

    /// Oldest first.
    package func passkeys(of user: UUID) async throws(AccountFailure) -> [Passkey] {
        try await context.ask(await context.store.passkeys(of: user))
    }

    /// nil without one, and before its first code.
    package func factor(of user: UUID) async throws(AccountFailure) -> KeptFactor? {
        let factor = try await context.ask(await context.store.factor(of: user))
        return factor?.confirmedAt == nil ? nil : factor
    }

    /// nil if there never was such an account.
    package func standing(of user: UUID) async throws(AccountFailure) -> AccountStanding? {
        try await context.ask(await context.store.standing(of: user))
    }

    /// nil if no account is linked to the identity.
    package func tier(of identity: IdentityKey) async throws(AccountFailure) -> Entitlement? {
        try await context.ask(await context.store.entitlement(of: identity))
    }

    /// The account of a subject of an outside issuer: the one that has the identity, or with `allowsAccountID` (`accounts=on`) the imported
    /// one whose id the subject is, also when its sessions at the issuer have ended.
    package func account(of identity: IdentityKey, allowsAccountID: Bool = false) async throws(AccountFailure) -> Account? {
        if let account = try await context.ask(await context.store.account(of: identity)) { return account }
        guard allowsAccountID, let id = UUID(parsing: identity.subject), let named = try await account(id), named.openedBy == nil else {
            return nil
        }
        return named
    }

    /// At most `limit` events behind a place in their order, of one account or of all.
    package func events(after position: Int64, of account: UUID?, limit: Int) async throws(AccountFailure) -> [AccountEvent] {
        try await context.ask(await context.store.events(after: position, of: account, limit: limit))
    }

    /// The place of an event; nil if there is none with this id.
    package func position(ofEvent id: UUID) async throws(AccountFailure) -> Int64? {
        try await context.ask(await context.store.position(ofEvent: id))
    }

    /// The services that events are sent to, by name.
    package func subscriptions() async throws(AccountFailure) -> [Subscription] {
        try await context.ask(await context.store.subscriptions())
    }

    /// The entries of each queue that wait.
    package func outgoing() async throws(AccountFailure) -> [OutgoingState] {
        try await context.ask(await context.store.outgoing())
    }

    package func grants(of user: UUID) async throws(AccountFailure) -> [ActorName] {
        try await context.ask(await context.store.grants(of: user))
    }

    /// Sorted by provider and subject.
    package func identities(of user: UUID) async throws(AccountFailure) -> [LinkedIdentity] {
        try await context.ask(await context.store.identities(of: user))
    }

    package func accounts(matching search: AccountSearch) async throws(AccountFailure) -> AccountMatches {
        try await context.ask(await context.store.accounts(matching: search))
    }

    /// The events of one account, or of all with nil, that are older than the event `before`; newest first.
    package func auditEvents(of user: UUID?, before: UUID? = nil, limit: Int = 100) async throws(AccountFailure) -> [AuditEvent] {
        try await context.ask(await context.store.auditEvents(of: user, before: before, limit: limit))
    }

    /// The ended sessions whose access tokens may not have expired yet: all that sweeps have left, so that no clock of a gateway makes
    /// it miss one. A gateway reads them when it starts, or when it may have missed invalidations.
    package func endedSessions() async throws(AccountFailure) -> [EndedSession] {
        try await context.ask(await context.store.endedSessions())
    }

    /// The sessions whose proof of a second factor still counts somewhere. Read like ended ones.
    package func provenSessions() async throws(AccountFailure) -> [ProvenSession] {
        let start = context.storeTime.advanced(seconds: -KeptFactor.mostSeconds)
        return try await context.ask(await context.store.provenSessions(since: start))
    }

    /// The changes from `mark` on; without a mark, only where the change log ends. Each reading also reads the clock of the store.
    package func changes(since mark: ChangeMark?) async throws(AccountFailure) -> ChangeReading {
        let asked = context.clock.now()
        let reading = try await context.ask(await context.store.changes(since: mark))
        if let time = reading.time { context.storeClock.read(time, from: asked, to: context.clock.now()) }
        return reading
    }

    /// Microseconds by which the gateway's clock is ahead of the store's; nil where that has none of its own, or was not read yet.
    package var storeClockSkew: Int64? { context.storeClock.skew(at: context.clock.now()) }
}
