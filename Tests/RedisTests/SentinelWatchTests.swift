import Foundation
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

/// The watch over sentinels that say what a test wants, and real servers.
@Suite(.ownThread) struct SentinelWatchTests {
    /// Everything that a watch said.
    private final class Listener: Sendable {
        private let watch: SentinelWatch
        private let heard: Box<SentinelEvent>
        private let followed: Box<Redis.RedisServer>

        init(_ sentinels: [SocketAddress], _ options: String = "") throws {
            let hosts = sentinels.map { "\($0)" }.joined(separator: ",")
            let endpoint = try RedisEndpoint(parsing: "redis+sentinel://\(hosts)/m\(options)")
            let (events, servers) = (Box<SentinelEvent>(), Box<Redis.RedisServer>())
            watch = try #require(try SentinelWatch(endpoint, seed: 1) { events.append($0) })
            (heard, followed) = (events, servers)
            watch.follow { servers.append($0) }
        }

        deinit { watch.stop() }

        /// The server that followers should use now, as an address; "none" without one.
        var server: String { followed.all.last.map { $0.addresses.first.map { "\($0)" } ?? "none" } ?? "unknown" }
        var history: [String] { followed.all.map { $0.addresses.first.map { "\($0)" } ?? "none" } }
        var problem: String? {
            for event in heard.all.reversed() { if case .changed(let problem) = event { return problem } }
            return nil
        }
        var all: [SentinelEvent] { heard.all }

        func wait(_ what: String, _ isSo: (Listener) throws -> Bool) throws {
            let end = Date(timeIntervalSinceNow: 30)
            while try !isSo(self) {
                guard Date() < end else { throw TestFault("not in time: \(what); \(history), \(heard.all)") }
                usleep(5_000)
            }
        }
    }

    private final class Box<Element: Sendable>: Sendable {
        private let elements = Mutex<[Element]>([])
        var all: [Element] { elements.withLock { $0 } }
        func append(_ element: Element) { elements.withLock { $0.append(element) } }
    }

    private func mood(_ server: RedisServer, _ epoch: Int = 1) -> FakeSentinel.Mood { .init(port: server.address.port!, epoch: epoch) }

    /// How often a server was asked for its role.
    private func roles(_ server: RedisServer) throws -> Int {
        let text = try server.ask("INFO", "commandstats")
        guard let range = text.range(of: "cmdstat_role:calls=") else { return 0 }
        return Int(text[range.upperBound...].prefix { $0.isNumber }) ?? 0
    }

    @Test func `the primary that the sentinels name is followed, and its successor at the first word`() throws {
        let (first, second) = (try RedisServer(.tcp), try RedisServer(.tcp))
        try undisturbed {
            let sentinels = try (0..<3).map { _ in try FakeSentinel(mood(first)) }
            let listener = try Listener(sentinels.map(\.address))
            try listener.wait("the first") { $0.server == "\(first.address)" }
            try listener.wait("all is well") { $0.problem == nil }
            sentinels[1].change { $0 = mood(second, 2) }
            sentinels[1].announce()
            try listener.wait("the second") { $0.server == "\(second.address)" }
            // From one to the other, with none in between.
            return withExtendedLifetime(sentinels) { (listener.history, ["\(first.address)", "\(second.address)"]) }
        }
    }

    @Test func `a stale sentinel that names a replica is not believed, even alone`() throws {
        let (primary, replica) = (try RedisServer(.tcp), try RedisServer(.tcp))
        try replica.ask("REPLICAOF", "127.0.0.1", "\(primary.address.port!)")
        let stale = try FakeSentinel(mood(replica, 7))
        try undisturbed {
            let good = try FakeSentinel(mood(primary, 2))
            let listener = try Listener([stale.address, good.address])
            try listener.wait("the primary") { $0.server == "\(primary.address)" }
            good.end()
            try listener.wait("the loss of the good one") { $0.all.contains { if case .sentinel(_, .some) = $0 { true } else { false } } }
            let asked = try roles(replica)
            try listener.wait("two more questions to the replica") { _ in try roles(replica) > asked + 1 }
            return (listener.history, ["\(primary.address)"])
        }
        // Alone from the start, there is no primary at all.
        let other = try Listener([stale.address])
        try other.wait("the reason") { $0.problem == "the sentinels name \(replica.address), which is a replica" }
        #expect(other.history.isEmpty)
    }

