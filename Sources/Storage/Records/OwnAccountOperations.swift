package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func link(
        _ proof: IdentityProof, by session: CallerSession, _ audit: AuditContext
    ) async throws(StoreFault) -> LinkOutcome {
        try await database.write(locking: .identity(proof.key)) { sql throws(SQLFault) in
            guard let (open, found) = try sql.lockedSession(session.session), found.id == session.user else { return .sessionEnded }
            var account = found
            switch try sql.account(of: proof.key) {
            case account.id?: break
            case _?: return .ofOtherAccount
            case nil: try sql.link(proof.key, to: account.id, carrying: open.carried, audit)
            }
            try sql.complete(&account, by: proof, emailIsFree: try sql.holder(of: proof.verifiedEmail) == nil, audit)
            return .linked(account)
        }
    }

    package func unlink(
        _ source: IdentitySource, by session: CallerSession, _ ways: SignInWays, _ audit: AuditContext
    ) async throws(StoreFault) -> UnlinkOutcome {
        try await database.write(locking: .account(session.user)) { sql throws(SQLFault) in
            guard let (_, account) = try sql.lockedSession(session.session), account.id == session.user else { return .sessionEnded }
            let linked = try sql.identities(of: account.id).map(\.key)
            let leaving = linked.filter { $0.source == source }
            guard !leaving.isEmpty else { return .notLinked }
            guard ways.lead(to: account, identities: linked.filter { $0.source != source }) else { return .last }
            for key in leaving { try sql.unlink(key, from: account.id, audit) }
            return .unlinked
        }
    }

    package func endSessions(
        of user: UUID, keeping session: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession] {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.endSessions(of: user, keeping: session, reason, audit)
        }
    }
}

extension SQLTransaction {
    /// Unlinks an identity of a provider from its account, which the transaction has locked.
    mutating func unlink(_ key: IdentityKey, from account: UUID, _ audit: AuditContext) throws(SQLFault) {
        let values: [SQLValue] = [.text(key.source.stored), .text(key.subject), .id(account)]
        try change(.identity, "DELETE FROM identities WHERE provider = $1 AND subject = $2 AND account = $3", values)
        if key.source == IdentitySource(.apple) { try revokeAppleTokens(of: account, subject: key.subject, at: audit.now) }
        try log(.identityUnlinked, account, audit, detail: key.source.name)
    }

    /// Ends all sessions of an account but `kept`, and logs that.
    mutating func endSessions(
        of account: UUID, keeping kept: UUID?, _ reason: EndReason, _ audit: AuditContext
    ) throws(SQLFault) -> [EndedSession] {
        let ended = try endSessions(of: account, reason, keeping: kept, at: audit.now)
        for session in ended { try log(.sessionEnded, account, audit, session: session.id, detail: reason.rawValue) }
        return ended
    }
}
