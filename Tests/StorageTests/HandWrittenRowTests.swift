import Accounts
import Foundation
import TestServers
import Testing
import Threads
import Wire

@testable import Storage

/// Rows that no gateway has written: an operator's SQL, a script, a broken import. What cannot be reckoned with is an error that names it,
/// and never ends the process.
@Suite struct HandWrittenRowTests {
    /// The counter of a session with this one cannot grow, and no client can have taken these steps.
    @Test(arguments: Backend.allCases, ["counter = 9223372036854775807", "counter = -1", "steps = 9223372036854775807", "steps = -1"])
    func aSessionThatCannotBeCountedOnIsAnError(_ backend: Backend, _ change: String) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let ada = try await bench.store.opened("ada@x")
        let bob = try await bench.store.opened("bob@x")
        let session = try #require(ada.session)
        try bench.run(
            "UPDATE sessions SET \(change), steps_since = rotated_at WHERE account IN (SELECT id FROM accounts WHERE email_key = 'ada@x')")
        for counter: UInt64 in [1, UInt64(Int64.max)] {
            await #expect(throws: StoreFault.self) { try await bench.store.refresh(session, counter, at: 2) }
        }
        #expect(try await bench.store.refresh(bob.session, 1, at: 2).verdict == .rotate, "the others go on")
        // It can still be ended.
        #expect(try await bench.store.end(session.id, .revoked, at(3)) != nil)
    }

    @Test(arguments: Backend.allCases) func aSecretThatCannotBeReplacedIsAnError(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        #expect(try await store.keep([1], as: "a", after: 0))
        try bench.run("UPDATE sealed_secrets SET version = 9223372036854775807")
        await #expect(throws: StoreFault.self) { try await store.secret("a") }
    }

    /// It stops the reading of no other row, and a session that is named has ended, whatever else its row says. Each is told of once.
    @Test(arguments: Backend.allCases) func aRowThatCannotBeReadKeepsNoSessionOpen(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let skipped = Noted<[String]>([])
        let opened = bench.location.open(
            connections: 2, start: WorkerThread.start,
            onOutcome: { outcome in
                if case .skippedRow(let reason) = outcome { skipped.change { $0.append(reason) } }
            })
        let store = try #require(opened)
        let (ada, bob) = (try await store.opened("ada@x").account, try #require(try await store.opened("bob@x").session))
        let start = try await store.changes(since: nil).next
        let (odd, ours, nobody) = (newID(), newID(), WireID(high: 0, low: 0))
        for (id, account, reason) in [
            ([UInt8](repeating: 0, count: 15), ada.id.bytes, "sign-out"), (odd.bytes, ada.id.bytes, "of a later release"),
            (ours.bytes, [1, 2, 3], "sign-out"),
        ] as [([UInt8], [UInt8], String)] {
            let (id, account) = (backend.literal(id), backend.literal(account))
            try bench.run("INSERT INTO ended_sessions (id, account, ended_at, reason) VALUES (\(id), \(account), 5000000, '\(reason)')")
        }
        if backend == .sqlite { try bench.run("UPDATE accounts SET tier = 'premium', tier_until = 'soon'") }
        let ended = try #require(try await store.end(bob.id, .revoked, at(3)))
        let all: Set = [
            EndedSession(id: odd, user: ada.id, endedAt: WallTime(seconds: 5), reason: .revoked),
            EndedSession(id: ours, user: nobody, endedAt: WallTime(seconds: 5), reason: .signOut), ended,
        ]
        for _ in 0..<2 {
            let changes = try await store.changes(since: start).changes.map(\.change)
            #expect(Set(changes).isSuperset(of: all.map { .ended($0) }))
            #expect(!changes.contains { if case .account(_, let standing) = $0 { standing.entitlement.tier != nil } else { false } })
            #expect(Set(try await store.endedSessions()) == all)
        }
        // The row with the bad id in the log and in the list, and with SQLite the two accounts.
        #expect(skipped.now.count == (backend == .sqlite ? 4 : 2), "\(skipped.now)")
        let found = try await store.database.read { sql throws(SQLFault) in try sql.endedSessions(page: 1) }
        #expect(Set(found.sessions) == all && found.unreadable.count == 1, "a page of which no row can be read is not the last")
    }

    /// The time of a change only tells how late it was read.
    @Test(arguments: Backend.allCases, ["-9223372036854775808", "9223372036854775807", "0"])
    func aChangeOfAnyTimeIsRead(_ backend: Backend, _ time: String) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let user = try await bench.store.opened("ada@x").account.id
        let start = try await bench.store.changes(since: nil).next
        let entitlement = try #require(try await bench.store.setTier("premium", until: nil, of: user, at(1)))
        try bench.run("UPDATE changes SET at = \(time)")
        let reading = try await bench.store.changes(since: start)
        #expect(reading.changes.map(\.change) == [.account(user, AccountStanding(entitlement))])
        let age = try #require(reading.changes.first?.age)
        #expect(age == (time == "9223372036854775807" ? 0 : 86_400_000_000), "from now to a day ago")
    }
}

extension Backend {
    fileprivate func literal(_ bytes: [UInt8]) -> String {
        let digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return self == .sqlite ? "x'\(digits)'" : "'\\x\(digits)'"
    }
}

extension Bench {
    /// Runs one statement beside the store.
    func run(_ statement: String) throws {
        switch location {
        case .sqlite(let path):
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            let script = "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute(sys.argv[2]); d.commit()"
            process.arguments = ["python3", "-c", script, path, statement]
            try process.run()
            process.waitUntilExit()
            guard process.terminationStatus == 0 else { throw Fault("SQLite refused \(statement)") }
        case .postgres(let url, _):
            guard let database = url.split(separator: "/").last else { throw Fault("no database in \(url)") }
            try PostgresCluster.shared.get().run(statement, in: String(database))
        }
    }
}
