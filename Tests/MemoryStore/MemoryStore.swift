package import Accounts
import Synchronization
import Wire

/// Accounts in memory, for tests: what the databases do, said once more in the plainest way.
package final class MemoryStore: AccountStore {
    struct State {
        var accounts: [UUID: Account] = [:]
        var hashes: [UUID: String] = [:]
        var identities: [String: Link] = [:]
        var sessions: [UUID: Session] = [:]
        var ended: [EndedSession] = []
        var codes: [String: PendingCode] = [:]
        var resets: [[UInt8]: PendingReset] = [:]
        var grants: [UUID: Set<ActorName>] = [:]
        /// Everything that was ever changed, the oldest first.
        var changes: [Touch] = []
        var audit: [AuditEvent] = []
    }

    /// An identity, and the account that it leads to.
    struct Link {
        let identity: LinkedIdentity
        let user: UUID
    }

    /// What a change was about.
    enum Touch {
        case account(UUID)
        case ended(EndedSession)
    }

    private let state = Mutex(State())
    /// What to answer instead of doing anything, oldest first.
    private let faults = Mutex<[StoreFault]>([])
    private let asked = Mutex(0)
    private let follower = Mutex<(@Sendable () -> Void)?>(nil)

    package init() {}

    /// How often it was asked anything.
    package var calls: Int { asked.withLock { $0 } }

    /// The next calls fail so, one after the other.
    package func fail(_ next: [StoreFault]) { faults.withLock { $0 += next } }

    /// Called once, between the next reading and its caller's hearing of it.
    package func afterNextCall(_ body: @escaping @Sendable () -> Void) { follower.withLock { $0 = body } }

    func at<Value: Sendable>(_ body: (inout State) -> Value) throws(StoreFault) -> Value {
        asked.withLock { $0 += 1 }
        defer { follower.withLock { follower in defer { follower = nil }; return follower }?() }
        if let fault = faults.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { throw fault }
        return state.withLock { state in
            let before = (state.accounts, state.ended.count)
            defer { state.noteChanges(before.0, ended: before.1) }
            return body(&state)
        }
    }

    package func prepare() async throws(StoreFault) { try at { _ in } }
    package func close() async {}
}

extension MemoryStore.State {
    /// Logs what a call has changed, by what was there before it.
    fileprivate mutating func noteChanges(_ before: [UUID: Account], ended count: Int) {
        for (id, account) in before where accounts[id] != account { changes.append(.account(id)) }
        for session in ended.dropFirst(count) { changes.append(.ended(session)) }
    }

    mutating func log(
        _ kind: AuditEvent.Kind, _ user: UUID?, _ occasion: Occasion, session: UUID? = nil, detail: String? = nil
    ) {
        audit.append(
            AuditEvent(
                kind, at: occasion.now, user: user, session: session, address: occasion.address, detail: detail))
    }

    func account(of recipient: Recipient) -> Account? {
        accounts.values.first { account in
            switch recipient {
            case .email(let email): account.email?.key == email.key
            case .phone(let phone): account.phone == phone
            }
        }
    }

    mutating func open(_ new: NewSession?, of user: UUID, _ occasion: Occasion) -> Session? {
        guard let new else { return nil }
        let session = Session(new, user: user, now: occasion.now)
        sessions[session.id] = session
        return session
    }

    mutating func end(_ session: UUID, _ reason: EndReason, _ occasion: Occasion) -> EndedSession? {
        guard let gone = sessions.removeValue(forKey: session) else { return nil }
        let ended = EndedSession(id: session, user: gone.user, endedAt: occasion.now, reason: reason)
        self.ended.append(ended)
        return ended
    }

    mutating func endSessions(
        of user: UUID, _ reason: EndReason, keeping kept: UUID? = nil, _ occasion: Occasion
    ) -> [EndedSession] {
        let all = sessions.values.filter { $0.user == user && $0.id != kept }.map(\.id).sorted()
        return all.compactMap { end($0, reason, occasion) }
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
    mutating func strip(_ user: UUID, _ occasion: Occasion) -> [EndedSession] {
        if let account = accounts[user] { dropCodes(of: account) }
        hashes[user] = nil
        identities = identities.filter { $0.value.user != user }
        grants[user] = nil
        accounts[user]?.strip(at: occasion.now)
        return endSessions(of: user, .accountTaken, occasion)
    }

    mutating func takeOver(_ user: UUID, _ occasion: Occasion) -> [EndedSession] {
        let ended = strip(user, occasion)
        accounts[user]?.emailConfirmedAt = occasion.now
        log(.accountTaken, user, occasion)
        return ended
    }

    mutating func release(_ user: UUID, _ occasion: Occasion) -> [EndedSession] {
        let ended = strip(user, occasion)
        accounts[user]?.email = nil
        accounts[user]?.emailConfirmedAt = nil
        log(.emailReleased, user, occasion)
        return ended
    }
}
