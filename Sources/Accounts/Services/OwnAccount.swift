package import Wire

/// Why attributes are not changed.
package enum AttributesRefusal: Sendable, Equatable {
    /// The user may not write these.
    case notWritable([String])
    case unfit(Metadata.Fault)
    case noAccount
}

/// Why an identity stays linked.
package enum UnlinkRefusal: Error, Equatable {
    case notLinked
    /// The user could not sign in any more.
    case last
    case sessionEnded
}

/// All that is kept of an account, but its secrets.
package struct KeptAccount: Sendable {
    package let account: Account
    package let identities: [LinkedIdentity]
    package let passkeys: [Passkey]
    package let sessions: [Session]
    package let devices: [KnownDevice]
    package let purchases: [Purchase]
    package let actors: [ActorName]
    /// Without its secret.
    package let factor: KeptFactor?
    /// Newest first.
    package let events: [AuditEvent]
}

/// An account as its user sees and changes it, whatever contract the session is of.
package struct OwnAccount: Sendable {
    private static let eventsAtOnce = 1_000

    private let context: AccountContext
    private let limiter: any AttemptLimiter
    private let ways: SignInWays

    /// `ways`: those that are left to an account whose identities are unlinked.
    package init(context: AccountContext, limiter: any AttemptLimiter, ways: SignInWays) {
        self.context = context
        self.limiter = limiter
        self.ways = ways
    }

    /// The identities of an account, sorted by provider and subject.
    package func identities(of user: UUID) async throws(AccountFailure) -> [LinkedIdentity] {
        try await context.ask(await context.store.identities(of: user))
    }

    /// Counts a change by the user of an account, or an export.
    package func charge(_ user: UUID) async throws(AccountFailure) {
        _ = try await Attempts(limiter, [AttemptBucket(.accountChanges, user.text)])
    }

    /// Merges `change`, a JSON object, into the attributes of an account; `writable` are those that its user may write.
    package func change(
        _ change: [UInt8], of user: UUID, writable: Set<String>, caller: Caller
    ) async throws(AccountError<AttributesRefusal>) -> Account {
        let names: [String]
        do throws(Metadata.Fault) { names = try Attributes.names(in: change.rawBytes) } catch { throw .refused(.unfit(error)) }
        // By bytes: texts that only look alike are equal as strings.
        let refused = names.filter { name in !writable.contains { $0.utf8.elementsEqual(name.utf8) } }
        guard refused.isEmpty else { throw .refused(.notWritable(refused)) }
        let audit = context.audit(caller)
        let changed = try await context.ask(
            orRefuse: AttributesRefusal.noAccount, await context.store.change(.merge(change), of: user, audit))
        if case .failure(let fault) = changed { throw .refused(.unfit(fault)) }
        return try await context.ask(orRefuse: AttributesRefusal.noAccount, await context.store.account(user))
    }

    /// Unlinks the identities of a provider.
    package func unlink(_ source: IdentitySource, from session: CallerSession, caller: Caller) async throws(AccountError<UnlinkRefusal>) {
        let audit = context.audit(caller)
        try await context.settle(await context.store.unlink(source, by: session, ways, audit))
    }

    /// Ends all sessions of the caller's account but the caller's.
    package func signOutOthers(_ session: CallerSession, caller: Caller) async throws(AccountFailure) {
        let audit = context.audit(caller)
        _ = try await context.ask(await context.store.endSessions(of: session.user, keeping: session.session, .signOut, audit))
    }

    /// All that is kept of an account; nil if there is none.
    package func export(_ user: UUID) async throws(AccountFailure) -> KeptAccount? {
        let (store, now) = (context.store, context.storeTime)
        guard let account = try await context.ask(await store.account(user)) else { return nil }
        var events: [AuditEvent] = []
        var page: [AuditEvent]
        repeat {
            page = try await context.ask(await store.auditEvents(of: user, before: events.last?.id, limit: Self.eventsAtOnce))
            events += page
        } while page.count == Self.eventsAtOnce
        return KeptAccount(
            account: account, identities: try await identities(of: user),
            passkeys: try await context.ask(await store.passkeys(of: user)),
            sessions: try await context.ask(await store.sessions(of: user, now: now)),
            devices: try await context.ask(await store.devices(of: user)),
            purchases: try await context.ask(await store.purchases(of: user)).map { $0.current(at: now) },
            actors: try await context.ask(await store.grants(of: user)),
            factor: try await context.ask(await store.factor(of: user)), events: events)
    }
}
