import Accounts
import Credentials
import Foundation
import Glibc
import Storage
import TestServers
import Testing
import Wire

/// Acknowledged writes survive the process.
@Suite struct DurabilityTests {
    @Test(arguments: Backend.allCases, [1, 24])
    func aKilledWriterLosesNothingThatWasAcknowledged(_ backend: Backend, writers: Int) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        try await bench.store.prepare()
        for _ in 0..<3 {
            let lines = try Self.linesOfAKilledWriter(bench.location, writers, atLeast: 120 * writers)
            let said = Set(lines)
            for line in lines { try await check(line, said, bench.store) }
        }
    }

    private func check(_ line: String, _ lines: Set<String>, _ store: any AccountStore) async throws {
        let words = line.split(separator: " ").map(String.init)
        guard let id = WireID(parsing: words[1]) else { throw Fault("the writer said \(line)") }
        let isEnded = lines.contains("ended \(id)")
        switch words[0] {
        case "account":
            // It waits for what a server of a database still does for the writer.
            let signIn = try #require(try await store.openSession(newSession(), of: id, at(0)), "\(line)")
            try await checkSteps(of: signIn, lines, store)
        case "counter" where !isEnded:
            // The kill may have come between the end of the session and its line.
            guard let session = try await store.session(id)?.session else {
                #expect(try await store.endedSessions().contains { $0.id == id }, "\(line)")
                return
            }
            #expect(session.counter >= UInt64(words[2]) ?? .max, "\(line)")
        // With the account.
        case "counter", "factor", "codes", "backup", "passkey", "challenge": break
        case "ended":
            #expect(try await store.session(id) == nil, "\(line)")
            #expect(try await store.endedSessions().contains { $0.id == id }, "\(line)")
        case "event":
            // The notification, its purchase and the grant were committed together.
            let purchases = try #require(try await store.storeEvent(id), "\(line)").purchases
            let purchase = try #require(try await store.purchase(purchases[0]))
            let owner = try #require(purchase.account)
            #expect(try await store.standing(of: owner)?.entitlement.purchased.map(\.key) == [purchase.id.text], "\(line)")
        default: Issue.record("the writer said \(line)")
        }
    }

    /// All rows of one step of a second factor or a passkey are there or none is, as are all steps that were acknowledged; a code or challenge
    /// that was taken is not taken again.
    private func checkSteps(of signIn: SignIn, _ lines: Set<String>, _ store: any AccountStore) async throws {
        let caller = CallerSession(user: signIn.account.id, session: try #require(signIn.session?.id))
        let user = caller.user
        let (factor, passkeys) = (try await store.factor(of: user), try await store.passkeys(of: user))
        let kinds = try await store.auditEvents(of: user, before: nil, limit: 50).map(\.kind)
        let isConfirmed = factor?.confirmedAt != nil
        #expect(isConfirmed == kinds.contains(.factorAdded) && signIn.account.passkeys == Int64(passkeys.count))
        for session in try await store.sessions(of: user, now: at(0).now) where session.id != caller.session {
            #expect((session.factorAt != nil) == isConfirmed)
        }
        #expect((factor?.backupCodes ?? 0) == (kinds.contains(.backupCodesMade) ? 2 : 0) - (kinds.contains(.backupCodeUsed) ? 1 : 0))
        for step: Int64 in 1...2 where step <= factor?.lastStep ?? 0 || lines.contains("factor \(user) \(step)") {
            #expect(try await store.prove(.code(step: step, of: user, enrols: true), by: caller, at(0)).refusal == .wrongCode)
        }
        if kinds.contains(.backupCodesMade) || lines.contains("codes \(user)") {
            let isSpent = kinds.contains(.backupCodeUsed) || lines.contains("backup \(user)")
            #expect(try await store.prove(.backup(user.bytes + [0]), by: caller, at(0)).refusal == (isSpent ? .wrongCode : nil))
            #expect(try await store.prove(.backup(user.bytes + [1]), by: caller, at(0)).refusal == nil)
        }
        func proof(_ number: UInt8) -> SpentProof { SpentProof(digest: user.bytes + [number], endsAt: at(300).now) }
        if lines.contains("passkey \(user)") { #expect(passkeys.count == 1) }
        guard let passkey = passkeys.first else { return }
        let other = Passkey(
            credentialID: user.bytes + [1], user: user, publicKey: [1], algorithm: .EdDSA, signCount: 0, isBackupEligible: true,
            isBackedUp: true, aaguid: user, transports: [], name: "p", createdAt: passkey.createdAt)
        #expect(try await store.add(other, by: caller, spending: proof(0), at(0)) == .failure(.challenge))
        let isUsed = passkey.lastUsedAt != nil || lines.contains("challenge \(user)")
        let again = try await store.signIn(passkey, spending: proof(1), session: newSession(), present: nil, at(0))
        #expect((again == .failure(.challenge)) == isUsed)
    }

    /// Starts a writer, kills it once it has said so many lines, and answers all it said.
    private static func linesOfAKilledWriter(_ location: StoreLocation, _ writers: Int, atLeast count: Int) throws -> [String] {
        let url =
            switch location {
            case .sqlite(let path): "sqlite://" + path
            case .postgres(let url, _): url
            }
        let process = Foundation.Process()
        let output = Pipe()
        process.executableURL = URL(filePath: try writer())
        process.arguments = [url, String(writers)]
        process.standardOutput = output
        try process.run()
        var text: [UInt8] = []
        while text.count(where: { $0 == 10 }) < count {
            guard let more = try output.fileHandleForReading.read(upToCount: 4_096), !more.isEmpty else {
                process.waitUntilExit()
                throw Fault("the writer ended by itself with \(process.terminationStatus)")
            }
            text += more
        }
        kill(process.processIdentifier, SIGKILL)
        text += try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The program that a build leaves beside the tests.
    private static func writer() throws -> String {
        let folder = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            .deletingLastPathComponent()
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        for place in [folder, root.appending(path: ".build/debug")] {
            let path = place.appending(path: "StoreWriter").path
            if access(path, X_OK) == 0 { return path }
        }
        throw Fault("StoreWriter is not built")
    }

    /// A program that closes the file as the last one removes the log beside it; it must not take itself for that while
    /// another has the file open.
    @Test func aProcessThatOpensAndClosesTheFileDisturbsNoOther() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let store = bench.store
        for number in 1...3 {
            _ = try await store.opened("user\(number)@x")
            // As many at once as there are connections, and more.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<16 { group.addTask { _ = try await store.accounts(after: nil, limit: 1) } }
                try await group.waitForAll()
            }
            #expect(try Self.countedByAnotherProgram(bench.location) == "\(number)")
        }
    }

    private static func countedByAnotherProgram(_ location: StoreLocation) throws -> String {
        guard case .sqlite(let path) = location else { throw Fault("no file") }
        let script =
            "import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT COUNT(*) FROM accounts').fetchone()[0]); c.close()"
        let process = Foundation.Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script, path]
        process.standardOutput = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test(arguments: Backend.allCases)
    func writesSurviveTheProcess(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let opened = try await bench.store.opened("a@x")
        await bench.store.close()
        let next = try bench.another()
        #expect(try await next.account(opened.account.id) == opened.account)
        #expect(try await next.session(try #require(opened.session?.id))?.session == opened.session)
    }
}

