import Accounts
import Testing
import Wire

/// The census of apps, which several gateways fill.
@Suite struct AppConformanceTests {
    private static func use(_ day: Int64, _ gate: String, _ version: String, _ requests: UInt64, users: Range<UInt64> = 0..<1) -> AppUse {
        var sketch = UserSketch()
        for user in users { sketch.add(user &* 0x9E37_79B9_7F4A_7C15) }
        return AppUse(AppUse.Key(day: day, gate: gate, version: version), requests: requests, users: sketch)
    }

    private static func shown(_ uses: [AppUse]) -> [String] {
        uses.map { "\($0.key.day) \($0.key.gate) \($0.key.version) \($0.requests) \($0.users.count)" }
    }

    @Test(arguments: Backend.allCases) func requestsAreAddedAndUsersJoined(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        try await store.add([])
        try await store.add([Self.use(20, "ios", "4.2", 2, users: 0..<2), Self.use(20, "ios", "4.2", 1, users: 1..<3)])
        // Of gateways that write at once, nothing is lost.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<6 as Range<UInt64> {
                group.addTask {
                    try await store.add(
                        [
                            Self.use(20, "ios", "4.2", 1, users: number..<number + 1), Self.use(20, "android", "none", 1),
                            Self.use(21, "ios", "4.2", 1),
                        ])
                }
            }
            try await group.waitForAll()
        }
        #expect(try await Self.shown(store.appUses(since: 20)) == ["20 android none 6 1", "20 ios 4.2 9 6", "21 ios 4.2 6 1"])
        #expect(try await Self.shown(store.appUses(since: 21)) == ["21 ios 4.2 6 1"])
        try await store.add([Self.use(28, "ios", "4.2", 1)])
        #expect(try await Self.shown(store.appUses(since: 0)) == ["21 ios 4.2 6 1", "28 ios 4.2 1 1"])
    }

    @Test(arguments: Backend.allCases) func aDayHasRoomForSoManyVersions(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        try await store.add((0..<600).map { Self.use(20, "ios", "1.\($0)", 1) })
        try await store.add((500..<1_100).map { Self.use(20, "ios", "1.\($0)", 1) } + [Self.use(20, "-", "none", 1)])
        let uses = try await store.appUses(since: 20)
        #expect(uses.count == 1_002 && uses.filter { $0.key.version == AppUse.other }.map(\.requests) == [100])
        #expect(uses.reduce(0) { $0 + $1.requests } == 1_201)
    }
}
