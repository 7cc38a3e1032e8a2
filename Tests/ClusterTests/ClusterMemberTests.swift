import Accounts
import Credentials
import Gate
import MemoryStore
import Storage
import Synchronization
import Testing
import Threads
import Transport
import Wire

@testable import Cluster

/// A change of this gateway's own counts here before the write is answered, by way of the log, and only by that.
@Suite struct ClusterMemberTests {
    /// The updates that workers were sent, in order.
    private final class Updates: Sendable {
        private let all = Mutex<[WorkerUpdate]>([])

        func add(_ update: WorkerUpdate) { all.withLock { $0.append(update) } }

        /// How often a session was told of as ended.
        func ends(of session: UUID) -> Int {
            all.withLock { all in
                all.count { update in
                    if case .ended(let sessions) = update { sessions.contains { $0.id == session.text } } else { false }
                }
            }
        }

        func tiers(of user: UUID) -> [TierStatus] {
            all.withLock { all in
                all.flatMap { update -> [UserTier] in if case .tiers(let users) = update { users } else { [] } }
                    .filter { $0.user == TokenUser(user.text) }.map(\.status)
            }
        }

        var known: [KnownSubject] {
            all.withLock { all in
                all.flatMap { update -> [KnownSubject] in if case .subjects(let known) = update { known } else { [] } }
            }
        }

        var subjects: [SubjectStatus] { known.map(\.status) }
    }

    private let store = MemoryStore()
    private let updates = Updates()
    private let member: ClusterMember

    init() throws { member = try Self.member(store, updates) }

    /// Waits for as long as a busy machine may take, unless a test says otherwise.
    private static func member(_ store: MemoryStore, _ updates: Updates, patience: UInt64 = 600_000) throws -> ClusterMember {
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let tiers = try TierList(["free", "premium"])
        let plan = ClusterPlan(
            scale: TierScale(tiers: tiers, graceSeconds: 0), location: .sqlite(path: "/nonexistent"))
        return try ClusterMember(
            plan, AccountContext(store: store, clock: clock, notice: { _ in }), ClusterEvents(broadcast: { updates.add($0) }),
            patience: patience)
    }

    private func start() async throws {
        try member.start()
        #expect(await member.applied())
    }

    private var audit: AuditContext { AuditContext(now: EventLoop.now().wall, address: nil) }

    private func open(_ number: UInt64) async throws -> (user: UUID, session: UUID) {
        let (user, session) = (UUID(random: (1, number)), UUID(random: (2, number)))
        _ = try await store.open(
            NewAccount(id: user, openedBy: .password, email: try EmailAddress("u\(number)@example.org")),
            session: NewSession(id: session, contract: .password, device: nil), audit)
        return (user, session)
    }

    /// At the start all that stand, and from then on each change, before it is said to count.
    @Test func liveSwitchesAreReadAgainAfterEachChange() async throws {
        let seen = Mutex<[(values: [String], isAnew: Bool)]>([])
        let context = AccountContext(
            store: store, clock: AccountClock(now: { EventLoop.now() }, pause: pause), notice: { _ in })
        let events = ClusterEvents(
            broadcast: { _ in },
            switched: { switches, isAnew in
                seen.withLock { $0.append((switches.map(\.value), isAnew)) }
            })
        let member = try ClusterMember(
            ClusterPlan(scale: TierScale(tiers: try TierList(["free"]), graceSeconds: 0), location: .sqlite(path: "/nonexistent")), context,
            events, patience: 600_000)
        _ = try await store.set("split/feed", to: "10", until: nil, after: nil)
        try member.start()
        defer { member.stop() }
        #expect(await member.applied())
        #expect(seen.withLock { $0.map(\.values) } == [["10"]] && seen.withLock { $0[0].isAnew })
        _ = try await store.set("split/feed", to: "20", until: nil, after: nil)
        store.failReadings(of: .unavailable("it is away"), count: 1)
        #expect(await member.applied())
        #expect(seen.withLock { $0.last?.values } == ["20"] && seen.withLock { $0.last?.isAnew } == false)
        _ = try await open(1)
        let readings = seen.withLock { $0.count }
        #expect(await member.applied())
        #expect(seen.withLock { $0.count } == readings, "no switch was changed")
    }

