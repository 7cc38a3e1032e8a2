import Foundation
import Synchronization
import TestServers
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Redis

/// The watch and a worker's nodes with real nodes of a cluster.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ClusterWatchTests {
    /// A node with these slots, which knows no other.
    private static func node(_ slots: ClosedRange<Int> = 0...16_383) throws -> RedisServer {
        let server = try RedisServer(.tcp, ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"], isClusterNode: true)
        #expect(try server.ask("CLUSTER", "ADDSLOTSRANGE", "\(slots.lowerBound)", "\(slots.upperBound)") == "+OK")
        return server
    }

    /// Events of a watch, in their order.
    private final class Reports: Sendable {
        private let events = Mutex<[RedisClusterWatch.Event]>([])

        func add(_ event: RedisClusterWatch.Event) { events.withLock { $0.append(event) } }

        var maps: [RedisClusterMap] {
            events.withLock { $0.compactMap { if case .map(let map) = $0 { map } else { nil } } }
        }
        var problems: [String?] {
            events.withLock { $0.compactMap { if case .problem(let text) = $0 { text } else { nil } } }
        }

        func wait(_ isReached: (Reports) -> Bool) throws {
            for _ in 0..<6_000 {
                if isReached(self) { return }
                usleep(10_000)
            }
            throw TestFault("nothing was reported in a minute")
        }
    }

    @Test func `a watch tells the map, and again when it has changed`() throws {
        let (server, away, reports) = (try Self.node(), try HeldPort(), Reports())
        let endpoint = try RedisEndpoint(parsing: "redis+cluster://\(away.address),\(server.address)")
        let watch = try RedisClusterWatch(endpoint) { reports.add($0) }
        try reports.wait { $0.maps.first?.isWhole == true }
        #expect(reports.maps[0].nodes.map(\.name) == ["\(server.address)"])
        #expect(reports.maps[0].nodes[0].addresses == [server.address])
        try server.ask("CLUSTER", "DELSLOTS", "7")
        watch.refresh()
        try reports.wait { $0.maps.last?.owner(ofSlot: 7) == nil }
        watch.stop()
    }

    @Test func `a watch says why it has no map, and that it has one again`() throws {
        let (server, reports) = (try RedisServer(.tcp), Reports())
        server.kill()
        let watch = try RedisClusterWatch(try RedisEndpoint(parsing: "redis+cluster://\(server.address)")) { reports.add($0) }
        try reports.wait { $0.problems.last??.contains("not connected") == true }
        try server.start()
        try reports.wait { $0.problems.last??.contains("cluster support disabled") == true }
        watch.stop()
        let (node, more) = (try Self.node(), Reports())
        node.kill()
        let second = try RedisClusterWatch(try RedisEndpoint(parsing: "redis+cluster://\(node.address)")) { more.add($0) }
        try more.wait { $0.problems.contains { $0?.contains("not connected") == true } }
        try node.start()
        try more.wait { !$0.maps.isEmpty }
        second.stop()
        #expect(more.problems.last == .some(nil))
    }

    /// A worker's nodes on a loop that the test turns.
    private struct Station: ~Copyable {
        var loop: EventLoop
        var nodes: RedisNodes
        var call = RedisCall()
        let script: RedisScriptID

        init(replyDeadline: UInt64 = 60_000) throws {
            loop = try EventLoop()
            var scripts = RedisScripts()
            script = scripts.register(RedisScript(name: "incr", source: "return redis.call('INCR', KEYS[1])"))
            nodes = RedisNodes(firstToken: 9 << 56) { [scripts] place, token, now in
                var settings = RedisConnectionSettings()
                (settings.replyDeadline, settings.isClusterNode) = (replyDeadline, true)
                (settings.connectTimeout, settings.responseTimeout) = (60_000, 60_000)
                return try! RedisConnection(
                    RedisEndpoint(parsing: "redis+cluster://a").server(at: place.address), addresses: place.addresses, scripts: scripts,
                    settings: settings, token: token, seed: 1, now: now)
            }
        }

        mutating func turn() -> [RedisResult] {
            let now = EventLoop.now().monotonic
            nodes.flush(now, loop)
            let count = loop.wait(milliseconds: 5)
            for index in 0..<count { nodes.ready(loop.ready(index), now, loop) }
            nodes.timedOut(now, loop)
            var results: [RedisResult] = []
            while let result = nodes.next(now) { results.append(result) }
            return results
        }

        mutating func waitForAll() throws {
            for _ in 0..<6_000 {
                if nodes.areAllUsable { return }
                _ = turn()
            }
            throw TestFault("not all nodes are there")
        }

        mutating func waitForTheEnd(of node: Int) throws {
            for _ in 0..<6_000 {
                if !nodes.isInUse(node) { return }
                _ = turn()
            }
            throw TestFault("a node is kept")
        }

        mutating func begin(_ tag: HashTag) {
            call.begin(script, keys: 1)
            call.arguments.append(Array("x:{b\(tag.number)}".utf8).rawBytes)
        }

        /// The error of the only result, or "".
        mutating func result() throws -> (RedisOutcome, RedisClusterError?) {
            for _ in 0..<6_000 {
                let now = EventLoop.now().monotonic
                nodes.flush(now, loop)
                let count = loop.wait(milliseconds: 5)
                for index in 0..<count { nodes.ready(loop.ready(index), now, loop) }
                nodes.timedOut(now, loop)
                if let result = nodes.next(now) { return (result.outcome, RedisClusterError(nodes.bytes(0))) }
            }
            throw TestFault("no result")
        }
    }

    private static func map(_ server: RedisServer) throws -> RedisClusterMap {
        let reports = Reports()
        let watch = try RedisClusterWatch(try RedisEndpoint(parsing: "redis+cluster://\(server.address)")) { reports.add($0) }
        try reports.wait { !$0.maps.isEmpty }
        watch.stop()
        return reports.maps[0]
    }

    @Test func `a redirect leads to the node that has the key, and a node that has left is closed`() throws {
        let (one, other) = (try Self.node(0...8_191), try Self.node(8_192...16_383))
        let bus = try other.ask("CONFIG", "GET", "cluster-port").filter(\.isNumber)
        #expect(try one.ask("CLUSTER", "MEET", "127.0.0.1", "\(other.address.port!)", bus) == "+OK")
        for node in [one, other] {
            for _ in 0..<3_000 {
                let state = try node.ask("CLUSTER", "INFO")
                if state.contains("cluster_state:ok"), state.contains("cluster_slots_ok:16384") { break }
                usleep(10_000)
            }
        }
        var station = try Station()
        let now = EventLoop.now().monotonic
        station.nodes.adopt(try Self.map(one), now)
        try station.waitForAll()
        let count = station.nodes.count
        #expect(count == 2)
        let tag = try #require((0..<256).map { HashTag(UInt8($0)) }.first { RedisSlot.ofTags[Int($0.number)] < 8_192 })
        let owner = station.nodes.owner(tag)
        let right = try #require(owner)
        // Sent to the wrong one.
        station.begin(tag)
        let sent = station.nodes.append(station.call, to: 1 - right, tag: 1, now)
        #expect(sent == .accepted)
        let (outcome, error) = try station.result()
        #expect(outcome == .refused(.cluster))
        guard case .moved(let redirect)? = error else { throw TestFault("no MOVED but \(String(describing: error))") }
        let named = station.nodes.node(redirect, now)
        #expect(named == right)
        let wanted = (station.nodes.takeMapWanted(now), station.nodes.takeMapWanted(now))
        #expect(wanted == (true, false))
        // The node refuses this key alone.
        let areUsable = station.nodes.areAllUsable
        #expect(areUsable)
        station.begin(tag)
        let again = station.nodes.append(station.call, redirectedTo: right, at: now, asking: true, tag: 2, now)
        #expect(again == .accepted)
        let answer = try station.result().0
        let number = station.nodes.integer(0)
        #expect(answer == .answered && number == 1)
        // A map without the other node.
        station.nodes.adopt(try #require(Self.alone(try Self.map(one), right)), now)
        while station.nodes.takeChange() != nil {}
        try station.waitForTheEnd(of: 1 - right)
        let left = (station.nodes.isReady(right), station.nodes.owner(tag))
        #expect(left == (true, right))
    }

    /// It takes commands and does not answer. Its replica may have its slots by now.
    @Test func `the map is wanted for as long as the circuit breaker of a node is open, every 50 ms`() throws {
        let server = try Self.node()
        var station = try Station(replyDeadline: 20)
        station.nodes.adopt(try Self.map(server), EventLoop.now().monotonic)
        try station.waitForAll()
        server.pause()
        defer { server.resume() }
        var now = EventLoop.now().monotonic
        for tag in 0..<5 as Range<UInt64> {
            station.begin(HashTag(0))
            let sent = station.nodes.append(station.call, to: 0, tag: tag, now)
            #expect(sent == .accepted)
            station.nodes.flush(now, station.loop)
            now = now.advanced(milliseconds: 25)
            station.nodes.timedOut(now, station.loop)
            let result = station.nodes.next(now)
            #expect(result?.outcome == .late)
        }
        for _ in 0..<3 {
            var before = station.nodes.takeMapWanted(now)
            #expect(!before)
            station.begin(HashTag(0))
            let refused = station.nodes.append(station.call, to: 0, tag: 9, now)
            #expect(refused == .breakerOpen)
            before = station.nodes.takeMapWanted(now)
            let again = station.nodes.append(station.call, to: 0, tag: 9, now) == .breakerOpen && station.nodes.takeMapWanted(now)
            #expect(before && !again)
            now = now.advanced(milliseconds: 60)
            _ = station.nodes.takeMapWanted(now)
            now = now.advanced(milliseconds: 60)
        }
    }

    /// The map in which node 0 has all slots, as a new cluster of one node tells it.
    private static func alone(_ map: RedisClusterMap, _ node: Int) -> RedisClusterMap? {
        var reader = RedisReplyReader()
        let port = map.nodes.filter(\.isPrimary)[node].port
        reader.feed(Array("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:\(port)\r\n".utf8))
        guard reader.next() == .complete, var map = RedisClusterMap(slots: reader.reply, askedAt: "127.0.0.1") else { return nil }
        map.resolve { [$0.address.fixed].compactMap(\.self) }
        return map
    }
}
