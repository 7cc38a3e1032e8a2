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
    init(_ found: @escaping @Sendable (RedisEndpoint.Address, [SocketAddress]) -> Void) throws(SystemFault) {
        let waker = try Waker()
        let questions = Mailbox<Question>(waker: waker)
        self.questions = questions
        thread = try WorkerThread(name: "sentinel names") {
            while true {
                waker.wait()
                for question in questions.take() {
                    switch question {
                    case .resolve(let address): found(address, Self.addresses(of: address))
                    case .stop: return
                    }
                }
            }
        }
    }

    /// Any thread; returns at once.
    func resolve(_ address: RedisEndpoint.Address) { questions.post(.resolve(address)) }

    /// Waits for the look-up under way. Blocks.
    func stop() {
        questions.post(.stop)
        thread.join()
    }

    private static func addresses(of address: RedisEndpoint.Address) -> [SocketAddress] {
        guard case .host(let host, let port) = address else { return [] }
        do {
            return try Resolver.resolve(host: host, port: port)
        } catch {
            // Asked again a moment later.
            return []
        }
    }
}
