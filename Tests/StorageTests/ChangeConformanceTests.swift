import Accounts
import Foundation
import Storage
import TestServers
import Testing
import Threads
import Wire

/// The change log, as gateways read it.
@Suite struct ChangeConformanceTests {
    @Test(arguments: Backend.allCases)
    func everythingThatAGatewayRemembersIsLoggedWhenItChanges(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x")
        let (user, session) = (ada.account.id, try #require(ada.session?.id))
        var reader = try await ChangeReader(store)
        let none = try await reader.news()
        #expect(none.isEmpty)
        let premium = try #require(try await store.setTier("premium", until: at(9).now, of: user, at(1)))
        let tier = Set(try await reader.news())
        #expect(tier == [.account(user, AccountStanding(premium))])
        let noMore = try await reader.news()
        #expect(noMore.isEmpty)
        _ = try await store.grant(ActorName(type: "team", id: "1"), to: user, at(1))
        try await store.confirm([ConfirmedPair(session: session, counter: 1)])
        #expect(try await store.refresh(ada.session, 1, at: 2).verdict == .rotate)
        let unheard = try await reader.news()
        #expect(unheard.isEmpty, "nobody remembers these")
        let other = newSession()
        _ = try await store.signIn(user, proof: PasswordProof(hash: "hash"), session: other, at(3))
        let changed = try #require(try await store.setPassword("new hash", of: user, keeping: session, at(4)))
        let password = Set(try await reader.news())
        #expect(password == Set(changed.ended.map { StoreChange.ended($0) } + [.account(user, AccountStanding(premium))]))
        let ended = try #require(try await store.end(session, .signOut, at(5)))
        let signOut = Set(try await reader.news())
        #expect(signOut == [.ended(ended)])
        _ = try await store.delete(user, at(6))
        let deletion = try await reader.news()
        #expect(deletion.contains(.accountDeleted(user)))
    }

    /// An acknowledged change is in the next reading, whatever the clocks of the writers.
    @Test(arguments: Backend.allCases)
    func noChangeIsLostToAClock(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("ada@x").account.id
        for seconds: Int64 in [86_400 * 40, -86_400 * 40, 0, 3_600, -3_600] {
            var reader = try await ChangeReader(store)
            let entitlement = try #require(try await store.setTier("premium", until: nil, of: user, at(seconds)))
            let news = try await reader.news()
            #expect(news == [.account(user, AccountStanding(entitlement))], "\(seconds)")
        }
    }

    /// Four programs write, and a fifth reads concurrently: in the end it has read everything.
    @Test(arguments: Backend.allCases)
    func aReaderMissesNoConcurrentChange(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let reader = bench.store
        var users: [WireID] = []
        for number in 0..<4 { users.append(try await reader.opened("u\(number)@x").account.id) }
        let first = try await reader.changes(since: nil).next
        let isOver = Noted(false)
        let writers = try users.map { user in
            let store = try bench.another()
            return Task {
                for number: Int64 in 1...50 { _ = try await store.setTier("t\(number)", until: nil, of: user, at(number)) }
                await store.close()
            }
        }
        let watching = Task {
            var (mark, seen) = (first, Set<Int64>())
            while true {
                let isLast = isOver.now
                let reading = try await reader.changes(since: mark)
                seen.formUnion(reading.changes.map(\.id))
                mark = reading.next
                if isLast { return seen }
            }
        }
        for writer in writers { try await writer.value }
        isOver.change { $0 = true }
        #expect(try await watching.value.count == 200)
    }

    /// A transaction that began first and ends last has the lowest numbers; a reading in between must not pass over them.
    @Test func aTransactionThatEndsLateIsReadAllTheSame() async throws {
        let cluster = try PostgresCluster.shared.get()
        let url = try cluster.newDatabase()
        let database = try #require(url.split(separator: "/").last.map(String.init))
        let store = try Bench.open(StoreLocation(url: url))
        let (slow, quick) = (try await store.opened("slow@x").account.id, try await store.opened("quick@x").account.id)
        let start = try await store.changes(since: nil).next
        try cluster.run("CREATE TABLE go_on ()", in: database)
        let waiting = "DO 'BEGIN WHILE NOT EXISTS (SELECT FROM go_on) LOOP PERFORM pg_sleep(0.01); END LOOP; END'"
        let thread = Thread {
            _ = try? cluster.run("UPDATE accounts SET username = 'late' WHERE email_key = 'slow@x'; \(waiting)", in: database)
        }
        thread.start()
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database)' AND wait_event = 'PgSleep'"
        while try cluster.run(waits) != "1" { try await Task.sleep(nanoseconds: 1_000_000) }
        let premium = try #require(try await store.setTier("premium", until: nil, of: quick, at(1)))
        let meanwhile = try await store.changes(since: start)
        #expect(meanwhile.changes.map(\.change) == [.account(quick, AccountStanding(premium))])
        try cluster.run("INSERT INTO go_on DEFAULT VALUES", in: database)
        var (mark, seen) = (meanwhile.next, [StoreChange]())
        for _ in 0..<2_000 where !seen.contains(.account(slow, AccountStanding(.none))) {
            let reading = try await store.changes(since: mark)
            seen += reading.changes.map(\.change)
            mark = reading.next
            try await Task.sleep(nanoseconds: 10_000_000)
        }
        #expect(seen.contains(.account(slow, AccountStanding(.none))))
        await store.close()
    }

