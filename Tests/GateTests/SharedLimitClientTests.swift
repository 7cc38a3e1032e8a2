@testable import Limits
import Testing
import Wire

@testable import Gate

/// A limit client with its clock, and short names for its events.
private final class LimitClientHarness {
    var limitClient: SharedLimitClient
    let limiter = SharedLimiter(capacity: 256, hash: KeyedHash(first: 1, second: 2))
    /// Microseconds.
    var now: UInt64 = 50_000_000
    private var nextTicket: UInt64 = 0
    private(set) var waits: [UInt64: LimitWait] = [:]

    init(_ change: (inout SharedLimitClient.Settings) -> Void = { _ in }) {
        var settings = SharedLimitClient.Settings()
        change(&settings)
        limitClient = SharedLimitClient(settings, limiter: limiter)
    }

    var time: MonotonicTime { MonotonicTime(nanoseconds: now * 1_000) }

    /// The verdict, or the ticket under which it will come.
    func ask(_ charge: LimitCharge) -> (verdict: LimitVerdict?, ticket: UInt64) {
        nextTicket += 1
        var charge = charge
        var verdict = LimitVerdict()
        let wait = limitClient.charge(&charge, ticket: nextTicket, now: time, into: &verdict)
        waits[nextTicket] = wait
        return (wait == nil ? verdict : nil, nextTicket)
    }

    func waits(_ charge: LimitCharge) -> Bool { ask(charge).verdict == nil }

    func command(behind previous: LimitCommand? = nil) -> LimitCommand? {
        var command = LimitCommand()
        return limitClient.nextCommand(time, behind: previous?.id, into: &command) ? command : nil
    }

    /// The command that goes in one call with `command`, behind it.
    func next(_ command: LimitCommand) -> UInt64? { limitClient.inFlight(command.id)?.next }

    func answer(_ command: LimitCommand, _ told: Told) { answer(command, told.reply(to: command)) }

    func answer(_ command: LimitCommand, _ reply: GCRAReply) {
        var reply = reply
        limitClient.answered(command.id, &reply, now: time)
    }

    func verdicts() -> [(ticket: UInt64, verdict: LimitVerdict)] {
        var found: [(ticket: UInt64, verdict: LimitVerdict)] = []
        var verdict = LimitVerdict()
        while let ticket = limitClient.nextVerdict(into: &verdict) { found.append((ticket, verdict)) }
        return found
    }
}

/// A reply: the grants, and per count what remains or `reset` microseconds until the full burst.
private struct Told {
    var granted: UInt32
    var remaining: UInt64 = 0
    var reset: UInt64?

    static func granting(_ granted: UInt32, remaining: UInt64 = 0, reset: UInt64? = nil) -> Told {
        Told(granted: granted, remaining: remaining, reset: reset)
    }

    func reply(to command: LimitCommand) -> GCRAReply {
        var reply = GCRAReply()
        reply.granted = granted
        reply.at = 1_700_000_000_000_000
        for index in 0..<command.charge.count {
            let rate = command.charge[index].rate
            reply.tats[index] = reply.at + (reset ?? rate.storedTolerance - min(rate.storedTolerance, remaining * rate.interval))
        }
        return reply
    }
}

@Suite struct SharedLimitClientTests {
    private let charge: LimitCharge
    private let other: LimitCharge

