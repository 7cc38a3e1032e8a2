import Credentials
import Foundation
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

@testable import Accounts

/// Events of accounts go to subscribers at least once, and in the order of each account.
@Suite struct EventDeliveryTests {
    /// A subscriber that refuses the events of some accounts.
    private final class Receiver: Sendable {
        let refused = Mutex<Set<Wire.UUID>>([])
        let status = Mutex(503)
        let taken = Mutex<[AccountEvent]>([])
        let tries = Mutex<[(Wire.UUID, WallTime)]>([])

        func subscriber(_ fixture: AccountsFixture, kinds: Set<AccountEvent.Kind> = Set(AccountEvent.Kind.allCases)) -> EventSubscriber {
            EventSubscriber(name: "crm", kinds: kinds) { [self] event in
                tries.withLock { $0.append((event.account, fixture.clock.now)) }
                if refused.withLock({ $0.contains(event.account) }) { return DeliveryFailure(status: status.withLock { $0 }) }
                // A lease that ends before the round is settled, as on a busy machine, makes the next round send it again.
                taken.withLock { all in if !all.contains(where: { $0.id == event.id }) { all.append(event) } }
                return nil
            }
        }

        var all: [AccountEvent] { taken.withLock { $0 } }
    }

    private struct Bench {
        let fixture: AccountsFixture
        let receiver = Receiver()
        let reports = Reports()
        let delivery: EventDelivery
        var round = EventDelivery.Round()

        final class Reports: Sendable {
            let all = Mutex<[EventReport]>([])
            var parked: Int { all.withLock { $0.count { if case .parked = $0 { true } else { false } } } }
        }

        init() throws {
            fixture = try AccountsFixture()
            let reports = reports
            delivery = EventDelivery(context: fixture.context) { report in reports.all.withLock { $0.append(report) } }
        }

        /// Passes until nothing more is due now. The lease ends by the database's clock: on a busy machine it may have to be taken again.
        mutating func run(_ kinds: Set<AccountEvent.Kind> = Set(AccountEvent.Kind.allCases)) async {
            while await delivery.pass(receiver.subscriber(fixture, kinds: kinds), &round) != EventDelivery.idleMilliseconds {}
        }

        func open() async throws -> Wire.UUID {
            let audit = AuditContext(now: fixture.clock.now, address: nil)
            let new = NewAccount(id: fixture.context.newID(audit.now), openedBy: .anonymous)
            guard case .opened(let account, _) = try await fixture.store.open(new, session: nil, audit) else { return new.id }
            return account.id
        }

        func setTier(_ tier: String, of user: Wire.UUID) async throws {
            _ = try await fixture.store.setTier(tier, until: nil, of: user, AuditContext(now: fixture.clock.now, address: nil))
        }
    }

    @Test func oneAccountsFailureHoldsUpItsOwnEventsAlone() async throws {
        var bench = try Bench()
        await bench.run()
        let (ada, bob) = (try await bench.open(), try await bench.open())
        bench.receiver.refused.withLock { $0 = [ada] }
        for tier in ["plus", "pro"] { for user in [ada, bob] { try await bench.setTier(tier, of: user) } }
        await bench.run()
        #expect(bench.receiver.all.map(\.account) == [bob, bob, bob])
        #expect(bench.receiver.tries.withLock { $0.count { $0.0 == ada } } == 1, "those behind it are not tried")
        try await bench.setTier("max", of: ada)
        bench.fixture.clock.advance(seconds: 5)
        bench.receiver.refused.withLock { $0 = [] }
        await bench.run()
        #expect(bench.receiver.all.filter { $0.account == ada }.map(\.detail) == ["anonymous", "plus", "pro", "max"].map { Optional($0) })
    }

