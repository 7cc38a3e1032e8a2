package import Accounts
package import Wire

extension SQLStore {
    package func merge(_ merging: Merging, _ audit: AuditContext) async throws(StoreFault) -> MergeOutcome {
        try await database.write(locking: .account(merging.account)) { sql throws(SQLFault) in
            try sql.lockPurchases()
            guard let guest = try sql.session(merging.guest)?.0 else { return try sql.merged(merging) }
            guard guest.user != merging.account else { return .notGuest }
            // In the order of their ids, so that two merges wait for each other in one direction.
            let locked = try [guest.user, merging.account].sorted().map { id throws(SQLFault) in try sql.lockedAccount(id) }
            guard let giver = locked.first(where: { $0?.id == guest.user }) ?? nil,
                let taker = locked.first(where: { $0?.id == merging.account }) ?? nil, try sql.isOpen(merging.session, of: taker, audit.now)
            else { return .noCaller }
            // It may have ended before its account was locked.
            guard try sql.isOpen(guest.id, of: giver, audit.now) else { return .noGuest }
            guard try sql.isProven(merging, of: giver, audit) else { return .noGuest }
            guard try sql.isGuest(giver) else { return .notGuest }
            let merged = GuestRule.merged(giver, into: taker, merging.order, at: audit.now)
            guard merged.merges.count <= GuestRule.mostMerges else {
                return .full(until: merged.merges.map(\.until).min() ?? audit.now)
            }
            try sql.merge(giver, into: merged, by: merging.session, audit)
            if merged.entitlement.tier != taker.entitlement.tier || merged.entitlement.until != taker.entitlement.until {
                try sql.log(.tierChanged, taker.id, audit, detail: merged.entitlement.tier)
            }
            return .merged(from: giver.id, into: taker.id, isRepeated: false)
        }
    }

    package func mergeDone(from: UUID, to account: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool {
        try await database.write(locking: .account(account)) { sql throws(SQLFault) in
            try sql.endAnnouncement(of: from, to: account, at: audit.now)
        }
    }

    package func account(mergedFrom id: UUID) async throws(StoreFault) -> Account? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            guard var row = try sql.first("SELECT account FROM merged_accounts WHERE id = $1", [.id(id)]) else { return nil }
            return try sql.account(row.id())
        }
    }
}

extension SQLTransaction {
    /// The caller's account, locked until the transaction ends; nil unless its session is open and it is a guest.
    func guest(_ caller: CallerSession?, at now: WallTime) throws(SQLFault) -> Account? {
        guard let caller, let account = try lockedAccount(caller.user), try isOpen(caller.session, of: account, now),
            try isGuest(account)
        else { return nil }
        return account
    }

    func isGuest(_ account: Account) throws(SQLFault) -> Bool {
        let identity = try first("SELECT subject FROM identities WHERE account = $1 LIMIT 1", [.id(account.id)])
        return GuestRule.isGuest(account, hasIdentities: identity != nil)
    }

    /// Whether a session of the account is open; true without a session.
    fileprivate func isOpen(_ session: UUID?, of account: Account, _ now: WallTime) throws(SQLFault) -> Bool {
        guard let session else { return true }
        guard let found = try self.session(session)?.0 else { return false }
        return found.user == account.id && now < found.deadline
    }

    /// Whether the token of the guest still counts. One that is spent was stolen: then the session ends, as at a refresh.
    fileprivate mutating func isProven(_ merging: Merging, of guest: Account, _ audit: AuditContext) throws(SQLFault) -> Bool {
        guard let refresh = merging.refresh else { return true }
        guard let session = try self.session(merging.guest)?.0 else { return false }
        switch refresh.verdict(on: session, now: audit.now) {
        case .rotate, .again, .storm, .keep: return true
        case .refuse: return false
        case .reuse:
            guard try end(session.id, .refreshReuse, at: audit.now) != nil else { throw .conflict }
            try log(.refreshReuse, guest.id, audit, session: session.id)
            return false
        }
    }

