import Gate
import Telemetry
import Testing
import Transport
import Wire

@testable import Proxy

/// Which address of an SRV service gets the next request.
@Suite struct AddressRankTests {
    private static func address(_ port: Int, _ priority: Int, _ weight: Int) -> UpstreamAddress {
        UpstreamAddress(
            address: SocketAddress(parsing: "127.0.0.1:\(port)")!, rank: AddressRank(priority: priority, weight: weight))
    }

    private func pool(_ ranks: [(Int, Int)], _ balance: UpstreamSettings.Balance = .leastOutstanding) -> UpstreamPool {
        var settings = UpstreamSettings(name: "u")
        settings.balance = balance
        return UpstreamPool(
            settings: settings, addresses: ranks.enumerated().map { Self.address($0.offset + 1, $0.element.0, $0.element.1) })
    }

    private let now = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func choices(_ pool: inout UpstreamPool, _ turns: Int, avoiding: Int? = nil) -> [Int] {
        var counts = pool.endpoints.map { _ in 0 }
        for _ in 0..<turns {
            if let index = pool.choose(avoiding: avoiding, at: now) { counts[index] += 1 }
        }
        return counts
    }

    @Test(arguments: [UpstreamSettings.Balance.leastOutstanding, .roundRobin])
    func eachGetsItsShare(_ balance: UpstreamSettings.Balance) {
        var pool = pool([(0, 500), (0, 300), (0, 200)], balance)
        #expect(choices(&pool, 100) == [50, 30, 20])
    }

    @Test func sharesAreSpreadAndNotInRuns() {
        var pool = pool([(0, 2), (0, 1)])
        let chosen = (0..<6).compactMap { _ in pool.choose(avoiding: nil, at: now) }
        #expect(chosen == [0, 1, 0, 0, 1, 0])
    }

    @Test func aBusyAddressOfGreatWeightGivesWayToAnIdleOne() {
        var pool = pool([(0, 3), (0, 1)])
        pool.endpoints[0].outstanding = 3
        #expect(choices(&pool, 4) == [0, 4])
        pool.endpoints[1].outstanding = 1
        #expect(choices(&pool, 4) == [3, 1], "three to one is what the weights ask for")
    }

    @Test func aWeightOfZeroIsASmallShare() {
        var pool = pool([(0, 100), (0, 1)])
        #expect(choices(&pool, 101) == [100, 1])
    }

    private func learn(_ pool: inout UpstreamPool, _ number: Int, healthy: Bool) {
        pool.endpoints[number].health.learned(healthy: healthy, at: now, pool.settings.outliers)
    }

    private func eject(_ pool: inout UpstreamPool, _ number: Int) {
        pool.endpoints[number].health.leave(Absence(reason: .failures, since: now, until: now.advanced(milliseconds: 10_000)))
    }

    @Test func onlyTheLowestPriorityIsUsedWhileItCanBe() {
        var pool = pool([(1, 1), (0, 1), (0, 1), (2, 1)])
        pool.adopt(pool.settings.withoutPanic, addresses: pool.endpoints.map(\.address), at: now)
        #expect(choices(&pool, 10) == [0, 5, 5, 0])
        learn(&pool, 1, healthy: false)
        #expect(choices(&pool, 10) == [0, 0, 10, 0])
        eject(&pool, 2)
        #expect(choices(&pool, 10) == [10, 0, 0, 0], "an ejected address gives way to the next priority")
        learn(&pool, 0, healthy: false)
        learn(&pool, 3, healthy: false)
        #expect(choices(&pool, 10) == [0, 0, 10, 0], "and is used before none")
        learn(&pool, 2, healthy: false)
        #expect(choices(&pool, 1) == [0, 0, 0, 0])
    }

    @Test func withoutAnAvailableAddressTheLowestPriorityIsUsedWhateverIsKnownOfIt() {
        var pool = pool([(0, 1), (0, 1), (1, 1)])
        eject(&pool, 0)
        #expect(choices(&pool, 4) == [0, 4, 0])
        eject(&pool, 1)
        #expect(choices(&pool, 4) == [0, 0, 4])
        eject(&pool, 2)
        #expect(choices(&pool, 4) == [2, 2, 0])
    }

    @Test func backupsServeWhileThePrimariesAreAwayThoughTheseAreMost() {
        for isProbed in [true, false] {
            var pool = pool([(10, 1), (10, 1), (10, 1), (20, 1), (20, 1)])
            for index in 0..<3 { if isProbed { learn(&pool, index, healthy: false) } else { eject(&pool, index) } }
            #expect(choices(&pool, 10) == [0, 0, 0, 5, 5])
        }
    }

    @Test func anAddressThatStartsSlowlyHasLessWeight() {
        var pool = pool([(0, 1), (0, 2)], .roundRobin)
        var settings = pool.settings
        settings.outliers.slowStart = 10_000
        pool.adopt(settings, addresses: pool.endpoints.map(\.address), at: now)
        pool.endpoints[1].health.joined(at: now, settings.outliers)
        let early = choices(&pool, 100)
        #expect(early[1] < 40, "\(early)")
    }

    @Test func aRetryGoesToAnotherPriorityIfItsOwnHasNoOther() {
        var pool = pool([(0, 1), (1, 1)])
        #expect(choices(&pool, 3, avoiding: 0) == [0, 3])
    }

    @Test func aNewRankKeepsTheAddressAndItsState() {
        var pool = pool([(0, 1), (0, 1)])
        pool.endpoints[0].outstanding = 4
        pool.adopt(pool.settings, addresses: [Self.address(1, 1, 5), Self.address(2, 0, 1)])
        #expect(pool.endpoints.count == 2 && pool.endpoints[0].outstanding == 4 && !pool.endpoints[0].isRetired)
        #expect(choices(&pool, 4) == [0, 4])
        pool.adopt(pool.settings, addresses: [Self.address(1, 0, 1)])
        #expect(pool.endpoints[1].isRetired)
        #expect(choices(&pool, 4) == [4, 0], "the last one left has no rank to look at")
    }
}

extension UpstreamSettings {
    fileprivate var withoutPanic: UpstreamSettings {
        var settings = self
        settings.outliers.panic = 0
        return settings
    }
}
