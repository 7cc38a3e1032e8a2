import Testing
import Wire

@testable import Gate

/// A limit client with its clock, and words for what happens to it.
private final class Desk {
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

/// What the server answers: so much granted, and of each count so much left or `reset` microseconds until it is full.
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
        let desk = Desk()
        for _ in 0..<5 { #expect(desk.waits(charge)) }
        #expect(desk.waits(other))
        let first = try #require(desk.command())
        let second = try #require(desk.command())
        #expect(desk.command() == nil)
        #expect([first.want, second.want] == [5, 1])
        desk.now += 300
        desk.answer(first, .granting(3, reset: 970_000))
        let verdicts = desk.verdicts()
        #expect(verdicts.map(\.ticket) == [1, 2, 3, 4, 5])
        #expect(verdicts.map(\.verdict.kind) == [.granted, .granted, .granted, .refused, .refused])
        #expect(verdicts.allSatisfy { $0.verdict.source == .redis })
        #expect(verdicts[4].verdict[0] == LimitReading(remaining: 0, reset: 970_000, retryAfter: 70_000))
        desk.answer(second, .granting(1, remaining: 9))
        #expect(desk.verdicts().map(\.ticket) == [6])
    }

    @Test func whatComesMeanwhileFormsTheNextCommand() throws {
        let desk = Desk()
        #expect(desk.waits(charge))
        let first = try #require(desk.command())
        for _ in 0..<3 { #expect(desk.waits(charge)) }
        #expect(desk.command() == nil, "one is under way at a time")
        desk.answer(first, .granting(1, remaining: 8))
        #expect(desk.verdicts().map(\.ticket) == [1])
        #expect(try #require(desk.command()).want == 3)
        #expect(desk.command() == nil)
    }

    @Test func aRefusedCountCostsNoCommandUntilItsExactTime() throws {
        let desk = Desk()
        #expect(desk.waits(charge))
        let sentAt = desk.now
        let command = try #require(desk.command())
        desk.now += 900
        desk.answer(command, .granting(0))
        _ = desk.verdicts()
        for time in [sentAt + 901, sentAt + 50_000, sentAt + 99_999] {
            desk.now = time
            let verdict = try #require(desk.ask(charge).verdict)
            #expect(verdict.kind == .refused && verdict.source == .denyCache)
            let left = sentAt + 100_000 - time
            #expect(verdict[0] == LimitReading(remaining: 0, reset: left + 900_000, retryAfter: left))
        }
        #expect(desk.command() == nil)
        desk.now = sentAt + 100_000
        #expect(desk.waits(charge))
        #expect(desk.command() != nil)
    }

    @Test func theLastGrantSaysWhenTheNextMayPass() throws {
        let desk = Desk()
        #expect(desk.waits(charge))
        desk.answer(try #require(desk.command()), .granting(1))
        #expect(desk.verdicts().map(\.verdict.kind) == [.granted])
        #expect(desk.ask(charge).verdict?.source == .denyCache)
    }

    @Test func whoCameMeanwhileIsRefusedByTheAnswerOfOthers() throws {
        let desk = Desk()
        #expect(desk.waits(charge))
        let command = try #require(desk.command())
        #expect(desk.waits(charge))
        desk.answer(command, .granting(1))
        let verdicts = desk.verdicts()
        #expect(verdicts.map(\.ticket) == [1, 2])
        #expect(verdicts.map(\.verdict.source) == [.redis, .denyCache])
        #expect(desk.command() == nil)
    }

    @Test func oneOfSeveralThatIsRefusedIsEnoughAndWhatIsUnknownIsNotTold() throws {
        let desk = Desk()
        let (user, address) = (try rate("10/s"), try rate("5/s"))
        let first = LimitCharge.of((1, user), (100, address))
        #expect(desk.waits(first))
        let command = try #require(desk.command())
        var reply = Told.granting(0).reply(to: command)
        reply.tats[0] = reply.at + 300_000
        desk.answer(command, reply)
        _ = desk.verdicts()
        let again = try #require(desk.ask(first).verdict)
        #expect(again.kind == .refused && again.tightest == 1)
        #expect(again[0] == LimitReading(remaining: 7, reset: 300_000, retryAfter: 0))
        // Another user of the same address: the address is known, the user is not.
        let another = try #require(desk.ask(LimitCharge.of((2, user), (100, address))).verdict)
        #expect(another.source == .denyCache && !another[0].isKnown && another[1].retryAfter == 200_000)
        #expect(desk.waits(LimitCharge.of((1, user), (101, address))), "the same user elsewhere may pass")
    }

    @Test func whoWaitsTooLongIsJudgedByTheFailureModeAndALateGrantIsLost() throws {
        let desk = Desk { $0.failureMode = .closed }
        #expect(desk.limitClient.nextDeadline == nil)
        #expect(desk.waits(charge))
        let start = desk.now
        let command = try #require(desk.command())
        desk.now += 10_000
        #expect(desk.waits(charge))
        #expect(desk.limitClient.nextDeadline == MonotonicTime(nanoseconds: (start + 25_000) * 1_000))
        desk.now = start + 24_999
        desk.limitClient.expire(desk.time)
        #expect(desk.verdicts().isEmpty)
        desk.now = start + 25_000
        desk.limitClient.expire(desk.time)
        #expect(desk.verdicts().map(\.ticket) == [1])
        desk.now += 5_000
        desk.answer(command, .granting(1, remaining: 3))
        #expect(desk.verdicts().isEmpty, "who came later asks for themselves")
        #expect(try #require(desk.command()).want == 1)
        desk.now = start + 35_000
        desk.limitClient.expire(desk.time)
        #expect(desk.verdicts().map { [$0.ticket, UInt64($0.verdict.retryAfterSeconds)] } == [[2, 1]])
        #expect(desk.limitClient.nextDeadline == nil)
    }

    @Test func grantsOfThoseWhoLeftGoToThoseBehindThem() throws {
        let desk = Desk { $0.failureMode = .closed }
        let tickets = (0..<4).map { _ in desk.ask(charge).ticket }
        let command = try #require(desk.command())
        let later = desk.ask(charge).ticket
        for ticket in [tickets[0], tickets[2], later] { desk.limitClient.cancel(try #require(desk.waits[ticket])) }
        desk.limitClient.cancel(try #require(desk.waits[tickets[0]]))
        desk.answer(command, .granting(1))
        let verdicts = desk.verdicts()
        #expect(verdicts.map(\.ticket) == [tickets[1], tickets[3]])
        #expect(verdicts.map(\.verdict.kind) == [.granted, .refused])
        #expect(desk.command() == nil && desk.limitClient.nextDeadline == nil)
    }

    @Test func aVerdictThatWasNotFetchedCanStillBeCancelled() throws {
        let desk = Desk()
        let tickets = (0..<2).map { _ in desk.ask(charge).ticket }
        desk.answer(try #require(desk.command()), .granting(2, remaining: 3))
        desk.limitClient.cancel(try #require(desk.waits[tickets[0]]))
        #expect(desk.verdicts().map(\.ticket) == [tickets[1]])
        // Its place is another's by now.
        let next = desk.ask(charge).ticket
        desk.limitClient.cancel(try #require(desk.waits[tickets[0]]))
        desk.answer(try #require(desk.command()), .granting(1, remaining: 3))
        #expect(desk.verdicts().map(\.ticket) == [next])
    }

    @Test func aCommandWhoseRequestsHaveLeftIsNotSent() {
        let desk = Desk()
        let ticket = desk.ask(charge).ticket
        let hasCommands = desk.limitClient.hasCommands
        #expect(hasCommands)
        desk.limitClient.cancel(desk.waits[ticket]!)
        #expect(desk.command() == nil)
        #expect(desk.waits(charge))
        #expect(desk.command()?.want == 1)
    }

    @Test func aFailedCommandIsJudgedByTheFailureModeAndTheNextIsSent() throws {
        let desk = Desk { $0.failureMode = .open }
        #expect(desk.waits(charge))
        let command = try #require(desk.command())
        #expect(desk.waits(charge))
        desk.limitClient.failed(command.id, now: desk.time)
        let verdicts = desk.verdicts()
        #expect(verdicts.map(\.ticket) == [1])
        #expect(verdicts[0].verdict == .open)
        #expect(try #require(desk.command()).want == 1)
        // It has ended: neither is heard any more.
        desk.answer(command, .granting(9))
        desk.limitClient.failed(command.id, now: desk.time)
        #expect(desk.verdicts().isEmpty)
    }

    @Test func commandsOfOneCallAreFoundOneBehindTheOther() throws {
        let desk = Desk()
        let charges = try (1...3).map { LimitCharge.of(($0, try rate("10/s"))) }
        for charge in charges { #expect(desk.waits(charge)) }
        let first = try #require(desk.command())
        let second = try #require(desk.command(behind: first))
        let third = try #require(desk.command(behind: second))
        #expect(desk.next(first) == second.id && desk.next(second) == third.id)
        #expect(desk.next(third) == nil)
        desk.answer(first, .granting(1, remaining: 5))
        desk.answer(second, .granting(1, remaining: 5))
        desk.limitClient.failed(third.id, now: desk.time)
        #expect(desk.verdicts().map(\.verdict.source) == [.redis, .redis, .fallback])
        // The next call knows nothing of the one before.
        #expect(desk.waits(charges[0]) && desk.waits(charges[1]))
        let fourth = try #require(desk.command())
        #expect(desk.command() != nil)
        #expect(desk.next(fourth) == nil && desk.next(first) == nil)
    }

    @Test func whileTheStoreIsAwayNobodyWaits() throws {
        let desk = Desk { $0.failureMode = .closed }
        #expect(desk.waits(charge) && desk.waits(other))
        let command = try #require(desk.command())
        #expect(desk.waits(charge))
        desk.limitClient.storeFailed(desk.time)
        #expect(desk.verdicts().map(\.verdict.kind) == [.closed, .closed, .closed])
        #expect(desk.command() == nil)
        #expect(desk.ask(charge).verdict?.kind == .closed)
        desk.limitClient.failed(command.id, now: desk.time)
        desk.limitClient.storeRecovered()
        #expect(desk.waits(charge))
        #expect(desk.command()?.want == 1)
    }

    @Test func whatWasRefusedBeforeStaysRefusedWhileTheStoreIsAway() throws {
        let desk = Desk { $0.failureMode = .open }
        #expect(desk.waits(charge))
        desk.answer(try #require(desk.command()), .granting(0))
        desk.limitClient.storeFailed(desk.time)
        #expect(desk.ask(charge).verdict?.source == .denyCache)
        #expect(desk.ask(other).verdict == .open)
    }

    /// The local count knows what Redis granted here, so that its failure is no second burst.
    @Test func theLocalCountIsWarm() throws {
        let desk = Desk()
        desk.limitClient.gatewayCountChanged(2)
        for _ in 0..<3 { #expect(desk.waits(charge)) }
        desk.answer(try #require(desk.command()), .granting(3, remaining: 7))
        _ = desk.verdicts()
        desk.limitClient.storeFailed(desk.time)
        // Half of the burst of ten, less the three.
        let kinds = (0..<4).map { _ in desk.ask(charge).verdict }
        #expect(kinds.map { $0?.kind } == [.granted, .granted, .refused, .refused])
        #expect(kinds.allSatisfy { $0?.source == .fallback })
        #expect(kinds[3]?[0].retryAfter == 200_000)
    }

    @Test func whatWasGrantedBeforeRunsDownAtTheShareOfTheRate() throws {
        let desk = Desk()
        desk.limitClient.gatewayCountChanged(2)
        for _ in 0..<3 { #expect(desk.waits(charge)) }
        desk.answer(try #require(desk.command()), .granting(3, remaining: 7))
        _ = desk.verdicts()
        desk.now += 400_000
        desk.limitClient.storeFailed(desk.time)
        // Half of the burst of ten, less the one of the three that is left.
        let kinds = (0..<6).map { _ in desk.ask(charge).verdict?.kind }
        #expect(kinds == [.granted, .granted, .granted, .granted, .refused, .refused])
    }

    /// A server that says what cannot be must not bring the gateway down, nor forbid more than a burst.
    @Test func absurdGrantsCountAsOneBurst() throws {
        let desk = Desk()
        let slow = LimitCharge.of((7, try rate("2/d")))
        desk.limitClient.gatewayCountChanged(.max)
        #expect(desk.waits(slow))
        desk.answer(try #require(desk.command()), .granting(.max, remaining: 1))
        _ = desk.verdicts()
        desk.limitClient.gatewayCountChanged(1)
        desk.limitClient.storeFailed(desk.time)
        #expect(desk.ask(slow).verdict?.kind == .refused)
        desk.now += 86_400_000_000
        #expect(desk.ask(slow).verdict?.kind == .granted)
    }

    /// All gateways together, each by its share, keep the bound while Redis is away.
    @Test(arguments: [1, 2, 3, 7] as [UInt32])
    func sharesAddUpToTheLimit(_ gateways: UInt32) throws {
        let rate = try rate("20/s+burst=10")
        let charge = LimitCharge.of((1, rate))
        let desks = (0..<gateways).map { _ in Desk() }
        for desk in desks {
            desk.limitClient.gatewayCountChanged(gateways)
            desk.limitClient.storeFailed(desk.time)
        }
        var random = SplitMix64(seed: UInt64(gateways))
        var admitted: [UInt64] = []
        var now: UInt64 = 60_000_000
        for _ in 0..<6_000 {
            now += random.next() % 2_000
            let desk = desks[Int(random.next() % UInt64(gateways))]
            desk.now = now
            if desk.ask(charge).verdict?.kind == .granted { admitted.append(now) }
        }
        #expect(keepsItsBound(admitted, burst: 10, count: 20, windowSeconds: 1))
        #expect(admitted.count > 90)
    }

    @Test func aBurstOfOneIsNotDividedAway() throws {
        let share = try rate("10/m+burst=2").share(of: 5)
        #expect(share.burst == 1 && share.interval == 30_000_000)
        #expect(try rate("10/m").share(of: 0) == rate("10/m"))
    }

    @Test func whatDoesNotFitIsJudgedByTheFailureMode() throws {
        let desk = Desk {
            $0.failureMode = .closed
            $0.waiters = 3
            $0.queues = 2
        }
        let third = LimitCharge.of((3, try rate("10/s")))
        #expect(desk.waits(charge) && desk.waits(other))
        #expect(desk.ask(third).verdict?.kind == .closed)
        #expect(desk.waits(charge))
        #expect(desk.ask(charge).verdict?.kind == .closed)
        let commands = [desk.command(), desk.command()].compactMap { $0 }
        for command in commands { desk.answer(command, .granting(command.want, remaining: 5)) }
        #expect(desk.verdicts().count == 3)
        #expect(desk.waits(third))
    }

    @Test func thousandsOfCountsAtATimeFindTheirQueues() throws {
        let desk = Desk()
        let rate = try rate("10/s")
        for number in 0..<8_000 as Range<UInt64> { #expect(desk.waits(.of((number % 4_000, rate)))) }
        var commands: [LimitCommand] = []
        while let command = desk.command() { commands.append(command) }
        #expect(commands.count == 4_000)
        #expect(commands.allSatisfy { $0.want == 2 })
        for command in commands { desk.answer(command, .granting(1)) }
        #expect(desk.verdicts().filter { $0.verdict.kind == .granted }.count == 4_000)
        #expect(desk.limitClient.nextDeadline == nil)
    }
}

@Suite struct LimitLeaseTests {
    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    /// A desk whose count is hot and has just been granted `extra` more than was waited for.
    private func leased(_ charge: LimitCharge, _ desk: Desk) throws -> LimitCommand {
        for _ in 0..<20 { #expect(desk.waits(charge)) }
        desk.answer(try #require(desk.command()), .granting(20, remaining: 800))
        #expect(desk.waits(charge))
        let command = try #require(desk.command())
        desk.answer(command, .granting(command.want, remaining: 780))
        _ = desk.verdicts()
        return command
    }

    @Test func aHotCountIsGrantedInAdvanceAndSpentUntilTheLeaseEnds() throws {
        let desk = Desk()
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let command = try leased(charge, desk)
        // Three quarters of the 21 requests of the last 100 ms, and the one that waited.
        #expect(command.want == 16)
        let sentAt = desk.now
        desk.now = sentAt + 99_999
        for left in (0..<14).reversed() as ReversedCollection<Range<UInt32>> {
            let verdict = try #require(desk.ask(charge).verdict)
            #expect(verdict.kind == .granted && verdict.source == .lease)
            #expect(verdict[0].remaining >= left)
        }
        desk.now = sentAt + 100_000
        #expect(desk.waits(charge), "the fifteenth has died")
        #expect(desk.command() != nil)
    }

    @Test func whatIsStoredIsSmallerByTheLease() throws {
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
        let desk = Desk()
        let cold = LimitCharge.of((1, try rate("1000/s+lease")))
        for _ in 0..<6 {
            #expect(desk.waits(cold))
            let command = try #require(desk.command())
            #expect(command.want == 1)
            desk.answer(command, .granting(1, remaining: 800))
            desk.now += 50_000
        }
        let exact = LimitCharge.of((2, try rate("1000/s")))
        let mixed = LimitCharge.of((3, try rate("1000/s+lease")), (4, try rate("1000/s")))
        for charge in [exact, mixed] {
            for _ in 0..<3 {
                for _ in 0..<20 { #expect(desk.waits(charge)) }
                let command = try #require(desk.command())
                #expect(command.want == 20)
                desk.answer(command, .granting(20, remaining: 800))
            }
        }
    }

    @Test func leasesAreAShareOfWhatIsLeft() throws {
        let desk = Desk { $0.workers = 2 }
        desk.limitClient.gatewayCountChanged(5)
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let wants = try [100, 60, 39, 3].map { (remaining: UInt32) in
            for _ in 0..<20 { #expect(desk.waits(charge)) }
            let command = try #require(desk.command())
            desk.answer(command, .granting(20, remaining: UInt64(remaining)))
            return command.want - 20
        }
        // Before the first answer nothing is known; then a half of it among ten holders, and never a lease of one.
        #expect(wants == [0, 5, 3, 0])
    }

    @Test func whatNobodyTookOfAnAnswerIsHeld() throws {
        let desk = Desk()
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        let tickets = (0..<3).map { _ in desk.ask(charge).ticket }
        let command = try #require(desk.command())
        #expect(desk.waits(charge))
        for ticket in tickets { desk.limitClient.cancel(try #require(desk.waits[ticket])) }
        desk.answer(command, .granting(3, remaining: 800))
        #expect(desk.verdicts().map(\.verdict.source) == [.lease])
        #expect(desk.ask(charge).verdict?.source == .lease)
        #expect(desk.ask(charge).verdict?.source == .lease)
        #expect(desk.waits(charge))
    }

    @Test func aLeaseOutlastsTheStore() throws {
        let desk = Desk { $0.failureMode = .closed }
        let charge = LimitCharge.of((1, try rate("1000/s+lease")))
        _ = try leased(charge, desk)
        desk.limitClient.storeFailed(desk.time)
        #expect(desk.ask(charge).verdict?.source == .lease)
        desk.now += 100_000
        #expect(desk.ask(charge).verdict?.kind == .closed)
    }

    @Test func idleQueuesMakeRoomForOthers() throws {
        let desk = Desk {
            $0.failureMode = .closed
            $0.queues = 4
        }
        let rate = try rate("1000/s+lease")
        for number in 0..<40 as Range<UInt64> {
            #expect(desk.waits(.of((number, rate))))
            desk.answer(try #require(desk.command()), .granting(1, remaining: 9))
        }
        #expect(desk.verdicts().count == 40)
    }
}

@Suite struct GatewayCensusTests {
    private static let timed = GatewayHeartbeat.source(clock: "local now = tonumber(ARGV[3])")

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
        #expect(try count(3, start + 6_000) == 1)
        #expect(try #require(try link.ask("PTTL", "tollgate:gateways").integer) > 4_000)
        // A clock that went back by an hour, and a key that holds something else.
        #expect(try count(4, start - 3_600_000) == 1)
        for foreign in [["SET", "tollgate:gateways", "x"], ["RPUSH", "tollgate:gateways", "x"]] {
            try link.ask("DEL", "tollgate:gateways")
            try link.ask(foreign)
            #expect(try count(1, start) == 1)
            #expect(try count(2, start) == 2)
        }
        #expect(GatewayHeartbeat.gateways(try link.ask(["EVAL", GatewayHeartbeat.source, "1"] + words(7)).integer) == 1)
    }

    @Test(arguments: [nil, 0, -1, 1 << 40] as [Int64?]) func whatIsNoCountIsNone(_ reply: Int64?) {
        #expect(GatewayHeartbeat.gateways(reply) == nil)
    }
}
