import Accounts
import Foundation
import Glibc
import TestServers
import Testing
import Threads
import Wire

@testable import Storage

/// A primary that is lost, and the standby that takes its place.
@Suite struct PostgresFailoverTests {
    /// A primary with a standby that has replayed everything, and a store over both.
    private struct Pair {
        let primary: PostgresCluster
        let standby: PostgresCluster
        let store: any AccountStore
        let url: String

        init() throws {
            primary = try PostgresCluster()
            let database = try primary.newDatabaseName()
            standby = try PostgresCluster(following: primary)
            url = PostgresCluster.url(database, on: [primary, standby])
            store = try Bench(url: url).store
        }

        /// Waits until the standby has what the primary has.
        func catchUp() async throws {
            let position = try primary.run("SELECT pg_current_wal_lsn()")
            try await eventually { try standby.run("SELECT pg_last_wal_replay_lsn() >= '\(position)'") == "t" }
        }

        /// Makes the standby the primary in place of one that is lost.
        func failOver() async throws {
            try await catchUp()
            try primary.stop()
            try standby.promote()
        }

        /// Makes the primary take no writes, as the first step of a planned switch. It goes on answering.
        func makeReadOnly() async throws {
            try primary.run("ALTER SYSTEM SET default_transaction_read_only = on")
            try primary.run("SELECT pg_reload_conf()")
            try await eventually { try primary.run("SHOW default_transaction_read_only") == "on" }
        }

        func end() {
            primary.end()
            standby.end()
        }
    }

    @Test func theNewPrimaryIsUsedWithoutARestart() async throws {
        let pair = try Pair()
        defer { pair.end() }
        let user = try await pair.store.opened("a@x").account.id
        try await pair.failOver()
        var found: Account?
        try await eventually {
            found = try? await pair.store.account(user)
            return found != nil
        }
        #expect(found?.id == user)
        #expect(try await pair.store.setTier("premium", until: nil, of: user, at(1)) != nil)
        _ = try await pair.store.opened("b@x")
    }

    /// A proxy takes connections for a server that is gone, and closes them.
    @Test func theNewPrimaryIsFoundBehindAProxyThatClosesConnections() async throws {
        let primary = try PostgresCluster()
        defer { primary.end() }
        let database = try primary.newDatabaseName()
        let standby = try PostgresCluster(following: primary)
        defer { standby.end() }
        let proxy = try CommitCutter(before: primary)
        defer { proxy.end() }
        let store = try Bench(url: proxy.url(database, then: standby)).store
        let user = try await store.opened("a@x").account.id
        let position = try primary.run("SELECT pg_current_wal_lsn()")
        try await eventually { try standby.run("SELECT pg_last_wal_replay_lsn() >= '\(position)'") == "t" }
        try primary.stop()
        try standby.promote()
        try await eventually { (try? await store.account(user))?.id == user }
    }

    /// The new primary may have lost transactions and give their numbers out again, so a position of the old one says nothing.
    @Test func theChangeLogIsReadAnewFromAnotherServer() async throws {
        let pair = try Pair()
        defer { pair.end() }
        let user = try await pair.store.opened("a@x").account.id
        let mark = try await pair.store.changes(since: nil).next
        try await pair.failOver()
        var reading: ChangeReading?
        try await eventually {
            reading = try? await pair.store.changes(since: mark)
            return reading != nil
        }
        #expect(reading?.isWhole == false)
        let next = try #require(reading?.next)
        _ = try await pair.store.setTier("premium", until: nil, of: user, at(1))
        let changes = try await pair.store.changes(since: next)
        #expect(changes.isWhole && changes.changes.count == 1)
    }

