package import Wire

/// Looks accounts up: for contracts that answer with one, for the operator, and for whoever holds what other gateways
/// changed.
package struct AccountDirectory: Sendable {
    private let base: AccountBase

    package init(base: AccountBase) { self.base = base }

    /// nil if there is none.
    package func account(_ id: UUID) async throws(AccountError) -> Account? {
        try await base.asking { () throws(StoreFault) in try await base.store.account(id) }
    }

    package func account(email: EmailAddress) async throws(AccountError) -> Account? {
        try await base.asking { () throws(StoreFault) in try await base.store.account(email: email) }
    }

    /// In the order in which they were opened, from behind `after` on.
    package func accounts(after: UUID? = nil, limit: Int = 100) async throws(AccountError) -> [Account] {
        try await base.asking { () throws(StoreFault) in try await base.store.accounts(after: after, limit: limit) }
    }

    /// The account's sessions that are in use, the newest first.
    package func sessions(of user: UUID) async throws(AccountError) -> [Session] {
        let now = base.clock.now().wall
        return try await base.asking { () throws(StoreFault) in try await base.store.sessions(of: user, now: now) }
    }

    /// nil if there is no such account.
    package func tier(of user: UUID) async throws(AccountError) -> Entitlement? {
        try await base.asking { () throws(StoreFault) in try await base.store.entitlement(of: user) }
    }

    package func grants(of user: UUID) async throws(AccountError) -> [ActorName] {
        try await base.asking { () throws(StoreFault) in try await base.store.grants(of: user) }
    }

    /// By provider and subject.
    package func identities(of user: UUID) async throws(AccountError) -> [LinkedIdentity] {
        try await base.asking { () throws(StoreFault) in try await base.store.identities(of: user) }
    }

    /// The newest first.
    package func auditEvents(of user: UUID, limit: Int = 100) async throws(AccountError) -> [AuditEvent] {
        try await base.asking { () throws(StoreFault) in
            try await base.store.auditEvents(of: user, limit: limit)
        }
    }

    /// The sessions whose access tokens must be refused though they may not have expired; if `since` is given, those
    /// that ended then or later. For a gateway that starts, or that missed what it was told.
    package func endedSessions(since: WallTime? = nil) async throws(AccountError) -> [EndedSession] {
        let oldest = base.clock.now().wall.advanced(seconds: -SessionPolicy.longestAccessSeconds)
        return try await base.asking { () throws(StoreFault) in
            try await base.store.endedSessions(since: max(oldest, since ?? oldest))
        }
    }

    /// What has changed from `mark` on; without one, where the log of changes ends.
    package func changes(since mark: ChangeMark?) async throws(AccountError) -> ChangeReading {
        try await base.asking { () throws(StoreFault) in try await base.store.changes(since: mark) }
    }
}
