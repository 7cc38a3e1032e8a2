import Glibc
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

/// Lookups of sentinels' names, with a name server that answers when it is told to.
@Suite(.ownThread) struct SentinelNameTests {
    private final class Server: Sendable {
        let asked = Mutex<[RedisEndpoint.Address]>([])
        let answers = Atomic(0)
        let found = Mutex<[RedisEndpoint.Address]>([])

        @Sendable func lookUp(_ address: RedisEndpoint.Address) -> [SocketAddress] {
            let number = asked.withLock { asked in
                asked.append(address)
                return asked.count
            }
            while answers.load(ordering: .acquiring) < number { usleep(1_000) }
            return []
        }

        func wait(_ count: Int) { while asked.withLock({ $0.count }) < count { usleep(1_000) } }
    }

    private func name(_ text: String) -> RedisEndpoint.Address { .host(text, port: 26_379) }

    @Test func aNameThatWaitsIsLookedUpOnceAndAStopWaitsForOneLookup() throws {
        let server = Server()
        let names = try SentinelNames(lookUp: server.lookUp) { address, _ in server.found.withLock { $0.append(address) } }
        names.resolve(name("a"))
        server.wait(1)
        // The next answer to this question may be another one than that of the lookup under way.
        for _ in 0..<5 { for text in ["a", "b", "c"] { names.resolve(name(text)) } }
        server.answers.store(3, ordering: .releasing)
        server.wait(4)
        #expect(server.asked.withLock { $0 } == ["a", "a", "b", "c"].map(name))
        names.resolve(name("d"))
        names.resolve(name("e"))
        names.end()
        server.answers.store(100, ordering: .releasing)
        names.stop()
        #expect(server.asked.withLock { $0.count } == 4 && server.found.withLock { $0.count } == 4)
    }

    /// A cluster of three names: while its map is taken over each is looked up, on the watch's thread.
    @Test func theEndOfAClusterWatchWaitsForOneLookup() throws {
        let server = Server()
        let nodes = ["a", "b", "c"].enumerated().map { number, name in
            let (first, last) = (number * 5_462, min(16_383, number * 5_462 + 5_461))
            return "*3\r\n:\(first)\r\n:\(last)\r\n*3\r\n$1\r\n\(name)\r\n:6379\r\n$2\r\nid\r\n"
        }
        let cluster = try FakeServer { peer, _ in
            while let heard = peer.hear() {
                let words = String(decoding: heard, as: UTF8.self)
                if words.contains("SHARDS") { peer.say("-ERR unknown subcommand\r\n") }
                if words.contains("SLOTS") { peer.say("*3\r\n" + nodes.joined()) }
            }
        }
        let watch = try RedisClusterWatch(try RedisEndpoint(parsing: "redis+cluster://\(cluster.address)"), lookUp: server.lookUp) { _ in }
        server.wait(1)
        watch.end()
        server.answers.store(100, ordering: .releasing)
        watch.stop()
        #expect(server.asked.withLock { $0.count } == 1)
    }
}