    /// The outcome for a guest whose session is not there: a merge that was made before, or none.
    fileprivate func merged(_ merging: Merging) throws(SQLFault) -> MergeOutcome {
        let row = try first(
            "SELECT m.id, m.account FROM ended_sessions e JOIN merged_accounts m ON m.id = e.account WHERE e.id = $1 AND e.reason = $2",
            [.id(merging.guest), .text(EndReason.accountMerged.rawValue)])
        guard var row else { return .noGuest }
        let (from, into) = (try row.id(), try row.id())
        return into == merging.account ? .merged(from: from, into: into, isRepeated: true) : .notGuest
    }

    /// Gives all that a guest has to an account, which is written as it will be, and ends the guest. Both are locked.
    fileprivate mutating func merge(
        _ guest: Account, into account: Account, by session: UUID?, _ audit: AuditContext
    ) throws(SQLFault) {
        try movePurchases(from: guest.id, to: account.id, audit)
        try change(
            .unlogged,
            """
            INSERT INTO actor_grants (account, actor_type, actor_id, granted_at)
            SELECT $2, actor_type, actor_id, granted_at FROM actor_grants WHERE account = $1 ON CONFLICT DO NOTHING
            """,
            [.id(guest.id), .id(account.id)])
        try change(
            .account(account.id),
            """
            UPDATE accounts SET attributes = $2, merges = $3, language = $4, tier = $5, tier_until = $6, updated_at = $7,
                tier_version = tier_version + 1 WHERE id = $1
            """,
            [
                .id(account.id), .bytes(account.attributes.json), .text(Merge.text(account.merges)), .text(account.language),
                .text(account.entitlement.tier), .time(account.entitlement.until), .time(audit.now),
            ])
        _ = try endSessions(of: guest.id, .accountMerged, at: audit.now)
        try refuseSubject(IdentityKey.ofID(guest.id), at: audit.now)
        try change(.account(guest.id), "DELETE FROM accounts WHERE id = $1", [.id(guest.id)])
        try eraseAddresses(of: guest.id)
        try change(.unlogged, "UPDATE merged_accounts SET account = $2 WHERE account = $1", [.id(guest.id), .id(account.id)])
        try change(
            .unlogged, "INSERT INTO merged_accounts (id, account, merged_at) VALUES ($1, $2, $3)",
            [.id(guest.id), .id(account.id), .time(audit.now)])
        try log(.accountMerged, account.id, audit, session: session, detail: guest.id.text)
    }

    /// False if it was not announced.
    fileprivate func endAnnouncement(of from: UUID, to account: UUID, at now: WallTime) throws(SQLFault) -> Bool {
        guard var row = try locked("SELECT merges FROM accounts WHERE id = $1", [.id(account)]) else { return false }
        let announced = try row.merges()
        let left = announced.filter { $0.from != from }
        guard left.count < announced.count else { return false }
        try change(
            .account(account), "UPDATE accounts SET merges = $2, tier_version = tier_version + 1 WHERE id = $1",
            [.id(account), .text(Merge.text(left))])
        try change(.unlogged, "UPDATE merged_accounts SET done_at = $2 WHERE id = $1", [.id(from), .time(now)])
        return true
    }

    /// So many merges a transaction of a sweep ends at most.
    static let maxEndedMerges = 1_000

    /// Ends announcements that are over, at most `maxEndedMerges`; returns those of accounts that are there.
    func endMerges(at now: WallTime) throws(SQLFault) -> [UntakenMerge] {
        let found = try rows(
            "SELECT id, account FROM merged_accounts WHERE done_at IS NULL AND merged_at <= $1 ORDER BY merged_at LIMIT $2",
            [.time(now.advanced(seconds: -Merge.announcedSeconds)), .integer(Int64(Self.maxEndedMerges))]
        ) { row throws(SQLFault) in UntakenMerge(from: try row.id(), into: try row.id()) }
        var untaken: [UntakenMerge] = []
        for merge in found.sorted(by: { $0.into < $1.into }) {
            if try endAnnouncement(of: merge.from, to: merge.into, at: now) {
                untaken.append(merge)
            } else {
                try change(.unlogged, "UPDATE merged_accounts SET done_at = $2 WHERE id = $1", [.id(merge.from), .time(now)])
            }
        }
        return untaken
    }
}
