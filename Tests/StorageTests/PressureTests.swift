import Accounts
import TestServers
import Testing
import Threads

@testable import Storage

/// Databases that stop for a while, take no more, or are closed while calls wait.
@Suite struct PressureTests {
    /// The server is suspended, or another program keeps the lock of the file, until every call has begun.
    @Test(arguments: Backend.allCases) func refreshesThatWaitForADatabaseAreEachAnsweredOnce(_ backend: Backend) async throws {
        let server = backend == .postgres ? try PostgresCluster() : nil
        defer { server?.end() }
        let bench = try server.map { try Bench(url: $0.newDatabase()) } ?? Backend.sqlite.bench()
        defer { bench.end() }
        let store = bench.store
        var sessions: [Session] = []
        for number in 0..<24 { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        let lock = server == nil ? try WriteLockTests.Other(bench.location, WriteLockTests.keepsTheLock) : nil
        try server?.pause()
        let (open, begun) = (sessions, Noted(0))
        let verdicts: [RefreshVerdict?] = await withTaskGroup(of: RefreshVerdict?.self) { group in
            for session in open {
                group.addTask {
                    begun.change { $0 += 1 }
                    return try? await store.refresh(session, 1, at: 10).verdict
                }
            }
            while begun.now < open.count { await Task.yield() }
            lock?.end()
            #expect(throws: Never.self) { try server?.resume() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(verdicts == Array(repeating: .rotate, count: open.count))
        for session in open {
            #expect(try await store.session(session.id)?.session?.counter == 2)
            #expect(try await store.refresh(session, 1, at: 11).verdict == .again)
        }
    }

    /// Each call is answered, and what was answered well is there.
    @Test(arguments: ["max_page_count = 1", "query_only = ON"])
    func aFileThatTakesNoMoreRefusesEachCallOnce(_ setting: String) async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        try await bench.store.prepare()
        try bench.run("CREATE TABLE filled (number INTEGER, bytes BLOB)")
        guard case .sqlite(let path) = bench.location else { throw Fault("no file") }
        let made = BlockingPool(
            name: "test", threads: 1, capacity: 1, start: WorkerThread.start, make: { SQLiteWriter(path: path, capacity: 1_000) },
            flush: { $0.commit() })
        let pool = try #require(made)
        defer { pool.close() }
        try await pool.answer { writer throws(SQLFault) in _ = try writer.connector.connected().run("PRAGMA \(setting)", []) }
        @Sendable func write(_ number: Int64) async -> Bool {
            let outcome = await pool.together(
                { sql throws(SQLFault) in
                    try sql.change(.unlogged, "INSERT INTO filled VALUES ($1, zeroblob(3000))", [.integer(number)])
                }, gather: { $0.gather($1) })
            if case .success = outcome { return true } else { return false }
        }
        let taken = await withTaskGroup(of: Int64?.self) { group in
            for number in 0..<300 as Range<Int64> {
                group.addTask(executorPreference: pool.executor()) { await write(number) ? number : nil }
            }
            return await group.reduce(into: Set<Int64>()) { if let number = $1 { $0.insert(number) } }
        }
        #expect(taken.count < 300)
        let rows = try await pool.answer { writer throws(SQLFault) in
            try writer.reader.read { sql throws(SQLFault) in
                try sql.rows("SELECT number FROM filled", []) { row throws(SQLFault) in try row.integer() }
            }
        }
        #expect(rows.sorted() == taken.sorted())
    }

    /// Those that run when it closes are done or refused, and no call is left without an answer.
    @Test(arguments: Backend.allCases) func callsUnderWayWhenTheStoreClosesAreAnswered(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        var sessions: [Session] = []
        for number in 0..<40 { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        let (open, begun) = (sessions, Noted(0))
        let faults = await withTaskGroup(of: (Int, StoreFault?).self) { group in
            for (number, session) in open.enumerated() {
                group.addTask(executorPreference: number % 2 == 0 ? store.executor() : nil) {
                    begun.change { $0 += 1 }
                    return (number, await fault { _ = try await store.end(session.id, .signOut, at(1)) })
                }
            }
            group.addTask {
                while begun.now < 10 { await Task.yield() }
                await store.close()
                return (0, nil)
            }
            return await group.reduce(into: [StoreFault?](repeating: nil, count: 40)) { all, one in all[one.0] = all[one.0] ?? one.1 }
        }
        let later = try bench.another()
        for (session, fault) in zip(open, faults) {
            #expect(fault == nil || fault == StoreFault(queueIsFull: false))
            #expect(try await (later.session(session.id) == nil) == (fault == nil))
        }
    }
}
