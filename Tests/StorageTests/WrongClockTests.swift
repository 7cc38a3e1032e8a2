import Accounts
import Credentials
import Glibc
import Testing
import Wire

/// Gateways whose clock is wrong, over a store that others use, or that they use with the right clock later.
@Suite struct WrongClockTests {
    private static let day: Int64 = 86_400

    private func real() -> WallTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(seconds: Int64(time.tv_sec))
    }

    private func audit(_ now: WallTime) -> AuditContext { AuditContext(now: now, address: nil) }

    /// A start, and three days of sweeps.
    @Test(arguments: Backend.allCases)
    func aClockThatIsAheadSweepsNothingThatLives(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let now = real()
        let live = try await store.opened("a@x", at: audit(now))
        let other = try #require(try await store.opened("b@x", at: audit(now)).session)
        let end = try await store.end(other.id, .signOut, audit(now))
        let ended = try #require(end)
        let ahead = now.advanced(seconds: 38 * Self.day)
        try await store.sweep(now: ahead, stride: 0)
        for _ in 0..<72 { try await store.sweep(now: ahead, stride: 7_200) }
        #expect(try await store.session(try #require(live.session?.id)) != nil)
        #expect(try await store.endedSessions() == [ended])
    }

    /// Days later what has expired goes, and sweeps have caught up.
    @Test(arguments: [Backend.sqlite])
    func sweepsCatchUpAfterAGatewayWasDown(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let old = try await store.opened("a@x", contract: .anonymous)
        let late = at(20 * Self.day).now
        try await store.sweep(now: late, stride: 0)
        #expect(try await store.session(try #require(old.session?.id)) != nil)
        for _ in 0..<(14 * 12) { try await store.sweep(now: late, stride: 7_200) }
        #expect(try await store.session(try #require(old.session?.id)) == nil)
    }

    @Test(arguments: Backend.allCases)
    func anEndByAClockThatIsBehindIsListedAsLongAsItsTokensLive(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let now = real()
        let session = try #require(try await store.opened("a@x", contract: .password, at: audit(now)).session)
        try await store.sweep(now: now, stride: 0)
        let behind = audit(now.advanced(seconds: -8 * Self.day))
        _ = try await store.end(session.id, .signOut, behind)
        try await store.sweep(now: now, stride: 7_200)
        let listed = try await store.endedSessions()
        #expect(listed.map(\.id) == [session.id])
        #expect(listed.allSatisfy { $0.endedAt >= now.advanced(seconds: -10) })
        #expect(listed.allSatisfy { $0.expiresAt == $0.endedAt.advanced(seconds: EndedSession.life(of: .password)) })
    }

    /// The first gateway sweeps an empty database at its start.
    @Test func theFirstSweepOfASharedClockIsAFloorForStamps() async throws {
        let bench = try Backend.postgres.bench()
        defer { bench.end() }
        let store = bench.store
        let now = real()
        try await store.sweep(now: now, stride: 0)
        let session = try #require(try await store.opened("a@x", at: audit(now)).session)
        _ = try await store.end(session.id, .signOut, audit(now.advanced(seconds: -38 * Self.day)))
        #expect(try await store.endedSessions().map(\.id) == [session.id])
    }

    @Test(arguments: Backend.allCases)
    func aRefreshByAClockThatIsBehindEndsNoSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let session = try #require(try await store.opened("a@x", at: at(0)).session)
        try await store.sweep(now: at(0).now, stride: 0)
        #expect(try await store.refresh(session, session.counter, at: -38 * Self.day).verdict == .rotate)
        #expect(try await store.refresh(session, session.counter + 1, at: -38 * Self.day + 900).verdict == .rotate)
        #expect(try await store.session(session.id)?.session?.idleDeadline == at(30 * Self.day).now)
    }
}
