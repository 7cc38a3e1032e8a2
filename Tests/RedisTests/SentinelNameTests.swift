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
}
