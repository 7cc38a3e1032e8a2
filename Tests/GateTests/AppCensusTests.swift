import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// The counts of one worker beside a dictionary, and clients that make versions up.
@Suite struct AppCensusTests {
    private static let hash = KeyedHash(first: 1, second: 2)
    private static let noon = WallTime(seconds: 1_800_000_000)
    private static func client(_ number: Int) -> UInt64 { hash.hash64([UInt8(number & 0xFF), UInt8(number >> 8 & 0xFF), 7].rawBytes) }

    private static func gates(_ names: String...) -> [VersionGate] { names.map { VersionGate(name: $0) } }

    private static func count(
        _ census: inout AppCensus, _ version: String, by number: Int, gate: UInt8 = 0, at now: WallTime = noon
    ) {
        guard let numbers = AppVersion(version) else {
            return census.count(gate: gate, .none, id: UInt64(gate), client: client(number), at: now)
        }
        census.count(gate: gate, .numbers(numbers), id: numbers.hash(hash, gate: gate), client: client(number), at: now)
    }

    private static func shown(_ tallies: [AppCensus.Tally]) -> [String: UInt64] {
        tallies.reduce(into: [:]) { all, tally in
            let version =
                switch tally.version {
                case .numbers(let numbers): numbers.text
                case .none: "none"
                case .other: "other"
                }
            all["\(tally.gate ?? "-") \(version)", default: 0] += tally.requests
        }
    }

    @Test func countsAreThoseOfADictionary() {
        var (census, random) = (AppCensus(), SplitMix64(seed: 5))
        census.adopt(Self.gates("ios", "android"))
        var (requests, users): ([String: UInt64], [String: Set<Int>]) = ([:], [:])
        var taken: [AppCensus.Tally] = []
        for round in 0..<20_000 {
            let (minor, gate, user) = (random.next() % 30, UInt8(random.next() % 3), Int(random.next() % 60))
            let version = minor == 0 ? "none" : ["4.\(minor)", "v4.\(minor).0", "4.\(minor)-beta"][Int(random.next() % 3)]
            Self.count(&census, version, by: user, gate: gate == 2 ? VersionGate.none : gate)
            let key = "\(["ios", "android", "-"][Int(gate)]) \(minor == 0 ? "none" : "4.\(minor)")"
            requests[key, default: 0] += 1
            users[key, default: []].insert(user)
            if round % 999 == 0 { taken += census.take() }
        }
        let rest = census.take()
        #expect(Self.shown(taken + rest) == requests && census.take().isEmpty)
        for tally in rest {
            let key = Self.shown([tally]).keys.first ?? ""
            #expect(abs(tally.users.count - (users[key]?.count ?? 0)) <= 12, "\(key): each tally has all users of the day")
        }
    }

    @Test func oneClientThatMakesVersionsUpHasItsShareAlone() {
        var census = AppCensus()
        census.adopt(Self.gates("ios"))
        Self.count(&census, "1.1", by: 1)
        for version in 0..<50_000 { Self.count(&census, "9.\(version)", by: 666) }
        Self.count(&census, "1.2", by: 2)
        let found = Self.shown(census.take())
        #expect(found["ios 1.1"] == 1 && found["ios 1.2"] == 1 && found["ios other"] == 49_992 && found.count == 11)
    }

    /// A version that both send counts for the one that sent it first.
    @Test func twoClientsThatMakeTheSameVersionsUpHaveTheirSharesAlone() {
        var census = AppCensus()
        census.adopt(Self.gates("ios"))
        for version in 0..<1_000 { for number in [666, 667] { Self.count(&census, "9.\(version)", by: number) } }
        Self.count(&census, "1.2", by: 2)
        let found = Self.shown(census.take())
        #expect(found["ios 1.2"] == 1 && found["ios 9.0"] == 2 && found["ios 9.16"] == nil)
        #expect(found.count == 2 * AppCensus.shareOfOne + 2)
    }

    /// A thousand addresses; a version that two clients have stays, and a new one finds a place.
    @Test func manyClientsEvictOneAnother() {
        var census = AppCensus()
        census.adopt(Self.gates("ios"))
        for number in 1...2 { Self.count(&census, "1.1", by: number) }
        for version in 0..<20_000 { Self.count(&census, "9.\(version)", by: 1_000 + version % 1_000) }
        for number in 1...2 { Self.count(&census, "1.2", by: number) }
        for version in 20_000..<40_000 { Self.count(&census, "9.\(version)", by: 1_000 + version % 1_000) }
        let tallies = census.take()
        let found = Self.shown(tallies)
        #expect(found["ios 1.1"] == 2 && found["ios 1.2"] == 2)
        #expect(tallies.count == AppCensus.capacity + 1 && found.values.reduce(0, +) == 40_004)
        #expect(Self.shown(census.take()).isEmpty)
    }

    /// Earlier counts belong to that day, and to the gates of that time.
    @Test func aDayAndTheGatesEnd() {
        var census = AppCensus()
        census.adopt(Self.gates("ios"))
        Self.count(&census, "1.1", by: 1)
        Self.count(&census, "1.1", by: 2, at: WallTime(seconds: Self.noon.seconds + 86_400))
        census.adopt(Self.gates("android", "ios"))
        Self.count(&census, "1.1", by: 3, at: WallTime(seconds: Self.noon.seconds + 86_400))
        let tallies = census.take()
        #expect(tallies.map(\.day) == [20_833, 20_834, 20_834] && tallies.map(\.gate) == ["ios", "ios", "android"])
        #expect(tallies.map(\.users.count) == [1, 1, 1])
    }

    /// The same user from two addresses is one; without a user it is the address.
    @Test func usersAreCountedByTheirId() throws {
        var rule = GateTests.rule("api", "/*", auth: .optional)
        rule.app = .optional
        let policy = try Policy(rules: [rule], trust: AdmissionHarness.trust(), versionGates: Self.gates("ios"))
        var admission = Admission(policy: policy, limiter: SharedLimiter(capacity: 8), cacheCapacity: 8)
        var decision = Decision()
        var head = RequestHead()
        var census = AppCensus()
        census.adopt(policy.versionGates)
        for (token, address) in [("ada", "192.0.2.1"), ("ada", "192.0.2.2"), ("", "192.0.2.1"), ("", "192.0.2.1"), ("bob", "192.0.2.1")] {
            let bearer = token.isEmpty ? "" : "Authorization: Bearer \(AdmissionHarness.token(token))\r\n"
            let bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nX-App-Version: 1.1\r\n\(bearer)\r\n".utf8)
            #expect(head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete)
            let peer = Peer(address: try #require(IPAddress(parsing: address)))
            _ = admission.admit(head, bytes.rawBytes, peer: peer, at: AdmissionHarness.now, &decision)
            admission.count(decision, in: &census, at: AdmissionHarness.now.wall)
        }
        let tallies = census.take()
        #expect(tallies.map(\.requests) == [5] && tallies.map(\.users.count) == [3])
    }
}
