import Accounts
import Credentials
import Foundation
import Glibc
import Storage
import TestServers
import Testing
import Threads
import Wire

/// A database that another program has, too.
@Suite struct SharedDatabaseTests {
    /// Tables of Django, some with names that are common.
    private static let django = """
        CREATE TABLE public.accounts (id INT); CREATE TABLE public.sessions (id INT); CREATE TABLE public.schema_versions (version TEXT);
        CREATE TABLE public.auth_user (id INT)
        """

    private func tables(_ cluster: PostgresCluster, _ database: String, in schema: String) throws -> [String] {
        try cluster.run("SELECT tablename FROM pg_tables WHERE schemaname = '\(schema)' ORDER BY 1", in: database)
            .split(separator: "\n").map(String.init)
    }

    @Test func tablesLiveInASchemaOfTheirOwnBesideThoseOfAnotherProgram() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        try cluster.run(Self.django, in: database)
        let store = try Bench(url: cluster.url(database)).store
        let user = try await store.opened("ada@x").account.id
        let others = try tables(cluster, database, in: "public")
        #expect(others == ["accounts", "auth_user", "schema_versions", "sessions"])
        #expect(try tables(cluster, database, in: "tollgate").contains("accounts"))
        // By hand, with another search path: the triggers log it none the less.
        let mark = try await store.changes(since: nil).next
        try cluster.run("SET search_path = public; UPDATE tollgate.accounts SET tier = 'gold'", in: database)
        let changes = try await store.changes(since: mark).changes.map(\.change)
        #expect(changes == [.account(user, AccountStanding(Entitlement(tier: "gold", until: nil, version: 0)))])
        #expect(try StoreInspection(of: StoreLocation(url: cluster.url(database))).version != nil)
    }

    /// As an older program made it: its tables are found by more than one name, and stay.
    @Test func anInstallationInTheDefaultSearchPathStaysWhereItIs() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let older = try Bench(url: cluster.url(database)).store
        let user = try await older.opened("ada@x").account.id
        await older.close()
        try cluster.run("DROP SCHEMA public; ALTER SCHEMA tollgate RENAME TO public", in: database)
        try cluster.run(
            "ALTER FUNCTION public.tollgate_log_change() RESET ALL; ALTER FUNCTION public.tollgate_log_identity() RESET ALL; ALTER FUNCTION public.tollgate_log_tier() RESET ALL",
            in: database)
        let heard = Noted(0)
        let location = try StoreLocation(url: cluster.url(database))
        let listener = location.listen(start: WorkerThread.start, heard: { heard.change { $0 += 1 } }, changed: { _ in })
        defer { listener?.stop() }
        let store = try Bench.open(location)
        #expect(try await store.account(user)?.id == user)
        _ = try await store.setTier("gold", until: nil, of: user, at(1))
        #expect(try tables(cluster, database, in: "tollgate").isEmpty)
        #expect(try StoreInspection(of: location).version == StoreInspection(of: location).newest)
        // The first is for the connection.
        for _ in 0..<500 where heard.now < 2 { try await Task.sleep(for: .milliseconds(20)) }
        #expect(heard.now >= 2)
    }

    /// Also through a pooler, which gives them the same connections of the server in turn.
    @Test(arguments: [false, true])
    func twoInstallationsInOneDatabaseDoNotMeet(_ isPooled: Bool) async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let pooler = isPooled ? try PostgresPooler(before: cluster, connections: 2) : nil
        defer { pooler?.end() }
        let url = pooler?.url(database) ?? cluster.url(database)
        let heard = [Noted(0), Noted(0)]
        let connected = [Noted(false), Noted(false)]
        let names = ["tollgate", "second"]
        let listeners = try names.indices.map { index in
            try StoreLocation(url: cluster.url(database), schema: names[index]).listen(
                start: WorkerThread.start, heard: { heard[index].change { $0 += 1 } },
                changed: { problem in connected[index].change { $0 = problem == nil } })
        }
        defer { for listener in listeners { listener?.stop() } }
        for _ in 0..<500 where !connected.allSatisfy(\.now) { try await Task.sleep(for: .milliseconds(20)) }
        let stores = try names.map { try Bench.open(StoreLocation(url: url, schema: $0)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, store) in stores.enumerated() {
                group.addTask {
                    for number in 0..<10 { _ = try await store.opened("\(index)-\(number)@x") }
                }
            }
            try await group.waitForAll()
        }
        for (index, store) in stores.enumerated() {
            let emails = try await store.accounts(after: nil, limit: 100).compactMap { $0.email?.text }
            #expect(emails.count == 10 && emails.allSatisfy { $0.hasPrefix("\(index)-") })
        }
        let user = try #require(try await stores[1].accounts(after: nil, limit: 1).first?.id)
        let before = heard.map(\.now)
        _ = try await stores[1].setTier("gold", until: nil, of: user, at(1))
        for _ in 0..<500 where heard[1].now == before[1] { try await Task.sleep(for: .milliseconds(20)) }
        #expect(heard[1].now > before[1] && heard[0].now == before[0])
    }

    @Test func aMigrationThatFailsLeavesNothing() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        // In the way of a late step.
        try cluster.run("CREATE SCHEMA tollgate; CREATE TABLE tollgate.sweeps (id INT)", in: database)
        let store = try Bench(url: cluster.url(database)).store
        #expect(await fault { try await store.prepare() }?.failure?.contains("sweeps") == true)
        #expect(try tables(cluster, database, in: "tollgate") == ["sweeps"])
    }

    @Test func aRoleThatMayMakeNoSchemaIsToldWhatToDo() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        try cluster.run("DO $$ BEGIN CREATE ROLE lowly LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$", in: database)
        let store = try Bench(url: cluster.url(database).replacing("tollgate@", with: "lowly@")).store
        #expect(await fault { try await store.prepare() }?.failure?.contains("CREATE SCHEMA tollgate") == true)
    }

    private func file(_ script: String, in folder: Folder) throws -> String {
        let path = folder.path + "/db.sqlite3"
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", "-c", "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.close()", path, script,
        ]
        try process.run()
        process.waitUntilExit()
        return path
    }

    @Test func aFileOfAnotherProgramIsRefusedAndStaysAsItIs() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let path = try file(
            "CREATE TABLE accounts (id INT); CREATE TABLE auth_user (id INT); CREATE TABLE schema_versions (v INT)", in: folder)
        let before = try Data(contentsOf: URL(filePath: path))
        let store = try Bench.open(.sqlite(path: path))
        let refusal = await fault { _ = try await store.opened("ada@x") }
        #expect(refusal?.failure?.contains("TOLLGATE_DATABASE_URL") == true, "\(String(describing: refusal))")
        #expect(StoreLocation.sqlite(path: path).otherProgram?.contains("auth_user") == true)
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["db.sqlite3"])
    }

    @Test func anEmptyFileAndOneOfOursAreNotAnotherPrograms() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let path = try file("", in: folder)
        #expect(StoreLocation.sqlite(path: path).otherProgram == nil)
        let store = try Bench.open(.sqlite(path: path))
        _ = try await store.opened("ada@x")
        await store.close()
        #expect(StoreLocation.sqlite(path: path).otherProgram == nil)
        #expect(StoreLocation.sqlite(path: folder.path + "/none").otherProgram == nil)
    }
}