    @Test func anEndedSessionIsToldOfOnceAndBeforeTheAnswer() async throws {
        let ada = try await open(1), bob = try await open(2)
        try await start()
        _ = try await store.end(ada.session, .signOut, audit)
        await member.changed([])
        #expect(updates.ends(of: ada.session) == 1)
        _ = try await store.end(bob.session, .signOut, audit)
        await member.changed([])
        #expect(updates.ends(of: ada.session) == 1 && updates.ends(of: bob.session) == 1)
        member.stop()
    }

    /// From when it was heard of, should the clock of the gateway that ended it be behind.
    @Test func anEndCountsAsLongAsATokenOfItsContractLives() {
        let (id, day): (UUID, Int64) = (UUID(high: 1, low: 1), 86_400)
        let lives: [(ContractID?, Int64)] = [(.anonymous, 900), (.dlauth, 3_600), (.provider, 3_600), (.password, 7 * day), (nil, 7 * day)]
        for (contract, life) in lives {
            let ended = EndedSession(id: id, of: contract, user: id, endedAt: WallTime(seconds: 30 * day), reason: .signOut)
            #expect(RevokedSession(ended).until == 30 * day + life + 600)
            #expect(RevokedSession(ended, heardAt: 40 * day).until == 40 * day + life + 600)
        }
        let earlier = EndedSession(id: id, user: id, endedAt: WallTime(seconds: 30 * day), reason: .signOut)
        #expect(RevokedSession(earlier).until == 37 * day + 600)
    }

    @Test func aTierIsToldOfAndTheCacheDropsTheAccount() async throws {
        let ada = try await open(1)
        try await start()
        #expect(try await member.cache.account(ada.user)?.entitlement.tier == nil)
        _ = try await store.setTier("premium", until: nil, of: ada.user, audit)
        await member.changed([ada.user])
        #expect(try await member.cache.account(ada.user)?.entitlement.tier == "premium")
        #expect(updates.tiers(of: ada.user).count == 1)
        _ = try await store.delete(ada.user, audit)
        await member.changed([ada.user])
        #expect(updates.tiers(of: ada.user).last == .noAccount)
        #expect(updates.ends(of: ada.session) == 1)
        member.stop()
    }

    @Test func anotherGatewayReadsTheSameLog() async throws {
        let ada = try await open(1)
        let others = Updates()
        let other = try Self.member(store, others)
        try await start()
        try other.start()
        _ = try await store.end(ada.session, .signOut, audit)
        await member.changed([])
        #expect(await other.applied())
        #expect(updates.ends(of: ada.session) == 1 && others.ends(of: ada.session) == 1)
        member.stop()
        other.stop()
    }

    /// Tiers by the list of an earlier configuration never follow the order to forget them.
    @Test func aLookupThatAReloadOvertakesIsRepeated() async throws {
        let ada = try await open(1)
        _ = try await store.setTier("premium", until: nil, of: ada.user, audit)
        let tiers = try TierList(["free", "plus", "premium"])
        let lookups = member.tiers
        store.afterNextCall { lookups.adopt(TierScale(tiers: tiers, graceSeconds: 0), [:]) }
        lookups.lookUp(TokenUser(ada.user.text))
        for _ in 0..<6_000 where updates.tiers(of: ada.user).isEmpty { await pause(milliseconds: 10) }
        #expect(updates.tiers(of: ada.user) == [.tier(try #require(tiers.rank(of: "premium")), until: .max)])
    }