    @Test func notificationsComeFromTheNewPrimary() async throws {
        let pair = try Pair()
        defer { pair.end() }
        let user = try await pair.store.opened("a@x").account.id
        let (heard, isConnected, losses) = (Noted(0), Noted(false), Noted(0))
        let listener = try StoreLocation(url: pair.url).listen(
            start: WorkerThread.start, heard: { heard.change { $0 += 1 } },
            changed: { problem in
                isConnected.change { $0 = problem == nil }
                if problem != nil { losses.change { $0 += 1 } }
            })
        defer { listener?.stop() }
        try await eventually { isConnected.now }
        let lost = losses.now
        try await pair.failOver()
        // It may be connected again by now.
        try await eventually { losses.now > lost }
        try await eventually { isConnected.now }
        let before = heard.now
        _ = try await pair.store.setTier("premium", until: nil, of: user, at(1))
        try await eventually { heard.now > before }
    }

    /// As many reads at once as use every connection of a store several times.
    private func readings(_ store: any AccountStore, of user: Wire.UUID) async -> Set<String> {
        await withTaskGroup(of: String.self) { group in
            for _ in 0..<64 {
                group.addTask {
                    do throws(StoreFault) { return try await store.account(user)?.entitlement.tier ?? "none" } catch { return "failed" }
                }
            }
            return await group.reduce(into: []) { $0.insert($1) }
        }
    }

    /// A primary that is made read-only goes on answering. No connection reads from it any more, and what the new primary has counts for
    /// each at once, also if this store writes nothing.
    @Test func aPlannedSwitchMovesEveryConnection() async throws {
        let pair = try Pair()
        defer { pair.end() }
        let location = try StoreLocation(url: pair.url)
        let primary = DatabasePrimary()
        let store = try #require(location.open(connections: 4, primary: primary, start: WorkerThread.start))
        let (problem, losses, heard) = (Noted<String?>("not connected"), Noted(0), Noted(0))
        let listener = location.listen(
            primary: primary, start: WorkerThread.start, heard: { heard.change { $0 += 1 } },
            changed: { found in
                problem.change { $0 = found }
                if found != nil { losses.change { $0 += 1 } }
            })
        defer { listener?.stop() }
        try await eventually { problem.now == nil }
        let user = try await pair.store.opened("a@x").account.id
        #expect(await readings(store, of: user) == ["none"])
        let lost = losses.now
        try await pair.catchUp()
        try await pair.makeReadOnly()
        // Nothing is sure to be the newest until there is a primary.
        #expect(await readings(store, of: user) == ["failed"])
        try await eventually { losses.now > lost }
        try pair.standby.promote()
        try await eventually { (try? await pair.store.setTier("premium", until: nil, of: user, at(1))) != nil }
        try await eventually { (try? await store.account(user)) != nil }
        #expect(await readings(store, of: user) == ["premium"])
        try await eventually { problem.now == nil }
        let before = heard.now
        _ = try await pair.store.setTier("basic", until: nil, of: user, at(2))
        try await eventually { heard.now > before }
        await store.close()
    }

    /// The standby is promoted while the former primary goes on taking writes: once one connection has met the new one, no other reads from
    /// the former, and none returns to it when the new one is lost.
    @Test func aFormerPrimaryThatStillTakesWritesIsLeftForGood() async throws {
        let primary = try PostgresCluster()
        defer { primary.end() }
        let database = try primary.newDatabaseName()
        let standby = try PostgresCluster(following: primary)
        defer { standby.end() }
        let store = try Bench(url: PostgresCluster.url(database, on: [standby, primary])).store
        let user = try await store.opened("a@x").account.id
        #expect(await readings(store, of: user) == ["none"])
        let position = try primary.run("SELECT pg_current_wal_lsn()")
        try await eventually { try standby.run("SELECT pg_last_wal_replay_lsn() >= '\(position)'") == "t" }
        try standby.promote()
        try standby.run("UPDATE accounts SET tier = 'premium'", in: database)
        let one = "SELECT pid FROM pg_stat_activity WHERE datname = '\(database)' AND pid <> pg_backend_pid() LIMIT 1"
        try primary.run("SELECT pg_terminate_backend(pid) FROM (\(one)) AS one")
        try await eventually { await readings(store, of: user).contains("premium") }
        #expect(await readings(store, of: user) == ["premium"])
        try standby.stop()
        let refusal = await fault { _ = try await store.account(user) }
        #expect(refusal?.absence?.contains("former primary") == true, "\(String(describing: refusal))")
    }

