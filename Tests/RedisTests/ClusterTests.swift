import TestThreads
import Testing
import Wire

@testable import Redis

/// Slots, the replies about a cluster, and the map that they make.
@Suite(.ownThread) struct ClusterTests {
    // MARK: slots

    /// 0x31C3 is the check value of CRC16-XMODEM; the slots are those that redis-server's CLUSTER KEYSLOT tells.
    @Test(arguments: [("", 0), ("123456789", 0x31C3), ("foo", 44950)])
    func `CRC16 has its known values`(_ text: String, _ sum: UInt16) {
        #expect(text.withRawBytes { RedisSlot.crc16($0) } == sum)
    }

    @Test(arguments: [
        ("foo", 12182), ("bar", 5061), ("hello", 866), ("123456789", 12739), ("", 0), ("{foo}.x", 12182), ("a{foo}b{bar}", 12182),
    ])
    func `a key's slot is that of its hash tag, if it has one`(_ key: String, _ slot: UInt16) {
        #expect(key.withRawBytes { RedisSlot.of($0) } == slot)
    }

    @Test(arguments: ["{}foo", "foo{}{bar}", "{foo", "foo}", "}{"])
    func `a key without a hash tag counts whole`(_ key: String) {
        #expect(key.withRawBytes { RedisSlot.of($0) == RedisSlot.crc16($0) % 16_384 })
    }

    @Test func `the slots of hash tags are those of keys that have them`() {
        for number in 0..<HashTag.count {
            #expect("tollgate:{b\(number)}rl:0".withRawBytes { RedisSlot.of($0) } == RedisSlot.ofTags[number])
            #expect(HashTag(UInt8(number)).length == "{b\(number)}".utf8.count)
        }
        #expect(Set(RedisSlot.ofTags).count == 256)
    }

    // MARK: errors

