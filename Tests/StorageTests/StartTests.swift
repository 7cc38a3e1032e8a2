import Accounts
import Foundation
import Storage
import TestServers
import Testing
import Wire

/// The statements of a gateway's start, over a database with many accounts.
@Suite struct StartTests {
    private static let filling = """
        INSERT INTO accounts (id, created_at, updated_at, email, email_key, metadata, tier_version)
            SELECT decode(md5('a' || n), 'hex'), n, n, n || '@x', n || '@x', '', 1 FROM generate_series(1, 20000) n;
        INSERT INTO sessions (
                id, account, contract, created_at, last_used_at, idle_deadline, sweep_at, counter, is_confirmed, rotated_at, steps_since,
                steps)
            SELECT decode(md5('s' || n), 'hex'), decode(md5('a' || n), 'hex'), 1, n, n, 4000000000000000, 4000000000000000, 1, 1, n, n, 0
            FROM generate_series(1, 20000) n;
        INSERT INTO audit_events (id, kind, at, account, address, position)
            SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 'session.begun', 4000000000000000, decode(md5('a' || n), 'hex'), '192.0.2.1', n
            FROM generate_series(1, 20000) n;
        INSERT INTO changes (mark, kind, at) SELECT 1, 1, 4000000000000000 FROM generate_series(1, 20000) n
        """

    private static let read =
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE relname IN ('accounts', 'sessions', 'audit_events', 'changes')"

    /// Entries that no request has asked for get their places by the sweep. Later requests do not look for others in the whole log, though
    /// the planner believes that many have no place.
    @Test func theSweepNumbersEvents() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let maker = try Bench(url: cluster.url(name)).store
        try await maker.prepare()
        try cluster.run(
            """
            INSERT INTO audit_events (id, kind, at, account)
                SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 'account-opened', 0, decode(md5('a' || n), 'hex') FROM generate_series(1, 2500) n
            """, in: name)
        try cluster.run("ANALYZE", in: name)
        try await maker.sweep(now: WallTime(seconds: 1_000), stride: 0)
        await maker.close()
        let places = "SELECT count(*) FILTER (WHERE position = 0), count(DISTINCT position), min(position), max(position) FROM audit_events"
        #expect(try cluster.run(places, in: name) == "0|2500|1|2500")
        try Self.waitForEnd(of: name, cluster)
        let before = try #require(Int(try cluster.run(Self.read, in: name)))
        let store = try Bench(url: cluster.url(name)).store
        #expect(try await store.events(after: 2_500, of: nil, limit: 9).isEmpty)
        await store.close()
        try Self.waitForEnd(of: name, cluster)
        #expect(try #require(Int(try cluster.run(Self.read, in: name))) - before <= 10)
    }

    /// It asks by indexes for what has ended, expired or changed: no statement reads through the rows that live.
    @Test func aStartReadsNoRowsOfLiveAccounts() async throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let maker = try Bench(url: cluster.url(name)).store
        try await maker.prepare()
        await maker.close()
        try cluster.run(Self.filling, in: name)
        try cluster.run("ANALYZE", in: name)
        try Self.waitForEnd(of: name, cluster)
        let before = try #require(Int(try cluster.run(Self.read, in: name)))

        let store = try Bench(url: cluster.url(name)).store
        try await store.prepare()
        let mark = try await store.changes(since: nil).next
        #expect(try await store.endedSessions().isEmpty)
        #expect(try await store.changes(since: mark).changes.isEmpty)
        try await store.sweep(now: WallTime(seconds: 1_000), stride: 0)
        await store.close()
        try Self.waitForEnd(of: name, cluster)
        let after = try #require(Int(try cluster.run(Self.read, in: name)))
        // The newest event tells the time of the first sweep.
        #expect(after - before <= 10, "\(after - before) rows")
    }

    /// A server process reports its counts when it ends.
    static func waitForEnd(of database: String, _ cluster: PostgresCluster) throws {
        for _ in 0..<3_000 {
            if try cluster.run("SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)'") == "0" { return }
            usleep(20_000)
        }
        throw Fault("connections to \(database) stay open")
    }
}