    @Test func whatFailsIsTriedForThreeDaysAndParked() async throws {
        var bench = try Bench()
        await bench.run()
        let ada = try await bench.open()
        bench.receiver.refused.withLock { $0 = [ada] }
        let begin = bench.fixture.clock.now
        while bench.reports.parked == 0 {
            await bench.run()
            bench.fixture.clock.advance(seconds: 1)
            if bench.fixture.clock.now > begin.advanced(seconds: 60) { bench.fixture.clock.advance(seconds: 120) }
        }
        let tries = bench.receiver.tries.withLock { $0.map { $0.1.seconds - begin.seconds } }
        #expect(tries[1] - tries[0] <= 5 && zip(tries, tries.dropFirst()).allSatisfy { $1 - $0 <= 3_600 + 121 })
        #expect(try #require(tries.last) >= 3 * 86_400 && tries.count > 70)
        try await bench.setTier("pro", of: ada)
        bench.receiver.refused.withLock { $0 = [] }
        await bench.run()
        #expect(bench.receiver.all.map(\.kind) == [.tierChanged], "the one behind a parked one goes on")
    }

    @Test func theEventsBehindARefusedOneDoNotStopTheStream() async throws {
        var bench = try Bench()
        await bench.run()
        let ada = try await bench.open()
        bench.receiver.refused.withLock { $0 = [ada] }
        let tiers = (0...DueDeliveries.mostWaiting).map { "t\($0)" }
        for tier in tiers { try await bench.setTier(tier, of: ada) }
        await bench.run()
        let bob = try await bench.open()
        await bench.run()
        #expect(bench.receiver.all.map(\.account) == [bob])
        #expect(try await bench.fixture.store.subscriptions().map(\.waiting) == [1])
        bench.receiver.refused.withLock { $0 = [] }
        bench.fixture.clock.advance(seconds: 60)
        await bench.run()
        #expect(bench.receiver.all.dropFirst().map(\.detail) == ["anonymous"] + tiers, "none is lost")
        #expect(try await bench.fixture.store.subscriptions().map(\.waiting) == [0])
    }

    @Test(arguments: [(503, true), (500, false), (400, false)])
    func aSubscriberThatWasAwayGetsAllAtItsReturn(_ status: Int, _ isAway: Bool) async throws {
        var bench = try Bench()
        bench.receiver.status.withLock { $0 = status }
        await bench.run()
        var users: [Wire.UUID] = []
        for _ in 0..<12 { users.append(try await bench.open()) }
        bench.receiver.refused.withLock { [users] in $0 = Set(users) }
        for _ in 0..<8 {
            await bench.run()
            bench.fixture.clock.advance(seconds: 300)
        }
        bench.receiver.refused.withLock { $0 = [] }
        // A new one is tried at once, while the others would wait for up to an hour.
        let fresh = try await bench.open()
        await bench.run()
        #expect(Set(bench.receiver.all.map(\.account)) == Set((isAway ? users : []) + [fresh]), "what it has refused waits on")
    }

    @Test func kindsThatWereNotAskedForAreNotSent() async throws {
        var bench = try Bench()
        await bench.run([.tierChanged])
        let ada = try await bench.open()
        try await bench.setTier("pro", of: ada)
        await bench.run([.tierChanged])
        #expect(bench.receiver.all.map(\.kind) == [.tierChanged])
        #expect(try await bench.fixture.store.subscriptions().map(\.behind) == [0])
        // Nor are those that waited when the line was changed.
        let bob = try await bench.open()
        bench.receiver.refused.withLock { $0 = [bob] }
        await bench.run()
        try await bench.setTier("max", of: bob)
        bench.receiver.refused.withLock { $0 = [] }
        bench.fixture.clock.advance(seconds: 5)
        await bench.run([.tierChanged])
        #expect(bench.receiver.all.map(\.kind) == [.tierChanged, .tierChanged])
    }

