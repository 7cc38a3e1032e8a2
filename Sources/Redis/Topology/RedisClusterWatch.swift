import System
import Threads
import Transport
import Wire

/// Reads the map of a cluster from its nodes, every five seconds and when a worker asks for it, on an event loop and a thread of its
/// own. Names are resolved there, so it may block.
///
/// It asks one node at a time. If that one does not answer, or its map does not help a worker, the next one is asked: of the nodes
/// in the latest map, and of those in the URL.
package final class RedisClusterWatch: Sendable {
    package enum Event: Sendable {
        /// The map, at first and whenever it has changed.
        case map(RedisClusterMap)
        /// Why no node gives a map; nil once one does.
        case problem(String?)
    }

    fileprivate enum Command: Sendable {
        case refresh
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let thread: WorkerThread

    /// - Parameter report: called on the watch's thread; must not block.
    package convenience init(_ endpoint: RedisEndpoint, report: @escaping @Sendable (Event) -> Void) throws {
        try self.init(endpoint, lookUp: SentinelNames.addresses(of:), report: report)
    }

    /// `lookUp` gives the addresses of a name, on the watch's thread; may block.
    init(
        _ endpoint: RedisEndpoint, lookUp: @escaping @Sendable (RedisEndpoint.Address) -> [SocketAddress],
        report: @escaping @Sendable (Event) -> Void
    ) throws {
        let waker = try Waker()
        let mailbox = Mailbox<Command>(waker: waker)
        self.mailbox = mailbox
        let tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        thread = try WorkerThread(name: "redis cluster") {
            do throws(SystemFault) {
                var run = Run(endpoint, tls, lookUp, mailbox, loop: try EventLoop(waker: waker), report)
                while run.turn() {}
            } catch {
                report(.problem(error.description))
            }
        }
    }

    /// A worker has seen that the map is out of date. Any thread; returns at once.
    package func refresh() { mailbox.post(.refresh) }

    /// Ends the thread and waits for it, at most for a name that is being resolved.
    package func stop() {
        end()
        thread.join()
    }

    /// No lookup begins any more.
    func end() { mailbox.post(.stop) }
}

/// When the map is read again. A value without a clock.
struct RedisMapSchedule: Equatable, Sendable {
    /// Milliseconds: with a map of all slots, and without one.
    static let calm: UInt64 = 5_000
    static let uneasy: UInt64 = 500
    /// The shortest time between two readings, however many workers ask.
    static let shortest: UInt64 = 100

    private var last: MonotonicTime?
    private var isWhole = false
    private var isWanted = false

    mutating func wanted() { isWanted = true }

    /// Whether a worker has asked since the latest reading.
    var isAsked: Bool { isWanted }

    /// The next reading.
    var due: MonotonicTime? {
        last.map { $0.advanced(milliseconds: isWanted ? Self.shortest : isWhole ? Self.calm : Self.uneasy) }
    }

    mutating func began(_ now: MonotonicTime) {
        last = now
        isWanted = false
    }

    mutating func ended(isWhole: Bool) { self.isWhole = isWhole }
}

/// State of the watch's thread.
private struct Run: ~Copyable {
    private static let shardsTag: UInt64 = 1
    private static let slotsTag: UInt64 = 2
    private static let token: UInt64 = 1

    private let endpoint: RedisEndpoint
    private let tls: TLSClientContext?
    private let lookUp: @Sendable (RedisEndpoint.Address) -> [SocketAddress]
    private let mailbox: Mailbox<RedisClusterWatch.Command>
    private var isStopped = false
    private let report: @Sendable (RedisClusterWatch.Event) -> Void
    private var loop: EventLoop
    private var schedule = RedisMapSchedule()
    private var map: RedisClusterMap?
    /// The nodes to ask, in turn.
    private var candidates: [RedisEndpoint.Address]
    private var asked = 0
    private var connection: RedisConnection
    private var isAsking = false
    /// Whether the reading under way was asked for by a worker.
    private var isForWorker = false
    /// Candidates in a row that gave no map.
    private var failures = 0
    /// Nothing is tried before this time, after a round of candidates that gave no map.
    private var restUntil = MonotonicTime(nanoseconds: 0)
    /// As last reported.
    private var problem: String?

    init(
        _ endpoint: RedisEndpoint, _ tls: TLSClientContext?, _ lookUp: @escaping @Sendable (RedisEndpoint.Address) -> [SocketAddress],
        _ mailbox: Mailbox<RedisClusterWatch.Command>, loop: consuming EventLoop,
        _ report: @escaping @Sendable (RedisClusterWatch.Event) -> Void
    ) {
        self.endpoint = endpoint
        self.tls = tls
        (self.lookUp, self.mailbox) = (lookUp, mailbox)
        self.report = report
        self.loop = loop
        candidates = endpoint.seeds
        // Gateways that start together do not all ask the same node.
        asked = Int.random(in: 0..<candidates.count)
        let first = candidates[asked]
        connection = Self.connect(endpoint, tls, to: first, first.fixed.map { [$0] } ?? lookUp(first))
    }

    private static func connect(
        _ endpoint: RedisEndpoint, _ tls: TLSClientContext?, to address: RedisEndpoint.Address, _ addresses: [SocketAddress]
    ) -> RedisConnection {
        var settings = RedisConnectionSettings()
        settings.replyDeadline = 1_000
        settings.replyLimits.bytes = 16 << 20
        settings.replyLimits.nodes = 1 << 20
        settings.isClusterNode = true
        return RedisConnection(
            endpoint.server(at: address), addresses: addresses, tls: tls, settings: settings, token: token,
            seed: UInt64.random(in: 0 ... .max), now: EventLoop.now().monotonic)
    }

    private mutating func takeCommands() {
        for command in mailbox.take() {
            switch command {
            case .refresh: schedule.wanted()
            case .stop: isStopped = true
            }
        }
    }

    /// Blocks for a name, unless the watch is to end: with name servers that do not answer, each takes long. Empty if it has no address.
    private mutating func addresses(of address: RedisEndpoint.Address) -> [SocketAddress] {
        if let fixed = address.fixed { return [fixed] }
        takeCommands()
        return isStopped ? [] : lookUp(address)
    }

    /// Handles what is there and waits for more; false once stopped.
    mutating func turn() -> Bool {
        takeCommands()
        guard !isStopped else {
            connection.close(EventLoop.now().monotonic)
            return false
        }
        let now = EventLoop.now().monotonic
        if now >= restUntil {
            connection.timedOut(now, loop)
            while let result = connection.next(now) { ended(result, now) }
            look(now)
            ask(now)
            connection.flush(now, loop)
        }
        let ready = loop.wait(milliseconds: pause(EventLoop.now().monotonic))
        let then = EventLoop.now().monotonic
        for index in 0..<ready where loop.ready(index).token == Self.token { connection.ready(loop.ready(index), then, loop) }
        return true
    }

    /// Turns to the next node if this one cannot be connected to.
    private mutating func look(_ now: MonotonicTime) {
        switch connection.takeChange() {
        case .down(let fault)?: failed("not connected: \(fault)", now)
        case .refusing?, .connecting?, .ready?, nil: break
        }
    }

    private mutating func ask(_ now: MonotonicTime) {
        guard connection.isReady, !isAsking, schedule.due.map({ now >= $0 }) ?? true else { return }
        append("SHARDS", Self.shardsTag, now)
    }

    private mutating func append(_ word: StaticString, _ tag: UInt64, _ now: MonotonicTime) {
        var command = RedisCommand()
        command.begin()
        command.append("CLUSTER")
        command.append(word)
        guard connection.append(command, tag: tag, now) == .accepted else { return }
        if tag == Self.shardsTag {
            isForWorker = schedule.isAsked
            schedule.began(now)
        }
        isAsking = true
    }

    private mutating func ended(_ result: RedisResult, _ now: MonotonicTime) {
        isAsking = false
        guard case .host(let host, _) = candidates[asked] else { return }
        switch result.outcome {
        case .answered:
            let found =
                result.tag == Self.shardsTag
                ? RedisClusterMap(shards: connection.reader.reply, askedAt: host, usesTLS: endpoint.usesTLS)
                : RedisClusterMap(slots: connection.reader.reply, askedAt: host)
            guard let found else {
                return failed("its reply to CLUSTER \(result.tag == Self.shardsTag ? "SHARDS" : "SLOTS") is not understood", now)
            }
            // A node that was reset or forgotten tells of itself alone. Another one may know better.
            guard found.uncovered <= (map?.uncovered ?? RedisSlot.count - 1) || failures + 1 >= candidates.count else {
                schedule.wanted()
                return failed("\(found.uncovered) slots have no node", now)
            }
            adopt(found)
        case .refused(.command) where result.tag == Self.shardsTag: append("SLOTS", Self.slotsTag, now)
        case .refused: failed("CLUSTER SHARDS is refused: \(connection.reader.reply.errorText ?? "")", now)
        case .late: failed("it has not answered for 1s", now)
        // The connection's change says why.
        case .lost: break
        }
    }

    private mutating func adopt(_ found: RedisClusterMap) {
        var found = found
        let known = map
        // A name server that fails takes no address from a node that works.
        found.resolve { node in
            let addresses = self.addresses(of: node.address)
            return addresses.isEmpty ? known?.nodes.first { $0.address == node.address }?.addresses ?? [] : addresses
        }
        // Not all names were looked up.
        guard !isStopped else { return }
        failures = 0
        schedule.ended(isWhole: found.isWhole)
        tell(found.uncovered == 0 ? nil : "\(found.uncovered) slots of the Redis Cluster have no node")
        let isSame = found == map
        if !isSame {
            map = found
            report(.map(found))
        }
        let current = candidates[asked]
        candidates = found.nodes.filter { !$0.isAway }.map(\.address)
        for seed in endpoint.seeds where !candidates.contains(seed) { candidates.append(seed) }
        asked = candidates.firstIndex(of: current) ?? 0
        // A worker missed something that this node does not know, or not yet.
        if isSame && (isForWorker || !found.isWhole) || candidates[asked] != current { turnToNext() }
    }

    private mutating func failed(_ reason: String, _ now: MonotonicTime) {
        failures += 1
        isAsking = false
        // After each round of the candidates, by what the last of them said.
        if failures.isMultiple(of: candidates.count) {
            tell("no node of the Redis Cluster tells which there are, \(candidates[asked]): \(reason)")
            restUntil = now.advanced(milliseconds: 200)
        }
        turnToNext()
    }

    private mutating func tell(_ found: String?) {
        guard found != problem else { return }
        problem = found
        report(.problem(found))
    }

    private mutating func turnToNext() {
        asked = (asked + 1) % candidates.count
        connection = Self.connect(endpoint, tls, to: candidates[asked], addresses(of: candidates[asked]))
        isAsking = false
    }

    private mutating func pause(_ now: MonotonicTime) -> Int32 {
        var next = now.advanced(milliseconds: 1_000)
        if let deadline = connection.nextDeadline() { next = min(next, deadline) }
        if connection.isReady, !isAsking, let due = schedule.due { next = min(next, due) }
        return Int32(truncatingIfNeeded: (max(next, restUntil).nanoseconds(since: now) + 999_999) / 1_000_000)
    }
}
