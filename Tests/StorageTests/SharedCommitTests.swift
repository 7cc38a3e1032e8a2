import Accounts
import Testing

@testable import Storage

/// Writes that wait together share a transaction over SQLite.
@Suite struct SharedCommitTests {
    /// The sessions of so many accounts, and what became of ending each: the calls are made by tasks on the store's thread, which all
    /// wait before it commits. `last` runs there once all are made.
    private func ended(
        _ count: Int, _ bench: Bench, before: () throws -> Void = {}, last: @escaping @Sendable () -> Void = {}
    ) async throws -> [(Session, StoreFault?)] {
        let store = try #require(bench.store as? SQLStore)
        var sessions: [Session] = []
        for number in 0..<count { sessions.append(try #require(try await store.opened("user\(number)@x").session)) }
        try before()
        let open = sessions
        return await withTaskExecutorPreference(store.executor()) {
            await withTaskGroup(of: (Int, StoreFault?).self) { group in
                for (number, session) in open.enumerated() {
                    group.addTask { (number, await fault { _ = try await store.end(session.id, .signOut, at(Int64(number))) }) }
                }
                group.addTask {
                    last()
                    return (0, nil)
                }
                return await group.reduce(into: open.map { ($0, nil) }) { all, one in all[one.0].1 = all[one.0].1 ?? one.1 }
            }
        }
    }

    private func hasEnded(_ session: Session, _ bench: Bench) async throws -> Bool {
        let isListed = try await bench.store.endedSessions().contains { $0.id == session.id }
        #expect(try await (bench.store.session(session.id) == nil) == isListed)
        return isListed
    }

    /// A fault after the first change of a write undoes that write. One that ends the transaction is the answer of all that were in it.
    @Test(arguments: [("ABORT", 5...5), ("ROLLBACK", 1...5)])
    func aWriteThatFailsIsUndoneAlone(_ raised: String, _ failing: ClosedRange<Int>) async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        // It comes after the session is gone and listed.
        let found = try await ended(12, bench) {
            try bench.run(
                """
                CREATE TRIGGER refuses BEFORE INSERT ON audit_events WHEN NEW.kind = '\(AuditEvent.Kind.sessionEnded.rawValue)' AND NEW.account =
                (SELECT id FROM accounts WHERE email_key = 'user4@x') BEGIN SELECT RAISE(\(raised), 'refused by hand'); END
                """)
        }
        for (number, (session, fault)) in found.enumerated() {
            if !failing.contains(number + 1) { #expect(fault == nil, "\(number)") }
            if fault != nil { #expect(fault?.failure?.contains("refused by hand") == true, "\(number): \(fault!)") }
            #expect(try await hasEnded(session, bench) == (fault == nil), "\(number)")
        }
        #expect(found[4].1 != nil)
        #expect(try await bench.store.opened("after@x").session != nil)
    }

    /// More than one transaction has, which wait for a lock that another program keeps.
    @Test(arguments: [false, true]) func eachIsCommittedOnce(_ waits: Bool) async throws {
        let bench = try Backend.sqlite.bench()
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

    /// Steps of one session keep their order: each sees the one before.
    @Test func writesOfOneSessionAreInOrder() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        let session = try #require(try await store.opened("ada@x").session)
        let verdicts = await withTaskExecutorPreference(store.executor()) {
            await withTaskGroup(of: (Int, RefreshVerdict?).self) { group in
                for number in 0..<8 {
                    group.addTask { (number, try? await store.refresh(session, UInt64(number + 1), at: Int64(100 + number)).verdict) }
                }
                return await group.reduce(into: [RefreshVerdict?](repeating: nil, count: 8)) { all, one in all[one.0] = one.1 }
            }
        }
        #expect(verdicts == [RefreshVerdict?](repeating: .rotate, count: 8))
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
