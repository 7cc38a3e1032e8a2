import Accounts
import Credentials
import TestServers
import Testing
import Threads
import Wire

@testable import Storage

/// Writes that wait together share a transaction: all of them over SQLite, those of sessions over PostgreSQL.
@Suite struct SharedCommitTests {
    /// The statements of a trigger that raises a fault at the sign-out of a user, with the reason `refused by hand`.
    private func refusal(_ backend: Backend, _ raised: String, of user: String) -> [String] {
        let (kind, one) = (AuditEvent.Kind.sessionEnded.rawValue, "(SELECT id FROM accounts WHERE email_key = '\(user)')")
        switch backend {
        case .sqlite:
            return [
                """
                CREATE TRIGGER refuses BEFORE INSERT ON audit_events WHEN NEW.kind = '\(kind)' AND NEW.account = \(one)
                BEGIN SELECT RAISE(\(raised), 'refused by hand'); END
                """
            ]
        case .postgres:
            return [
                """
                CREATE FUNCTION public.refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.kind = '\(kind)' AND NEW.account = \(one) THEN RAISE 'refused by hand'; END IF; RETURN NEW; END $$
                """, "CREATE TRIGGER refuses BEFORE INSERT ON tollgate.audit_events FOR EACH ROW EXECUTE FUNCTION public.refuses()",
            ]
        }
    }

    /// How many transactions a PostgreSQL database has committed that wrote.
    private func commits(_ bench: Bench) throws -> Int {
        try #require(Int(try asked("SELECT COUNT(*) FROM commit_marks", bench)))
    }

