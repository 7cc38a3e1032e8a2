import Gate
import Telemetry
import Testing
import Transport
import Wire

@testable import Proxy

/// Addresses of one upstream, numbered from 0, at seconds of a clock of their own.
struct Addresses {
    var pool: UpstreamPool

    init(_ count: Int, _ balance: UpstreamSettings.Balance = .roundRobin, _ change: (inout OutlierRules) -> Void = { _ in }) {
        var settings = UpstreamSettings(name: "u")
        settings.balance = balance
        change(&settings.outliers)
        pool = UpstreamPool(settings: settings, addresses: (0..<count).map(Self.address))
    }

    static func address(_ number: Int) -> UpstreamAddress {
        UpstreamAddress(address: SocketAddress(parsing: "127.0.0.1:\(1_000 + number)")!)
    }

    static func moment(_ seconds: Double) -> MonotonicTime { MonotonicTime(nanoseconds: UInt64((1_000 + seconds) * 1_000_000_000)) }

    var rules: OutlierRules { pool.settings.outliers }

    /// The judge is told of a suspect; returns for how many seconds it goes out, nil if it does not.
    mutating func suspect(_ number: Int, _ reason: EjectionReason = .failures, rest: UInt64? = nil, at seconds: Double = 0) -> Double? {
        pool.judge(number, reason, rest: rest, at: Self.moment(seconds)).map {
            Double($0.until.nanoseconds(since: $0.since)) / 1_000_000_000
        }
    }

    mutating func turnUnhealthy(_ number: Int) { pool.endpoints[number].health.learned(healthy: false, at: Self.moment(0), rules) }

    /// How often each is chosen in so many turns, without requests under way in between.
    mutating func choices(_ turns: Int, avoiding avoided: Int? = nil, at seconds: Double = 0) -> [Int] {
        var counts = pool.endpoints.map { _ in 0 }
        for _ in 0..<turns {
            if let number = pool.choose(avoiding: avoided, at: Self.moment(seconds)) { counts[number] += 1 }
        }
        return counts
    }

    func ejected(at seconds: Double = 0) -> [Int] {
        pool.endpoints.indices.filter { pool.endpoints[$0].health.isOut(at: Self.moment(seconds)) }
    }
}

/// When an address is ejected, for how long, and how many at a time.
@Suite struct EjectionTests {
    /// Addresses, `eject-max`, and how many of them go out if all are suspects.
    static let caps: [(count: Int, percent: Int, ejected: Int)] = [
        (2, 10, 1), (3, 10, 1), (9, 10, 1), (10, 10, 1), (19, 10, 1), (20, 10, 2), (100, 10, 10), (2, 100, 1), (3, 100, 2), (5, 50, 2),
        (5, 0, 0), (100, 0, 0), (1, 100, 0),
    ]

    @Test(arguments: caps) func noMoreAreOutThanAllowedAndOneStays(_ count: Int, _ percent: Int, _ expected: Int) {
        var addresses = Addresses(count) { $0.maxEjected = percent }
        for number in 0..<count { _ = addresses.suspect(number) }
        #expect(addresses.ejected().count == expected)
        #expect(addresses.choices(1).reduce(0, +) == 1)
    }

    @Test func anotherGoesOutWhenOneIsBack() {
        var addresses = Addresses(3)
        #expect(addresses.suspect(0, at: 0) == 10)
        #expect(addresses.suspect(1, at: 9) == nil)
        #expect(addresses.suspect(1, at: 10) == 10)
        #expect(addresses.ejected(at: 10) == [1])
    }

    @Test func anAddressThatIsOutOrUnhealthyOrRetiredIsNotEjectedAgain() {
        var addresses = Addresses(4) { $0.maxEjected = 100 }
        #expect(addresses.suspect(0) == 10)
        #expect(addresses.suspect(0, at: 5) == nil)
        addresses.turnUnhealthy(1)
        #expect(addresses.suspect(1) == nil)
        addresses.pool.endpoints[2].isRetired = true
        #expect(addresses.suspect(2) == nil)
        // The last one that is available.
        #expect(addresses.suspect(3) == nil)
    }