    /// An answer that was read before its account changed is not told after the change.
    @Test func aSubjectWhoseAccountChangesMeanwhileIsLookedUpAgain() async throws {
        let user = UUID(high: 7, low: 7)
        var ada = ImportedAccount()
        ada.id = user
        ada.identities = [IdentityKey(IdentitySource(stored: "django"), stored: "42")]
        _ = try await store.add([ada], newIDs: [user], audit)
        let (store, audit, lookups) = (store, audit, member.subjects)
        store.afterNextCall {
            lookups.changed([user])
            Task { _ = try await store.endSessions(of: user, .revoked, audit) }
        }
        lookups.lookUp(TokenUser("42", of: "django"))
        for _ in 0..<6_000 where updates.subjects.isEmpty { await pause(milliseconds: 10) }
        // The second answer is of before or after the change; the first was not told.
        #expect(updates.subjects.count == 1)
        for _ in 0..<6_000 where updates.subjects.last != .refused {
            lookups.lookUp(TokenUser("42", of: "django"))
            await pause(milliseconds: 10)
        }
        #expect(updates.subjects.last == .refused)
        for name in ["apple", "other"] { lookups.lookUp(TokenUser("42", of: name)) }
        // An answer about the first may come between theirs.
        for _ in 0..<6_000 where updates.subjects.count(where: { $0 == .unknown }) < 2 { await pause(milliseconds: 10) }
        #expect(updates.subjects.count { $0 == .unknown } == 2)
    }

    /// An identity may have been linked after the store was asked, and before workers were told to forget the subject.
    @Test func aSubjectThatIsForgottenMeanwhileIsLookedUpAgain() async throws {
        let (lookups, subject) = (member.subjects, TokenUser("42", of: "django"))
        let changes: [@Sendable () -> Void] = [
            { lookups.forget([subject]) },
            {
                lookups.forgetAll()
                lookups.lookUp(subject)
            },
        ]
        for (number, change) in changes.enumerated() {
            let calls = store.calls
            store.afterNextCall(change)
            lookups.lookUp(subject)
            for _ in 0..<6_000 where updates.subjects.count <= number { await pause(milliseconds: 10) }
            #expect(updates.subjects.count == number + 1 && store.calls == calls + 2)
        }
    }

    /// A store that takes longer to fail than its failure counts would keep a request waiting for as long as it is away.
    @Test func aLateFailureCountsFromItsEnd() async throws {
        let asked = EventLoop.now().wall.seconds
        store.fail([.unavailable("late")])
        store.afterNextCall { while EventLoop.now().wall.seconds < asked + 1 {} }
        member.subjects.lookUp(TokenUser("42", of: "django"))
        for _ in 0..<6_000 where updates.subjects.isEmpty { await pause(milliseconds: 10) }
        let known = try #require(updates.known.first)
        #expect(known.status == .unavailable && known.learnedAt > asked)
    }

    @Test func writersAtOnceEachFindTheirChangeApplied() async throws {
        let opened = try await withThrowingTaskGroup(of: (user: UUID, session: UUID).self) { group in
            for number in 1...300 { group.addTask { try await open(UInt64(number)) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        try await start()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for account in opened {
                group.addTask {
                    _ = try await store.end(account.session, .signOut, audit)
                    await member.changed([])
                    #expect(updates.ends(of: account.session) == 1)
                }
            }
            try await group.waitForAll()
        }
        member.stop()
    }

    @Test func aReadingThatFailsIsRepeatedBeforeTheAnswer() async throws {
        let ada = try await open(1)
        try await start()
        store.failReadings(of: .unavailable("away"), count: 3)
        _ = try await store.end(ada.session, .signOut, audit)
        await member.changed([])
        #expect(updates.ends(of: ada.session) == 1)
        member.stop()
    }

    /// A committed write is answered; its change is applied when the log can be read again.
    @Test func aStoreThatStaysAwayHoldsUpTheAnswerForAWhileOnly() async throws {
        let ada = try await open(1)
        let member = try Self.member(store, updates, patience: 100)
        try member.start()
        while !(await member.applied()) {}
        _ = try await member.cache.account(ada.user)
        store.failReadings(of: .unavailable("away"), count: 60)
        _ = try await store.setTier("premium", until: nil, of: ada.user, audit)
        _ = try await store.end(ada.session, .signOut, audit)
        await member.changed([ada.user])
        #expect(updates.ends(of: ada.session) == 0)
        // Readers of this gateway are not shown the old state, though the cache may still be trusted.
        #expect(try await member.cache.account(ada.user)?.entitlement.tier == "premium")
        while !(await member.applied()) {}
        #expect(updates.ends(of: ada.session) == 1)
        member.stop()
    }

    @Test func withoutPollingNothingIsWaitedFor() async throws {
        let ada = try await open(1)
        await member.changed([ada.user])
        try await start()
        member.stop()
        await member.changed([ada.user])
        #expect(await !member.applied())
    }
}
