package import Accounts
import Synchronization
import Wire

/// Accounts in memory, for tests: a second, simple implementation of `AccountStore`.
package final class MemoryStore: AccountStore {
    struct State {
        var accounts = AccountTable()
        var hashes: [UUID: String] = [:]
        var identities = IdentityTable()
        var sessions: [UUID: Session] = [:]
        var ended: [EndedSession] = []
        var codes: [String: PendingCode] = [:]
        var resets: [[UInt8]: PendingReset] = [:]
        var grants: [UUID: Set<ActorName>] = [:]
        /// Accounts whose sessions at outside issuers have ended.
        var detached: Set<UUID> = []
        var refusedSubjects: Set<IdentityKey> = []
        /// The records of outside refresh tokens, by their digest.
        var adopted: [[UInt8]: AdoptedToken] = [:]
        /// Everything that was ever changed, the oldest first.
        var changes: [Touch] = []
        var events: [AuditEvent] = []
        /// Until when it was swept.
        var sweptAt: WallTime?
    }

    /// The accounts by id, which also keeps what a call found before it changed them.
    struct AccountTable {
        private var all: [UUID: Account] = [:]
        private var before: [UUID: Account?] = [:]

        var values: Dictionary<UUID, Account>.Values { all.values }

        subscript(id: UUID) -> Account? {
            get { all[id] }
            set {
                if before[id] == nil { before[id] = .some(all[id]) }
                all[id] = newValue
            }
        }

        mutating func removeValue(forKey id: UUID) -> Account? {
            defer { self[id] = nil }
            return self[id]
        }

        /// The accounts that were there and are others now, or gone, since it was last asked.
        mutating func takeChanged() -> [UUID] {
            guard !before.isEmpty else { return [] }
            defer { before.removeAll() }
            return before.compactMap { id, account in account != nil && account != all[id] ? id : nil }
        }
    }

    /// The identities by key, which also keeps where a call found them to lead before it changed them.
    struct IdentityTable {
        private(set) var all: [IdentityKey: Link] = [:]
        private var before: [IdentityKey: UUID?] = [:]

        subscript(key: IdentityKey) -> Link? {
            get { all[key] }
            set {
                if before[key] == nil { before[key] = .some(all[key]?.user) }
                all[key] = newValue
            }
        }

        mutating func removeAll(of user: UUID) {
            for (key, link) in all where link.user == user { self[key] = nil }
        }

        /// The identities that lead elsewhere, or are new or gone, since it was last asked.
        mutating func takeChanged() -> [IdentityKey] {
            guard !before.isEmpty else { return [] }
            defer { before.removeAll() }
            return before.compactMap { key, user in user != all[key]?.user ? key : nil }
        }
    }

    /// An identity, and the account that it leads to.
    struct Link {
        let identity: LinkedIdentity
        let user: UUID
        /// The sign-in that it carries.
        var carried: WallTime?
    }

    /// The subject of a change.
    enum Touch {
        case account(UUID)
        case ended(EndedSession)
        case identity(IdentityKey)
    }

    private let state = Mutex(State())
    /// Faults to throw from the next calls, in order.
    private let faults = Mutex<[StoreFault]>([])
    private let readingFaults = Mutex<[StoreFault]>([])
    private let asked = Mutex(0)
    private let follower = Mutex<(@Sendable () -> Void)?>(nil)

    package init() {}

    /// How often it was asked anything.
    package var calls: Int { asked.withLock { $0 } }

    /// The next calls fail so, one after the other.
    package func fail(_ next: [StoreFault]) { faults.withLock { $0 += next } }

    /// The next readings of the change log fail so.
    package func failReadings(of fault: StoreFault, count: Int) {
        readingFaults.withLock { $0 += Array(repeating: fault, count: count) }
    }

    func failReading() throws(StoreFault) {
        if let fault = readingFaults.withLock({ $0.popLast() }) { throw fault }
    }

    /// Every session that the change log tells of, the oldest first.
    package var endings: [EndedSession] {
        state.withLock { state in
            state.changes.compactMap { if case .ended(let session) = $0 { session } else { nil } }
        }
    }

    /// Called once, between the next reading and its caller's hearing of it.
    package func afterNextCall(_ body: @escaping @Sendable () -> Void) { follower.withLock { $0 = body } }

    func at<Value: Sendable>(_ body: (inout State) -> Value) throws(StoreFault) -> Value {
        asked.withLock { $0 += 1 }
        defer { follower.withLock { follower in defer { follower = nil }; return follower }?() }
        if let fault = faults.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { throw fault }
        return state.withLock { state in
            let ended = state.ended.count
            defer { state.noteChanges(ended: ended) }
            return body(&state)
        }
    }

    package func prepare() async throws(StoreFault) { try at { _ in } }
    package func close() async {}
}

