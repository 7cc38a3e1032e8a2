package import Accounts
package import Wire

extension MemoryStore {
    package func refresh(
        _ request: RefreshRequest, _ audit: AuditContext
    ) async throws(StoreFault) -> RefreshOutcome {
        try at { state in
            guard var session = state.sessions[request.session], let account = state.accounts[session.user] else {
                return .refused(.noSession)
            }
            let verdict = request.rule.verdict(
                counter: request.counter, contract: request.contract, session: session, now: audit.now)
            switch verdict {
            case .rotate: session.rotate(at: audit.now, idleSeconds: request.idleSeconds)
            case .keep: session.lastUsedAt = audit.now
            case .again, .storm: break
            case .refuse(let refusal):
                if refusal == .ahead { state.log(.refreshAhead, account.id, audit, session: session.id) }
                return .refused(refusal)
            case .reuse:
                guard let ended = state.end(session.id, .refreshReuse, audit) else { return .refused(.noSession) }
                state.log(.refreshReuse, account.id, audit, session: session.id)
                return .reused(ended)
            }
            if verdict == .rotate || verdict == .keep { session.address = audit.address ?? session.address }
            state.sessions[session.id] = session
            return .issued(SignIn(account: account, session: session), verdict)
        }
    }

    package func confirm(_ pairs: [ConfirmedPair]) async throws(StoreFault) {
        try at { state in
            for pair in pairs where state.sessions[pair.session]?.counter == pair.counter {
                state.sessions[pair.session]?.isConfirmed = true
            }
        }
    }

    package func openSession(
        _ new: NewSession, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let account = state.accounts[user], let opened = state.open(new, of: user, audit) else { return nil }
            state.log(.signedIn, user, audit, session: opened.id, detail: "operator")
            return SignIn(account: account, session: opened)
        }
    }

    package func session(_ id: UUID) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let session = state.sessions[id], let account = state.accounts[session.user] else { return nil }
            return SignIn(account: account, session: session)
        }
    }

    package func sessions(of user: UUID, now: WallTime) async throws(StoreFault) -> [Session] {
        try at { state in
            state.sessions.values.filter { $0.user == user && now < $0.deadline }
                .sorted { ($1.createdAt, $1.id) < ($0.createdAt, $0.id) }
        }
    }

    package func end(
        _ session: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> EndedSession? {
        try at { state in
            guard let ended = state.end(session, reason, audit) else { return nil }
            state.log(.sessionEnded, ended.user, audit, session: session, detail: reason.rawValue)
            return ended
        }
    }

    package func endSessions(
        of user: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession] {
        try at { state in
            let ended = state.endSessions(of: user, reason, audit)
            for session in ended {
                state.log(.sessionEnded, user, audit, session: session.id, detail: reason.rawValue)
            }
            return ended
        }
    }

    package func endedSessions(since: WallTime) async throws(StoreFault) -> [EndedSession] {
        try at { state in
            state.ended.filter { since <= max($0.endedAt, $0.expiresAt ?? $0.endedAt) }.sorted { ($0.endedAt, $0.id) < ($1.endedAt, $1.id) }
        }
    }
}
