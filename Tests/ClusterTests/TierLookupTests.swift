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

/// Tiers of outside issuers' users: who is asked, how often, and what the workers are told.
@Suite struct TierLookupTests {
    /// A tier server that answers when it is told to, and the updates that workers were sent.
    private final class Scene: Sendable {
        struct State {
            var questions: [String] = []
            var waiting: [CheckedContinuation<TierAnswer, Never>] = []
            var updates: [WorkerUpdate] = []
            var problems: [String?] = []
        }

        let state = Mutex(State())

        func ask(_ server: TierServer, _ subject: String) async -> TierAnswer {
            await withCheckedContinuation { continuation in
                state.withLock { state in
                    state.questions.append("\(server.issuer) \(subject)")
                    state.waiting.append(continuation)
                }
            }
        }

        /// Waits for the next question, and answers it.
        func answer(_ answer: TierAnswer) async {
            for _ in 0..<12_000 {
                let next = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
                if let next { return next.resume(returning: answer) }
                await pause(milliseconds: 5)
            }
            Issue.record("no question")
        }

        var questions: [String] { state.withLock { $0.questions } }
        var updates: [WorkerUpdate] { state.withLock { $0.updates } }

        func told(_ count: Int) async -> [UserTier] {
            for _ in 0..<12_000 {
                let told = updates.flatMap { update -> [UserTier] in if case .tiers(let users) = update { users } else { [] } }
                if told.count >= count { return told }
                await pause(milliseconds: 5)
            }
            return []
        }
    }

    private let store = MemoryStore()
    private let scene = Scene()
    private let lookups: TierLookups
    private let scale: TierScale
    private static let premium = Tier(rawValue: 1)
    private static let server = TierServer(url: "http://x/", issuer: "https://asked", maxAgeSeconds: 60)
    private let sources: [String: IssuerTiers] = ["asked": .lookup(Self.server), "kept": .account]