    @Test func `a sentinel that hangs is told of once for each reason`() throws {
        let server = try RedisServer(.tcp)
        let (hung, good) = (try FakeSentinel(mood(server)), try FakeSentinel(mood(server)))
        let listener = try Listener([hung.address, good.address])
        try listener.wait("all is well") { $0.problem == nil && $0.server == "\(server.address)" }
        let first = hung.accepted
        hung.change { $0.isSilent = true }
        // It accepts connections, and answers none: each attempt has the same reasons in turn.
        try listener.wait("attempts") { _ in hung.accepted > first + 6 }
        let reasons = listener.all.compactMap { event -> String? in
            if case .sentinel(_, let problem) = event { problem } else { nil }
        }
        #expect(!reasons.isEmpty && Set(reasons).count == reasons.count, "\(reasons)")
        hung.change { $0.isSilent = false }
        try listener.wait("its end") { listener in
            listener.all.last.map { if case .sentinel(_, nil) = $0 { true } else { false } } ?? false
        }
    }

    @Test func `an outage has some reasons and an end`() {
        var told = ReportedReasons()
        #expect(!told.isNew(nil) && told.latest == nil)
        for number in 0..<20 where told.isNew("\(number)") {
            told.told("\(number)")
            #expect(!told.isNew("\(number)") && told.latest == "\(number)")
        }
        #expect(told.latest == "7" && told.isNew(nil))
        told.told(nil)
        #expect(told.isNew("0") && !told.isNew(nil))
    }

    @Test func `a primary that becomes a replica is left before any sentinel says so`() throws {
        let (first, second) = (try RedisServer(.tcp), try RedisServer(.tcp))
        let sentinel = try FakeSentinel(mood(first))
        let listener = try Listener([sentinel.address])
        try listener.wait("the first") { $0.server == "\(first.address)" }
        try first.ask("REPLICAOF", "127.0.0.1", "\(second.address.port!)")
        try listener.wait("its end") { $0.server == "none" }
        try listener.wait("the reason") { $0.problem == "the sentinels name \(first.address), which is a replica" }
        sentinel.change { $0 = mood(second, 2) }
        try listener.wait("the second") { $0.server == "\(second.address)" }
    }

    @Test func `a primary beyond a partition is left when another is named that cannot be reached`() throws {
        let (first, second) = (try RedisServer(.tcp), try RedisServer(.tcp))
        second.kill()
        let sentinel = try FakeSentinel(mood(first))
        let listener = try Listener([sentinel.address])
        try listener.wait("the first") { $0.server == "\(first.address)" }
        sentinel.change { $0 = mood(second, 2) }
        sentinel.announce()
        try listener.wait("its end") { $0.server == "none" }
        try listener.wait("the reason") { $0.problem?.hasPrefix("the sentinels name \(second.address), which is not connected: ") == true }
        try second.start()
        try listener.wait("the second") { $0.server == "\(second.address)" && $0.problem == nil }
    }

    @Test func `a primary that hangs is left, and taken again when it answers`() throws {
        let server = try RedisServer(.tcp)
        let sentinel = try FakeSentinel(mood(server))
        let listener = try Listener([sentinel.address])
        try listener.wait("the server") { $0.server == "\(server.address)" }
        server.pause()
        try listener.wait("its end") { $0.server == "none" }
        server.resume()
        try listener.wait("the server again") { $0.server == "\(server.address)" }
    }

    @Test func `silent sentinels take no primary away`() throws {
        let server = try RedisServer(.tcp)
        try undisturbed {
            let sentinel = try FakeSentinel(mood(server))
            let listener = try Listener([sentinel.address])
            try listener.wait("the server") { $0.server == "\(server.address)" && $0.problem == nil }
            sentinel.change { $0.isSilent = true }
            try listener.wait("the reason") { $0.problem?.hasPrefix("no sentinel answers: \(sentinel.address): ") == true }
            let history = listener.history
            sentinel.change { $0.isSilent = false }
            try listener.wait("the end of it") { $0.problem == nil }
            return (history, ["\(server.address)"])
        }
    }

