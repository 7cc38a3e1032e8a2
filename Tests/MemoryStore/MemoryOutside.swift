package import Accounts
import Wire

extension MemoryStore {
    package func subject(_ key: IdentityKey) async throws(StoreFault) -> SubjectVerdict { try at { $0.verdict(on: key) } }

    package func adopted(_ digest: [UInt8]) async throws(StoreFault) -> AdoptedToken? { try at { $0.adopted[digest] } }

    package func adopt(_ adoption: Adoption, _ audit: AuditContext) async throws(StoreFault) -> AdoptionOutcome {
        try at { state in
            if let known = state.adopted[adoption.digest] { return .known(known) }
            guard case .account(let user) = state.verdict(on: adoption.key), let account = state.accounts[user] else { return .refused }
            let session = state.open(adoption.session, of: user, audit)
            state.adopted[adoption.digest] = AdoptedToken(session: session?.id)
            state.log(.signedIn, user, audit, session: session?.id, detail: adoption.key.source.name)
            return .adopted(SignIn(account: account, session: session))
        }
    }

    package func end(
        _ ended: EndedSession, refreshToken digest: [UInt8]?, _ audit: AuditContext
    ) async throws(StoreFault) {
        try at { state in
            if !state.ended.contains(where: { $0.id == ended.id }) {
                state.ended.append(ended)
                state.log(.sessionEnded, ended.user, audit, session: ended.id, detail: ended.reason.rawValue)
            }
            guard let digest else { return }
            guard let known = state.adopted[digest] else {
                state.adopted[digest] = AdoptedToken(session: nil)
                return
            }
            guard let session = known.session, state.sessions[session]?.user == ended.user else { return }
            _ = state.end(session, ended.reason, audit)
            state.log(.sessionEnded, ended.user, audit, session: session, detail: ended.reason.rawValue)
        }
    }
}

extension MemoryStore.State {
    fileprivate func verdict(on key: IdentityKey) -> SubjectVerdict {
        let id = UUID(parsing: key.subject)
        return SubjectRule.verdict(
            linked: identities[key].flatMap { holder($0.user) }, named: id.flatMap { holder($0) },
            wasDeleted: wasDeleted(key))
    }

    func wasDeleted(_ key: IdentityKey) -> Bool {
        refusedSubjects.contains(key) || UUID(parsing: key.subject).map { refusedSubjects.contains(IdentityKey.ofID($0)) } == true
    }

    private func holder(_ id: UUID) -> SubjectHolder? {
        accounts[id].map { SubjectHolder(user: id, openedBy: $0.openedBy, isDetached: detached.contains(id)) }
    }

    /// Ends the sessions that an account has at outside issuers, if it can have any.
    mutating func detach(_ user: UUID) {
        guard let account = accounts[user], !detached.contains(user) else { return }
        guard account.openedBy == nil || identities.all.contains(where: { $0.value.user == user && $0.key.source.isOutside }) else { return }
        detached.insert(user)
        changes.append(.account(user))
    }

    mutating func dropIdentities(of user: UUID) {
        for (key, link) in identities.all where link.user == user && key.source.isOutside { refusedSubjects.insert(key) }
        identities.removeAll(of: user)
    }
}