    /// A commit whose answer is lost: the change counts once, and its author hears of it.
    @Test(arguments: CommitCutter.Fate.allCases)
    func aCommitInDoubtIsNeitherLostNorDoubled(_ fate: CommitCutter.Fate) async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let cutter = try CommitCutter(before: cluster)
        defer { cutter.end() }
        let store = try Bench(url: cutter.url(database)).store
        try await store.prepare()
        cutter.cutNext(fate)
        let ada = try await store.opened("ada@x")
        #expect(cutter.count == 1)
        #expect(try await store.account(ada.account.id) == ada.account)
        #expect(try await store.session(try #require(ada.session?.id))?.session == ada.session)
        #expect(try await store.auditEvents(of: ada.account.id, before: nil, limit: 10).count == 1)
        cutter.cutNext(fate)
        guard case .issued(let rotated, .rotate) = try await store.refresh(ada.session, 1, at: 10) else {
            Issue.record("the refresh that was in doubt was refused")
            return
        }
        #expect(cutter.count == 2)
        #expect(rotated.session?.counter == 2)
        #expect(try await store.session(try #require(ada.session?.id))?.session?.counter == 2)
    }

    /// The first attempt has not taken place, and the second has: its author hears of the second.
    @Test func ofTwoCommitsInDoubtTheOneThatTookPlaceCounts() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let cutter = try CommitCutter(before: cluster)
        defer { cutter.end() }
        let store = try Bench(url: cutter.url(database)).store
        let user = try await store.opened("ada@x").account.id
        cutter.cutNext(.lost, .answered, meanwhile: { _ = try? cluster.run("UPDATE accounts SET tier_version = 10", in: database) })
        let set = try await store.setTier("premium", until: nil, of: user, at(1))
        #expect(cutter.count == 2)
        #expect(set?.version == 11)
        #expect(try await store.standing(of: user)?.entitlement == set)
    }

    @Test func aCommitInDoubtIsReportedWhenTheServerStaysAway() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let database = try cluster.newDatabaseName()
        let cutter = try CommitCutter(before: cluster)
        let store = try Bench(url: cutter.url(database)).store
        try await store.prepare()
        cutter.cutNext(.lost, meanwhile: { try? cluster.stop() })
        let refusal = await fault { _ = try await store.opened("ada@x") }
        #expect(cutter.count == 1)
        #expect(refusal?.absence?.isEmpty == false)
    }
}

