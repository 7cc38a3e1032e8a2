@testable import Limits
import Testing
import Wire

@testable import Gate

/// The bound, under any traffic and delays: over any window of length T all gateways together admit at most
/// burst + rate × T.
@Suite struct SharedLimitBoundTests {
    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    private func expectBounds(_ world: SharedLimitSimulation, _ charges: [LimitCharge], _ note: String = "") {
        var rates: [LimitKey: LimitRate] = [:]
        for charge in charges { for index in 0..<charge.count { rates[charge[index].key] = charge[index].rate } }
        for (key, times) in world.admitted {
            guard let rate = rates[key] else { continue }
            #expect(
                keepsItsBound(times, burst: rate.burst, count: rate.count, windowSeconds: rate.windowSeconds),
                "\(rate.text) admitted \(times.count) \(note)")
        }
        #expect(world.waiting == 0)
    }

    /// Bursts and pauses, spread over the workers.
    private func send(_ world: SharedLimitSimulation, _ charges: [LimitCharge], seconds: Double, meanGap: UInt64) {
        var time = world.now
        let end = time + UInt64(seconds * 1_000_000)
        while time < end {
            time += world.random.next() % 5 == 0 ? world.random.next() % (meanGap * 6) : world.random.next() % meanGap
            let worker = Int(world.random.next() % UInt64(world.workers.count))
            let charge = charges[Int(world.random.next() % UInt64(charges.count))]
            world.arrive(at: time, worker: worker, charge, count: 1 + Int(world.random.next() % 4))
        }
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func exactLimitsKeepTheirBound(_ seed: UInt64) throws {
        let world = SharedLimitSimulation(seed: seed, workers: 4)
        world.delay = { $0.next() % 40 == 0 ? $0.next() % 30_000 : 30 + $0.next() % 2_000 }
        let charges: [LimitCharge] = try [.of((1, rate("50/s+burst=20"))), .of((2, rate("10/s+burst=3"))), .of((3, rate("300/s")))]
        send(world, charges, seconds: 4, meanGap: 4_000)
        world.run()
        expectBounds(world, charges)
        #expect(world.wrongRefusals == 0)
        #expect(world.admitted.values.map(\.count).reduce(0, +) > 300)
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func severalLimitsKeepTheirBounds(_ seed: UInt64) throws {
        let world = SharedLimitSimulation(seed: seed, workers: 3)
        world.delay = { 30 + $0.next() % 3_000 }
        let address = try (100 as UInt64, rate("60/s+burst=30"))
        let charges = try (1...4).map {
            LimitCharge.of(($0, try rate("20/s+burst=6")), address, (200 + $0 % 2, try rate("500/m+burst=80")))
        }
        send(world, charges, seconds: 4, meanGap: 6_000)
        world.run()
        expectBounds(world, charges)
        #expect(world.wrongRefusals == 0)
        #expect((world.admitted[charges[0][1].key]?.count ?? 0) > 150)
    }

    /// Leases are opened everywhere, sat on until they are about to end, and spent at once, as traffic comes and goes.
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func leasesKeepTheBoundOnAnyWorker(_ seed: UInt64) throws {
        let world = SharedLimitSimulation(seed: seed, workers: 4)
        world.delay = { $0.next() % 30 == 0 ? $0.next() % 20_000 : 20 + $0.next() % 800 }
        let rate = try rate(["100/s+burst=40+lease", "400/s+lease", "1000/s+burst=200+lease", "50/s+burst=12+lease"][Int(seed % 4)])
        let charge = LimitCharge.of((1, rate))
        #expect(rate.leaseTime > 0)
        world.answered = { world, worker, charge, sentAt in
            guard world.now < 1_003_000_000 else { return }
            // Just before the end, and just after it.
            world.arrive(at: sentAt + rate.leaseTime - 1, worker: worker, charge, count: 60)
            world.arrive(at: sentAt + rate.leaseTime, worker: worker, charge, count: 2)
        }
        send(world, [charge], seconds: 3, meanGap: 2_000_000 / UInt64(rate.count))
        world.run()
        expectBounds(world, [charge], "seed \(seed)")
        #expect(world.wrongRefusals == 0)
        // A slow count is soon too close to its limit for leases of four holders.
        if rate.count >= 400 { #expect(world.verdicts[.lease, default: 0] > 20, "leases were spent: \(world.verdicts)") }
    }

    /// Redis around its time-out: replies come late, in time or never, and circuit breakers open and close. The gateways count for
    /// themselves meanwhile, and all of that lets at most three bursts more pass, however long it lasts.
    @Test(arguments: 1...3 as ClosedRange<UInt64>, 0...4 as ClosedRange<Int>)
    func aStoreThatIsLateLetsThreeBurstsMorePass(_ seed: UInt64, _ kind: Int) throws {
        let world = SharedLimitSimulation(seed: seed, workers: 3) { $0.failureMode = .local }
        switch kind {
        case 0: world.delay = { 6_000 + $0.next() % 12_000 }
        case 1: world.delay = { 10_000 + $0.next() % 5_000 }
        case 2: world.delay = { $0.next() % 2 == 0 ? 500 : 15_000 }
        case 3: world.delay = { [world] in world.now / 1_000_000 % 2 == 0 ? 500 + $0.next() % 2_000 : 6_000 + $0.next() % 12_000 }
        default: (world.delay, world.loses) = ({ 200 + $0.next() % 2_000 }, { $0.next() % 20 == 0 })
        }
        let rate = try rate(seed == 3 ? "200/s+burst=30" : "20/s+burst=10")
        let charge = LimitCharge.of((1, rate))
        let start = world.now
        let demand = UInt64(rate.count) * (seed == 2 ? 8 : 4)
        for number in 0..<demand * 20 {
            let time = start + number * 1_000_000 / demand + world.random.next() % 5_000
            world.arrive(at: time, worker: Int(world.random.next() % 3), charge)
        }
        for worker in 0..<3 where kind < 4 {
            var time = start
            var isReachable = true
            while time < start + 20_000_000 {
                time += 300_000 + world.random.next() % 700_000
                isReachable.toggle()
                world.reach(at: time, worker: worker, isReachable)
            }
            world.reach(at: time + 1_000_000, worker: worker, true)
        }
        world.run()
        let times = try #require(world.admitted[charge[0].key])
        #expect(
            keepsItsBound(times, burst: 4 * rate.burst, count: rate.count, windowSeconds: 1),
            "\(times.count) admitted, sources \(world.verdicts)")
        #expect(times.count > 20 * Int(rate.count) / 3, "\(times.count) admitted, sources \(world.verdicts)")
        #expect(world.waiting == 0)
    }

    /// Two gateways, 800 a second for a limit of 500: what the limit allows passes, and no more.
    @Test func aLimitUnderPressureIsUsedUp() throws {
        let world = SharedLimitSimulation(seed: 5, workers: 2)
        world.delay = { 60 + $0.next() % 300 }
        let charge = LimitCharge.of((1, try rate("500/s")))
        let start = world.now
        for number in 0..<8_000 as Range<UInt64> {
            world.arrive(at: start + number * 1_250 + world.random.next() % 1_250, worker: Int(world.random.next() % 2), charge)
        }
        world.run()
        let times = try #require(world.admitted[charge[0].key])
        #expect(times.filter { $0 >= start + 3_000_000 && $0 < start + 9_000_000 }.count >= 495 * 6)
        #expect(keepsItsBound(times, burst: 500, count: 500, windowSeconds: 1))
    }

    /// A hot count within its limit, and what a command costs is shared by twenty requests or more.
    @Test func aHotLeasedCountCostsFewCommands() throws {
        let world = SharedLimitSimulation(seed: 6, workers: 2)
        world.delay = { 60 + $0.next() % 200 }
        let charge = LimitCharge.of((1, try rate("5000/s+lease")))
        let start = world.now
        for number in 0..<12_000 as Range<UInt64> {
            world.arrive(at: start + number * 500 + world.random.next() % 500, worker: Int(world.random.next() % 2), charge)
        }
        world.run()
        #expect(Double(world.commands) <= 0.05 * Double(world.requests), "\(world.commands) for \(world.requests)")
        #expect(try #require(world.admitted[charge[0].key]).count == world.requests, "leases starve nobody while there is enough")
    }

    /// The same traffic without leases: never more than one command for a request, and fewer when they come together.
    @Test func anExactCountCostsACommandForEachRoundTripAtMost() throws {
        let world = SharedLimitSimulation(seed: 7, workers: 1)
        world.delay = { _ in 250 }
        let charge = LimitCharge.of((1, try rate("50000/s")))
        for number in 0..<4_000 as Range<UInt64> { world.arrive(at: world.now + number * 50, worker: 0, charge) }
        world.run()
        // Half a millisecond for each round trip, in 200 milliseconds of requests every 50 microseconds.
        #expect(world.commands <= 402)
        #expect(world.verdicts[.redis] == 4_000)
    }

    /// Near the limit leases shrink to nothing, so that any worker gets the rest.
    @Test func leasesShrinkNearTheLimit() throws {
        let world = SharedLimitSimulation(seed: 8, workers: 4)
        world.delay = { 60 + $0.next() % 200 }
        let charge = LimitCharge.of((1, try rate("1000/s+burst=200+lease")))
        let start = world.now
        for number in 0..<6_400 as Range<UInt64> {
            world.arrive(at: start + number * 625, worker: Int(world.random.next() % 4), charge)
        }
        world.run()
        let times = try #require(world.admitted[charge[0].key])
        expectBounds(world, [charge])
        #expect(times.filter { $0 >= start + 1_000_000 && $0 < start + 4_000_000 }.count >= 2_900)
    }
}
