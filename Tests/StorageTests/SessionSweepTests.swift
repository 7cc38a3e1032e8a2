import Accounts
import Credentials
import Foundation
import TestServers
import Testing
import Wire

@testable import Storage

/// Sessions whose deadline moves while the sweep waits for it.
@Suite struct SessionSweepTests {
    private static let day: Int64 = 86_400
    /// The idle time of the sessions here, and how long after it their access tokens may live.
    private static let (idle, tokens) = (30 * day, SessionPolicy.maxAccessSeconds)

    private func isThere(_ session: Session, after seconds: Int64, _ store: any AccountStore) async throws -> Bool {
        _ = try await store.sweep(now: at(seconds).now, stride: anyStride)
        return try await store.session(session.id) != nil
    }

    @Test(arguments: Backend.allCases)
    func aRefreshedSessionIsSweptAfterItsNewDeadline(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let session = try #require(try await bench.store.opened("a@x").session)
        let end = Self.idle + Self.tokens
        for step: Int64 in 1...3 {
            #expect(try await bench.store.refresh(session, UInt64(step), at: step * 20 * Self.day).verdict == .rotate)
            #expect(try await isThere(session, after: end + (step - 1) * 20 * Self.day, bench.store), "its former deadline has passed")
        }
        #expect(try await isThere(session, after: end + 60 * Self.day - 1, bench.store))
        #expect(try await !isThere(session, after: end + 60 * Self.day, bench.store))
    }

    /// The idle time of a contract was shortened, or a clock was ahead.
    @Test(arguments: Backend.allCases)
    func aDeadlineThatMovesBackCounts(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let session = try #require(try await bench.store.opened("a@x").session)
        let request = RefreshRequest(session: session.id, contract: .dlauth, counter: 1, rule: RefreshRule(), idleSeconds: 50)
        _ = try await bench.store.refresh(request, at(100))
        #expect(try await isThere(session, after: 149 + Self.tokens, bench.store))
        #expect(try await !isThere(session, after: 150 + Self.tokens, bench.store))
    }

    /// It knows nothing of when the sweep looks at a session.
    @Test(arguments: Backend.allCases)
    func aSessionOfAGatewayOfTheReleaseBeforeIsSwept(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let session = try #require(try await bench.store.opened("a@x").session)
        try bench.run(
            """
            INSERT INTO sessions (
                id, account, contract, created_at, last_used_at, idle_deadline, counter, is_confirmed, rotated_at, steps_since, steps)
            SELECT account, account, contract, created_at, last_used_at, idle_deadline, counter, is_confirmed, rotated_at, steps_since, steps
            FROM sessions
            """)
        let old = try #require(try await bench.store.sessions(of: session.user, now: at(1).now).first { $0.id == session.user })
        #expect(try await isThere(old, after: Self.idle / 2, bench.store))
        _ = try await bench.store.refresh(old, 1, at: Self.idle - 1)
        #expect(try await isThere(old, after: Self.idle + Self.tokens, bench.store))
        #expect(try await !isThere(old, after: 2 * Self.idle + Self.tokens, bench.store))
    }

    /// As many as two transactions of a sweep change, and some more; each third one was refreshed.
    @Test func oneSweepLooksAtAllThatAreDue() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let user = try await bench.store.opened("a@x").account.id
        for _ in 0..<1_200 {
            _ = try await bench.store.openSession(newSession(), of: user, at(0))
        }
        try bench.run("UPDATE sessions SET idle_deadline = idle_deadline + \(10 * Self.day)000000 WHERE rowid % 3 = 0")
        _ = try await bench.store.sweep(now: at(Self.idle + Self.tokens).now, stride: anyStride)
        #expect(try await bench.store.sessions(of: user, now: at(0).now).count == 400)
        try bench.run("DELETE FROM sessions WHERE sweep_at = idle_deadline")
        #expect(try await bench.store.sessions(of: user, now: at(0).now).isEmpty, "each is looked at again at its deadline")
    }

    /// A slow disk, or a table that is not in memory: others write in between after less.
    @Test func aPortionThatTookLongIsFollowedByASmallerOne() {
        var portion = SweepPortion()
        portion.note(500, in: .milliseconds(10))
        #expect(portion.rows == 500 && !portion.isLast)
        for rows in [250, 125, 62, 31, 15, 7, 3, 1, 1] {
            portion.note(portion.rows, in: .milliseconds(11))
            #expect(portion.rows == rows && !portion.isLast)
        }
        for rows in [2, 4, 8, 16, 32, 64, 128, 256, 500, 500] {
            portion.note(portion.rows, in: .milliseconds(2))
            #expect(portion.rows == rows && !portion.isLast)
        }
        portion.note(499, in: .zero)
        #expect(portion.isLast)
    }

    /// The next version of the row is on its page, and no index changes: nothing is left for vacuum to find.
    @Test func aRefreshChangesNoIndexOfPostgres() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(name)).store
        let session = try await store.opened("a@x").session
        for step: Int64 in 1...20 { #expect(try await store.refresh(session, UInt64(step), at: step * 60).verdict == .rotate) }
        await store.close()
        try StartTests.waitForEnd(of: name, cluster)
        let counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sessions'"
        #expect(try cluster.run(counts, in: name) == "20|20")
        #expect(try cluster.run("SELECT reloptions FROM pg_class WHERE relname = 'sessions'", in: name) == "{fillfactor=80}")
    }
}