/// Locks that another session keeps.
@Suite struct HeldLockTests {
    /// `psql` with a transaction that stays open until it is ended.
    final class Holder {
        private let process = Process()
        private let input = Pipe()

        init(_ cluster: PostgresCluster, _ database: String, _ statement: String) throws {
            let output = Pipe()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["psql", "-qAtX", cluster.url(database)]
            (process.standardInput, process.standardOutput) = (input, output)
            try process.run()
            input.fileHandleForWriting.write(Data("BEGIN; \(statement);\n\\echo held\n".utf8))
            var text = ""
            while !text.contains("held"), let more = try output.fileHandleForReading.read(upToCount: 1), !more.isEmpty {
                text += String(decoding: more, as: UTF8.self)
            }
            guard text.contains("held") else { throw Fault("psql holds no lock") }
        }

        func end(committing: Bool = false) {
            if committing { input.fileHandleForWriting.write(Data("COMMIT;\n".utf8)) }
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
    }

    /// How many calls of a gateway wait for a lock.
    private static func waiting(_ database: String) -> String {
        """
        SELECT COUNT(*) FROM pg_stat_activity
        WHERE datname = '\(database)' AND application_name = 'tollgate' AND wait_event_type = 'Lock'
        """
    }

    /// One user's retries take a share of the connections, which stay a pool; others are served.
    @Test func aLockedRowStopsItsAccountAlone() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(database)).store
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        let holder = try Holder(cluster, database, "SELECT * FROM tollgate.accounts WHERE email_key = 'ada@x' FOR UPDATE")
        defer { holder.end() }
        let count = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '\(database)' AND application_name = 'tollgate'"
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<3 {
                for _ in 0..<20 {
                    group.addTask { await fault { _ = try await store.openSession(newSession(), of: ada, at(1)) }?.absence != nil }
                }
                _ = try await store.openSession(newSession(), of: bob, at(1))
                #expect(try #require(Int(cluster.run(count))) <= 4)
                for _ in 0..<20 { #expect(try await group.next() == true) }
            }
        }
        #expect(try #require(Int(cluster.run(count))) <= 4)
        holder.end()
        #expect(try await store.openSession(newSession(), of: ada, at(2)) != nil)
    }

    /// Calls that wait for a session's row see the account as the holder of that leaves it, and write nothing older back.
    @Test func aChangeOfTheAccountSurvivesCallsThatHaveWaited() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(database)).store
        let ada = try await store.opened("ada@x")
        let session = try #require(ada.session)
        let caller = CallerSession(user: ada.account.id, session: session.id)
        let proof = identity(subject: "1", email: nil, name: try PersonName(given: "Ada", family: nil))
        let holder = try Holder(
            cluster, database,
            """
            SELECT * FROM tollgate.sessions FOR UPDATE;
            UPDATE tollgate.accounts SET password_carried_at = \(at(5).now.microseconds), tier = 'gold', tier_version = tier_version + 1
            """)
        defer { holder.end() }
        async let linked = store.link(proof, by: caller, at(9))
        async let refreshed = store.refresh(session, 1, at: 9)
        for _ in 0..<100 {
            if try cluster.run(Self.waiting(database)) == "2" { break }
            await Task.yield()
        }
        holder.end(committing: true)
        #expect(try await linked.refusal == nil)
        let account = try #require(try await store.account(caller.user))
        #expect(account.name?.given == "Ada" && account.carried.password == at(5).now)
        guard case .issued(let signIn, _) = try await refreshed else {
            Issue.record("it was not refreshed")
            return
        }
        #expect(signIn.account.entitlement.tier == "gold")
    }

    /// However a client names the account: by its id, an identity, its email in a code's place or a token that was mailed to it.
    @Test func allCallsOfOneAccountHaveOneShareOfTheConnections() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(database)).store
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        let proof = identity(subject: "1", email: try email("ada@x"))
        _ = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(1))
        for number: UInt8 in 1...3 {
            _ = try await store.putResetToken(PendingReset(digest: [number], email: try email("ada@x"), expiresAt: at(600).now))
        }
        let holder = try Holder(cluster, database, "SELECT * FROM tollgate.accounts WHERE email_key = 'ada@x' FOR UPDATE")
        defer { holder.end() }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number: UInt8 in 1...3 {
                for _ in 0..<4 {
                    group.addTask { await fault { _ = try await store.openSession(newSession(), of: ada, at(2)) }?.absence != nil }
                    group.addTask {
                        await fault { _ = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(2)) }?.absence
                            != nil
                    }
                }
                group.addTask {
                    await fault { _ = try await store.resetPassword(digest: [number], hash: "hash", session: newSession(), at(2)) }?.absence
                        != nil
                }
            }
            var most = 0
            for _ in 0..<8 {
                _ = try await store.openSession(newSession(), of: bob, at(2))
                most = max(most, try #require(Int(cluster.run(Self.waiting(database)))))
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect((1...2).contains(most), "of eight connections")
            for _ in 0..<27 { #expect(try await group.next() == true) }
        }
    }

    /// There is nothing to migrate, so the lock is not taken.
    @Test func aStartOverTheNewestSchemaTakesNoLock() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let first = try Bench(url: cluster.url(database)).store
        try await first.prepare()
        let holder = try Holder(cluster, database, "SELECT pg_advisory_xact_lock(\(0x746F_6C6C_6761_7465))")
        defer { holder.end() }
        try await Bench(url: cluster.url(database)).store.prepare()
        // A schema that is not there yet is waited for, and the wait names its cause.
        try cluster.run("DROP SCHEMA tollgate CASCADE", in: database)
        let refusal = await fault { try await Bench(url: cluster.url(database)).store.prepare() }
        #expect(
            refusal?.absence?.contains("pg_terminate_backend") == true && refusal?.absence?.contains("a local socket") == true,
            "\(String(describing: refusal))")
    }

    /// By settings of each transaction.
    @Test func sessionsAreBoundAtTheServer() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(database)).store
        try await store.prepare()
        try cluster.run(
            """
            CREATE TABLE public.seen (lock TEXT, statement TEXT, idle TEXT);
            CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.seen VALUES (current_setting('lock_timeout'), current_setting('statement_timeout'),
                    current_setting('idle_in_transaction_session_timeout'));
                RETURN NULL;
            END $$;
            CREATE TRIGGER see AFTER INSERT ON tollgate.accounts FOR EACH ROW EXECUTE FUNCTION public.see()
            """, in: database)
        _ = try await store.opened("ada@x")
        #expect(try cluster.run("SELECT DISTINCT lock, statement, idle FROM public.seen", in: database) == "3s|4s|2s")
    }
}