/// The schema, and programs that meet over one database.
@Suite struct SchemaTests {
    @Test(arguments: Backend.allCases)
    func gatewaysThatStartAtOnceAllFindTheSchema(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let gateways = try (0..<8).map { _ in try bench.another() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, gateway) in gateways.enumerated() {
                group.addTask {
                    try await gateway.prepare()
                    _ = try await gateway.opened("user\(number)@x")
                }
            }
            try await group.waitForAll()
        }
        #expect(try await bench.store.accounts(after: nil, limit: 100).count == 8)
        try await bench.store.prepare()
    }

    @Test func aNewerSchemaIsNotTouched() async throws {
        let cluster = try PostgresCluster.shared.get()
        let url = try cluster.newDatabase()
        let database = String(url.split(separator: "/").last ?? "")
        try await Bench(url: url).store.prepare()
        let newest = try cluster.run("SELECT max(version) FROM schema_versions", in: database)
        try cluster.run("INSERT INTO schema_versions VALUES (999)", in: database)
        await #expect(throws: StoreFault.failed("the database is at version 999 and this program knows \(newest): run the newer program")) {
            try await Bench(url: url).store.prepare()
        }
    }

    @Test func aDatabaseFileIsForItsOwnerAlone() async throws {
        let folder = try Folder()
        let bench = try Bench(sqlite: folder)
        defer { bench.end() }
        _ = try await bench.store.opened("a@x")
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    @Test func aFileThatIsNoDatabaseIsReported() async throws {
        let folder = try Folder()
        try Data("not a database, but long enough to be looked at as one".utf8).write(to: URL(filePath: folder.path + "/accounts.db"))
        let bench = try Bench(sqlite: folder)
        defer { bench.end() }
        let refusal = await fault { try await bench.store.prepare() }
        #expect(refusal?.failure?.contains("not a database") == true)
    }

    @Test func aFileThatCannotBeMadeIsUnavailable() async throws {
        let store = try Bench.open(.sqlite(path: "/nonexistent/folder/accounts.db"))
        let refusal = await fault { try await store.prepare() }
        #expect(refusal?.absence?.contains("/nonexistent/folder/accounts.db") == true)
    }

    @Test(arguments: [
        ("sqlite:///data/a.db", StoreLocation.sqlite(path: "/data/a.db")), ("sqlite:///a%20b%C3%A4.db", .sqlite(path: "/a bä.db")),
        ("postgres://u:p@h/d", .postgres(url: "postgres://u:p@h/d")),
        ("postgres://u:a%40b%2Fc?d#@[::1]:5432,h2/d", .postgres(url: "postgres://u:a%40b%2Fc?d#@[::1]:5432,h2/d")),
        ("postgres://h:1,g:/d?user=a@b", .postgres(url: "postgres://h:1,g:/d?user=a@b")),
        ("postgresql:///d?host=/run/a@b", .postgres(url: "postgresql:///d?host=/run/a@b")),
        ("postgresql://h/d?sslmode=require", .postgres(url: "postgresql://h/d?sslmode=require")),
    ])
    func aURLSaysWhere(_ url: String, _ expected: StoreLocation) throws { #expect(try StoreLocation(url: url) == expected) }

    @Test(arguments: [
        "", "sqlite://", "sqlite://data/a.db", "sqlite:///", "sqlite:///a%zz", "sqlite:///a%00", "sqlite:a.db", "mysql://h/d", "/data/a.db",
    ])
    func anythingElseIsRefusedWithoutRepeatingIt(_ url: String) {
        #expect(throws: StoreLocation.Fault.self) { try StoreLocation(url: url) }
    }

    /// libpq would print a part of each password.
    @Test(arguments: [
        ("u:s3cr%zzet@h/d", "write % as %25"), ("u:s3cret%@h/d", "write % as %25"), ("u:s3cr%00et@h", "contains %00"),
        ("u:s3cr@et@127.0.0.1", "write @ as %40"), ("u:s3c@r/et@h/d", "write @ as %40"), ("u:s3c?r@et@h/d", "write @ as %40"),
        ("u:s3cr/et@h/d", "/ as %2F"), ("u:s3cr?/et@h/d", "has a port that is no number"), ("u:p@h:s3cr/d", "has a port that is no number"),
    ])
    func aPasswordThatIsNotEncodedIsRefusedWithoutRepeatingIt(_ rest: String, _ told: String) {
        let fault = #expect(throws: StoreLocation.Fault.self) { try StoreLocation(url: "postgres://" + rest) }
        #expect(fault?.description.contains(told) == true && fault?.description.contains("s3c") == false, "\(fault?.description ?? "")")
    }
}

/// `StoreInspection` of a file.
@Suite struct FileInspectionTests {
    @Test func aLookChangesNothingInTheFolder() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        // A name that means something else in a URL.
        let path = folder.path + "/a ?%41#.db"
        let store = try Bench.open(.sqlite(path: path))
        try await store.prepare()
        let listing = { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
        func look() throws -> StoreInspection {
            let before = try listing()
            let found = try StoreInspection(of: .sqlite(path: path))
            #expect(try listing() == before)
            return found
        }
        let open = try look()
        await store.close()
        #expect(try listing() == ["a ?%41#.db"])
        #expect(try look() == open && open.journalMode == "wal" && open.version == open.newest)
    }

    @Test func aLookMakesNoFile() throws {
        let folder = try Folder()
        defer { folder.remove() }
        #expect(throws: StoreInspection.Fault.self) { try StoreInspection(of: .sqlite(path: folder.path + "/none.db")) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])
    }
}

/// A PostgreSQL server that goes and comes back.
@Suite struct PostgresOutageTests {
    @Test func aServerThatWasAwayIsUsedAgain() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let store = try Bench(url: try cluster.newDatabase()).store
        let user = try await store.opened("a@x").account.id
        try cluster.stop()
        for _ in 0..<5 {
            let refusal = await fault { _ = try await store.account(user) }
            #expect(refusal?.absence?.isEmpty == false)
        }
        try cluster.start()
        let deadline = ContinuousClock.now.advanced(by: .seconds(60))
        var found: Account?
        while found == nil, ContinuousClock.now < deadline {
            do { found = try await store.account(user) } catch { try await Task.sleep(for: .milliseconds(50)) }
        }
        #expect(found?.id == user)
    }

    /// A restart or an impatient firewall closes connections while they idle: no call notices.
    @Test func aConnectionThatWasClosedMeanwhileIsReplaced() async throws {
        let cluster = try PostgresCluster.shared.get()
        let url = try cluster.newDatabase()
        let store = try Bench(url: url).store
        let user = try await store.opened("a@x").account.id
        let database = String(url.split(separator: "/").last ?? "")
        for _ in 0..<5 {
            try cluster.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(database)'")
            let read = try await store.account(user)
            #expect(read?.id == user)
            _ = try await store.setTier("premium", until: nil, of: user, at(1))
        }
        #expect(try await store.standing(of: user)?.entitlement.version == 5)
    }

    @Test func aServerThatIsNowhereIsUnavailable() async throws {
        let store = try Bench.open(StoreLocation(url: "postgres://u:secret@127.0.0.1:1/d"))
        let refusal = await fault { try await store.prepare() }
        #expect(refusal?.absence?.contains("secret") == false)
    }

    @Test func moreCallsThanMayWaitAreToldSo() async throws {
        let store = try Backend.postgres.bench().store
        let session = try await store.opened("a@x").session
        let refusals = await withTaskGroup(of: StoreFault?.self) { group in
            for _ in 0..<3_000 { group.addTask { await fault { _ = try await store.refresh(session, 1, at: 1) } } }
            return await group.reduce(into: [StoreFault?]()) { $0.append($1) }
        }
        #expect(refusals.contains(nil))
        #expect(refusals.allSatisfy { $0 == nil || $0 == .busy("too many calls wait for one row of the database") })
        #expect(try await store.session(try #require(session?.id))?.session?.counter == 2)
    }
}
