import System
import Threads
import Transport
import Wire

/// Something that the owner of a `SentinelWatch` learns, for the log and readiness.
package enum SentinelEvent: Equatable, Sendable {
    /// The server at this address was confirmed.
    case primary(RedisEndpoint.Address)
    /// Why there is no primary, or why a failover would not be noticed, as a clause; nil once all is well.
    case changed(problem: String?)
    /// Why this sentinel cannot be asked, as a clause; nil once it can.
    case sentinel(RedisEndpoint.Address, problem: String?)
}

/// Follows the primary of `redis+sentinel://` for the whole process: asks the sentinels and tells followers which server to
/// connect to, on a thread of its own. `SentinelState` decides.
package final class SentinelWatch: Sendable {
    package typealias Follower = @Sendable (RedisServer) -> Void

    enum Message: Sendable {
        case follow(Follower)
        case ask
        case resolved(RedisEndpoint.Address, [SocketAddress])
        case stop
    }

    private let mailbox: Mailbox<Message>
    private let thread: WorkerThread
    private let names: SentinelNames

    /// nil for an endpoint without sentinels.
    ///
    /// - Parameters:
    ///   - seed: of the jitter.
    ///   - report: called on the watch's thread; must not block.
    package init?(_ endpoint: RedisEndpoint, seed: UInt64, report: @escaping @Sendable (SentinelEvent) -> Void) throws {
        guard case .sentinel(let addresses, let master) = endpoint.topology else { return nil }
        let waker = try Waker()
        let mailbox = Mailbox<Message>(waker: waker)
        let names = try SentinelNames { mailbox.post(.resolved($0, $1)) }
        self.mailbox = mailbox
        self.names = names
        let tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        thread = try WorkerThread(name: "sentinels") {
            do throws(SystemFault) {
                var run = SentinelRun(
                    endpoint, sentinels: addresses, master: master, tls: tls, names: names, loop: try EventLoop(waker: waker), seed: seed,
                    report: report)
                while run.turn(mailbox) {}
            } catch {
                report(.changed(problem: error.description))
            }
        }
    }

    /// Calls `follower` with the server, now if there is one and whenever it changes, in order, on the watch's thread. It must not
    /// block. Any thread.
    package func follow(_ follower: @escaping Follower) { mailbox.post(.follow(follower)) }

    /// The primary may be another one: a connection to it was lost, or it answered READONLY. Any thread; returns at once.
    package func ask() { mailbox.post(.ask) }

    /// Ends the threads and waits for them.
    package func stop() {
        mailbox.post(.stop)
        thread.join()
        names.stop()
    }
}
