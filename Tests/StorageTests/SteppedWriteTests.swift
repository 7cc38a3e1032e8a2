import Accounts
import Credentials
import Testing
import Threads
import Wire

@testable import Storage

/// A write that shares a transaction over PostgreSQL is run anew for each of its questions, with the answers it had before. So it must ask
/// the same each time, and have no effect but its statements.
@Suite struct SteppedWriteTests {
    private static let key = KeyThumbprint(bytes: .init(repeating: 7, count: 32))
    private static let other = KeyThumbprint(bytes: .init(repeating: 8, count: 32))

    private func audit(_ seconds: Int64) -> AuditContext {
        var audit = at(seconds)
        audit.notices = Set(NoticeTopic.allCases)
        return audit
    }

    /// Everything that sessions go through in writes that may be shared: how each call ended, and what the audit log says then.
    private func lives(_ store: any AccountStore) async throws -> [String] {
        var found: [String] = []
        func open(_ text: String?, _ key: KeyThumbprint?, _ contract: ContractID) async throws -> Session {
            var new = NewAccount(id: newID(), openedBy: contract, email: try text.map { try email($0) }, passwordHash: nil)
            new.isEmailConfirmed = text != nil
            var session = newSession(contract)
            (session.deviceKey, session.language) = (key, "de")
            guard case .opened(_, let session?) = try await store.open(new, session: session, audit(0)) else { throw Fault("taken") }
            return session
        }
        func refresh(
            _ session: WireID, _ counter: UInt64, _ key: KeyThumbprint? = nil, name: String? = nil, at seconds: Int64
        ) async throws {
            var request = RefreshRequest(
                session: session, contract: .dlauth, counter: counter, rule: RefreshRule(graceSeconds: 30), idleSeconds: 86_400)
            (request.deviceKey, request.deviceName) = (key, name)
            switch try await store.refresh(request, audit(seconds)) {
            case .issued(let signIn, let verdict): found.append("\(verdict) \(signIn.session?.counter ?? 0)")
            case .refused(let refusal): found.append("\(refusal)")
            case .reused(let ended): found.append("reused, \(ended.reason)")
            }
        }
        let (bound, free, guest) = (
            try await open("ada@x", Self.key, .dlauth), try await open("bob@x", nil, .dlauth), try await open(nil, nil, .dlauth)
        )
        try await refresh(bound.id, bound.counter, Self.key, name: "Ada's phone", at: 100)
        try await refresh(bound.id, bound.counter + 1, nil, at: 200)
        try await refresh(bound.id, bound.counter + 1, Self.other, at: 300)
        // Its key is bound with the next pair.
        try await refresh(free.id, free.counter, Self.other, name: "Bob's phone", at: 400)
        try await refresh(guest.id, guest.counter, at: 500)
        try await refresh(guest.id, guest.counter, at: 501)
        try await refresh(guest.id, guest.counter + 9, at: 502)
        try await refresh(guest.id, guest.counter + 1, at: 600)
        try await refresh(guest.id, guest.counter, at: 80_000)
        try await refresh(guest.id, guest.counter, at: 80_001)
        for key in [nil, Self.other, Self.key, nil] {
            found.append("signed out: \(try await store.signOut(bound.id, provenBy: key, audit(80_002)))")
        }
        found.append("ended: \(try await store.end(free.id, .revoked, audit(80_003)) != nil)")
        found.append("ended again: \(try await store.end(free.id, .revoked, audit(80_003)) != nil)")
        return try await found + store.auditEvents(of: nil, before: nil, limit: 100).map { "\($0.kind)" }.sorted()
    }