    /// Seconds at which an address is ejected, each time for how long.
    static let backOffs: [[(at: Double, length: Double)]] = [
        [(0, 10), (10, 20), (30, 40), (70, 80), (150, 160), (310, 300), (610, 300)],
        // One step is forgotten for each 10 s in use.
        [(0, 10), (10, 20), (30, 40), (80, 40), (130, 40), (190, 20), (500, 10)],
        [(0, 10), (20, 10), (40, 10)], [(0, 10), (19.9, 20)],
    ]

    @Test(arguments: backOffs) func eachEjectionIsLongerUntilTheAddressHasBeenInForAWhile(_ ejections: [(at: Double, length: Double)]) {
        var addresses = Addresses(2)
        for ejection in ejections { #expect(addresses.suspect(0, at: ejection.at) == ejection.length, "at \(ejection.at)") }
        #expect(addresses.pool.records[0].total == ejections.count)
    }

    @Test func theFirstEjectionIsAsLongAsConfigured() {
        var addresses = Addresses(2) { $0.interval = 1_000 }
        #expect(addresses.suspect(0, at: 0) == 1)
        #expect(addresses.suspect(0, at: 1) == 2)
        var long = Addresses(2) { $0.interval = 300_000 }
        #expect(long.suspect(0, at: 0) == 300)
        #expect(long.suspect(0, at: 300) == 300)
    }

    @Test func anEjectionIsToldOfOnceWhenItIsOver() {
        var addresses = Addresses(2)
        _ = addresses.suspect(0, at: 0)
        #expect(addresses.pool.returned(at: Addresses.moment(9)) == [])
        #expect(addresses.pool.returned(at: Addresses.moment(10)) == [0])
        #expect(addresses.pool.returned(at: Addresses.moment(11)) == [])
    }

    // MARK: Retry-After

    @Test func anAddressThatAsksForTimeGetsItWithinBounds() {
        var addresses = Addresses(4)
        #expect(addresses.suspect(0, .retryAfter, rest: 5_000) == 5)
        #expect(addresses.choices(9) == [0, 3, 3, 3])
        #expect(addresses.suspect(1, .retryAfter, rest: 86_400_000) == 60)
        // A third would leave less than half, so it is not believed.
        #expect(addresses.suspect(2, .retryAfter, rest: 5_000) == nil)
        #expect(addresses.suspect(2, .retryAfter, rest: 5_000, at: 6) == 5)
    }

    @Test func timeToRestIsNoEjection() {
        var addresses = Addresses(4)
        _ = addresses.suspect(0, .retryAfter, rest: 5_000)
        // It does not count for eject-max, and makes no later ejection longer.
        #expect(addresses.suspect(1) == 10)
        #expect(addresses.suspect(0, at: 5) == nil)
        #expect(addresses.suspect(0, at: 10) == 10)
    }

    @Test func theOnlyAddressAndTheLastOneAreNeverOut() {
        var one = Addresses(1) { $0.panic = 0 }
        #expect(one.suspect(0, .retryAfter, rest: 5_000) == nil)
        var two = Addresses(2) { $0.panic = 0 }
        #expect(two.suspect(0, .retryAfter, rest: 5_000) == 5)
        #expect(two.suspect(1, .retryAfter, rest: 5_000) == nil)
        #expect(two.choices(4) == [0, 4])
    }

    /// Statuses as signs of an address's health.
    static let signs: [(statuses: [Int], sign: AnswerSign)] = [
        ([200, 204, 301, 400, 404, 429, 499, 501, 505], .good), ([500, 506, 507, 599], .serverError), ([502, 503, 504], .unavailable),
    ]

    @Test(arguments: signs) func aStatusIsASign(_ statuses: [Int], _ sign: AnswerSign) {
        for status in statuses { #expect(AnswerSign(status: status) == sign, "\(status)") }
    }

    @Test func aStatusOfGRPCIsASign() {
        let signs = (0...17).map { AnswerSign(grpc: $0) }
        for status in 0...17 {
            let expected: AnswerSign = status == 14 ? .unavailable : [2, 13, 15].contains(status) ? .serverError : .good
            #expect(signs[status] == expected, "\(status)")
        }
    }

    /// Each client of a row by its address and its user, and whether the row makes the address a suspect.
    static let rows: [(clients: [(address: UInt32, user: UInt64?)], isSuspect: Bool)] = [
        ((1...5).map { ($0, nil) }, true), ((1...4).map { ($0, nil) }, false),
        // One address, whatever its users; one user, whatever its addresses.
        ((1...100).map { (1, $0) }, false), ((1...100).map { ($0, 7) }, false),
        // One client among others counts once.
        ([(1, nil), (2, nil), (1, nil), (2, 9), (3, 9), (4, nil), (1, nil)], false),
        ([(1, nil), (2, nil), (1, nil), (2, 9), (3, 9), (4, nil), (5, 8)], true),
    ]

    @Test(arguments: rows) func throttledClientsAreTheAddressIfTheyAreMany(_ clients: [(address: UInt32, user: UInt64?)], _ isSuspect: Bool)
    {
        var health = EndpointHealth()
        let rules = OutlierRules()
        let marks = clients.map { ClientMark(address: IPAddress(v4: $0.address), user: $0.user) }
        // Any other answer ends the row.
        for mark in marks.prefix(4) { _ = health.answerThrottled(mark, at: Addresses.moment(0), rules) }
        health.answerBegan()
        #expect(marks.contains { health.answerThrottled($0, at: Addresses.moment(0), rules) } == isSuspect)
    }
}

/// Which addresses are used while some are out.
@Suite struct PanicTests {
    /// Addresses, which fail their probes, which are out, the threshold, and how twelve turns are spread.
    static let cases: [(count: Int, unhealthy: [Int], out: [Int], panic: Int, choices: [Int])] = [
        // Half is not less than half.
        (2, [0], [], 50, [0, 12]), (2, [], [0], 50, [0, 12]), (4, [0], [1], 50, [0, 0, 6, 6]),
        // Less than half: all are used.
        (3, [0, 1], [], 50, [4, 4, 4]), (3, [], [0, 1], 50, [4, 4, 4]), (4, [], [0, 1, 2], 50, [3, 3, 3, 3]),
        // As the failed probes alone leave half, they still count.
        (4, [0, 1], [2], 50, [0, 0, 6, 6]), (2, [0], [1], 50, [0, 12]),
        // All fail their probes: there is no doubt left.
        (3, [0, 1, 2], [], 50, [0, 0, 0]), (2, [0, 1], [], 100, [0, 0]),
        // Other thresholds.
        (4, [], [0], 100, [3, 3, 3, 3]), (3, [0, 1], [], 0, [0, 0, 12]), (4, [], [0, 1, 2], 0, [0, 0, 0, 12]),
        (4, [], [0, 1, 2], 25, [0, 0, 0, 12]), (4, [], [0, 1, 2, 3], 0, [3, 3, 3, 3]),
    ]

    @Test(arguments: cases) func fewAvailableAddressesMeanThatAllAreUsed(
        _ count: Int, _ unhealthy: [Int], _ out: [Int], _ panic: Int, _ choices: [Int]
    ) {
        for balance in [UpstreamSettings.Balance.roundRobin, .leastOutstanding] {
            var addresses = Addresses(count, balance) { $0.panic = panic }
            for number in unhealthy { addresses.turnUnhealthy(number) }
            for number in out {
                addresses.pool.endpoints[number].health.leave(
                    Absence(reason: .failures, since: Addresses.moment(0), until: Addresses.moment(10)))
            }
            #expect(addresses.choices(12) == choices, "\(balance)")
        }
    }

    @Test func aRetryPrefersAnAddressThatIsIn() {
        var addresses = Addresses(4)
        for number in 0..<3 { addresses.turnUnhealthy(number) }
        #expect(addresses.choices(8, avoiding: 0) == [0, 0, 0, 8])
        // If that one failed it takes another.
        #expect(addresses.choices(9, avoiding: 3)[3] == 0)
    }

    @Test func theConditionIsAsTheOperatorSeesIt() {
        var addresses = Addresses(4)
        addresses.turnUnhealthy(0)
        _ = addresses.suspect(1)
        var expected = UpstreamPool.Condition(total: 4, healthy: 3, available: 2)
        #expect(addresses.pool.condition(at: Addresses.moment(0)) == expected)
        addresses.turnUnhealthy(2)
        expected = UpstreamPool.Condition(total: 4, healthy: 2, available: 1, isPanicking: true)
        #expect(addresses.pool.condition(at: Addresses.moment(0)) == expected)
        addresses.turnUnhealthy(3)
        expected = UpstreamPool.Condition(total: 4, healthy: 1, available: 0, isPanicking: true, ignoresProbes: true)
        #expect(addresses.pool.condition(at: Addresses.moment(0)) == expected)
    }
}

/// The load of an address that is new or comes back.
@Suite struct SlowStartTests {
    /// Tenths of the slow start that are over, and of a thousand requests those of the address that comes back among four.
    static let shares: [(tenth: Double, requests: Int)] = [(0, 25), (0.5, 25), (1, 25), (2, 50), (5, 125), (9, 225), (10, 250), (20, 250)]

    @Test(arguments: shares) func theLoadRisesWithTime(_ tenth: Double, _ requests: Int) {
        var addresses = Addresses(4) { $0.slowStart = 30_000 }
        _ = addresses.suspect(2, at: 0)
        #expect(addresses.choices(1_000, at: 9)[2] == 0)
        let counts = addresses.choices(1_000, at: 10 + tenth * 3)
        #expect(abs(counts[2] - requests) <= 1, "\(counts)")
        #expect(abs(counts[0] - counts[1]) <= requests && counts[0] + counts[1] + counts[3] == 1_000 - counts[2])
    }

    /// With requests under way, a starting address has its share of what the others have.
    @Test func amongBusyAddressesAStartingOneHasLess() {
        for (tenth, least, most) in [(0.0, 5, 25), (5.0, 40, 70), (10.0, 100, 100)] {
            var addresses = Addresses(4, .leastOutstanding) { $0.slowStart = 30_000 }
            _ = addresses.suspect(2, at: 0)
            for _ in 0..<(300 + least) {
                guard let number = addresses.pool.choose(avoiding: nil, at: Addresses.moment(10 + tenth * 3)) else { continue }
                addresses.pool.endpoints[number].outstanding += 1
            }
            let outstanding = addresses.pool.endpoints.map(\.outstanding)
            let others = [outstanding[0], outstanding[1], outstanding[3]]
            #expect((least...most).contains(outstanding[2]), "\(outstanding) after \(tenth) tenths")
            #expect(others.max()! - others.min()! <= 1, "\(outstanding)")
        }
    }

    @Test func anAddressThatIsAddedStartsSlowlyAndTheFirstOnesDoNot() {
        var addresses = Addresses(3) { $0.slowStart = 10_000 }
        #expect(addresses.choices(30) == [10, 10, 10])
        addresses.pool.adopt(addresses.pool.settings, addresses: (0..<4).map(Addresses.address), at: Addresses.moment(100))
        #expect(addresses.choices(400, at: 100)[3] == 10)
        #expect(addresses.choices(400, at: 105)[3] == 50)
        #expect(addresses.choices(400, at: 110) == [100, 100, 100, 100])
        #expect(addresses.pool.endpoints.allSatisfy { $0.health.isSettled })
    }

    @Test func anAddressThatTurnsHealthyStartsSlowly() {
        var addresses = Addresses(2) { $0.slowStart = 10_000 }
        addresses.turnUnhealthy(0)
        addresses.pool.endpoints[0].health.learned(healthy: true, at: Addresses.moment(50), addresses.rules)
        #expect(addresses.choices(200, at: 55)[0] == 50)
    }

    @Test func whileAllAreStartingTheyShareAlike() {
        for balance in [UpstreamSettings.Balance.roundRobin, .leastOutstanding] {
            var addresses = Addresses(2, balance) { $0.slowStart = 10_000 }
            for number in 0..<2 { addresses.pool.endpoints[number].health.joined(at: Addresses.moment(0), addresses.rules) }
            #expect(addresses.choices(40, at: 2).allSatisfy { $0 >= 15 }, "\(balance)")
        }
    }

    @Test func withoutSlowStartAnAddressIsBackAtOnce() {
        var addresses = Addresses(4)
        _ = addresses.suspect(2, at: 0)
        #expect(addresses.choices(40, at: 10) == [10, 10, 10, 10])
        #expect(addresses.pool.endpoints.allSatisfy { $0.health.isSettled })
    }
}

/// Windows of answers, and the outliers in them.
@Suite struct AnswerWindowTests {
    /// Good and failed answers of each address, and which is an outlier at `eject-success=85%`.
    static let successes: [(answers: [(good: Int, failed: Int)], outliers: [Int])] = [
        ([(100, 0), (100, 0), (84, 16)], [2]), ([(100, 0), (100, 0), (85, 15)], []),
        // The worst first.
        ([(100, 0), (70, 30), (500, 0), (20, 80)], [3, 1]),
        // All fail alike: it is not the addresses.
        ([(50, 50), (50, 50), (40, 60)], []), ([(84, 16), (84, 16), (0, 100)], []),
        // Too few answers, of it or of the others; too few addresses.
        ([(100, 0), (100, 0), (10, 39)], []), ([(20, 0), (20, 0), (0, 100)], []), ([(100, 0), (0, 100)], []),
        ([(0, 0), (0, 0), (0, 0)], []),
    ]

    @Test(arguments: successes) func anAddressWithFewerSuccessesThanTheOthersIsAnOutlier(
        _ answers: [(good: Int, failed: Int)], _ outliers: [Int]
    ) {
        var addresses = Addresses(answers.count)
        for (number, answers) in answers.enumerated() {
            // Two workers report.
            for part in [answers.good / 2, answers.good - answers.good / 2] {
                addresses.pool.gathered(AnswerWindow(successes: part), of: number)
            }
            addresses.pool.gathered(AnswerWindow(failures: answers.failed), of: number)
        }
        let found = addresses.pool.outliers(at: Addresses.moment(0))
        #expect(found.map(\.number) == outliers && found.allSatisfy { $0.reason == .success })
        // Once judged, they are gone.
        #expect(addresses.pool.outliers(at: Addresses.moment(0)) == [])
    }

    /// Milliseconds to each address's heads, and which is an outlier.
    static let latencies: [(rule: OutlierRules.LatencyRule, milliseconds: [UInt64], outliers: [Int])] = [
        (.factor(3), [20, 25, 90], [2]), (.factor(3), [20, 25, 60], []), (.factor(3), [200, 20, 25, 400], [3, 0]),
        // Milliseconds are not worth an ejection.
        (.factor(3), [1, 1, 6], []), (.factor(3), [1, 1, 20], [2]),
        (.bound(milliseconds: 100), [20, 25, 130], [2]), (.bound(milliseconds: 100), [20, 25, 90], []),
        // All are slow.
        (.bound(milliseconds: 100), [150, 160, 700], []), (.factor(2), [20, 100], []),
    ]

    @Test(arguments: latencies) func anAddressThatIsSlowerThanTheOthersIsAnOutlier(
        _ rule: OutlierRules.LatencyRule, _ milliseconds: [UInt64], _ outliers: [Int]
    ) {
        var addresses = Addresses(milliseconds.count) { $0.latency = rule }
        for (number, time) in milliseconds.enumerated() {
            var window = AnswerWindow()
            window.times.start()
            for turn in 0..<100 {
                window.successes += 1
                // A few answers take long everywhere, which the median does not see.
                window.times.add(microseconds: turn % 10 == 0 ? 5_000_000 : time * 1_000)
            }
            addresses.pool.gathered(window, of: number)
        }
        let found = addresses.pool.outliers(at: Addresses.moment(0))
        #expect(found.map(\.number) == outliers && found.allSatisfy { $0.reason == .latency })
    }

    @Test func anAddressThatIsOutIsNeitherJudgedNorComparedWith() {
        var addresses = Addresses(4)
        _ = addresses.suspect(0)
        for number in 0..<4 {
            addresses.pool.gathered(AnswerWindow(successes: number < 2 ? 0 : 100, failures: number < 2 ? 100 : 0), of: number)
        }
        #expect(addresses.pool.outliers(at: Addresses.moment(0)).map(\.number) == [1])
    }

    @Test func windowsOfAllWorkersEndTogether() {
        var workers = [Addresses(3), Addresses(3)]
        for index in workers.indices { workers[index].pool.windows[1].successes = 7 }
        // The first look ends the window that has no beginning.
        #expect(workers[0].pool.takeWindow(at: Addresses.moment(0.3)).count == 1)
        #expect(workers[1].pool.takeWindow(at: Addresses.moment(4.7)).count == 1)
        #expect(workers[0].pool.windowEnd == workers[1].pool.windowEnd)
        workers[0].pool.windows[2].failures = 1
        #expect(workers[0].pool.takeWindow(at: Addresses.moment(9.9)).isEmpty)
        let harvested = workers[0].pool.takeWindow(at: Addresses.moment(10))
        #expect(harvested.map(\.number) == [2] && harvested[0].window == AnswerWindow(failures: 1))
        #expect(workers[0].pool.windows[2].isEmpty)
    }

    @Test func timesAreCountedOnlyWhereTheyAreAskedFor() {
        var addresses = Addresses(3)
        addresses.pool.windows[0].times.add(microseconds: 5)
        #expect(addresses.pool.windows[0].times.count == 0)
        var settings = addresses.pool.settings
        settings.outliers.latency = .factor(3)
        addresses.pool.adopt(settings, addresses: (0..<3).map(Addresses.address), at: Addresses.moment(0))
        addresses.pool.windows[0].times.add(microseconds: 5)
        #expect(addresses.pool.windows[0].times.count == 1)
        _ = addresses.pool.takeWindow(at: Addresses.moment(0))
        addresses.pool.windows[0].times.add(microseconds: 5)
        #expect(addresses.pool.windows[0].times.count == 1, "counting goes on in the next window")
    }

    @Test func aMedianIsExactToAFifth() {
        var random = SplitMix64(seed: 7)
        for _ in 0..<200 {
            var histogram = TimeHistogram()
            histogram.start()
            let top = UInt64.random(in: 10...60_000_000, using: &random)
            let times = (0..<101).map { _ in UInt64.random(in: 0...top, using: &random) }
            for time in times { histogram.add(microseconds: time) }
            let median = times.sorted()[50]
            let found = histogram.median!
            #expect(found <= median && Double(median) <= Double(found) * 1.25 + 1, "\(found) of \(median)")
        }
        var longest = TimeHistogram()
        longest.start()
        longest.add(microseconds: .max)
        #expect(longest.median! >= 100_000_000)
        #expect(TimeHistogram().median == nil)
    }
}
