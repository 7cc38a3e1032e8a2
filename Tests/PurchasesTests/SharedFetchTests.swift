import Accounts
import Synchronization
import Testing

@testable import Purchases

@Suite struct SharedFetchTests {
    private final class Count: Sendable {
        private let number = Mutex(0)
        var now: Int { number.withLock { $0 } }
        func add() { number.withLock { $0 += 1 } }
    }

    @Test func allWhoWantTheValueAtOnceShareOneFetch() async throws {
        let (values, callers, fetches) = (SharedFetch<Int>(), Count(), Count())
        let found = await withTaskGroup(of: Int?.self, returning: [Int?].self) { group in
            for _ in 0..<20 {
                group.addTask {
                    callers.add()
                    return try? await values.value(where: { _ in true }) { () async throws(StorefrontFault) in
                        fetches.add()
                        while callers.now < 20 { await Task.yield() }
                        return 7
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(found == [Int?](repeating: 7, count: 20) && fetches.now == 1)
    }

    @Test func aFailureIsNotKept() async throws {
        let values = SharedFetch<Int>()
        func fetch(_ outcome: Result<Int, StorefrontFault>, isGood: Bool = true) async -> Int? {
            try? await values.value(where: { _ in isGood }) { () async throws(StorefrontFault) in try outcome.get() }
        }
        let away = Result<Int, StorefrontFault>.failure(.unavailable(reason: "away", retryAfterSeconds: 1))
        for (outcome, isGood, expected) in [
            (away, true, nil), (.success(1), true, 1), (.success(2), true, 1), (.success(2), false, 2), (away, false, nil), (away, true, 2),
        ] as [(Result<Int, StorefrontFault>, Bool, Int?)] { #expect(await fetch(outcome, isGood: isGood) == expected) }
        #expect(await values.last == 2)
    }
}
