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
/// session that was ended, `event ID` for a notification of a purchase that names an account.
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

    /// One write, so that no line is torn.
    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = Glibc.write(STDOUT_FILENO, bytes, bytes.count)
    }
}