    @Test(arguments: Backend.allCases)
    func aSessionsWritesAskTheSameEachTime(_ backend: Backend) async throws {
        let (bench, plain) = (try backend.bench(), try backend.bench())
        defer { [bench, plain].forEach { $0.end() } }
        let database = SteppedDatabase(try #require(bench.store as? SQLStore).database)
        let stepped = try await lives(SQLStore(database, report: { _ in }))
        #expect(database.differences.now == [])
        #expect(stepped == (try await lives(plain.store)))
        #expect(stepped.contains("reused, refreshReuse") && stepped.contains("signed out: false"))
        // Reading, judging and ending a reused session are three of them.
        #expect(database.steps.now >= 20)
    }

    @Test func aWriteThatAsksAnythingElseTheSecondTimeIsSeen() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let database = SteppedDatabase(try #require(bench.store as? SQLStore).database)
        let runs = Noted(0)
        try await database.write(locking: .session(newID())) { sql throws(SQLFault) in
            runs.change { $0 += 1 }
            for _ in 0..<2 { _ = try sql.first("SELECT $1", [.integer(Int64(runs.now))]) }
        }
        #expect(database.differences.now.count == 3)
    }
}

/// A database whose writes of sessions go through it as shared ones do over PostgreSQL.
private final class SteppedDatabase: SQLDatabase {
    private let real: any SQLDatabase
    let differences = Noted<[String]>([])
    let steps = Noted(0)

    init(_ real: any SQLDatabase) { self.real = real }

    var onChange: ChangeNotice { real.onChange }
    func prepare() async throws(StoreFault) { try await real.prepare() }
    func close() { real.close() }
    func executor(for address: IPAddress?) -> any TaskExecutor { real.executor(for: address) }

    func read<Value: Sendable>(
        isBrief: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value { try await real.read(isBrief: isBrief, body) }

    func commit<Value: Sendable>(
        locking row: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        guard case .session = row else { return try await real.commit(locking: row, isDurable: isDurable, body) }
        let (differences, steps) = (differences, steps)
        return try await real.commit(locking: nil, isDurable: isDurable) { sql throws(SQLFault) in
            let stepped = SteppedConnection(sql.connection)
            while true {
                steps.change { $0 += 1 }
                stepped.startAnew()
                do throws(SQLFault) {
                    var sql = SQLTransaction(stepped)
                    let value = try body(&sql)
                    try stepped.finish()
                    differences.change { $0 += stepped.differences }
                    return value
                } catch {
                    guard stepped.hasAsked else { throw error }
                }
            }
        }
    }
}

/// A connection that answers what was asked in a run before, and ends the run at the first new question.
private final class SteppedConnection: SQLConnection {
    private let real: any SQLConnection
    var touched = TouchedRows()
    private(set) var differences: [String] = []
    private(set) var hasAsked = false
    private var asked: [([SQLStatement], [SQLResult])] = []
    private var later: [(SQLStatement, changes: Bool)] = []
    private var (position, met, sent) = (0, 0, 0)

    init(_ real: any SQLConnection) { self.real = real }

    var dialect: SQLDialect { real.dialect }

    func startAnew() {
        (position, met, hasAsked) = (0, 0, false)
        touched = TouchedRows()
    }

    /// Sends what no run before had; what it writes is noted by the run itself.
    func finish() throws(SQLFault) {
        for (statement, changes) in later[sent...] { try real.runLater(statement, changes: changes) }
        sent = later.count
    }

    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        try run(together: [SQLStatement(sql, values)]).first ?? SQLResult()
    }

    func run(together statements: [SQLStatement]) throws(SQLFault) -> [SQLResult] {
        guard position < asked.count else {
            try finish()
            asked.append((statements, try real.run(together: statements)))
            hasAsked = true
            throw .conflict
        }
        for (new, old) in zip(statements, asked[position].0) where new.text != old.text || new.values != old.values {
            differences.append("\(old.text): \(old.values), and then \(new.text): \(new.values)")
        }
        position += 1
        return asked[position - 1].1
    }

    func runLater(_ statement: SQLStatement, changes: Bool) {
        met += 1
        if met > later.count { return later.append((statement, changes)) }
        let old = later[met - 1].0
        // The first value may be a random id, which only the first run sends.
        if statement.text != old.text || statement.values.dropFirst() != old.values.dropFirst() {
            differences.append("\(old.text): \(old.values), and then \(statement.text): \(statement.values)")
        }
    }

    func begin(isWriting: Bool) {}
    func commit() {}
    func rollBack() {}
    func findTables() -> Bool { true }
    func lockSchema() {}
}