    /// A transaction may be in progress for hours, in any database of the server. Were all changes since its begin read again each time,
    /// gateways would run out of memory.
    @Test func aTransactionThatStaysInProgressLetsNothingBeReadAgain() async throws {
        let cluster = try PostgresCluster.shared.get()
        let url = try cluster.newDatabase()
        let store = try Bench.open(StoreLocation(url: url))
        let user = try await store.opened("ada@x").account.id
        let elsewhere = try cluster.newDatabaseName()
        // It is cut off below, which psql calls an error.
        let thread = Thread { _ = try? cluster.run("SELECT pg_current_xact_id(), pg_sleep(3600)", in: elsewhere) }
        thread.start()
        let sleeping = "SELECT pid FROM pg_stat_activity WHERE datname = '\(elsewhere)' AND backend_xid IS NOT NULL"
        while try cluster.run(sleeping).isEmpty { try await Task.sleep(nanoseconds: 10_000_000) }
        var mark = try await store.changes(since: nil).next
        for number: Int64 in 1...3 {
            let entitlement = try #require(try await store.setTier("t\(number)", until: nil, of: user, at(number)))
            let reading = try await store.changes(since: mark)
            #expect(reading.changes.map(\.change) == [.account(user, AccountStanding(entitlement))])
            mark = reading.next
        }
        #expect(try await store.changes(since: mark).changes.isEmpty)
        try cluster.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(elsewhere)'")
        await store.close()
    }

    /// A dump keeps the transaction numbers of the server that it was made on. A server with lower ones has not given them out yet: were
    /// such changes taken for new, each reading would bring all of them until the numbers are reached.
    @Test func changesWithNumbersOfAnotherServerAreNotReadAgainAndAgain() async throws {
        // Of its own: elsewhere other tests take the numbers.
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let source = try cluster.newDatabaseName()
        let old = try Bench.open(StoreLocation(url: cluster.url(source)))
        let user = try await old.opened("ada@x").account.id
        _ = try await old.setTier("premium", until: nil, of: user, at(1))
        await old.close()
        // As if it were a server that has done more than the one to which its dump goes.
        let ahead = 40
        try cluster.run("UPDATE changes SET mark = pg_snapshot_xmax(pg_current_snapshot())::text::bigint + \(ahead)", in: source)
        try cluster.run("CREATE DATABASE restored TEMPLATE \(source)")
        let store = try Bench.open(StoreLocation(url: cluster.url("restored")))
        var mark = try await store.changes(since: nil).next
        var read: [Int] = []
        // The numbers are reached and passed meanwhile.
        for number in 0..<Int64(2 * ahead) {
            let entitlement = try #require(try await store.setTier("t\(number)", until: nil, of: user, at(number)))
            let reading = try await store.changes(since: mark)
            #expect(reading.isWhole && reading.changes.contains { $0.change == .account(user, AccountStanding(entitlement)) })
            read.append(reading.changes.count)
            mark = reading.next
        }
        // The reading in which they are reached finds them, and the next if the server gave that number to work of its own.
        #expect(read.count { $0 > 1 } <= 2, "\(read)")
        await store.close()
    }

