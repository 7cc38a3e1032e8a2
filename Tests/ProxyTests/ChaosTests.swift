import Credentials
import Gate
import Glibc
import Synchronization
import Telemetry
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Many clients and upstreams at once that do as they please: answers find their way, and nothing is left behind.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct ChaosTests {
    private final class Tally: Sendable {
        let complaints = Mutex<[String]>([])
        let answered = Atomic<Int>(0)
    }

    @Test func everyGoodRequestGetsItsOwnAnswerAndNothingIsLeftBehind() throws {
        let seconds: UInt64 = 6
        let upstreams = try (0..<2).map { try ChaosUpstream(seed: 100 + UInt64($0)) }
        let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)]
        let declared = [RunningWorker.upstream("back", upstreams.map(\.address)) { $0.retries = 2 }]
        let worker = try RunningWorker(rules, upstreams: declared)
        let tally = Tally()
        let end = EventLoop.now().monotonic.advanced(milliseconds: seconds * 1_000)
        let threads = try (0..<8).map { number in
            let address = worker.address
            return try WorkerThread(name: "client") {
                var client = ChaosClient("c\(number)", to: address, seed: UInt64(number))
                while EventLoop.now().monotonic < end { client.connectOnce() }
                let (complaints, answered) = (client.complaints, client.answered)
                tally.complaints.withLock { $0 += complaints }
                tally.answered.wrappingAdd(answered, ordering: .relaxed)
            }
        }
        try reload(worker, rules, declared, until: end)
        for thread in threads { thread.join() }
        let complaints = tally.complaints.withLock { $0 }
        #expect(complaints.isEmpty, "\(complaints.count): \(complaints.prefix(12).joined(separator: "\n"))")
        #expect(tally.answered.load(ordering: .relaxed) > 100)
        let left = worker.census { $0.isAtRest }
        #expect(left.isAtRest, "\(left)")
        let (turns, start) = (worker.census.turns, EventLoop.now().monotonic)
        usleep(1_000_000)
        let more = worker.census.turns - turns
        // A second may be longer on a busy machine.
        let passed = Int(EventLoop.now().monotonic.nanoseconds(since: start) / 1_000_000_000)
        #expect(more < 100 * passed)
        worker.stop()
        for upstream in upstreams { upstream.stop() }
    }

    /// Takes over the same configuration again and again while requests are under way.
    private func reload(_ worker: RunningWorker, _ rules: [RouteRule], _ upstreams: [UpstreamSnapshot], until end: MonotonicTime) throws {
        var labels = MetricLabels(WorkerTelemetry.words)
        while EventLoop.now().monotonic < end {
            labels.declare(routes: rules.map(\.name), upstreams: ["back"], tiers: ["free", "premium"], issuers: [])
            worker.mailbox.post(
                .adopt(try Policy(rules: rules, trust: Trust(issuers: [])), upstreams, WorkerSettings(), labels))
            usleep(20_000)
        }
    }
}