    @Test func `errors about the cluster are told apart`() {
        let errors: [(String, RedisClusterError?)] = [
            ("MOVED 3999 127.0.0.1:6381", .moved(.init(slot: 3999, host: "127.0.0.1", port: 6381))),
            ("ASK 0 redis-1.example:1", .ask(.init(slot: 0, host: "redis-1.example", port: 1))),
            ("MOVED 1 2001:db8::7:6379", .moved(.init(slot: 1, host: "2001:db8::7", port: 6379))),
            ("MOVED 1 [2001:db8::7]:6379", .moved(.init(slot: 1, host: "2001:db8::7", port: 6379))),
            ("MOVED 16383 :6379", .moved(.init(slot: 16383, host: "", port: 6379))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
            ("CROSSSLOT Keys in request don't hash to the same slot", .crossSlot),
            ("CLUSTERDOWN Hash slot not served", .notServed), ("CLUSTERDOWN The cluster is down", .down),
            ("MOVED 16384 127.0.0.1:1", nil), ("MOVED 1 127.0.0.1", nil), ("MOVED 1 127.0.0.1:0", nil), ("MOVED 1 127.0.0.1:65536", nil),
            ("MOVED 1 127.0.0.1:x", nil), ("MOVED -1 127.0.0.1:1", nil), ("MOVED x 127.0.0.1:1", nil), ("MOVED 1 a b:1", nil),
            ("MOVED 1 a/b:1", nil), ("MOVED", nil), ("MOVED ", nil), ("ASK 1", nil), ("ASK  1 a:1", nil), ("OOM no", nil), ("", nil),
            ("MOVED 1 :", nil), ("MOVED 99999999999999999999 a:1", nil),
        ]
        for (text, error) in errors { #expect(text.withRawBytes { RedisClusterError($0) } == error, "\(text)") }
    }

    // MARK: maps

    private static func shards(_ text: String, usesTLS: Bool = false) -> RedisClusterMap? {
        var reader = RedisReplyReader()
        reader.feed(Array(text.utf8))
        guard reader.next() == .complete else { return nil }
        return RedisClusterMap(shards: reader.reply, askedAt: "10.0.0.9", usesTLS: usesTLS)
    }

    private static func slots(_ text: String) -> RedisClusterMap? {
        var reader = RedisReplyReader()
        reader.feed(Array(text.utf8))
        guard reader.next() == .complete else { return nil }
        return RedisClusterMap(slots: reader.reply, askedAt: "10.0.0.9")
    }

    /// A value as RESP2: numbers, texts, nil and arrays.
    private static func resp(_ value: Any?) -> String {
        switch value {
        case let number as Int: return ":\(number)\r\n"
        case let text as String: return "$\(text.utf8.count)\r\n\(text)\r\n"
        case let values as [Any?]: return "*\(values.count)\r\n" + values.map(resp).joined()
        default: return "$-1\r\n"
        }
    }

    private static func node(
        _ host: String?, _ port: Int, _ role: String = "master", health: String = "online", endpoint: String?? = .none
    ) -> [Any?] {
        [
            "id", "0123", "port", port, "tls-port", port + 1, "ip", host, "endpoint", endpoint ?? host, "role", role,
            "replication-offset", 7, "health", health, "something new", ["x"],
        ]
    }

    private static var three: [Any?] {
        [
            ["slots", [0, 5460], "nodes", [node("10.0.0.1", 6379), node("10.0.0.4", 6379, "replica")]],
            ["slots", [5461, 10922], "nodes", [node("10.0.0.2", 6379, "replica"), node("10.0.0.5", 6379)]],
            ["slots", [10923, 16000, 16001, 16383], "nodes", [node("redis-3.example", 7000)]],
        ]
    }

    @Test func `a map names the primary of each slot`() throws {
        let map = try #require(Self.shards(Self.resp(Self.three)))
        #expect(map.nodes.map(\.name) == ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.4:6379", "10.0.0.5:6379", "redis-3.example:7000"])
        #expect(map.nodes.map(\.isPrimary) == [true, false, false, true, true])
        let owners = [0, 5460, 5461, 10922, 10923, 16000, 16383].map { map.owner(ofSlot: $0) }
        #expect(owners == [0, 0, 3, 3, 4, 4, 4])
        #expect(map.isWhole)
        #expect(Self.shards(Self.resp(Self.three), usesTLS: true)?.nodes[0].port == 6380)
        #expect(Self.shards(Self.resp(Array(Self.three.reversed()))) == map, "each node tells them in another order")
        #expect(map.uncovered == 0)
    }

    @Test func `nodes that are away, slots without one and nodes without an address are seen`() throws {
        let failed = try #require(Self.shards(Self.resp([["slots", [0, 16383], "nodes", [Self.node("10.0.0.1", 1, health: "fail")]]])))
        #expect(!failed.isWhole && failed.nodes[0].isAway)
        let gap = try #require(Self.shards(Self.resp([["slots", [0, 9, 11, 16383], "nodes", [Self.node("10.0.0.1", 1)]]])))
        #expect(gap.uncovered == 1 && !gap.isWhole && gap.owner(ofSlot: 10) == nil && gap.owner(ofSlot: 11) == 0)
        // After a failover the old primary may still be shown as one.
        let two = [["slots", [0, 16383], "nodes", [Self.node("10.0.0.1", 1, health: "fail"), Self.node("10.0.0.2", 1)]]]
        #expect(try #require(Self.shards(Self.resp(two))).owner(ofSlot: 7) == 1)
        for endpoint in ["?", "", nil] as [String?] {
            let map = try #require(Self.shards(Self.resp([["slots", [], "nodes", [Self.node("", 1, endpoint: endpoint)]]])))
            #expect(map.nodes.map(\.name) == ["10.0.0.9:1"])
        }
        let announced = try #require(Self.shards(Self.resp([["slots", [], "nodes", [Self.node("10.0.0.1", 1, endpoint: "a.example")]]])))
        #expect(announced.nodes.map(\.name) == ["a.example:1"])
    }

    @Test func `the older command gives the same map`() throws {
        let old: [Any?] = [
            [0, 5460, ["10.0.0.1", 6379, "id"], ["10.0.0.4", 6379, "id", ["hostname", "x"]]],
            [5461, 16383, [nil, 6379, "id"]],
        ]
        let map = try #require(Self.slots(Self.resp(old)))
        #expect(map.nodes.map(\.name) == ["10.0.0.1:6379", "10.0.0.4:6379", "10.0.0.9:6379"])
        #expect(map.owner(ofSlot: 5460) == 0 && map.owner(ofSlot: 5461) == 2 && map.isWhole)
    }

    @Test func `a malformed reply is no map`() {
        let bad: [Any?] = [
            5, "text", nil, [5], [[]] as [Any?], [["slots", [0, 1]]], [["slots", [0], "nodes", []]], [["slots", "x", "nodes", []]],
            [["slots", [1, 0], "nodes", [Self.node("a", 1)]]], [["slots", [-1, 0], "nodes", [Self.node("a", 1)]]],
            [["slots", [0, 16384], "nodes", [Self.node("a", 1)]]], [["slots", [0, Int.max], "nodes", [Self.node("a", 1)]]],
            [["slots", [], "nodes", [["port", 0, "role", "master"]]]], [["slots", [], "nodes", [["port", 65536, "role", "master"]]]],
            [["slots", [], "nodes", [["port", 1]]]], [["slots", [], "nodes", [["port"]]]], [["slots", [], "nodes", [7]]],
            [["slots", ["0", "1"], "nodes", [Self.node("a", 1)]]],
        ]
        for value in bad {
            #expect(Self.shards(Self.resp(value)) == nil)
            #expect(Self.slots(Self.resp(value)) == nil)
        }
        #expect(Self.shards("-ERR unknown subcommand\r\n") == nil)
        for value in [[[0, 1]], [[0, 1, ["a"]]], [[0, 1, ["a", 0]]], [[5, 1, ["a", 1]]], [[0, 16384, ["a", 1]]], [[0, 1, []]]] as [[Any?]] {
            #expect(Self.slots(Self.resp(value)) == nil)
        }
    }

    /// Nothing that a stranger sends traps, and what is accepted is a map whose owners exist.
    @Test func `no reply traps`() {
        var random = SplitMix64(seed: 17)
        let good = Array(Self.resp(Self.three).utf8)
        for _ in 0..<4_000 {
            var bytes = good
            for _ in 0...random.next() % 4 {
                let place = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 3 {
                case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes.remove(at: place)
                default: bytes.insert(UInt8(ascii: "0") + UInt8(random.next() % 10), at: place)
                }
            }
            var reader = RedisReplyReader()
            reader.feed(bytes)
            while reader.next() == .complete {
                for map in [
                    RedisClusterMap(shards: reader.reply, askedAt: "h", usesTLS: true), RedisClusterMap(slots: reader.reply, askedAt: "h"),
                ] {
                    guard let map else { continue }
                    let owners = stride(from: 0, to: UInt16(RedisSlot.count), by: 61).compactMap { map.owner(ofSlot: $0) }
                    #expect(owners.allSatisfy { map.nodes.indices.contains($0) })
                }
                let text = reader.reply.bytes(0)
                _ = RedisClusterError(text)
            }
        }
    }

    // MARK: the schedule

    @Test func `a map is read again after five seconds, and sooner when slots are missing or a worker asks`() {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var schedule = RedisMapSchedule()
        #expect(schedule.due == nil)
        schedule.began(start)
        schedule.ended(isWhole: true)
        #expect(schedule.due == start.advanced(milliseconds: 5_000))
        schedule.wanted()
        #expect(schedule.isAsked && schedule.due == start.advanced(milliseconds: 100))
        schedule.began(start)
        #expect(!schedule.isAsked)
        schedule.ended(isWhole: false)
        #expect(schedule.due == start.advanced(milliseconds: 500))
    }
}