    @Test(arguments: Backend.allCases)
    func changesByOtherProgramsAreLogged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let user = try await bench.store.opened("ada@x").account.id
        var reader = try await ChangeReader(bench.store)
        switch bench.location {
        case .sqlite(let path):
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            let script = "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute(\"UPDATE accounts SET tier='gold'\"); d.commit()"
            process.arguments = ["python3", "-c", script, path]
            try process.run()
            process.waitUntilExit()
        case .postgres(let url, _):
            let database = try #require(url.split(separator: "/").last.map(String.init))
            try PostgresCluster.shared.get().run("UPDATE accounts SET tier = 'gold'", in: database)
        }
        let expected = StoreChange.account(user, AccountStanding(Entitlement(tier: "gold", until: nil, version: 0)))
        let news = try await reader.news()
        #expect(news == [expected])
    }

    /// A program that changes very many rows at once must not hold up what ends sessions: one reading has a bound.
    @Test(arguments: Backend.allCases)
    func aFloodOfChangesIsNoReading(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let user = try await bench.store.opened("ada@x").account.id
        let mark = try await bench.store.changes(since: nil).next
        let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= \(ChangeReading.most))"
        let flood = "INSERT INTO changes (kind, at) \(numbers) SELECT 3, 0 FROM n"
        switch bench.location {
        case .sqlite(let path):
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = [
                "python3", "-c", "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute(sys.argv[2]); d.commit()", path, flood,
            ]
            try process.run()
            process.waitUntilExit()
        case .postgres(let url, _):
            try PostgresCluster.shared.get().run(flood, in: try #require(url.split(separator: "/").last.map(String.init)))
        }
        let reading = try await bench.store.changes(since: mark)
        #expect(!reading.isWhole && reading.changes.isEmpty)
        let entitlement = try #require(try await bench.store.setTier("gold", until: nil, of: user, at(2)))
        #expect(try await bench.store.changes(since: reading.next).changes.map(\.change) == [.account(user, AccountStanding(entitlement))])
    }

    @Test func aStoreThatWasPutBackSaysThatItCannotTell() async throws {
        for backend in Backend.allCases {
            let bench = try backend.bench()
            defer { bench.end() }
            let reading = try await bench.store.changes(since: ChangeMark(value: .max))
            #expect(!reading.isWhole && reading.changes.isEmpty)
            #expect(try await bench.store.changes(since: reading.next).isWhole)
        }
    }

    @Test(arguments: Backend.allCases)
    func ownChangesAreReportedAfterTheCommit(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let heard = Noted<[[WireID]]>([])
        let location = bench.location
        let store = location.open(connections: 2, start: WorkerThread.start, onChange: { accounts in heard.change { $0.append(accounts) } })
        let mine = try #require(store)
        let ada = try await mine.opened("ada@x")
        let user = ada.account.id
        #expect(heard.now.isEmpty, "nobody remembers an account that was not there")
        _ = try await mine.setTier("premium", until: nil, of: user, at(1))
        #expect(heard.now == [[user]])
        _ = try await mine.end(try #require(ada.session?.id), .signOut, at(2))
        #expect(heard.now == [[user], []])
        _ = try await bench.store.setTier(nil, until: nil, of: user, at(3))
        #expect(heard.now.count == 2, "another's are none of its own")
        #expect(try await mine.keep([1, 2], as: "a", after: 0))
        #expect(heard.now.count == 3)
        await mine.close()
    }

    // MARK: secrets

    @Test(arguments: Backend.allCases)
    func ofTwoThatReplaceASecretOneIsTooLate(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        var reader = try await ChangeReader(store)
        #expect(try await store.secret("a") == nil)
        #expect(try await store.keep([1], as: "a", after: 0))
        #expect(try await !store.keep([2], as: "a", after: 0))
        let first = try #require(try await store.secret("a"))
        #expect(first.sealed == [1])
        #expect(try await store.keep([3], as: "a", after: first.version))
        #expect(try await !store.keep([4], as: "a", after: first.version))
        #expect(try await store.secret("a")?.sealed == [3])
        let news = try await reader.news()
        #expect(news == [.secrets, .secrets])
    }

    // MARK: notifications

    @Test func postgresNotifiesOfChangesAtOnce() async throws {
        let cluster = try PostgresCluster.shared.get()
        let url = try cluster.newDatabase()
        let database = try #require(url.split(separator: "/").last.map(String.init))
        let location = try StoreLocation(url: url)
        let store = try Bench.open(location)
        let user = try await store.opened("ada@x").account.id
        // Those of clients: the server's own come to clean up when they like.
        let clients = "SELECT pid FROM pg_stat_activity WHERE datname = '\(database)' AND backend_type = 'client backend'"
        let backends = { Set(try cluster.run(clients).split(separator: "\n").map(String.init)) }
        let others = try backends()
        let heard = Noted(0)
        let problems = Noted<[String?]>([])
        let started = location.listen(
            start: WorkerThread.start, heard: { heard.change { $0 += 1 } },
            changed: { problem in problems.change { $0.append(problem) } })
        let listener = try #require(started)
        func wait(for count: Int) async throws {
            for _ in 0..<12_000 where heard.now < count { try await Task.sleep(nanoseconds: 5_000_000) }
            #expect(heard.now == count)
        }
        try await wait(for: 1)
        let line = try #require(try backends().subtracting(others).first)
        _ = try await store.setTier("premium", until: nil, of: user, at(1))
        try await wait(for: 2)
        try cluster.run("UPDATE accounts SET tier = 'gold'", in: database)
        try await wait(for: 3)
        // The connection is cut and restored; the log is read to make up for missed notifications.
        try cluster.run("SELECT pg_terminate_backend(\(line))")
        try await wait(for: 4)
        let told = problems.now
        #expect(told.count == 3 && told[0] == nil && told[1] != nil && told[2] == nil, "\(told)")
        listener.stop()
        await store.close()
    }
}