    init() throws {
        charge = .of((1, try #require(LimitRate(parsing: "10/s"))))
        other = .of((2, try #require(LimitRate(parsing: "10/s"))))
    }

    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    @Test func requestsOfOneTurnAreOneCommandAndGrantsGoInOrder() throws {
        let harness = LimitClientHarness()
        for _ in 0..<5 { #expect(harness.waits(charge)) }
        #expect(harness.waits(other))
        let first = try #require(harness.command())
        let second = try #require(harness.command())
        #expect(harness.command() == nil)
        #expect([first.want, second.want] == [5, 1])
        harness.now += 300
        harness.answer(first, .granting(3, reset: 970_000))
        let verdicts = harness.verdicts()
        #expect(verdicts.map(\.ticket) == [1, 2, 3, 4, 5])
        #expect(verdicts.map(\.verdict.kind) == [.granted, .granted, .granted, .refused, .refused])
        #expect(verdicts.allSatisfy { $0.verdict.source == .redis })
        #expect(verdicts[4].verdict[0] == LimitReading(remaining: 0, reset: 970_000, retryAfter: 70_000))
        harness.answer(second, .granting(1, remaining: 9))
        #expect(harness.verdicts().map(\.ticket) == [6])
    }

    @Test func requestsDuringACommandFormTheNextOne() throws {
        let harness = LimitClientHarness()
        #expect(harness.waits(charge))
        let first = try #require(harness.command())
        for _ in 0..<3 { #expect(harness.waits(charge)) }
        #expect(harness.command() == nil, "one is under way at a time")
        harness.answer(first, .granting(1, remaining: 8))
        #expect(harness.verdicts().map(\.ticket) == [1])
        #expect(try #require(harness.command()).want == 3)
        #expect(harness.command() == nil)
    }

    /// A second of requests with counts of their own, 1,000 in 25 ms, before the first reply comes: none is judged unasked.
    @Test func latenessOfRedisLeavesRoomForOtherCounts() throws {
        let harness = LimitClientHarness { $0.fit(deadline: 25, responseTimeout: 1_000) }
        let rate = try rate("10/s")
        var (asked, commands) = (0, 0)
        for number in 0..<40_000 {
            if harness.waits(.of((UInt64(100 + number), rate))) { asked += 1 }
            if harness.command() != nil { commands += 1 }
            guard number % 1_000 == 999 else { continue }
            harness.now += 25_000
            harness.limitClient.expire(harness.time)
            _ = harness.verdicts()
        }
        #expect(asked == 40_000 && commands == 40_000)
    }

    @Test func aRefusedCountCostsNoCommandUntilItsExactTime() throws {
        let harness = LimitClientHarness()
        #expect(harness.waits(charge))
        let sentAt = harness.now
        let command = try #require(harness.command())
        harness.now += 900
        harness.answer(command, .granting(0))
        _ = harness.verdicts()
        for time in [sentAt + 901, sentAt + 50_000, sentAt + 99_999] {
            harness.now = time
            let verdict = try #require(harness.ask(charge).verdict)
            #expect(verdict.kind == .refused && verdict.source == .denyCache)
            let left = sentAt + 100_000 - time
            #expect(verdict[0] == LimitReading(remaining: 0, reset: left + 900_000, retryAfter: left))
        }
        #expect(harness.command() == nil)
        harness.now = sentAt + 100_000
        #expect(harness.waits(charge))
        #expect(harness.command() != nil)
    }

    @Test func theLastGrantSaysWhenTheNextMayPass() throws {
        let harness = LimitClientHarness()
        #expect(harness.waits(charge))
        harness.answer(try #require(harness.command()), .granting(1))
        #expect(harness.verdicts().map(\.verdict.kind) == [.granted])
        #expect(harness.ask(charge).verdict?.source == .denyCache)
    }

    @Test func requestsDuringACommandAreRefusedByItsReply() throws {
        let harness = LimitClientHarness()
        #expect(harness.waits(charge))
        let command = try #require(harness.command())
        #expect(harness.waits(charge))
        harness.answer(command, .granting(1))
        let verdicts = harness.verdicts()
        #expect(verdicts.map(\.ticket) == [1, 2])
        #expect(verdicts.map(\.verdict.source) == [.redis, .denyCache])
        #expect(harness.command() == nil)
    }

    @Test func oneCachedRefusalIsEnoughAndUnreadCountsAreNotReported() throws {
        let harness = LimitClientHarness()
        let (user, address) = (try rate("10/s"), try rate("5/s"))
        let first = LimitCharge.of((1, user), (100, address))
        #expect(harness.waits(first))
        let command = try #require(harness.command())
        var reply = Told.granting(0).reply(to: command)
        reply.tats[0] = reply.at + 300_000
        harness.answer(command, reply)
        _ = harness.verdicts()
        let again = try #require(harness.ask(first).verdict)
        #expect(again.kind == .refused && again.tightest == 1)
        #expect(again[0] == LimitReading(remaining: 7, reset: 300_000, retryAfter: 0))
        // Another user of the same address: the address is known, the user is not.
        let another = try #require(harness.ask(LimitCharge.of((2, user), (100, address))).verdict)
        #expect(another.source == .denyCache && !another[0].isKnown && another[1].retryAfter == 200_000)
        #expect(harness.waits(LimitCharge.of((1, user), (101, address))), "the same user elsewhere may pass")
    }

    @Test func afterTheDeadlineTheFailureModeDecidesAndALateGrantIsLost() throws {
        let harness = LimitClientHarness { $0.failureMode = .closed }
        #expect(harness.limitClient.nextDeadline == nil)
        #expect(harness.waits(charge))
        let start = harness.now
        let command = try #require(harness.command())
        harness.now += 10_000
        #expect(harness.waits(charge))
        #expect(harness.limitClient.nextDeadline == MonotonicTime(nanoseconds: (start + 25_000) * 1_000))
        harness.now = start + 24_999
        harness.limitClient.expire(harness.time)
        #expect(harness.verdicts().isEmpty)
        harness.now = start + 25_000
        harness.limitClient.expire(harness.time)
        #expect(harness.verdicts().map(\.ticket) == [1])
        harness.now += 5_000
        harness.answer(command, .granting(1, remaining: 3))
        #expect(harness.verdicts().isEmpty, "who came later asks for themselves")
        #expect(try #require(harness.command()).want == 1)
        harness.now = start + 35_000
        harness.limitClient.expire(harness.time)
        #expect(harness.verdicts().map { [$0.ticket, UInt64($0.verdict.retryAfterSeconds)] } == [[2, 1]])
        #expect(harness.limitClient.nextDeadline == nil)
    }

    @Test func grantsOfCancelledRequestsGoToTheNextOnes() throws {
        let harness = LimitClientHarness { $0.failureMode = .closed }
        let tickets = (0..<4).map { _ in harness.ask(charge).ticket }
        let command = try #require(harness.command())
        let later = harness.ask(charge).ticket
        for ticket in [tickets[0], tickets[2], later] { harness.limitClient.cancel(try #require(harness.waits[ticket])) }
        harness.limitClient.cancel(try #require(harness.waits[tickets[0]]))
        harness.answer(command, .granting(1))
        let verdicts = harness.verdicts()
        #expect(verdicts.map(\.ticket) == [tickets[1], tickets[3]])
        #expect(verdicts.map(\.verdict.kind) == [.granted, .refused])
        #expect(harness.command() == nil && harness.limitClient.nextDeadline == nil)
    }

    @Test func aVerdictThatWasNotFetchedCanStillBeCancelled() throws {
        let harness = LimitClientHarness()
        let tickets = (0..<2).map { _ in harness.ask(charge).ticket }
        harness.answer(try #require(harness.command()), .granting(2, remaining: 3))
        harness.limitClient.cancel(try #require(harness.waits[tickets[0]]))
        #expect(harness.verdicts().map(\.ticket) == [tickets[1]])
        // Its slot has been reused.
        let next = harness.ask(charge).ticket
        harness.limitClient.cancel(try #require(harness.waits[tickets[0]]))
        harness.answer(try #require(harness.command()), .granting(1, remaining: 3))
        #expect(harness.verdicts().map(\.ticket) == [next])
    }

    @Test func aCommandWithOnlyCancelledRequestsIsNotSent() {
        let harness = LimitClientHarness()
        let ticket = harness.ask(charge).ticket
        let hasCommands = harness.limitClient.hasCommands
        #expect(hasCommands)
        harness.limitClient.cancel(harness.waits[ticket]!)
        #expect(harness.command() == nil)
        #expect(harness.waits(charge))
        #expect(harness.command()?.want == 1)
    }

    @Test func aFailedCommandIsJudgedByTheFailureModeAndTheNextIsSent() throws {
        let harness = LimitClientHarness { $0.failureMode = .open }
        #expect(harness.waits(charge))
        let command = try #require(harness.command())
        #expect(harness.waits(charge))
        harness.limitClient.failed(command.id, now: harness.time)
        let verdicts = harness.verdicts()
        #expect(verdicts.map(\.ticket) == [1])
        #expect(verdicts[0].verdict == .open)
        #expect(try #require(harness.command()).want == 1)
        // The command has ended: neither has an effect.
        harness.answer(command, .granting(9))
        harness.limitClient.failed(command.id, now: harness.time)
        #expect(harness.verdicts().isEmpty)
    }

    @Test func commandsOfOneCallAreLinked() throws {
        let harness = LimitClientHarness()
        let charges = try (1...3).map { LimitCharge.of(($0, try rate("10/s"))) }
        for charge in charges { #expect(harness.waits(charge)) }
        let first = try #require(harness.command())
        let second = try #require(harness.command(behind: first))
        let third = try #require(harness.command(behind: second))
        #expect(harness.next(first) == second.id && harness.next(second) == third.id)
        #expect(harness.next(third) == nil)
        harness.answer(first, .granting(1, remaining: 5))
        harness.answer(second, .granting(1, remaining: 5))
        harness.limitClient.failed(third.id, now: harness.time)
        #expect(harness.verdicts().map(\.verdict.source) == [.redis, .redis, .fallback])
        // The next call is not linked to the one before.
        #expect(harness.waits(charges[0]) && harness.waits(charges[1]))
        let fourth = try #require(harness.command())
        #expect(harness.command() != nil)
        #expect(harness.next(fourth) == nil && harness.next(first) == nil)
    }

    @Test func whileRedisIsDownNoRequestWaits() throws {
        let harness = LimitClientHarness { $0.failureMode = .closed }
        #expect(harness.waits(charge) && harness.waits(other))
        let command = try #require(harness.command())
        #expect(harness.waits(charge))
        harness.limitClient.storeFailed(harness.time)
        #expect(harness.verdicts().map(\.verdict.kind) == [.closed, .closed, .closed])
        #expect(harness.command() == nil)
        #expect(harness.ask(charge).verdict?.kind == .closed)
        harness.limitClient.failed(command.id, now: harness.time)
        harness.limitClient.storeRecovered()
        #expect(harness.waits(charge))
        #expect(harness.command()?.want == 1)
    }

    @Test func aWrongReplyRefusesForOneIntervalAtMost() throws {
        let harness = LimitClientHarness()
        let charge = try LimitCharge.of((1, rate("5/s")))
        #expect(harness.waits(charge))
        var reply = GCRAReply()
        (reply.at, reply.tats[0]) = (1_800_000_000_000_000, 1 << 53)
        harness.answer(try #require(harness.command()), reply)
        #expect(harness.verdicts().map(\.verdict.kind) == [.refused])
        #expect(harness.ask(charge).verdict?[0].retryAfter == 200_000)
        harness.now += 200_000
        #expect(harness.waits(charge))
    }

    @Test func theDenyCacheRefusesWhileRedisIsDown() throws {
        let harness = LimitClientHarness { $0.failureMode = .open }
        #expect(harness.waits(charge))
        harness.answer(try #require(harness.command()), .granting(0))
        harness.limitClient.storeFailed(harness.time)
        #expect(harness.ask(charge).verdict?.source == .denyCache)
        #expect(harness.ask(other).verdict == .open)
    }

    /// The local count includes Redis's grants, so that a failure of Redis admits no second burst.
    @Test func theLocalCountStartsFromRedissGrants() throws {
        let harness = LimitClientHarness()
        harness.limitClient.gatewayCountChanged(2)
        for _ in 0..<3 { #expect(harness.waits(charge)) }
        harness.answer(try #require(harness.command()), .granting(3, remaining: 7))
        _ = harness.verdicts()
        harness.limitClient.storeFailed(harness.time)
        // Half of the burst of ten, less the three.
        let kinds = (0..<4).map { _ in harness.ask(charge).verdict }
        #expect(kinds.map { $0?.kind } == [.granted, .granted, .refused, .refused])
        #expect(kinds.allSatisfy { $0?.source == .fallback })
        #expect(kinds[3]?[0].retryAfter == 200_000)
    }

    @Test func earlierGrantsDrainAtTheShareOfTheRate() throws {
        let harness = LimitClientHarness()
        harness.limitClient.gatewayCountChanged(2)
        for _ in 0..<3 { #expect(harness.waits(charge)) }
        harness.answer(try #require(harness.command()), .granting(3, remaining: 7))
        _ = harness.verdicts()
        harness.now += 400_000
        harness.limitClient.storeFailed(harness.time)
        // Half of the burst of ten, less the one of the three that is left.
        let kinds = (0..<6).map { _ in harness.ask(charge).verdict?.kind }
        #expect(kinds == [.granted, .granted, .granted, .granted, .refused, .refused])
    }

    /// An impossible reply must not crash the gateway, nor forbid more than a burst.
    @Test func absurdGrantsCountAsOneBurst() throws {
        let harness = LimitClientHarness()
        let slow = LimitCharge.of((7, try rate("2/d")))
        harness.limitClient.gatewayCountChanged(.max)
        #expect(harness.waits(slow))
        harness.answer(try #require(harness.command()), .granting(.max, remaining: 1))
        _ = harness.verdicts()
        harness.limitClient.gatewayCountChanged(1)
        harness.limitClient.storeFailed(harness.time)
        #expect(harness.ask(slow).verdict?.kind == .refused)
        harness.now += 86_400_000_000
        #expect(harness.ask(slow).verdict?.kind == .granted)
    }

    /// All gateways together, each by its share, keep the bound while Redis is down.
    @Test(arguments: [1, 2, 3, 7] as [UInt32])
    func sharesAddUpToTheLimit(_ gateways: UInt32) throws {
        let rate = try rate("20/s+burst=10")
        let charge = LimitCharge.of((1, rate))
        let desks = (0..<gateways).map { _ in LimitClientHarness() }
        for harness in desks {
            harness.limitClient.gatewayCountChanged(gateways)
            harness.limitClient.storeFailed(harness.time)
        }
        var random = SplitMix64(seed: UInt64(gateways))
        var admitted: [UInt64] = []
        var now: UInt64 = 60_000_000
        for _ in 0..<6_000 {
            now += random.next() % 2_000
            let harness = desks[Int(random.next() % UInt64(gateways))]
            harness.now = now
            if harness.ask(charge).verdict?.kind == .granted { admitted.append(now) }
        }
        #expect(keepsItsBound(admitted, burst: 10, count: 20, windowSeconds: 1))
        #expect(admitted.count > 90)
    }

    @Test func aBurstOfOneIsNotDividedAway() throws {
        let share = try rate("10/m+burst=2").share(of: 5)
        #expect(share.burst == 1 && share.interval == 30_000_000)
        #expect(try rate("10/m").share(of: 0) == rate("10/m"))
    }

    @Test func requestsBeyondTheBoundsAreJudgedByTheFailureMode() throws {
        let harness = LimitClientHarness {
            $0.failureMode = .closed
            $0.waiters = 3
            $0.queues = 2
        }
        let third = LimitCharge.of((3, try rate("10/s")))
        #expect(harness.waits(charge) && harness.waits(other))
        #expect(harness.ask(third).verdict?.kind == .closed)
        #expect(harness.waits(charge))
        #expect(harness.ask(charge).verdict?.kind == .closed)
        let commands = [harness.command(), harness.command()].compactMap { $0 }
        for command in commands { harness.answer(command, .granting(command.want, remaining: 5)) }
        #expect(harness.verdicts().count == 3)
        #expect(harness.waits(third))
    }

    @Test func thousandsOfCountsAtATimeFindTheirQueues() throws {
        let harness = LimitClientHarness()
        let rate = try rate("10/s")
        for number in 0..<8_000 as Range<UInt64> { #expect(harness.waits(.of((number % 4_000, rate)))) }
        var commands: [LimitCommand] = []
        while let command = harness.command() { commands.append(command) }
        #expect(commands.count == 4_000)
        #expect(commands.allSatisfy { $0.want == 2 })
        for command in commands { harness.answer(command, .granting(1)) }
        #expect(harness.verdicts().filter { $0.verdict.kind == .granted }.count == 4_000)
        #expect(harness.limitClient.nextDeadline == nil)
    }
}

@Suite struct LimitLeaseTests {
    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    /// A client whose count is hot and was just granted `extra` more than were waiting.
    private func leased(_ charge: LimitCharge, _ harness: LimitClientHarness) throws -> LimitCommand {
        for _ in 0..<20 { #expect(harness.waits(charge)) }
        harness.answer(try #require(harness.command()), .granting(20, remaining: 800))
        #expect(harness.waits(charge))
        let command = try #require(harness.command())
        harness.answer(command, .granting(command.want, remaining: 780))
        _ = harness.verdicts()
        return command
    }

    @Test func aHotCountIsGrantedInAdvanceAndSpentUntilTheLeaseEnds() throws {
        let harness = LimitClientHarness()
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let command = try leased(charge, harness)
        // Three quarters of the 21 requests of the last 100 ms, and the one that waited.
        #expect(command.want == 16)
        let sentAt = harness.now
        harness.now = sentAt + 99_999
        for left in (0..<14).reversed() as ReversedCollection<Range<UInt32>> {
            let verdict = try #require(harness.ask(charge).verdict)
            #expect(verdict.kind == .granted && verdict.source == .lease)
            #expect(verdict[0].remaining >= left)
        }
        harness.now = sentAt + 100_000
        #expect(harness.waits(charge), "the fifteenth has died")
        #expect(harness.command() != nil)
    }

    @Test func theStoredToleranceIsSmallerByTheLease() throws {
        #expect(try rate("1000/s+lease").leaseTime == 100_000)
        #expect(try rate("1000/s+lease").storedTolerance == 900_000)
        #expect(try rate("1000/s+burst=200+lease").leaseTime == 50_000)
        #expect(try rate("1000/s").leaseTime == 0)
        #expect(try rate("1000/s").storedTolerance == 1_000_000)
        #expect(try rate("10/s+burst=1+lease").leaseTime == 0, "a burst of one has nothing to pay with")
        #expect(try rate("1000/s+burst=10+lease").leaseTime == 0, "shorter than a round trip")
        #expect(try rate("1/h+burst=2+lease").storedTolerance >= rate("1/h").interval)
    }

    @Test func aColdCountAndAnExactOneHaveNoLease() throws {
        let harness = LimitClientHarness()
        let cold = LimitCharge.of((1, try rate("1000/s+lease")))
        for _ in 0..<6 {
            #expect(harness.waits(cold))
            let command = try #require(harness.command())
            #expect(command.want == 1)
            harness.answer(command, .granting(1, remaining: 800))
            harness.now += 50_000
        }
        let exact = LimitCharge.of((2, try rate("1000/s")))
        let mixed = LimitCharge.of((3, try rate("1000/s+lease")), (4, try rate("1000/s")))
        for charge in [exact, mixed] {
            for _ in 0..<3 {
                for _ in 0..<20 { #expect(harness.waits(charge)) }
                let command = try #require(harness.command())
                #expect(command.want == 20)
                harness.answer(command, .granting(20, remaining: 800))
            }
        }
    }

    @Test func leasesAreAShareOfWhatIsLeft() throws {
        let harness = LimitClientHarness { $0.workers = 2 }
        harness.limitClient.gatewayCountChanged(5)
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let wants = try [100, 60, 39, 3].map { (remaining: UInt32) in
            for _ in 0..<20 { #expect(harness.waits(charge)) }
            let command = try #require(harness.command())
            harness.answer(command, .granting(20, remaining: UInt64(remaining)))
            return command.want - 20
        }
        // No lease before the first reply; then half of the remainder among ten holders, and never a lease of one.
        #expect(wants == [0, 5, 3, 0])
    }

    @Test func surplusGrantsBecomeALease() throws {
        let harness = LimitClientHarness()
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let tickets = (0..<3).map { _ in harness.ask(charge).ticket }
        let command = try #require(harness.command())
        #expect(harness.waits(charge))
        for ticket in tickets { harness.limitClient.cancel(try #require(harness.waits[ticket])) }
        harness.answer(command, .granting(3, remaining: 800))
        #expect(harness.verdicts().map(\.verdict.source) == [.lease])
        #expect(harness.ask(charge).verdict?.source == .lease)
        #expect(harness.ask(charge).verdict?.source == .lease)
        #expect(harness.waits(charge))
    }

    @Test func aLeaseIsSpentWhileRedisIsDown() throws {
        let harness = LimitClientHarness { $0.failureMode = .closed }
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        _ = try leased(charge, harness)
        harness.limitClient.storeFailed(harness.time)
        #expect(harness.ask(charge).verdict?.source == .lease)
        harness.now += 100_000
        #expect(harness.ask(charge).verdict?.kind == .closed)
    }

    @Test func idleQueuesMakeRoomForOthers() throws {
        let harness = LimitClientHarness {
            $0.failureMode = .closed
            $0.queues = 4
        }
        let rate = try rate("1000/s+lease")
        for number in 0..<40 as Range<UInt64> {
            #expect(harness.waits(.of((number, rate))))
            harness.answer(try #require(harness.command()), .granting(1, remaining: 9))
        }
        #expect(harness.verdicts().count == 40)
    }
}

@Suite struct GatewayCensusTests {
    /// The script with a fixed time. Its key lives an hour longer, because the server's clock runs on between two calls.
    private static let timed = GatewayHeartbeat.source(
        clock: """
            local now = tonumber(ARGV[3])
            local redis = {pcall = redis.pcall, call = function(command, ...)
              if command == 'PEXPIRE' then return redis.call(command, KEYS[1], ARGV[2] + 3600000) end
              return redis.call(command, ...)
            end}
            """)

    private func words(_ id: UInt64) -> [String] {
        (0..<GatewayHeartbeat.argumentCount).map {
            var out = ByteBuffer()
            GatewayHeartbeat.write($0, id: id, into: &out)
            return out.readable.text
        }
    }

    @Test func gatewaysCountEachOtherWhileTheyLive() throws {
        let server = try RedisServer()
        let link = try server.connect()
        let count = { (id: UInt64, now: UInt64) in
            GatewayHeartbeat.gateways(try link.ask(["EVAL", Self.timed, "1"] + words(id) + ["\(now)"]).integer)
        }
        let start: UInt64 = 1_800_000_000_000
        #expect(try count(1, start) == 1)
        #expect(try count(2, start + 400) == 2)
        #expect(try count(1, start + 1_000) == 2)
        #expect(try count(3, start + 5_399) == 3)
        #expect(try count(3, start + 5_400) == 2)
        let before = try link.time()
        #expect(try count(3, start + 6_000) == 1)
        let life = try #require(try link.ask("PTTL", "tollgate:gateways").integer)
        let passed = Int64(try link.time() - before) / 1_000
        #expect((3_605_000 - passed - 2...3_605_000).contains(life), "its five seconds, and the hour of the test")
        // A clock that was set back by an hour, and a key of another type.
        #expect(try count(4, start - 3_600_000) == 1)
        for foreign in [["SET", "tollgate:gateways", "x"], ["RPUSH", "tollgate:gateways", "x"]] {
            try link.ask("DEL", "tollgate:gateways")
            try link.ask(foreign)
            #expect(try count(1, start) == 1)
            #expect(try count(2, start) == 2)
        }
        #expect(GatewayHeartbeat.gateways(try link.ask(["EVAL", GatewayHeartbeat.source, "1"] + words(7)).integer) == 1)
    }

    /// Otherwise each gateway would believe to be the only one, and admit the whole rate by itself.
    @Test func aServerOutOfMemoryForgetsNoGateway() throws {
        let server = try RedisServer()
        let link = try server.connect()
        let count = { (id: UInt64) in try link.ask(["EVAL", Self.timed, "1"] + words(id) + ["1800000000000"]) }
        #expect(try [1, 2, 3].map { try count($0).integer } == [1, 2, 3])
        try link.ask("CONFIG", "SET", "maxmemory", "1")
        #expect(try GatewayHeartbeat.gateways(count(1).integer) == nil)
        try link.ask("CONFIG", "SET", "maxmemory", "0")
        #expect(try count(1).integer == 3)
    }

    @Test(arguments: [nil, 0, -1, 1 << 40] as [Int64?]) func anInvalidCountIsRejected(_ reply: Int64?) {
        #expect(GatewayHeartbeat.gateways(reply) == nil)
    }
}