/// PgBouncer in transaction mode: each transaction may have another server connection.
@Suite struct PostgresPoolerTests {
    @Test func accountsAreUsedThroughAPooler() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let pooler = try PostgresPooler(before: cluster, connections: 2)
        defer { pooler.end() }
        let stores = try (0..<3).map { _ in try Bench(url: pooler.url(database)).store }
        try await stores[0].prepare()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<30 {
                group.addTask {
                    let store = stores[number % 3]
                    let opened = try await store.opened("user\(number)@x")
                    let user = opened.account.id
                    #expect(try await store.setTier("premium", until: nil, of: user, at(1))?.version == 1)
                    let refreshed = try await store.refresh(opened.session, 1, at: 2)
                    #expect(refreshed.counter == 2)
                    #expect(try await store.account(email: email("user\(number)@x"))?.id == user)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await stores[1].accounts(after: nil, limit: 100).count == 30)
    }

    /// A pooler may keep one stale connection for long: it says nothing of the others. A URL may allow such a server.
    @Test func aServerBehindAPoolerThatTakesNoWritesMovesNoOtherConnection() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let database = try cluster.newDatabaseName()
        let pooler = try PostgresPooler(before: cluster, connections: 1)
        defer { pooler.end() }
        let primary = DatabasePrimary()
        let store = try #require(
            try StoreLocation(url: pooler.url(database)).open(connections: 2, primary: primary, start: WorkerThread.start))
        let user = try await store.opened("ada@x").account.id
        try cluster.run("ALTER SYSTEM SET default_transaction_read_only = on")
        try cluster.run("SELECT pg_reload_conf()")
        try await eventually { await fault { _ = try await store.account(user) }?.absence?.isEmpty == false }
        #expect(await fault { _ = try await store.opened("bob@x") }?.absence?.isEmpty == false)
        #expect(primary.term == 0)
        let reader = try Bench.open(StoreLocation(url: pooler.url(database) + "?target_session_attrs=any"))
        #expect(try await reader.account(user)?.id == user)
        #expect(try await reader.account(user)?.id == user, "also with the connection that is open")
        try cluster.run("ALTER SYSTEM RESET default_transaction_read_only")
        try cluster.run("SELECT pg_reload_conf()")
        try await eventually { await fault { _ = try await store.opened("bob@x") } == nil }
    }

    @Test func notificationsNeedTheServerItself() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let pooler = try PostgresPooler(before: cluster, connections: 2)
        defer { pooler.end() }
        let problem = Noted<String?>(nil)
        let listener = try StoreLocation(url: pooler.url(database)).listen(
            start: WorkerThread.start, heard: {}, changed: { found in problem.change { $0 = found } })
        defer { listener?.stop() }
        try await eventually { problem.now?.contains("DATABASE_URL_DIRECT") == true }
    }
}

/// PostgreSQL over TLS.
@Suite struct PostgresTLSTests {
    @Test func aServerIsVerifiedByItsAuthorityAndItsName() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        try Self.makeCertificates(in: folder.path)
        let port = try HeldPort()
        let cluster = try PostgresCluster(settings: [
            "listen_addresses=127.0.0.1", "port=\(port.number)", "ssl=on", "ssl_cert_file=\(folder.path)/server.pem",
            "ssl_key_file=\(folder.path)/server.key",
        ])
        defer { cluster.end() }
        func store(_ host: String, _ authority: String) throws -> any AccountStore {
            let options = "sslmode=verify-full&sslrootcert=\(folder.path)/\(authority).pem&connect_timeout=60"
            return try Bench.open(StoreLocation(url: "postgres://tollgate@\(host):\(port.number)/postgres?\(options)"))
        }
        try await store("localhost", "ca").prepare()
        let stranger = try store("localhost", "other")
        #expect(await fault { try await stranger.prepare() }?.absence?.contains("certificate") == true)
        let misnamed = try store("127.0.0.1", "ca")
        #expect(await fault { try await misnamed.prepare() }?.absence?.contains("127.0.0.1") == true)
    }

    /// An authority, another one, and a server certificate of the first for `localhost`, readable by the server's user.
    private static func makeCertificates(in folder: String) throws {
        let script = """
            set -e
            cd "$1"
            new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "$@" 2>/dev/null; }
            new -keyout ca.key -out ca.pem -subj /CN=ca
            new -keyout other.key -out other.pem -subj /CN=other
            new -keyout server.key -out server.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost -CA ca.pem -CAkey ca.key
            chmod 755 . && chmod 644 ./*.pem && chmod 600 server.key
            if [ "$(id -u)" = 0 ]; then chown nobody server.key; fi
            """
        let process = Foundation.Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", script, "sh", folder]
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "openssl made no certificates")
    }
}

/// Waits until `condition` holds, for at most 90 s.
private func eventually(_ condition: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now.advanced(by: .seconds(90))
    while try await !condition() {
        try #require(ContinuousClock.now < deadline)
        try await Task.sleep(for: .milliseconds(20))
    }
}