extension MemoryStore.State {
    /// Logs the changes of a call; before it, `count` sessions had ended.
    fileprivate mutating func noteChanges(ended count: Int) {
        for id in accounts.takeChanged() { changes.append(.account(id)) }
        for session in ended.dropFirst(count) { changes.append(.ended(session)) }
        for key in identities.takeChanged() { touch(key) }
    }

    mutating func touch(_ key: IdentityKey) {
        if key.source.isIssuer { changes.append(.identity(key)) }
    }

    mutating func log(
        _ kind: AuditEvent.Kind, _ user: UUID?, _ audit: AuditContext, session: UUID? = nil, detail: String? = nil
    ) {
        let id = UUID(at: audit.now, random: (0, UInt64(events.count) << 2))
        events.append(
            AuditEvent(
                id: id, kind, at: audit.now, user: user, session: session, actor: audit.actor, address: audit.address, detail: detail))
    }

    mutating func eraseAddresses(where isOld: (AuditEvent) -> Bool) {
        for index in events.indices where isOld(events[index]) { events[index].address = nil }
    }

    func account(of recipient: Recipient) -> Account? {
        accounts.values.first { account in
            switch recipient {
            case .email(let email): account.email?.key == email.key
            case .phone(let phone): account.phone == phone
            }
        }
    }

    mutating func open(_ new: NewSession?, of user: UUID, _ audit: AuditContext) -> Session? {
        guard let new else { return nil }
        let open = sessions.values.filter { $0.user == user }.map { (id: $0.id, lastUsedAt: $0.lastUsedAt) }
        let most = new.bound.most(at: audit.now) { accounts[user]?.entitlement }
        for id in most == .max ? [] : SessionBound.ending(open, most: most) {
            _ = end(id, .revoked, audit)
            log(.sessionEnded, user, audit, session: id, detail: SessionBound.detail)
        }
        let session = Session(new, user: user, now: audit.now)
        sessions[session.id] = session
        return session
    }

    mutating func end(_ session: UUID, _ reason: EndReason, _ audit: AuditContext) -> EndedSession? {
        guard let gone = sessions.removeValue(forKey: session) else { return nil }
        let ended = EndedSession(id: session, user: gone.user, endedAt: audit.now, reason: reason)
        self.ended.append(ended)
        return ended
    }

    mutating func endSessions(
        of user: UUID, _ reason: EndReason, keeping kept: UUID? = nil, _ audit: AuditContext
    ) -> [EndedSession] {
        let all = sessions.values.filter { $0.user == user && $0.id != kept }.map(\.id).sorted()
        let ended = all.compactMap { end($0, reason, audit) }
        detach(user)
        return ended
    }

    /// Drops the codes and reset tokens that were sent to an account.
    mutating func dropCodes(of account: Account) {
        for recipient in account.recipients { dropCodes(to: recipient) }
    }

    mutating func dropCodes(to recipient: Recipient) {
        codes = codes.filter { $0.value.recipient != recipient.key }
        resets = resets.filter { $0.value.email.key != recipient.key }
    }

    /// Takes from an account all that its opener put there or could get in with.
    mutating func strip(_ user: UUID, _ audit: AuditContext) -> [EndedSession] {
        if let account = accounts[user] { dropCodes(of: account) }
        hashes[user] = nil
        let ended = endSessions(of: user, .accountTaken, audit)
        dropIdentities(of: user)
        grants[user] = nil
        accounts[user]?.strip(at: audit.now)
        return ended
    }

    mutating func takeOver(_ user: UUID, _ audit: AuditContext) -> [EndedSession] {
        let ended = strip(user, audit)
        accounts[user]?.emailConfirmedAt = audit.now
        log(.accountTaken, user, audit)
        return ended
    }

    mutating func release(_ user: UUID, _ audit: AuditContext) -> [EndedSession] {
        let ended = strip(user, audit)
        accounts[user]?.email = nil
        accounts[user]?.emailConfirmedAt = nil
        log(.emailReleased, user, audit)
        return ended
    }
}
