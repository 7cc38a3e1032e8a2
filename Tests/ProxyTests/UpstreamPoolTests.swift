import Gate
import Glibc
import Synchronization
import System
import Telemetry
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Which address gets the next request, and what is believed of each.
@Suite(.ownThread) struct UpstreamPoolTests {
    private static func address(_ port: Int, authority: String = "localhost", pathPrefix: String = "") -> UpstreamAddress {
        UpstreamAddress(
            address: SocketAddress(parsing: "127.0.0.1:\(port)")!, authority: authority, pathPrefix: pathPrefix)
    }

    private func pool(_ count: Int, _ balance: UpstreamSettings.Balance = .leastOutstanding) -> UpstreamPool {
        var settings = UpstreamSettings(name: "u")
        settings.balance = balance
        return UpstreamPool(settings: settings, addresses: (1...count).map { Self.address($0) })
    }

    private func moment(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (1_000 + seconds) * 1_000_000_000) }

    /// How often each address is chosen in so many turns.
    private func choices(
        _ pool: inout UpstreamPool, _ turns: Int, avoiding: Int? = nil, at seconds: UInt64 = 0
    ) -> [Int] {
        var counts = pool.endpoints.map { _ in 0 }
        for _ in 0..<turns {
            if let index = pool.choose(avoiding: avoiding, at: moment(seconds)) { counts[index] += 1 }
        }
        return counts
    }

    @Test(arguments: [UpstreamSettings.Balance.leastOutstanding, .roundRobin])
    func addressesThatAreAlikeTakeTurns(_ balance: UpstreamSettings.Balance) {
        var pool = pool(3, balance)
        #expect(choices(&pool, 30) == [10, 10, 10])
    }

    @Test func theLeastBusyAddressIsChosenOrTheNextInTurn() {
        var least = pool(3)
        var round = pool(3, .roundRobin)
        for (index, busy) in [2, 0, 1].enumerated() {
            least.endpoints[index].outstanding = busy
            round.endpoints[index].outstanding = busy
        }
        #expect(choices(&least, 6) == [0, 6, 0])
        #expect(choices(&round, 6) == [2, 2, 2])
    }

    /// So many failures in a row of an address, as its worker judges them; whether the last one ejected it.
    @discardableResult
    private func fail(_ pool: inout UpstreamPool, _ number: Int, _ count: Int = 5, at seconds: UInt64, isBroken: Bool = false) -> Bool {
        var isEjected = false
        for _ in 0..<count {
            isEjected = false
            guard pool.endpoints[number].health.requestFailed(at: moment(seconds), isBrokenAnswer: isBroken, pool.settings.outliers) else {
                continue
            }
            isEjected = pool.judge(number, .failures, at: moment(seconds)) != nil
        }
        return isEjected
    }

    private func probe(_ pool: inout UpstreamPool, _ number: Int, _ verdicts: [Bool], at seconds: UInt64 = 0) -> EndpointHealth.Change {
        var last = EndpointHealth.Change.none
        for good in verdicts {
            last = pool.endpoints[number].health.probed(good: good, at: moment(seconds), pool.settings.outliers)
            if last != .none { pool.records[number].probed(good: good, at: moment(seconds)) }
        }
        return last
    }

    private func learn(_ pool: inout UpstreamPool, _ number: Int, healthy: Bool) {
        pool.endpoints[number].health.learned(healthy: healthy, at: moment(0), pool.settings.outliers)
    }

    @Test func anEjectedAddressIsPassedOverUntilItsTimeIsOver() {
        var pool = pool(2)
        #expect(fail(&pool, 0, at: 0) == true)
        #expect(choices(&pool, 4, at: 9) == [0, 4])
        #expect(choices(&pool, 4, at: 10) == [2, 2])
    }

    @Test func aGuessDoesNotTakeTheLastAddressAwayButAProbeDoes() {
        var pool = pool(2)
        // The judge leaves one; as if two judged at once.
        for index in 0..<2 {
            pool.endpoints[index].health.leave(Absence(reason: .failures, since: moment(0), until: moment(10)))
        }
        #expect(choices(&pool, 4) == [2, 2])
        learn(&pool, 0, healthy: false)
        #expect(choices(&pool, 4) == [0, 4])
        learn(&pool, 1, healthy: false)
        #expect(pool.choose(avoiding: nil, at: moment(0)) == nil)
    }

    @Test func aRetryGoesElsewhereIfThereIsAnElsewhere() {
        var pool = pool(2)
        pool.endpoints[1].outstanding = 5
        #expect(choices(&pool, 3, avoiding: 0) == [0, 3])
        learn(&pool, 1, healthy: false)
        #expect(choices(&pool, 3, avoiding: 0) == [3, 0])
        var single = self.pool(1)
        #expect(choices(&single, 3, avoiding: 0) == [3])
    }

    @Test func withoutAddressesThereIsNone() {
        var pool = pool(1)
        learn(&pool, 0, healthy: false)
        #expect(pool.choose(avoiding: nil, at: moment(0)) == nil)
        pool.adopt(pool.settings, addresses: [], at: moment(0))
        #expect(pool.choose(avoiding: nil, at: moment(0)) == nil)
        var empty = UpstreamPool(settings: UpstreamSettings(name: "u"), addresses: [])
        #expect(empty.choose(avoiding: nil, at: moment(0)) == nil)
    }

    // MARK: reloads

    @Test func aReloadKeepsWhatIsKnownRetiresWhatIsGoneAndUsesEmptyPlacesAgain() {
        var pool = pool(2)
        learn(&pool, 0, healthy: false)
        pool.endpoints[1].connections = 1
        pool.adopt(pool.settings, addresses: [Self.address(1), Self.address(3)], at: moment(0))
        #expect(pool.endpoints.map(\.isRetired) == [false, true, false])
        #expect(pool.endpoints.map(\.health.isHealthy) == [false, true, true])
        #expect(choices(&pool, 3) == [0, 0, 3])
        // Its last connection has ended: its index is free, and every other stays valid.
        pool.endpoints[1].connections = 0
        pool.adopt(pool.settings, addresses: [Self.address(1), Self.address(3), Self.address(4)], at: moment(0))
        #expect(pool.endpoints.map(\.address.address.description) == ["127.0.0.1:1", "127.0.0.1:4", "127.0.0.1:3"])
        #expect(pool.endpoints.map(\.isRetired) == [false, false, false])
        // One that comes back is the one that it was.
        pool.endpoints[2].connections = 1
        pool.adopt(pool.settings, addresses: [Self.address(1)], at: moment(0))
        pool.adopt(pool.settings, addresses: [Self.address(3), Self.address(1)], at: moment(0))
        #expect(pool.endpoints.count == 3 && !pool.endpoints[2].isRetired && pool.endpoints[2].connections == 1)
    }

    /// Nothing would find it well again: a reload that takes a wrong check away makes the upstream work.
    @Test func withoutHealthChecksNoAddressStaysUnhealthy() {
        var checked = UpstreamSettings(name: "u")
        checked.health = .path("/up")
        var directory = UpstreamDirectory([UpstreamSnapshot(settings: checked, addresses: [Self.address(1)])])
        directory.learned(upstream: "u", at: Self.address(1), healthy: false, now: moment(0))
        #expect(directory.choose(0, avoiding: nil, at: moment(0)) == nil)
        directory.adopt([UpstreamSnapshot(settings: UpstreamSettings(name: "u"), addresses: [Self.address(1)])], at: moment(0))
        #expect(directory.choose(0, avoiding: nil, at: moment(0)) != nil)
        // The verdict of a probe that was under way.
        directory.learned(upstream: "u", at: Self.address(1), healthy: false, now: moment(0))
        #expect(directory.choose(0, avoiding: nil, at: moment(0)) != nil)
    }

    /// The worker that probes may still have the place of an address that has left, and another worker a new one: they agree.
    @Test func anAddressThatComesBackIsNewToTheProbes() {
        var settings = UpstreamSettings(name: "u")
        settings.health = .path("/up")
        var pool = UpstreamPool(settings: settings, addresses: (1...2).map { Self.address($0) })
        learn(&pool, 1, healthy: false)
        pool.endpoints[1].connections = 1
        pool.adopt(settings, addresses: [Self.address(1)], at: moment(0))
        pool.adopt(settings, addresses: [Self.address(1), Self.address(2)], at: moment(0))
        #expect(pool.endpoints.map(\.health.isHealthy) == [true, true] && pool.endpoints[1].connections == 1)
    }

    @Test func anotherNameOrPathAtTheSameAddressIsAnotherPlace() {
        var pool = pool(1)
        pool.adopt(pool.settings, addresses: [Self.address(1), Self.address(1, pathPrefix: "/v2")], at: moment(0))
        #expect(pool.endpoints.count == 2)
        pool.adopt(pool.settings, addresses: [Self.address(1, authority: "other.test")], at: moment(0))
        #expect(pool.endpoints.filter { !$0.isRetired }.map(\.address.authority) == ["other.test"])
    }

    @Test func connectionsOfAllWorkersCountTogether() {
        var settings = UpstreamSettings(name: "u")
        settings.maxConnections = 3
        let budget = ConnectionBudget()
        var pools = (0..<4).map { _ in UpstreamPool(settings: settings, addresses: [Self.address(1), Self.address(2)], connections: budget)
        }
        #expect(pools.map { $0.reserveConnection() } == [true, true, true, false])
        budget.release()
        #expect(pools.reversed().map { $0.reserveConnection() } == [true, false, false, false])
        // A reload that lowers the bound closes nothing, and lets nothing more in until it holds.
        settings.maxConnections = 2
        for index in pools.indices { pools[index].adopt(settings, addresses: pools[index].endpoints.map(\.address), at: moment(0)) }
        budget.release()
        #expect(!pools[0].reserveConnection())
        budget.release()
        #expect(pools[0].reserveConnection() && !pools[1].reserveConnection())
    }

    @Test func aBudgetIsNeverExceededByWorkersThatTakeAtOnce() throws {
        final class Count: Sendable {
            let held = Atomic<Int>(0)
            let most = Atomic<Int>(0)
        }
        let (budget, count) = (ConnectionBudget(), Count())
        let threads = try (0..<4).map { number in
            try WorkerThread(name: "taker-\(number)") {
                for _ in 0..<20_000 where budget.acquire(within: 3) {
                    let now = count.held.wrappingAdd(1, ordering: .relaxed).newValue
                    count.most.max(now, ordering: .relaxed)
                    count.held.wrappingSubtract(1, ordering: .relaxed)
                    budget.release()
                }
            }
        }
        for thread in threads { thread.join() }
        #expect((1...3).contains(count.most.load(ordering: .relaxed)))
        #expect((0..<3).allSatisfy { _ in budget.acquire(within: 3) } && !budget.acquire(within: 3))
    }

    @Test func aRequestForRoomIsAnsweredOnceByTheLastOfAllWorkers() {
        final class Answers: Sendable { let count = Mutex(0) }
        let answers = Answers()
        let request = RoomRequest(upstream: "u", connections: 2, workers: 3) { answers.count.withLock { $0 += 1 } }
        #expect([request.claim(), request.claim(), request.claim()] == [true, true, false])
        for expected in [0, 0, 1] {
            request.answered()
            #expect(answers.count.withLock { $0 } == expected)
        }
    }

    // MARK: health

    /// Probes, good or bad, and what the last of them turned.
    static let probes: [(probes: [Bool], change: EndpointHealth.Change, isHealthy: Bool)] = [
        ([true], .none, true), ([false], .none, true), ([false, false], .turnedUnhealthy, false),
        ([false, true, false], .none, true), ([false, false, true], .none, false), ([false, false, true, true], .turnedHealthy, true),
        ([false, false, true, false, true], .none, false), ([false, false, false], .none, false),
    ]

    @Test(arguments: probes) func twoProbesInARowTurnAnAddress(
        _ probes: [Bool], _ change: EndpointHealth.Change, _ isHealthy: Bool
    ) {
        var pool = pool(1)
        #expect(probe(&pool, 0, probes) == change)
        #expect(pool.endpoints[0].health.isHealthy == isHealthy)
    }

    @Test func fiveFailuresInARowEjectLongerEachTime() {
        var pool = pool(2)
        var now: UInt64 = 0
        for length: UInt64 in [10, 20, 40, 80, 160, 300, 300] {
            for number in 1...5 { #expect(fail(&pool, 0, 1, at: now) == (number == 5)) }
            #expect(pool.endpoints[0].health.isEjected(at: moment(now + length - 1)))
            now += length
            #expect(!pool.endpoints[0].health.isEjected(at: moment(now)))
        }
    }

    /// Requests that were under way when it was set aside fail too.
    @Test func failuresDuringAnEjectionDoNotStretchItButTheRowGoesOn() {
        var pool = pool(2)
        fail(&pool, 0, at: 0)
        #expect(fail(&pool, 0, 7, at: 9) == false)
        #expect(!pool.endpoints[0].health.isEjected(at: moment(10)))
        #expect(fail(&pool, 0, 1, at: 10) == true)
    }

    @Test func aSuccessEndsTheSeries() {
        var pool = pool(2)
        for _ in 0..<3 {
            #expect(fail(&pool, 0, 4, at: 0) == false)
            pool.endpoints[0].health.answerBegan()
        }
        #expect(!pool.endpoints[0].health.isEjected(at: moment(0)))
        // After an ejection and as much time in use, the next one is short again.
        fail(&pool, 0, at: 0)
        pool.endpoints[0].health.answerBegan()
        pool.endpoints[0].health.answerEnded()
        fail(&pool, 0, at: 20)
        #expect(pool.endpoints[0].health.isEjected(at: moment(29)) && !pool.endpoints[0].health.isEjected(at: moment(30)))
    }

    /// Each has a good head, which must not make up for what comes behind it.
    @Test func answersThatBreakBehindTheirHeadsCountUntilOneIsWhole() {
        var pool = pool(2)
        func answers(_ count: Int) -> Bool {
            var isEjected = false
            for _ in 0..<count {
                pool.endpoints[0].health.answerBegan()
                isEjected = fail(&pool, 0, 1, at: 0, isBroken: true)
            }
            return isEjected
        }
        for _ in 0..<2 {
            #expect(answers(4) == false)
            pool.endpoints[0].health.answerBegan()
            pool.endpoints[0].health.answerEnded()
        }
        #expect(answers(4) == false)
        #expect(answers(1) == true)
    }

    @Test func aGoodWordOfTheProbesEndsAnEjection() {
        var pool = pool(2)
        fail(&pool, 0, at: 0)
        _ = probe(&pool, 0, [false, false, true, true])
        #expect(pool.endpoints[0].health.isAvailable(at: moment(0)))
        // And nothing is held against it: the next ejection is a first one.
        fail(&pool, 0, at: 0)
        #expect(!pool.endpoints[0].health.isEjected(at: moment(10)))
    }

    // MARK: retries

    @Test func retriesAreAFifthOfTheTraffic() {
        var budget = RetryBudget()
        var spent = 0
        while budget.spend() { spent += 1 }
        #expect(spent == 10)
        for _ in 0..<4 { budget.requestSent() }
        while budget.spend() { spent += 1 }
        #expect(spent == 10)
        budget.requestSent()
        while budget.spend() { spent += 1 }
        #expect(spent == 11)
        for _ in 0..<1_000 { budget.requestSent() }
        spent = 0
        while budget.spend() { spent += 1 }
        #expect(spent == 10)
    }

    @Test func theShareOfRetriesIsAsConfigured() {
        for (percent, earned) in [(0, 0), (10, 10), (50, 50), (100, 100)] {
            var budget = RetryBudget(percent: percent)
            while budget.spend() {}
            var spent = 0
            for _ in 0..<100 {
                budget.requestSent()
                while budget.spend() { spent += 1 }
            }
            #expect(spent == earned)
        }
        var none = RetryBudget(percent: 0)
        #expect(none.spend() == false)
        none.adopt(percent: 20)
        #expect(none.spend() == true)
        none.adopt(percent: 0)
        #expect(none.spend() == false)
    }

    static let faults: [(number: Int32, loss: UpstreamLoss)] = [
        (EMFILE, .shortage), (ENFILE, .shortage), (ENOBUFS, .shortage), (ENOMEM, .shortage), (EADDRNOTAVAIL, .shortage),
        (ECONNREFUSED, .notReached), (ENETUNREACH, .notReached),
        (ENOENT, .notReached), (EAGAIN, .notReached),
    ]

    @Test func aStreamThatFallsSilentIsNotTheAddresssFault() {
        #expect(UpstreamLoss.timeout.row.countsAgainstAddress(isBehindHead: false))
        #expect(!UpstreamLoss.timeout.row.countsAgainstAddress(isBehindHead: true))
        #expect(UpstreamLoss.brokenAnswer.row.countsAgainstAddress(isBehindHead: true))
    }

    @Test func aBoundIsNotTheAddresssFaultAndNoRetryHelps() {
        for loss in [UpstreamLoss.tooManyConnections, .tooManyRequests, .tooManyPending, .beyondShare] {
            let row = loss.row
            #expect(!row.countsAgainstAddress(isBehindHead: false) && row.traits == .undelivered)
            #expect(row.refusal == .unavailable(.overload, retryAfterSeconds: 1) && row.bound != nil)
        }
    }

    @Test(arguments: faults) func onlyWhatTheGatewayLacksIsNotTheAddresssFault(_ number: Int32, _ loss: UpstreamLoss) {
        let found = UpstreamLoss(beginning: SystemFault("connect", errno: number))
        #expect(found == loss)
        #expect(found.row.traits == (loss == .shortage ? .undelivered : [.undelivered, .retryable, .addressFault]))
        #expect(found.row.refusal == (loss == .shortage ? .unavailable(.overload, retryAfterSeconds: 1) : .badGateway))
    }

    @Test func aPaceGivesTimeAndThenAsksForAKilobyteASecond() {
        var pace = MinimumRate()
        pace.begin(at: moment(0))
        #expect(pace.deadline(allowance: 30_000) == moment(30))
        pace.moved(1)
        #expect(pace.deadline(allowance: 30_000) == moment(30).advanced(milliseconds: 1))
        pace.moved(9_999)
        #expect(pace.deadline(allowance: 30_000) == moment(40))
        pace.begin(at: moment(100))
        #expect(pace.deadline(allowance: 0) == moment(100))
    }
}
