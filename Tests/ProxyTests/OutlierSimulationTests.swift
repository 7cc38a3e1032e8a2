import Gate
import Telemetry
import Testing
import Wire

@testable import Proxy

/// Many requests over addresses of which some fail or are slow, on a clock without time: the same seed repeats a run.
@Suite struct OutlierSimulationTests {
    /// A run with requests under way. Every address answers after its own time, some with failures.
    private struct Run {
        var addresses: Addresses
        var random: SplitMix64
        var now: UInt64 = 0
        /// When requests under way end, by address.
        var underWay: [(at: UInt64, number: Int, fails: Bool)] = []
        /// Percentage of failures and milliseconds of each address, at this time.
        var behaviour: (Int, UInt64) -> (failures: Int, milliseconds: UInt64)
        var sent: [Int]
        var failed = 0
        var maxOut = 0

        init(
            _ count: Int, seed: UInt64, _ change: (inout OutlierRules) -> Void,
            behaviour: @escaping (Int, UInt64) -> (failures: Int, milliseconds: UInt64)
        ) {
            addresses = Addresses(count, .leastOutstanding, change)
            random = SplitMix64(seed: seed)
            self.behaviour = behaviour
            sent = Array(repeating: 0, count: count)
        }

        private var moment: MonotonicTime { Addresses.moment(Double(now) / 1_000) }

        /// So many milliseconds, with up to two requests in five of them.
        mutating func run(_ milliseconds: UInt64) {
            sent = sent.map { _ in 0 }
            failed = 0
            maxOut = 0
            for _ in 0..<milliseconds / 5 {
                now += 5
                endRequests()
                for _ in 0..<Int.random(in: 0...2, using: &random) { send() }
                if now % 1_000 == 0 { judge() }
                maxOut = max(maxOut, addresses.ejected(at: Double(now) / 1_000).count)
            }
        }

        private mutating func send() {
            guard let number = addresses.pool.choose(avoiding: nil, at: moment) else {
                Issue.record("no address at \(now)")
                return
            }
            let (failures, milliseconds) = behaviour(number, now)
            sent[number] += 1
            addresses.pool.endpoints[number].outstanding += 1
            let fails = Int.random(in: 0..<100, using: &random) < failures
            if fails { failed += 1 }
            underWay.append((now + .random(in: milliseconds...(milliseconds * 2), using: &random), number, fails))
            addresses.pool.windows[number].times.add(microseconds: (underWay.last!.at - now) * 1_000)
        }

        private mutating func endRequests() {
            for request in underWay where request.at <= now {
                addresses.pool.endpoints[request.number].outstanding -= 1
                if request.fails {
                    addresses.pool.windows[request.number].failures += 1
                    let rules = addresses.rules
                    if addresses.pool.endpoints[request.number].health.requestFailed(at: moment, rules) {
                        _ = addresses.pool.judge(request.number, .failures, at: moment)
                    }
                } else {
                    addresses.pool.windows[request.number].successes += 1
                    addresses.pool.endpoints[request.number].health.answerBegan()
                }
            }
            underWay.removeAll { $0.at <= now }
        }

        private mutating func judge() {
            for outlier in addresses.pool.outliers(at: moment) {
                _ = addresses.pool.judge(outlier.number, outlier.reason, detail: outlier.detail, at: moment)
            }
            for (number, window) in addresses.pool.takeWindow(at: moment) { addresses.pool.gathered(window, of: number) }
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func anAddressThatFailsGetsHardlyAnyRequestsUntilItIsWell(_ seed: UInt64) {
        var run = Run(10, seed: seed, { $0.slowStart = 20_000 }) { number, now in
            (failures: number == 4 && now < 120_000 ? 100 : 1, milliseconds: 10)
        }
        run.run(120_000)
        // 24,000 requests, of which a tenth would have failed.
        #expect(run.maxOut == 1 && run.sent[4] < 240, "\(run.sent)")
        // Its last ejection, a slow start, and a while.
        run.run(200_000)
        run.run(60_000)
        let fair = run.sent.reduce(0, +) / 10
        #expect(run.maxOut == 0 && abs(run.sent[4] - fair) < fair / 10, "\(run.sent)")
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func anAddressThatOftenFailsIsFoundByItsShare(_ seed: UInt64) {
        var run = Run(5, seed: seed, { $0.failures = nil }) { number, _ in (failures: number == 2 ? 40 : 1, milliseconds: 10) }
        run.run(120_000)
        #expect(run.maxOut == 1 && run.addresses.pool.records[2].total >= 2, "\(run.sent)")
        #expect(run.addresses.pool.records.enumerated().allSatisfy { $0.offset == 2 || $0.element.total == 0 })
        #expect(run.sent[2] < run.sent[0] * 2 / 3, "\(run.sent)")
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func anAddressThatIsSlowIsFoundByItsTimes(_ seed: UInt64) {
        var run = Run(5, seed: seed, { $0.latency = .factor(3) }) { number, _ in (failures: 0, milliseconds: number == 0 ? 45 : 10) }
        run.run(120_000)
        #expect(run.maxOut == 1 && run.addresses.pool.records[0].total >= 2, "\(run.sent)")
        #expect(run.addresses.pool.records.dropFirst().allSatisfy { $0.total == 0 })
    }

    /// With any failures and any rules: never more are out than allowed, and requests always find an address.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func theBoundOnEjectionsHolds(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let count = Int.random(in: 2...20, using: &random)
        let percent = Int.random(in: 0...100, using: &random)
        let failures = (0..<count).map { _ in Int.random(in: 0...100, using: &random) }
        let times = (0..<count).map { _ in UInt64.random(in: 1...200, using: &random) }
        var run = Run(
            count, seed: seed,
            {
                $0.maxEjected = percent
                $0.latency = .factor(2)
                $0.slowStart = 3_000
                $0.interval = 2_000
            }
        ) { number, _ in (failures[number], times[number]) }
        run.run(30_000)
        #expect(run.maxOut <= (percent == 0 ? 0 : min(count - 1, max(1, count * percent / 100))), "\(count) addresses, \(percent)%")
        #expect(run.underWay.count == run.addresses.pool.endpoints.reduce(0) { $0 + $1.outstanding })
    }
}