    /// A reload takes the line out while an event is sent, and another puts it back.
    @Test func aLineThatIsPutBackWaitsForTheOneThatWasTakenOut() async throws {
        let fixture = try AccountsFixture()
        var round = EventDelivery.Round()
        let known = EventSubscriber(name: "crm", kinds: Set(AccountEvent.Kind.allCases)) { _ in nil }
        let delivery = EventDelivery(context: fixture.context) { _ in }
        _ = await delivery.pass(known, &round)
        let audit = AuditContext(now: fixture.clock.now, address: nil)
        _ = try await fixture.store.open(
            NewAccount(id: fixture.context.newID(audit.now), openedBy: .anonymous), session: nil, audit)
        let (steps, writer) = AsyncStream<String>.makeStream()
        let isFirst = Mutex(true)
        let slow = EventSubscriber(name: "crm", kinds: known.kinds) { _ in
            writer.yield("begun")
            guard
                isFirst.withLock({ first in
                    defer { first = false }
                    return first
                })
            else { return nil }
            while !Task.isCancelled { await Task.yield() }
            for _ in 0..<10_000 { await Task.yield() }
            writer.yield("ended")
            return DeliveryFailure(reason: "cancelled", isAway: true)
        }
        delivery.adopt([slow])
        delivery.start()
        var seen = steps.makeAsyncIterator()
        #expect(await seen.next() == "begun")
        delivery.adopt([])
        delivery.adopt([slow])
        #expect([await seen.next(), await seen.next()] == ["ended", "begun"])
        delivery.cancel()
        await delivery.ended()
    }

    @Test func oneGatewaySendsAtATime() async throws {
        var bench = try Bench()
        await bench.run()
        var other = EventDelivery.Round()
        let elsewhere = EventDelivery(context: bench.fixture.context) { _ in }
        let pause = await elsewhere.pass(bench.receiver.subscriber(bench.fixture), &other)
        _ = try await bench.open()
        let later = await elsewhere.pass(bench.receiver.subscriber(bench.fixture), &other)
        #expect(pause == 5_000 && later == 5_000 && bench.receiver.all.isEmpty)
        await bench.run()
        #expect(bench.receiver.all.count == 1)
    }

    // MARK: bodies

