import Accounts
import Credentials
import Glibc
import Storage
import Threads
import Wire

/// Writes to a database as fast as possible and prints each write once it is acknowledged, until it is killed. The tests
/// check that all printed writes are in the database.
///
///     StoreWriter URL WRITERS
///
/// So many writers write at once, on the threads of the store.
/// Prints `account ID` for an account that was opened, `counter SESSION NUMBER` for a refresh, `ended SESSION` for a
/// session that was ended, `event ID` for a notification of a purchase that names an account. For a user's second factor: `factor USER STEP`
/// for a code that was taken, `codes USER`, `backup USER`; for the passkey: `passkey USER`, `challenge USER` for a sign-in.
@main
struct StoreWriter {
    static func main() async throws {
        let location = try StoreLocation(url: CommandLine.arguments[1])
        let store = location.open(connections: 2) { name, body in
            do {
                let thread = try WorkerThread(name: name, body)
                return { thread.join() }
            } catch {
                return nil
            }
        }
        guard let store else { exit(1) }
        try await withTaskExecutorPreference(store.executor()) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<(Int(CommandLine.arguments[2]) ?? 1) {
                    group.addTask {
                        var random = SystemRandomNumberGenerator()
                        func id() -> UUID { UUID(random: (random.next(), random.next())) }
                        while true { try await write(to: store, id(), id()) }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    private static func write(to store: SQLStore, _ user: UUID, _ sessionID: UUID) async throws {
        let audit = AuditContext(now: WallTime(seconds: 1_700_000_000), address: nil)
        let account = NewAccount(id: user, openedBy: .dlauth, email: try EmailAddress("\(user)@x.org"))
        let session = NewSession(id: sessionID, contract: .dlauth, device: nil)
        _ = try await store.open(account, session: session, audit)
        say("account \(user)")
        for counter: UInt64 in 1...3 {
            let request = RefreshRequest(session: sessionID, contract: .dlauth, counter: counter, rule: RefreshRule())
            guard case .issued(let signIn, .rotate) = try await store.refresh(request, audit) else { exit(2) }
            say("counter \(sessionID) \(signIn.session?.counter ?? 0)")
        }
        try await possess(store, CallerSession(user: user, session: sessionID), audit)
        let (key, now) = (PurchaseKey(.stripe, .production, "\(user)"), audit.now)
        let status = PurchaseStatus(.active, product: "p", until: nil, renews: true, transactions: ["\(user)"], periodStart: now, at: now)
        let event = StoreEvent(
            .stripe, id: "\(user)", type: "t", environment: .production, at: now,
            effects: [.status(key, status), .owner(key, user, at: now)])
        let products = Products([ProductLine(name: "pro", tier: "premium", products: [.stripe: ["p"]], graceSeconds: nil)])
        say("event \(try await store.record(event, body: [1], digest: [2], products, audit).id)")
        guard user.low & 1 == 0 else { return }
        _ = try await store.end(sessionID, .signOut, audit)
        say("ended \(sessionID)")
    }

    /// Sets up a second factor and a passkey, and uses both.
    private static func possess(_ store: SQLStore, _ caller: CallerSession, _ audit: AuditContext) async throws {
        let user = caller.user
        let factor = KeptFactor(id: user, sealed: [1], createdAt: audit.now)
        try await store.enrol(factor, by: caller, audit).get()
        for step: Int64 in 1...2 {
            try await store.prove(.code(step: step, of: user, enrols: true), by: caller, audit).get()
            say("factor \(user) \(step)")
        }
        try await store.setBackupCodes([user.bytes + [0], user.bytes + [1]], by: caller, audit).get()
        say("codes \(user)")
        try await store.prove(.backup(user.bytes + [0]), by: caller, audit).get()
        say("backup \(user)")
        let passkey = Passkey(
            credentialID: user.bytes, user: user, publicKey: [1], algorithm: .EdDSA, signCount: 0, isBackupEligible: true, isBackedUp: true,
            aaguid: user, transports: [], name: "p", createdAt: audit.now)
        func proof(_ number: UInt8) -> SpentProof { SpentProof(digest: user.bytes + [number], endsAt: audit.now.advanced(seconds: 300)) }
        _ = try await store.add(passkey, by: caller, spending: proof(0), audit).get()
        say("passkey \(user)")
        var session = NewSession(id: UUID(high: user.low, low: user.high), contract: .dlauth, device: nil)
        session.factorAt = audit.now
        _ = try await store.signIn(passkey, spending: proof(1), session: session, present: nil, audit).get()
        say("challenge \(user)")
    }

    /// One write, so that no line is torn.
    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = Glibc.write(STDOUT_FILENO, bytes, bytes.count)
    }
}
