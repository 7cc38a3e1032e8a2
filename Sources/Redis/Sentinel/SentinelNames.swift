import System
import Threads
import Transport
import Wire

/// Resolves names of sentinels and servers on a thread of its own, because a resolver blocks.
final class SentinelNames: Sendable {
    private enum Question: Sendable {
        case resolve(RedisEndpoint.Address)
        case stop
    }

    private let questions: Mailbox<Question>
    private let thread: WorkerThread

    /// `found` is called on that thread, with no addresses if the name has none now.
    init(
        lookUp: @escaping @Sendable (RedisEndpoint.Address) -> [SocketAddress] = SentinelNames.addresses(of:),
        _ found: @escaping @Sendable (RedisEndpoint.Address, [SocketAddress]) -> Void
    ) throws(SystemFault) {
        let waker = try Waker()
        let questions = Mailbox<Question>(waker: waker)
        self.questions = questions
        thread = try WorkerThread(name: "sentinel names") {
            // With name servers that do not answer, a lookup takes longer than it is until names are asked for again: each waits once.
            var waiting: [RedisEndpoint.Address] = []
            while true {
                if waiting.isEmpty { waker.wait() }
                for question in questions.take() {
                    switch question {
                    case .resolve(let address): if !waiting.contains(address) { waiting.append(address) }
                    case .stop: return
                    }
                }
                guard !waiting.isEmpty else { continue }
                let address = waiting.removeFirst()
                found(address, lookUp(address))
            }
        }
    }

    /// Any thread; returns at once.
    func resolve(_ address: RedisEndpoint.Address) { questions.post(.resolve(address)) }

    /// No lookup begins any more.
    func end() { questions.post(.stop) }

    /// Waits for the lookup under way. Blocks.
    func stop() {
        end()
        thread.join()
    }

    @Sendable static func addresses(of address: RedisEndpoint.Address) -> [SocketAddress] {
        guard case .host(let host, let port) = address else { return [] }
        do {
            return try Resolver.resolve(host: host, port: port)
        } catch {
            // Asked again a moment later.
            return []
        }
    }
}