    /// Workers learn why an account's tokens are refused, its attributes and its merges with its tier, pushed or looked up.
    @Test func workersLearnTheMarksOfAnAccount() {
        var standing = AccountStanding(Entitlement(tier: nil, until: nil, version: 3))
        let (user, now) = (TokenUser("u"), WallTime(seconds: 100))
        func marks(_ source: UserTier.Source = .pushed) -> AccountMarks {
            scale.status(of: user, standing: standing, source, at: now).marks
        }
        #expect(marks() == AccountMarks())
        standing.attributes = Attributes(stored: Array(#"{"a":1}"#.utf8))
        standing.ban = Ban(bannedAt: now, until: WallTime(seconds: 200), reason: nil)
        standing.merges = [Merge(from: UUID(high: 1, low: 2), until: WallTime(seconds: 300))]
        let merges = [AnnouncedMerge(from: UUID(high: 1, low: 2), until: 300)]
        let learned = AccountMarks(bar: .banned(until: WallTime(seconds: 200)), attributes: Array(#"{"a":1}"#.utf8), merges: merges)
        #expect(marks() == learned && marks(.lookedUp) == learned)
        standing.isClosed = true
        #expect(marks().bar == .closed)
    }

    init() throws {
        let scene = scene
        scale = TierScale(tiers: try TierList(["free", "premium"]), graceSeconds: 0)
        let clock = AccountClock(now: { EventLoop.now() }, pause: pause)
        let plan = ClusterPlan(
            scale: scale, tierSources: sources, askTier: { await scene.ask($0, $1) }, location: .sqlite(path: "/nonexistent"))
        let context = AccountContext(store: store, clock: clock, notice: { _ in })
        lookups = TierLookups(
            plan, directory: AccountDirectory(context: context), now: clock.now,
            ClusterEvents(
                broadcast: { update in scene.state.withLock { $0.updates.append(update) } },
                report: { report in
                    if case .tierAsked(_, let problem) = report { scene.state.withLock { $0.problems.append(problem) } }
                }))
    }

    private let ada = TokenUser("ada", of: "asked")

    @Test func manyAtOnceAskOnceAndTheAnswerCountsForItsTime() async throws {
        for _ in 0..<100 { lookups.lookUp(ada) }
        lookups.lookUp(TokenUser("bob", of: "asked"))
        let asked = EventLoop.now().wall
        await scene.answer(.tier("premium"))
        await scene.answer(.tier("premium"))
        #expect(await scene.told(2).count == 2)
        #expect(Set(scene.questions) == ["https://asked ada", "https://asked bob"] && scene.questions.count == 2)
        // A worker that has not heard asks again: it is told from the cache.
        lookups.lookUp(ada)
        let told = await scene.told(3)
        #expect(told.count == 3 && scene.questions.count == 2)
        #expect(told[2].status == .tier(Self.premium, until: .max) && told[2].user == ada)
        let until = try #require(told[2].freshUntil)
        #expect((asked.advanced(seconds: 60)...EventLoop.now().wall.advanced(seconds: 60)).contains(until))
    }

    @Test(
        arguments: [("premium", premium), ("gold", .lowest), (nil, .lowest), (String(repeating: "x", count: 10_000), .lowest)]
            as [(String?, Tier)])
    func anUnknownTierIsTheLowest(_ name: String?, _ tier: Tier) async {
        lookups.lookUp(ada)
        await scene.answer(.tier(name))
        #expect(await scene.told(1).first?.status == .tier(tier, until: .max))
    }

    @Test func aKnownTierStaysWhileTheServerFailsAndIsForgottenOnDemand() async throws {
        let short = ["asked": IssuerTiers.lookup(TierServer(url: "http://x/", issuer: "i", maxAgeSeconds: 0))]
        lookups.adopt(scale, short)
        lookups.lookUp(ada)
        await scene.answer(.failed("away", isAway: false))
        #expect(isUnavailable(await scene.told(1).first?.status), "unknown means unavailable")
        lookups.lookUp(ada)
        await scene.answer(.tier("premium"))
        _ = await scene.told(2)
        lookups.lookUp(ada)
        await scene.answer(.failed("away", isAway: false))
        let stale = await scene.told(3).last
        #expect(stale?.status == .tier(Self.premium, until: .max))
        #expect(scene.state.withLock { $0.problems } == ["away", nil, "away"])
        lookups.lookUp(ada)
        #expect(await scene.told(4).count == 4 && scene.questions.count == 3, "not asked again at once")
        lookups.forget([ada])
        #expect(scene.updates.last == .forgetTiers([ada]))
        lookups.lookUp(ada)
        await scene.answer(.failed("away", isAway: false))
        #expect(isUnavailable(await scene.told(5).last?.status), "what is forgotten stays forgotten")
    }

    /// No worker is told the answer to a question from before the change.
    @Test func anAnswerThatAChangeOvertakesIsAskedForAgain() async {
        let orders: [(TierLookups) -> Void] = [
            { $0.forget([ada]) }, { $0.forgetAll() },
            { $0.adopt(scale, ["asked": .lookup(TierServer(url: "http://y/", issuer: "i", maxAgeSeconds: 60))]) },
        ]
        for (number, order) in orders.enumerated() {
            lookups.forget([ada])
            lookups.lookUp(ada)
            for _ in 0..<12_000 where scene.questions.count < 2 * number + 1 { await pause(milliseconds: 5) }
            order(lookups)
            await scene.answer(.tier("premium"))
            await scene.answer(.tier("free"))
            let told = await scene.told(number + 1)
            #expect(told.count == number + 1 && told.last?.status == .tier(.lowest, until: .max))
        }
    }

    /// The same of the answer to another question, such as an introspection's: it is told, but not kept.
    @Test func anAnswerThatAChangeOvertakesIsNotKept() async {
        let orders: [(TierLookups) -> Void] = [
            { $0.forget([ada]) }, { $0.forgetAll() },
            { $0.adopt(scale, ["asked": .lookup(TierServer(url: "http://y/", issuer: "i", maxAgeSeconds: 60))]) },
        ]
        for (number, order) in orders.enumerated() {
            lookups.forget([ada])
            async let early = lookups.tier(of: ada)
            for _ in 0..<12_000 where scene.questions.count < 2 * number + 1 { await pause(milliseconds: 5) }
            order(lookups)
            await scene.answer(.tier("premium"))
            let told = await early
            #expect(told.status == .tier(Self.premium, until: .max))
            lookups.lookUp(ada)
            await scene.answer(.tier("free"))
            #expect(await scene.told(number + 1).last?.status == .tier(.lowest, until: .max))
            #expect(scene.questions.count == 2 * number + 2)
        }
    }

    @Test func ofTwoAnswersTheOneToTheLaterQuestionIsKept() async {
        async let early = lookups.tier(of: ada)
        for _ in 0..<12_000 where scene.questions.count < 1 { await pause(milliseconds: 5) }
        lookups.lookUp(ada)
        for _ in 0..<12_000 where scene.questions.count < 2 { await pause(milliseconds: 5) }
        scene.state.withLock { $0.waiting.swapAt(0, 1) }
        await scene.answer(.tier("free"))
        #expect(await scene.told(1).last?.status == .tier(.lowest, until: .max))
        await scene.answer(.tier("premium"))
        let told = await early
        #expect(told.status == .tier(Self.premium, until: .max))
        #expect(await lookups.tier(of: ada).status == .tier(.lowest, until: .max))
        lookups.lookUp(ada)
        #expect(await scene.told(2).last?.status == .tier(.lowest, until: .max) && scene.questions.count == 2)
    }

    @Test func answersOutliveAReloadThatDoesNotConcernThem() async throws {
        lookups.lookUp(ada)
        await scene.answer(.tier("premium"))
        _ = await scene.told(1)
        lookups.adopt(TierScale(tiers: try TierList(["free", "plus", "premium"]), graceSeconds: 0), sources)
        lookups.lookUp(ada)
        #expect(await scene.told(2).last?.status == .tier(Tier(rawValue: 2), until: .max) && scene.questions.count == 1)
        lookups.adopt(scale, ["kept": .account])
        lookups.lookUp(ada)
        #expect(isUnavailable(await scene.told(3).last?.status), "there is nobody to ask any more")
    }

    @Test func accountsAreFoundByIssuerAndSubjectAlone() async throws {
        let audit = AuditContext(now: EventLoop.now().wall, address: nil)
        let own = UUID(random: (1, 1))
        _ = try await store.open(NewAccount(id: own, openedBy: .password, email: try EmailAddress("a@x")), session: nil, audit)
        _ = try await store.setTier("premium", until: nil, of: own, audit)
        let key = try #require(IdentityKey(IdentitySource(stored: "kept"), subject: "42"))
        _ = try await store.setTier("premium", until: nil, of: key, newUser: UUID(random: (1, 2)), audit)
        func status(_ user: TokenUser) async -> TierStatus? {
            let count = await scene.told(0).count
            lookups.lookUp(user)
            return await scene.told(count + 1).last?.status
        }
        #expect(await status(TokenUser("42", of: "kept")) == .tier(Self.premium, until: .max))
        #expect(await status(TokenUser(own.text)) == .tier(Self.premium, until: .max))
        for subject in [own.text, "43", "", "42 ", "a\nb", String(repeating: "x", count: 4_000)] {
            #expect(await status(TokenUser(subject, of: "kept")) == .noAccount, "\(subject)")
        }
        #expect(await status(TokenUser("42")) == .noAccount)
        store.fail([.unavailable("away")])
        #expect(isUnavailable(await status(TokenUser("42", of: "kept"))), "the store is away")
        #expect(scene.questions.isEmpty)
    }
}

/// The cache of tier servers' answers.
@Suite struct KnownTiersTests {
    private func known(_ name: String?, _ freshUntil: Int64 = 100) -> KnownTier {
        KnownTier(name: name, askedAt: WallTime(seconds: 0), freshUntil: WallTime(seconds: freshUntil))
    }

    private func user(_ number: Int) -> TokenUser { TokenUser("\(number)", of: "asked") }

    @Test func itIsBoundedAndKeepsWhoComesBack() {
        var tiers = KnownTiers(capacity: 1_000)
        tiers.learn(known("premium"), of: user(-1))
        for number in 0..<20_000 {
            tiers.learn(known("free"), of: user(number))
            if number % 100 == 0 {
                let regular = tiers.known(user(-1))?.name
                #expect(regular == "premium")
            }
        }
        #expect(tiers.count <= 1_000)
        let first = tiers.known(user(0))
        #expect(first == nil)
    }

    @Test func aFailureKeepsWhatIsKnownForAWhile() {
        var tiers = KnownTiers(capacity: 10)
        #expect(tiers.failed(user(1), at: WallTime(seconds: 5), isAway: false) == nil)
        tiers.learn(known("premium", 10), of: user(1))
        #expect(tiers.fresh(user(1), at: WallTime(seconds: 9)) != nil)
        #expect(tiers.fresh(user(1), at: WallTime(seconds: 10)) == nil && tiers.known(user(1)) != nil)
        let kept = tiers.failed(user(1), at: WallTime(seconds: 20), isAway: false)
        #expect(kept?.name == "premium" && kept?.freshUntil == WallTime(seconds: 20 + KnownTiers.retrySeconds))
        #expect(tiers.fresh(user(1), at: WallTime(seconds: 21)) != nil)
        tiers.forget(user(1))
        #expect(tiers.failed(user(1), at: WallTime(seconds: 22), isAway: false) == nil)
    }

    /// A server that answers nothing holds up each question until it times out: one such question at a time is enough.
    @Test func aServerThatIsAwayIsNotAskedAboutKnownUsers() {
        var tiers = KnownTiers(capacity: 10)
        let other = TokenUser("1", of: "other")
        for user in [user(1), user(2), other] { tiers.learn(known("premium", 10), of: user) }
        _ = tiers.failed(user(1), at: WallTime(seconds: 20), isAway: false)
        #expect(tiers.fresh(user(2), at: WallTime(seconds: 20)) == nil, "an answer that is no tier says nothing of the next user's")
        _ = tiers.failed(user(3), at: WallTime(seconds: 20), isAway: true)
        #expect(tiers.fresh(user(2), at: WallTime(seconds: 24))?.freshUntil == WallTime(seconds: 25))
        #expect(tiers.fresh(other, at: WallTime(seconds: 20)) == nil && tiers.fresh(user(3), at: WallTime(seconds: 20)) == nil)
        #expect(tiers.fresh(user(2), at: WallTime(seconds: 25)) == nil)
        _ = tiers.failed(user(3), at: WallTime(seconds: 69), isAway: true)
        #expect(
            tiers.fresh(user(2), at: WallTime(seconds: 69)) != nil && tiers.fresh(user(2), at: WallTime(seconds: 70)) == nil,
            "a minute at most")
        _ = tiers.failed(user(3), at: WallTime(seconds: 26), isAway: true)
        tiers.learn(known("free", 100), of: user(4))
        #expect(tiers.fresh(user(2), at: WallTime(seconds: 27)) == nil, "it is back")
        _ = tiers.failed(user(3), at: WallTime(seconds: 28), isAway: true)
        tiers.forget(user(2))
        #expect(tiers.fresh(user(2), at: WallTime(seconds: 28)) == nil)
    }

    @Test func anEntryOfTheOldGenerationIsForgottenToo() {
        var tiers = KnownTiers(capacity: 4)
        for number in 1...3 { tiers.learn(known("premium"), of: user(number)) }
        tiers.forget(user(1))
        let gone = tiers.known(user(1))
        #expect(gone == nil)
        tiers.learn(known(nil), of: user(2))
        let newer = tiers.known(user(2))
        #expect(newer == known(nil))
    }

    /// A deleted account may be imported again with its id, which is not announced.
    @Test func aDeletedAccountIsLookedUpAgainAfterAWhile() throws {
        let scale = TierScale(tiers: try TierList(["free", "premium"]), graceSeconds: 0)
        let now = WallTime(microseconds: 1_700_000_000_900_000)
        #expect(scale.status(of: TokenUser("42"), nil, .pushed, at: now).freshUntil == WallTime(seconds: 1_700_000_010))
        #expect(scale.status(of: TokenUser("42"), Entitlement.none, .pushed, at: now).freshUntil == nil)
        // Tokens without a session name it still.
        for source in [UserTier.Source.pushed, .lookedUp] {
            let gone = scale.status(of: TokenUser("42"), standing: source == .pushed ? nil : .erased, source, at: now)
            let back = scale.status(of: TokenUser("42"), standing: AccountStanding(.none), .pushed, at: now)
            #expect(gone.marks.bar == .closed && gone.freshUntil == WallTime(seconds: 1_700_000_010) && back.marks.bar == nil)
        }
        #expect(scale.status(of: TokenUser("42"), standing: nil, .lookedUp, at: now).marks.bar == nil, "there never was one")
    }

    /// The highest grant is sent with its end, in whole seconds rounded up and with the grace; where a lower one goes on, it is asked for again then.
    @Test func theEndOfAGrantNeedsNoMessage() throws {
        let scale = TierScale(tiers: try TierList(["free", "plus", "premium"]), graceSeconds: 5)
        let (plus, premium) = (Tier(rawValue: 1), Tier(rawValue: 2))
        typealias Row = (operator: String?, purchased: [(String, Int64?)], at: Int64, rank: Tier, until: Int64, freshUntil: Int64?)
        let rows: [Row] = [
            ("plus", [("premium", 100)], 10, premium, 106, 106), (nil, [("premium", 100)], 10, premium, 106, nil),
            ("plus", [("premium", 100)], 105, premium, 106, 106), ("plus", [("premium", 100)], 106, plus, .max, nil),
            ("premium", [("plus", 100)], 10, premium, .max, nil), (nil, [("premium", 100), ("plus", 200)], 10, premium, 106, 106),
            (nil, [("premium", 100), ("plus", 50)], 10, premium, 106, nil),
            (nil, [("premium", 100), ("premium", 200)], 10, premium, 206, nil),
            ("gone", [("premium", 100)], 10, premium, 106, nil), (nil, [("premium", 100)], 300, premium, 106, nil),
            (nil, [], 10, .lowest, .max, nil),
        ]
        for row in rows {
            let purchased = row.purchased.map {
                Grant(source: "apple", key: "k", tier: $0.0, until: $0.1.map { WallTime(microseconds: $0 * 1_000_000 + 900_000) })
            }
            let entitlement = Entitlement(tier: row.operator, until: nil, version: 3, purchased: purchased)
            let now = WallTime(microseconds: row.at * 1_000_000 + 500_000)
            let status = scale.status(of: TokenUser("42"), entitlement, .pushed, at: now)
            #expect(status.status == .tier(row.rank, until: row.until), "\(row)")
            #expect(status.freshUntil == row.freshUntil.map { WallTime(seconds: $0) }, "\(row)")
        }
    }
}

private func isUnavailable(_ status: TierStatus?) -> Bool {
    if case .unavailable? = status { true } else { false }
}