    @Test func `a server that is no sentinel, and an unknown name, are said`() throws {
        let server = try RedisServer(.tcp)
        server.kill()
        let listener = try Listener([server.address])
        try listener.wait("the reason while it is away") { $0.problem?.contains("connection refused") == true }
        try server.start()
        try listener.wait("the reason once it is there") { $0.problem?.contains("unknown command") == true }
        let sentinel = try FakeSentinel(.init(port: nil))
        let other = try Listener([sentinel.address])
        try other.wait("the reason") { $0.problem == "the sentinels know no master named \"m\"" }
        #expect(other.all.contains(.sentinel(.host("127.0.0.1", port: sentinel.address.port!), problem: "it knows no master named \"m\"")))
    }

    @Test func `names of sentinels and of the primary are resolved`() throws {
        let server = try RedisServer(.tcp)
        let sentinel = try FakeSentinel(mood(server))
        let endpoint = try RedisEndpoint(parsing: "redis+sentinel://localhost:\(sentinel.address.port!),no-such-host.invalid/m")
        let servers = Box<Redis.RedisServer>()
        let watch = try #require(try SentinelWatch(endpoint, seed: 1) { _ in })
        defer { watch.stop() }
        watch.follow { servers.append($0) }
        let end = Date(timeIntervalSinceNow: 30)
        while servers.all.isEmpty, Date() < end { usleep(5_000) }
        #expect(servers.all.first?.addresses == [server.address])
    }

    /// A server that does not answer for a second is left, as it must be, and a busy machine may keep one from answering so long: what
    /// holds while all answer is tried again then.
    private func undisturbed(_ body: () throws -> (history: [String], expected: [String])) throws {
        for attempt in 1...5 {
            let (history, expected) = try body()
            if history != expected, history.contains("none"), attempt < 5 { continue }
            return #expect(history == expected)
        }
    }

    // MARK: connections

    @Test func `a connection serves only at a primary, and leaves it on READONLY`() throws {
        let (server, other) = (try RedisServer(.tcp), try RedisServer(.tcp))
        var bench = try Bench("redis+sentinel://127.0.0.1/m", addresses: [server.address])
        try bench.becomeReady()
        try server.ask("REPLICAOF", "127.0.0.1", "\(other.address.port!)")
        #expect(bench.append(["SET", "k", "v"], tag: 1) == .accepted)
        try bench.turn { !$0.redis.isReady }
        #expect(bench.answers.first?.outcome == .refused(.readOnly))
        #expect(bench.changes.last == "not connected: it is a replica")
        // It is asked again and again, and stays a replica.
        let attempts = bench.redis.attempts
        try bench.turn { $0.redis.attempts > attempts + 2 }
        #expect(!bench.redis.isReady && bench.redis.condition == .down(.notPrimary))
        bench.redis.replace(addresses: [other.address], bench.now)
        try bench.becomeReady()
        #expect(try bench.ask(["SET", "k", "v"]) == "+OK")
    }

    /// A server that hangs has opened the breaker, and its successor must not wait for it to close.
    @Test func `the circuit breaker of a server is not its successor's`() throws {
        let (first, second) = (try RedisServer(.tcp), try RedisServer(.tcp))
        var bench = try Bench("redis+sentinel://127.0.0.1/m", addresses: [first.address]) { $0.replyDeadline = 10 }
        try bench.becomeReady()
        first.pause()
        try bench.miss { bench, tag in
            let admission = bench.append(["PING"], tag: tag)
            #expect(admission == .accepted)
            try bench.turn { $0.answers.count == tag }
        }
        #expect(!bench.redis.breaker.isClosed)
        bench.redis.replace(addresses: [second.address], bench.now)
        try bench.becomeReady()
        #expect(bench.redis.breaker.isClosed)
    }

    @Test func `without a primary a connection waits for one, and changes over at once`() throws {
        let (first, second) = (try RedisServer(.tcp), try RedisServer(.tcp))
        var bench = try Bench("redis+sentinel://127.0.0.1/m", addresses: [])
        try bench.turn { $0.changes.last == "not connected: no primary is known" }
        bench.redis.replace(addresses: [first.address], bench.now)
        try bench.becomeReady()
        bench.redis.replace(addresses: [second.address], bench.now)
        #expect(!bench.redis.isReady && bench.redis.condition == .down(.replaced))
        try bench.becomeReady()
        bench.redis.replace(addresses: [], bench.now)
        #expect(!bench.redis.isReady && bench.redis.condition == .down(.noPrimary))
    }
}
