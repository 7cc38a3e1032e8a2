package import Accounts
package import Credentials
package import Wire

extension SQLStore {
    package func refresh(
        _ request: RefreshRequest, _ audit: AuditContext
    ) async throws(StoreFault) -> RefreshOutcome {
        try await database.write(locking: .session(request.session)) { sql throws(SQLFault) in
            guard let (session, account) = try sql.lockedSession(request.session) else { return .refused(.noSession) }
            let verdict = request.verdict(on: session, now: audit.now)
            switch verdict {
            case .rotate, .keep, .again, .storm:
                let next = try sql.carryOut(verdict, session, request, audit)
                return .issued(SignIn(account: account, session: next), verdict)
            case .refuse(let refusal):
                if refusal == .ahead { try sql.log(.refreshAhead, account.id, audit, session: session.id) }
                if case .unproven = refusal, !request.hasUnjudgedProof { try sql.noteUnproven(session, of: account, audit) }
                return .refused(refusal)
            case .reuse:
                guard let ended = try sql.end(session.id, .refreshReuse, at: audit.now) else { throw .conflict }
                try sql.log(.refreshReuse, account.id, audit, session: session.id)
                return .reused(ended)
            }
        }
    }

    package func confirm(_ pairs: [ConfirmedPair]) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            // By id, as all batches of sessions, so that no two wait for each other; in one message, so that the rows are held briefly.
            let updates = pairs.sorted { $0.session < $1.session }.map { pair in
                SQLStatement(
                    "UPDATE sessions SET is_confirmed = 1 WHERE id = $1 AND counter = $2 AND is_confirmed = 0",
                    [.id(pair.session), .counter(pair.counter)])
            }
            _ = try sql.firsts(updates)
        }
    }

    package func openSession(
        _ new: NewSession, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(user) else { return nil }
            let opened = try sql.open(new, of: &account, audit)
            try sql.log(.signedIn, user, audit, session: opened.id, detail: "operator")
            return SignIn(account: account, session: opened)
        }
    }

    package func session(_ id: UUID) async throws(StoreFault) -> SignIn? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            try sql.session(id).map { SignIn(account: $0.1, session: $0.0) }
        }
    }

    package func sessions(of user: UUID, now: WallTime) async throws(StoreFault) -> [Session] {
        try await database.read { sql throws(SQLFault) in
            try sql.sessions(of: user).filter { now < $0.deadline }
        }
    }

    package func end(
        _ session: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> EndedSession? {
        try await database.write(locking: .session(session)) { sql throws(SQLFault) in
            guard let ended = try sql.end(session, reason, at: audit.now) else { return nil }
            try sql.log(.sessionEnded, ended.user, audit, session: session, detail: reason.rawValue)
            return ended
        }
    }

    package func signOut(_ session: UUID, provenBy key: KeyThumbprint?, _ audit: AuditContext) async throws(StoreFault) -> Bool {
        try await database.write(locking: .session(session)) { sql throws(SQLFault) in
            guard let ended = try sql.end(session, .signOut, at: audit.now, isProven: true, by: key) else {
                return try sql.session(session) == nil
            }
            try sql.log(.sessionEnded, ended.user, audit, session: session, detail: ended.reason.rawValue)
            return true
        }
    }

    package func endSessions(
        of user: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession] {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.endSessions(of: user, keeping: nil, reason, audit)
        }
    }

    package func endedSessions() async throws(StoreFault) -> [EndedSession] {
        let (sessions, unreadable) = try await database.read { sql throws(SQLFault) in try sql.endedSessions() }
        skipped(unreadable)
        return sessions
    }
}

extension SQLTransaction {
    /// A refresh came without the key of its session: once a day its user is told. Internal callers have no address, and no key.
    fileprivate mutating func noteUnproven(_ session: Session, of account: Account, _ audit: AuditContext) throws(SQLFault) {
        guard session.deviceKey != nil, audit.address != nil else { return }
        let noted = try change(
            .unlogged, "UPDATE sessions SET key_refused_at = $2 WHERE id = $1 AND (key_refused_at IS NULL OR key_refused_at <= $3)",
            [.id(session.id), .time(audit.now), .time(audit.now.advanced(seconds: -86_400))])
        guard noted == 1 else { return }
        try log(.deviceKeyRefused, account.id, audit, session: session.id)
        try notify(.deviceKeyRefused, account, detail: session.deviceLabel, audit)
    }

    /// Applies a verdict; returns the session as it is then.
    fileprivate mutating func carryOut(
        _ verdict: RefreshVerdict, _ session: Session, _ request: RefreshRequest, _ audit: AuditContext
    ) throws(SQLFault) -> Session {
        var next = session
        switch verdict {
        case .rotate: next.rotate(at: audit.now, idleSeconds: request.idleSeconds)
        case .keep: next.lastUsedAt = audit.now
        case .again, .storm, .refuse, .reuse: return session
        }
        // A request whose token the gateway refreshes itself is the caller's server's.
        next.address = audit.address ?? session.address
        next.deviceKey = request.key(of: session)
        if next.deviceKey != session.deviceKey {
            next.boundCounter = next.counter
            try log(.deviceKeyBound, session.user, audit, session: session.id)
        }
        if let name = request.deviceName, name != session.deviceName {
            next.deviceName = name
            _ = try meet(name, of: session.user, at: audit.now)
        }
        try update(next, from: session, idleSeconds: verdict == .rotate ? request.idleSeconds : nil)
        return next
    }
}
