package import Accounts
import Credentials
package import Wire

extension MemoryStore {
    package func accounts(after: UUID?, limit: Int) async throws(StoreFault) -> [Account] {
        try at { state in
            let all = state.accounts.values.sorted { $0.id < $1.id }
            return Array(all.filter { account in after.map { $0 < account.id } ?? true }.prefix(limit))
        }
    }

    package func delete(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> [EndedSession]? {
        try at { state in
            guard let account = state.accounts.removeValue(forKey: user) else { return nil }
            state.dropCodes(of: account)
            state.hashes[user] = nil
            state.grants[user] = nil
            let ended = state.endSessions(of: user, .accountDeleted, audit)
            state.dropIdentities(of: user)
            state.refusedSubjects.insert(IdentityKey.ofID(user))
            state.log(.accountDeleted, user, audit)
            state.eraseAddresses { $0.user == user }
            return ended
        }
    }

    package func standing(of user: UUID) async throws(StoreFault) -> AccountStanding? {
        try at { $0.accounts[user].map { AccountStanding($0) } }
    }

    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Entitlement? {
        try at { $0.setTier(tier, until: until, of: user, audit) }
    }

    package func entitlement(of identity: IdentityKey) async throws(StoreFault) -> Entitlement? {
        try at { state in state.identities[identity].flatMap { state.accounts[$0.user]?.entitlement } }
    }

    package func setTier(
        _ tier: String?, until: WallTime?, of identity: IdentityKey, newUser: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Account {
        try at { state in
            if let user = state.identities[identity]?.user {
                _ = state.setTier(tier, until: until, of: user, audit)
            } else {
                let account = Account(bare: newUser, tier: tier, until: until, now: audit.now)
                state.accounts[newUser] = account
                state.logOpening(of: account, audit, session: nil, detail: "operator")
                state.link(identity, to: newUser, audit)
                if state.wasDeleted(identity) { state.detach(newUser) }
            }
            guard let account = state.identities[identity].flatMap({ state.accounts[$0.user] }) else {
                preconditionFailure("an identity of no account")
            }
            return account
        }
    }

    package func forget(_ identity: IdentityKey) async throws(StoreFault) { try at { $0.touch(identity) } }

    package func changes(since mark: ChangeMark?) async throws(StoreFault) -> ChangeReading {
        try failReading()
        return try at { state in
            let next = ChangeMark(value: Int64(state.changes.count))
            guard let mark else { return ChangeReading(changes: [], next: next, isWhole: true) }
            guard mark <= next else { return ChangeReading(changes: [], next: next, isWhole: false) }
            let new = state.changes.enumerated().dropFirst(Int(mark.value)).map { index, touch in
                LoggedChange(id: Int64(index), change: state.change(touch), age: 0)
            }
            return ChangeReading(changes: Array(new), next: next, isWhole: true)
        }
    }

    package func grant(
        _ actor: ActorName, to user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool {
        try at { state in
            guard state.accounts[user] != nil else { return false }
            if state.grants[user, default: []].insert(actor).inserted {
                state.log(.actorGranted, user, audit, detail: "\(actor.type) \(actor.id)")
            }
            return true
        }
    }

    package func revoke(
        _ actor: ActorName, from user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool {
        try at { state in
            guard state.grants[user]?.remove(actor) != nil else { return false }
            state.log(.actorRevoked, user, audit, detail: "\(actor.type) \(actor.id)")
            return true
        }
    }

    package func holdsGrant(_ actor: ActorName, user: UUID) async throws(StoreFault) -> Bool {
        try at { $0.grants[user]?.contains(actor) == true }
    }

    package func grants(of user: UUID) async throws(StoreFault) -> [ActorName] {
        try at { state in state.grants[user, default: []].sorted { ($0.type, $0.id) < ($1.type, $1.id) } }
    }

    package func identities(of user: UUID) async throws(StoreFault) -> [LinkedIdentity] {
        try at { state in
            state.identities.all.values.filter { $0.user == user }.map(\.identity)
                .sorted { ($0.key.source.name, $0.key.subject) < ($1.key.source.name, $1.key.subject) }
        }
    }

    package func accounts(matching search: AccountSearch) async throws(StoreFault) -> AccountMatches {
        try at { state in
            let all = state.accounts.values.sorted { $1.id < $0.id }
            let named = all.filter { account in
                account.id == search.id || account.email?.key == search.key || account.username?.key == search.key
                    || account.phone?.text == search.phone && search.phone != nil
            }
            let found = named + all.filter { account in
                guard !named.contains(where: { $0.id == account.id }) else { return false }
                let name = "\(account.name?.given ?? "") \(account.name?.family ?? "")"
                let texts = [account.email?.text, account.phone?.text, account.username?.text, name].compactMap { $0?.lowercased() }
                return texts.contains { text in text.contains(search.key) || search.phone.map { text.contains($0) } ?? false }
            }
            return AccountMatches(accounts: Array(found.prefix(AccountSearch.most)), isWhole: found.count <= AccountSearch.most)
        }
    }

    package func auditEvents(of user: UUID?, before: UUID?, limit: Int) async throws(StoreFault) -> [AuditEvent] {
        try at { state in
            let events = state.events.filter { event in (user == nil || event.user == user) && before.map { event.id < $0 } ?? true }
            return events.sorted { $1.id < $0.id }.prefix(limit).map { event in
                var event = event
                event.email = event.user.flatMap { state.accounts[$0]?.email?.text }
                return event
            }
        }
    }

    package func sweep(now: WallTime, stride: Int64) async throws(StoreFault) {
        try at { state in
            let last = state.sweptAt ?? state.events.last?.at
            let now = min(now, last?.advanced(seconds: stride) ?? now)
            state.sweptAt = max(now, state.sweptAt ?? now)
            let oldest = WallTime(seconds: now.seconds - SessionPolicy.longestAccessSeconds)
            state.sessions = state.sessions.filter { oldest < $0.value.idleDeadline }
            state.ended.removeAll { $0.endedAt < oldest && ($0.expiresAt ?? now) <= now }
            state.codes = state.codes.filter { now < $0.value.expiresAt }
            state.resets = state.resets.filter { now < $0.value.expiresAt }
            let oldestAddress = WallTime(seconds: now.seconds - AuditEvent.addressSeconds)
            state.eraseAddresses { $0.at < oldestAddress }
        }
    }
}

extension MemoryStore.State {
    fileprivate mutating func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) -> Entitlement? {
        guard let old = accounts[user]?.entitlement else { return nil }
        let entitlement = Entitlement(tier: tier, until: until, version: old.version + 1)
        accounts[user]?.entitlement = entitlement
        accounts[user]?.updatedAt = audit.now
        for (key, link) in identities.all where link.user == user { touch(key) }
        log(.tierChanged, user, audit, detail: tier)
        return entitlement
    }

    fileprivate func change(_ touch: MemoryStore.Touch) -> StoreChange {
        switch touch {
        case .ended(let session): .ended(session)
        case .identity(let key): .identity(key)
        case .account(let id): accounts[id].map { .account(id, AccountStanding($0)) } ?? .accountDeleted(id)
        }
    }
}
