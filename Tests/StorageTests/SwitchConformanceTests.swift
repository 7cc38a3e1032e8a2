import Accounts
import Testing
import Wire

/// Live switches, which all gateways of a store read again after each change.
@Suite struct SwitchConformanceTests {
    @Test(arguments: Backend.allCases) func aSwitchIsSetReplacedAndRemovedAndEachChangeIsLogged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        #expect(try await store.switches().isEmpty)
        var reader = try await ChangeReader(store)
        let first = try #require(try await store.set("split/feed", to: "10", until: nil, after: nil))
        let since = try #require(try await store.switches().first?.since)
        #expect(try await store.switches() == [LiveSwitch(name: "split/feed", value: "10", version: first, since: since)])
        #expect(try await reader.news() == [.switches])
        let second = try #require(try await store.set("split/feed", to: "20", until: nil, after: nil))
        #expect(second > first)
        #expect(try await store.switches() == [LiveSwitch(name: "split/feed", value: "20", version: second, since: since)])
        _ = try #require(try await store.set("a/b", to: "", until: nil, after: nil))
        #expect(try await store.switches().map(\.name) == ["a/b", "split/feed"])
        _ = try #require(try await store.set("split/feed", to: nil, until: nil, after: nil))
        #expect(try await store.switches().map(\.name) == ["a/b"])
        #expect(try await reader.news() == [.switches, .switches, .switches])
    }

    /// A guard that has judged by a share of 10 must not undo the 50 that an operator sets meanwhile.
    @Test(arguments: Backend.allCases) func aChangeAfterAVersionCountsOnlyWhileItIsThatOne(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        #expect(try await store.set("split/feed", to: "0", until: nil, after: 7) == nil, "there is none")
        let first = try #require(try await store.set("split/feed", to: "10", until: nil, after: 0))
        #expect(try await store.set("split/feed", to: "0", until: nil, after: 0) == nil, "there is one")
        let second = try #require(try await store.set("split/feed", to: "50", until: nil, after: first))
        #expect(try await store.set("split/feed", to: "0", until: nil, after: first) == nil)
        #expect(try await store.switches().map { [$0.value, "\($0.version)"] } == [["50", "\(second)"]])
        // Of those that act at once, one does.
        let values = try await withThrowingTaskGroup(of: Int64?.self) { group in
            for number in 1...8 {
                group.addTask { try await store.set("split/feed", to: "\(number)", until: nil, after: second) }
            }
            return try await group.reduce(into: [Int64?]()) { $0.append($1) }
        }
        #expect(values.compactMap(\.self).count == 1)
        #expect(try await store.switches().map(\.version) == values.compactMap(\.self))
    }

    @Test(arguments: Backend.allCases) func aSwitchEndsByItself(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, far) = (bench.store, WallTime(microseconds: 4_000_000_000_000_000))
        _ = try await store.set("maintenance/feed", to: "on", until: far, after: nil)
        #expect(try await store.switches().map(\.expiresAt) == [far])
        let since = try #require(try await store.switches()[0].since)
        _ = try await store.set("maintenance/feed", to: "on", until: WallTime(microseconds: 1), after: nil)
        #expect(try await store.switches().isEmpty)
        #expect(try await store.set("maintenance/feed", to: "on", until: nil, after: 0) != nil, "one that has ended is none")
        #expect(try await store.switches().map(\.value) == ["on"])
        #expect(try #require(try await store.switches()[0].since) > since, "it is set anew")
        _ = try await store.set("maintenance/all", to: "on", until: WallTime(microseconds: 1), after: nil)
        try await store.sweep(now: at(0).now, stride: anyStride)
        #expect(try await store.switches().map(\.name) == ["maintenance/feed"])
    }
}