    @Test func whatTheLogSaysOfPurchasesIsRead() {
        let id = Wire.UUID(high: 1, low: 2)
        for (product, until, isOwned) in [
            ("monthly", WallTime(seconds: 1_800_000_000), true), ("", nil, true), ("a, b until c", nil, false),
            ("x until", WallTime(seconds: 0), false),
        ] as [(String, WallTime?, Bool)] {
            let change = PurchaseChange(id, source: "apple", product: product, state: "active", until: until, isOwned: isOwned)
            #expect(PurchaseChange(change.detail) == change, "\(change.detail)")
        }
        for text in ["", "apple", "apple monthly active", "a b c d"] { #expect(PurchaseChange(text) == nil) }
    }

    /// An event of each kind, with the details that the store writes.
    private static let examples: [AccountEvent] = {
        let (account, session) = (
            Wire.UUID(high: 0x0199_A6C0_2B11_7000, low: 0x8A51_2F0F_5F7C_1D2E), Wire.UUID(high: 0x0199_A6C1_0C4F_7000, low: 1)
        )
        let change = PurchaseChange(
            Wire.UUID(high: 0x0199_A6C2_0000_7000, low: 2), source: "apple", product: "monthly", state: "active",
            until: WallTime(seconds: 1_800_000_000), isOwned: true)
        let details: [(AuditEvent.Kind, String?)] = [
            (.accountOpened, "dlauth"), (.emailConfirmed, nil), (.accountMerged, session.text),
            (.accountClosed, "until 2027-01-15T08:00:00.000Z"),
            (.accountReopened, nil),
            (.accountDeleted, nil), (.accountBanned, "until 2027-01-15T08:00:00.000Z"), (.accountUnbanned, nil), (.signedIn, "password"),
            (.refreshReuse, nil), (.passwordChanged, nil), (.emailChanged, nil), (.phoneChanged, nil), (.identityLinked, "apple"),
            (.identityUnlinked, "apple"), (.tierChanged, "premium"), (.purchaseChanged, change.detail),
        ]
        let ofSessions: Set<AuditEvent.Kind> = [.accountOpened, .accountMerged, .signedIn, .refreshReuse, .passwordChanged]
        return details.compactMap { kind, detail in
            let entry = AuditEvent(
                id: session, kind, at: WallTime(seconds: 0), user: account, session: ofSessions.contains(kind) ? session : nil,
                detail: detail)
            return AccountEvent(entry, position: 1, isNewDevice: kind == .signedIn)
        }
    }()

    @Test func everyKindIsInTheDocsAsItIsSent() throws {
        #expect(Self.examples.map(\.kind) == AccountEvent.Kind.allCases)
        let rows = Self.examples.map { "| `\($0.kind.rawValue)` | `\(String(decoding: $0.data, as: UTF8.self))` |\n" }
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/accounts.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        #expect(text.contains(rows.joined()), "write this table: \(rows.joined())")
        let first = try #require(Self.examples.first)
        let body =
            #"{"type":"account.created","timestamp":"1970-01-01T00:00:00.000Z","data":\#(String(decoding: first.data, as: UTF8.self))}"#
        #expect(String(decoding: first.body, as: UTF8.self) == body)
    }

    // MARK: the hook

    @Test func theHookDecidesOverEachAccountThatIsOpened() async throws {
        let fixture = try AccountsFixture()
        let asked = Mutex<[SignUp]>([])
        let answer = Mutex<SignUpAnswer>(.rejected("No."))
        var context = fixture.context
        context.signUpHook = { signUp in
            asked.withLock { $0.append(signUp) }
            return answer.withLock { $0 }
        }
        let attributes = try Attributes(json: Array(#"{"plan":"trial"}"#.utf8).rawBytes)
        let anonymous = AnonymousAccounts(context: context, mint: fixture.mint, limiter: fixture.limiter)
        let passwords = PasswordAccounts(context: context, mint: fixture.mint, work: fixture.work, limiter: fixture.limiter)
        fixture.providers.offer(.apple, keys: KeySet([fixture.providers.key.verificationKey]))
        let providers = ProviderSignIn(context: context, mint: fixture.mint, keys: fixture.providers, limiter: fixture.limiter)
        let token = try fixture.providers.token(.apple, subject: "7", email: "ada@example.org", at: fixture.clock.now)
        let opens: [@Sendable () async throws -> Account] = [
            { try await anonymous.open(contract: .anonymous, caller: fixture.caller).account },
            {
                let registration = Registration(email: try EmailAddress("bob@example.org"), password: try Password("correct horse 7"))
                return try await passwords.signUp(registration, rules: .strict, contract: .password, caller: fixture.caller).account
            },
            {
                try await providers.signIn(.init(provider: .apple, idToken: token), contract: .provider, caller: fixture.caller).account
            },
        ]
        for (refusal, failure) in [
            (SignUpAnswer.rejected("No."), AccountFailure.rejected("No.")), (.unavailable, .unavailable(retryAfterSeconds: 1)),
        ] {
            answer.withLock { $0 = refusal }
            for open in opens {
                let thrown: AccountFailure?
                do {
                    _ = try await open()
                    thrown = nil
                } catch let failure as AccountFailure {
                    thrown = failure
                } catch AccountError<SignUpRefusal>.failed(let failure) {
                    thrown = failure
                } catch AccountError<ProviderRefusal>.failed(let failure) {
                    thrown = failure
                }
                #expect(thrown == failure)
            }
        }
        #expect(try await fixture.store.accounts(after: nil, limit: 9).isEmpty)
        answer.withLock { $0 = .admitted(attributes) }
        for open in opens { #expect(try await fixture.store.account(open().id)?.attributes == attributes) }
        let count = asked.withLock { $0.count }
        _ = try await opens[2]()
        #expect(asked.withLock { $0.count } == count, "a known identity opens nothing")
        #expect(Set(asked.withLock { $0.map { $0.email?.text } }) == [nil, "ada@example.org", "bob@example.org"])
    }
}