    /// The sessions of so many accounts, and what became of ending each: the calls are made by tasks on the store's thread, which all
    /// wait before it commits. `last` runs there once all are made.
    private func ended(
        _ count: Int, _ bench: Bench, before: () throws -> Void = {}, last: @escaping @Sendable () -> Void = {}
    ) async throws -> [(Session, StoreFault?)] {
        // It has one thread that writes.
        let store = try #require(bench.location.open(connections: 1, start: WorkerThread.start))
        var sessions: [Session] = []
        for number in 0..<count { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        try before()
        let open = sessions
        return await withTaskExecutorPreference(store.executor()) {
            await withTaskGroup(of: (Int, StoreFault?).self) { group in
                for (number, session) in open.enumerated() {
                    group.addTask {
                        let refusal = await fault {
                            let ended = try await store.end(session.id, .signOut, at(Int64(number)))
                            if ended == nil { throw StoreFault.failed("it had ended before") }
                        }
                        return (number, refusal)
                    }
                }
                group.addTask {
                    last()
                    return (0, nil)
                }
                return await group.reduce(into: open.map { ($0, nil) }) { all, one in all[one.0].1 = all[one.0].1 ?? one.1 }
            }
        }
    }

    /// Refreshes the sessions of so many accounts, each on a device with a new name, in one transaction, which asks for them in this order.
    private func refreshed(_ order: [Int], _ bench: Bench) async throws -> [Session] {
        let store = try #require(bench.location.open(connections: 1, start: WorkerThread.start))
        var sessions: [Session] = []
        for number in order.indices { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        try bench.run(
            """
            CREATE TABLE public.seen (number BIGSERIAL, session BYTEA, lock TEXT);
            CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.seen (session, lock) VALUES (NEW.id, current_setting('lock_timeout'));
                RETURN NULL;
            END $$;
            CREATE TRIGGER see AFTER UPDATE ON tollgate.sessions FOR EACH ROW EXECUTE FUNCTION public.see()
            """)
        let open = sessions
        let verdicts = await withTaskExecutorPreference(store.executor()) {
            await withTaskGroup(of: RefreshVerdict?.self) { group in
                for number in order {
                    var request = RefreshRequest(
                        session: open[number].id, contract: .dlauth, counter: open[number].counter, rule: RefreshRule(graceSeconds: 30))
                    request.deviceName = "Phone \(number)"
                    group.addTask { [request] in try? await store.refresh(request, at(100)).verdict }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        #expect(verdicts.allSatisfy { $0 == .rotate })
        return sessions
    }

    /// The answer of the server of a bench.
    private func asked(_ statement: String, _ bench: Bench) throws -> String {
        guard case .postgres(let url, _) = bench.location, let database = url.split(separator: "/").last else { throw Fault("no server") }
        return try PostgresCluster.shared.get().run(statement, in: String(database))
    }

    /// A device with a new name is noted after the first step, and waits for the row of its account: so none waits longer than 100 ms.
    @Test func noStepOfThemWaitsLong() async throws {
        let bench = try Backend.postgres.bench()
        defer { bench.end() }
        _ = try await refreshed(Array(0..<12), bench)
        #expect(try asked("SELECT COUNT(*), MIN(lock), MAX(lock) FROM public.seen", bench) == "12|100ms|100ms")
    }

    /// Writes of several sessions change them in the order of their ids, however they come: so no two lock them against each other.
    @Test func sessionsAreLockedInOneOrder() async throws {
        let bench = try Backend.postgres.bench()
        defer { bench.end() }
        let sessions = try await refreshed(Array((0..<12).reversed()), bench)
        try await bench.store.confirm(sessions.reversed().map { ConfirmedPair(session: $0.id, counter: $0.counter + 1) })
        try await bench.store.saw(sessions.reversed().map { SessionUse(session: $0.id, at: at(200).now) })
        let ids = sessions.map { "\\x" + $0.id.text.replacing("-", with: "") }
        #expect(
            try asked("SELECT session FROM public.seen ORDER BY number", bench).split(separator: "\n").map(String.init) == ids + ids + ids)
    }

    private func hasEnded(_ session: Session, _ bench: Bench) async throws -> Bool {
        let isListed = try await bench.store.endedSessions().contains { $0.id == session.id }
        #expect(try await (bench.store.session(session.id) == nil) == isListed)
        return isListed
    }

    /// A fault after the first change of a write undoes that write. One that ends the transaction is the answer of all that were in it.
    @Test(arguments: [(Backend.sqlite, "ABORT", 5...5), (.sqlite, "ROLLBACK", 1...5), (.postgres, "", 5...5)])
    func aWriteThatFailsIsUndoneAlone(_ backend: Backend, _ raised: String, _ failing: ClosedRange<Int>) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        // It comes after the session is gone and listed.
        let found = try await ended(12, bench) {
            for statement in refusal(backend, raised, of: "user4@x") { try bench.run(statement) }
        }
        for (number, (session, fault)) in found.enumerated() {
            if !failing.contains(number + 1) { #expect(fault == nil, "\(number)") }
            if fault != nil { #expect(fault?.failure?.contains("refused by hand") == true, "\(number): \(fault!)") }
            #expect(try await hasEnded(session, bench) == (fault == nil), "\(number)")
        }
        #expect(found[4].1 != nil)
        #expect(try await bench.store.opened("after@x").session != nil)
    }

    /// Forty sign-outs over PostgreSQL that wait together are one commit.
    @Test func sessionsShareACommit() async throws {
        let bench = try Backend.postgres.bench()
        defer { bench.end() }
        let before = Noted(0)
        let found = try await ended(40, bench) {
            let number = try commits(bench)
            before.change { $0 = number }
        }
        #expect(found.allSatisfy { $0.1 == nil })
        #expect(try commits(bench) == before.now + 1)
        for (session, _) in found { #expect(try await hasEnded(session, bench)) }
    }

    /// The others that share its transaction do not wait for what another program holds.
    @Test func aHeldSessionIsLeftBehind() async throws {
        let cluster = try PostgresCluster.shared.get()
        let database = try cluster.newDatabaseName()
        let store = try Bench(url: cluster.url(database)).store
        var sessions: [Session] = []
        for number in 0..<12 { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        let held = sessions[3]
        let holder = try HeldLockTests.Holder(
            cluster, database, "SELECT * FROM tollgate.sessions WHERE id = '\\x\(held.id.text.replacing("-", with: ""))' FOR UPDATE")
        let open = sessions
        let order = await withTaskGroup(of: WireID?.self) { group in
            for session in open {
                group.addTask { await fault { _ = try await store.end(session.id, .signOut, at(1)) } == nil ? session.id : nil }
            }
            var order: [WireID?] = []
            while let one = await group.next() {
                order.append(one)
                if order.count == open.count - 1 { holder.end() }
            }
            return order
        }
        // It is refused where the others took longer than a lock is waited for.
        #expect(Set(order.dropLast()) == Set(open.map(\.id)).subtracting([held.id]))
    }

    /// Its outcome is looked up for all of them: each has taken place once.
    @Test(arguments: CommitCutter.Fate.allCases)
    func aSharedCommitInDoubtIsNeitherLostNorDoubled(_ fate: CommitCutter.Fate) async throws {
        let cutter = try CommitCutter(before: try PostgresCluster.shared.get())
        defer { cutter.end() }
        let bench = try Bench(url: cutter.url(try PostgresCluster.shared.get().newDatabaseName()))
        let found = try await ended(12, bench) { cutter.cutNext(fate) }
        #expect(cutter.count == 1)
        #expect(found.allSatisfy { $0.1 == nil }, "\(found.compactMap(\.1))")
        let events = try await bench.store.auditEvents(of: nil, before: nil, limit: 100).filter { $0.kind == .sessionEnded }
        #expect(Set(events.compactMap(\.session)).count == 12 && events.count == 12)
    }

    /// The first try after a commit that is still on its way conflicts, which tells nothing of that one: none of them is made again alone.
    @Test func aConflictDoesNotEndTheDoubt() async throws {
        let cutter = try CommitCutter(before: try PostgresCluster.shared.get())
        defer { cutter.end() }
        let bench = try Bench(url: cutter.url(try PostgresCluster.shared.get().newDatabaseName()))
        let found = try await ended(12, bench) {
            try bench.run(
                """
                CREATE SEQUENCE public.marks;
                CREATE FUNCTION public.conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('public.marks') = 1 THEN RAISE 'the first' USING ERRCODE = '40001'; END IF;
                    RETURN NEW;
                END $$;
                CREATE TRIGGER conflicts BEFORE INSERT ON tollgate.commit_marks FOR EACH ROW EXECUTE FUNCTION public.conflict()
                """)
            cutter.cutNext(.late)
        }
        #expect(cutter.count == 1)
        #expect(found.allSatisfy { $0.1 == nil }, "\(found.compactMap(\.1))")
        #expect(try Int(asked("SELECT last_value FROM public.marks", bench)) ?? 0 > 1)
    }

    /// More than one transaction has, which wait for a lock that another program keeps over SQLite.
    @Test(arguments: [(Backend.sqlite, false), (.sqlite, true), (.postgres, false)])
    func eachIsCommittedOnce(_ backend: Backend, _ waits: Bool) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let other = Noted<WriteLockTests.Other?>(nil)
        let found = try await ended(300, bench) {
            guard waits else { return }
            let holder = try WriteLockTests.Other(bench.location, WriteLockTests.keepsTheLock)
            other.change { $0 = holder }
        } last: {
            other.now?.end()
        }
        #expect(found.allSatisfy { $0.1 == nil })
        let events = try await bench.store.auditEvents(of: nil, before: nil, limit: 1_000).filter { $0.kind == .sessionEnded }
        #expect(Set(events.compactMap(\.session)).count == 300 && events.count == 300)
        #expect(try await bench.store.endedSessions().count == 300)
    }

    /// Steps of one session keep their order: each sees the one before. On a busy machine a thread may begin its step late, so that those
    /// behind it are refused, or the database may not answer in time, so that whether a step was made is not known. No step is made behind
    /// one that was refused; then another session is tried.
    @Test(arguments: Backend.allCases) func writesOfOneSessionAreInOrder(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        var hasSeenAll = false
        for attempt in 0..<20 where !hasSeenAll {
            guard let session = try? await store.opened("ada\(attempt)@x").session else { continue }
            let inOrder = await refreshedInTurn(session, store)
            var isRefused = false
            for (index, outcome) in inOrder.enumerated() {
                switch outcome {
                case .success(.rotate): #expect(!isRefused, "\(index) of \(inOrder)")
                case .success: isRefused = true
                case .failure: #expect(isLate(outcome), "\(index) of \(inOrder)")
                }
            }
            hasSeenAll = inOrder.allSatisfy { if case .success(.rotate) = $0 { true } else { false } }
        }
        #expect(hasSeenAll)
    }

    /// The outcomes of eight refreshes that are begun in this order, each with the counter after the one before.
    private func refreshedInTurn(_ session: Session, _ store: SQLStore) async -> [Result<RefreshVerdict?, any Error>] {
        await withTaskExecutorPreference(store.executor()) {
            let verdicts = await withTaskGroup(of: (Int, Result<RefreshVerdict?, any Error>).self) { group in
                for number in 0..<8 {
                    group.addTask {
                        do {
                            return (number, .success(try await store.refresh(session, UInt64(number + 1), at: Int64(100 + number)).verdict))
                        } catch { return (number, .failure(error)) }
                    }
                }
                return await group.reduce(into: [Int: Result<RefreshVerdict?, any Error>]()) { all, one in all[one.0] = one.1 }
            }
            return (0..<8).compactMap { verdicts[$0] }
        }
    }

    private func isLate(_ outcome: Result<RefreshVerdict?, any Error>) -> Bool {
        guard case .failure(let error) = outcome, let fault = error as? StoreFault else { return false }
        return switch fault {
        case .busy, .unavailable: true
        case .failed, .banned: false
        }
    }

    /// Calls that wait for the lock do not hold up tasks that only read.
    @Test func readingsGoOnWhileAnotherProgramWrites() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        let session = try #require(try await store.opened("ada@x").session)
        try bench.run("UPDATE sessions SET device = 'other'")
        let lock = try WriteLockTests.Other(bench.location, WriteLockTests.keepsTheLock)
        let order = Noted<[String]>([])
        await withTaskExecutorPreference(store.executor()) {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    let refusal = await fault { _ = try await store.end(session.id, .signOut, at(1)) }
                    order.change { $0.append(refusal == nil ? "ended" : "refused") }
                }
                group.addTask {
                    // More parts of tasks than the thread runs without trying to commit.
                    for _ in 0..<200 { await Task.yield() }
                    let device = try? await store.session(session.id)?.session?.device
                    order.change { $0.append("read \(device ?? "nothing")") }
                    lock.end()
                }
            }
        }
        #expect(order.now == ["read other", "ended"])
    }
}
