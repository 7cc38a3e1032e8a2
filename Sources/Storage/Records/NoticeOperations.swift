package import Accounts
package import Wire

extension SQLStore {
    static let notices = OutgoingTable(
        queue: .notices, columns: "id, kind, recipient, language, device, address, at", due: "due_at",
        // A kind of a later release is left to gateways of that release.
        isKnown: " AND kind IN (\(Notice.Kind.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")))",
        since: "at", schedule: .notices, ends: [("at", OutgoingSchedule.notices.lastSeconds)], giveUp: "UPDATE notices SET due_at = NULL")

    package func claimNotices(at now: WallTime, limit: Int) async throws(StoreFault) -> [Notice] {
        try await claim(Self.notices, at: now, limit: limit) { row throws(SQLFault) in
            Notice(
                id: try row.id(), kind: try row.word(Notice.Kind.self), recipient: Recipient(stored: try row.text()),
                language: try row.optionalText(), detail: try row.optionalText(), address: try row.optionalAddress(), at: try row.time())
        }.sorted { $0.id < $1.id }
    }

    package func settleNotices(_ ids: Set<UUID>) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            for id in ids { try sql.change(.unlogged, "UPDATE notices SET due_at = NULL WHERE id = $1", [.id(id)]) }
        }
    }

    package func wayBack(by notice: UUID, now: WallTime) async throws(StoreFault) -> EmailAddress? {
        try await database.read { sql throws(SQLFault) in try sql.wayBack(notice, now: now)?.email }
    }

    package func takeBack(by notice: UUID, _ audit: AuditContext) async throws(StoreFault) -> EmailReturn? {
        let account = try await database.read { sql throws(SQLFault) in try sql.wayBack(notice, now: audit.now)?.account }
        guard let account else { return nil }
        return try await database.write(locking: .account(account)) { sql throws(SQLFault) in
            guard let former = try sql.lockedAccount(account), let way = try sql.wayBack(notice, now: audit.now) else { return nil }
            let recipient = Recipient.email(way.email)
            let holder = try sql.lockedAccount(of: recipient)
            let other = holder.flatMap { $0.id == account ? nil : $0 }
            // An address that another account has proven since is that one's.
            guard other?.emailConfirmedAt == nil else { return nil }
            // The address that is given up gets no notice: it would have a way back.
            var quiet = audit
            quiet.notices = []
            guard var (returned, _) = try sql.carryOut(.attach(to: account, releasing: other?.id), recipient, by: nil, quiet) else {
                return nil
            }
            // A thief may have linked an identity before the change of the email.
            try sql.lockOut(&returned, since: way.at.advanced(seconds: -Notice.keptSeconds), audit)
            try sql.close(way, of: account)
            return EmailReturn(account: returned, hadPassword: former.hasPassword)
        }
    }
}

extension SQLTransaction {
    /// Has a message sent after the commit that tells of a change of `account`.
    mutating func notify(_ kind: Notice.Kind, _ account: Account, detail: String? = nil, _ audit: AuditContext) throws(SQLFault) {
        guard audit.notices.contains(kind.row.topic), let recipient = Notice.recipient(kind, of: account) else { return }
        if kind == .newDevice {
            let told = try rows(
                "SELECT id FROM notices WHERE account = $1 AND kind = $2 LIMIT \(Notice.maxNewDevices)",
                [.id(account.id), .text(kind.rawValue)])
            if told.count == Notice.maxNewDevices { return }
        }
        let id = newID(at: audit.now)
        try changeLater(
            """
            INSERT INTO notices (id, account, kind, recipient, language, device, address, at, due_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
            """,
            [
                .id(id), .id(account.id), .text(kind.rawValue), .text(recipient.text), .text(account.language), .text(detail),
                .text(audit.address?.text), .time(audit.now),
            ])
    }

    fileprivate struct WayBack {
        let account: UUID
        let email: EmailAddress
        /// The time of the change.
        let at: WallTime
    }

    /// The way back of a notice, while it is open.
    fileprivate func wayBack(_ notice: UUID, now: WallTime) throws(SQLFault) -> WayBack? {
        let oldest = now.advanced(seconds: -Notice.keptSeconds)
        let row = try first(
            "SELECT account, recipient, at FROM notices WHERE id = $1 AND kind = '\(Notice.Kind.emailLeft.rawValue)' AND at > $2",
            [.id(notice), .time(oldest)])
        guard var row else { return nil }
        return WayBack(account: try row.id(), email: EmailAddress(stored: try row.text()), at: try row.time())
    }

    /// Removes the password and what was added since `time`, which the user of the former email need not know of, and ends all sessions.
    fileprivate mutating func lockOut(_ account: inout Account, since time: WallTime, _ audit: AuditContext) throws(SQLFault) {
        if let added = account.phoneConfirmedAt, added >= time {
            account.dropPhone()
            try log(.phoneChanged, account.id, audit, detail: "way back")
        }
        if account.hasPassword { try log(.passwordChanged, account.id, audit, detail: "way back") }
        account.hasPassword = false
        try update(account)
        try setPasswordHash(nil, of: account.id)
        for key in try dropIdentities(of: account.id, since: time, at: audit.now) {
            try log(.identityUnlinked, account.id, audit, detail: key.source.name)
        }
        try dropFactor(of: account.id, since: time)
        for session in try endSessions(of: account.id, .accountTaken, at: audit.now) {
            try log(.sessionEnded, account.id, audit, session: session.id, detail: "way back")
        }
    }

    /// Closes a way back and those of later changes: the holder of a later address has no claim. Earlier ones stay open.
    fileprivate func close(_ way: WayBack, of account: UUID) throws(SQLFault) {
        try change(
            .unlogged, "DELETE FROM notices WHERE account = $1 AND kind = '\(Notice.Kind.emailLeft.rawValue)' AND at >= $2",
            [.id(account), .time(way.at)])
    }
}
