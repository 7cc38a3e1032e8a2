internal import Cluster
internal import Credentials
internal import Redis
internal import Synchronization
internal import System
internal import Threads
internal import Transport
internal import Wire

/// Publishes hints on a Redis channel and subscribes to those of other gateways: two connections, because a subscribed one
/// may not publish, on an event loop and a thread of their own.
final class RedisBus: HintCarrier {
    fileprivate enum Command: Sendable {
        case publish
        case moved([RedisServer])
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let thread: WorkerThread

    /// - Parameters:
    ///   - addresses: of the endpoint's name, if it has one that must be resolved and they are known.
    ///   - secret: authenticates messages; nil: any well-formed one counts.
    ///   - report: called on the bus's thread; must not block.
    init(
        _ endpoint: RedisEndpoint, addresses: [SocketAddress], secret: [UInt8]?, report: @escaping @Sendable (HintEvent) -> Void
    ) throws {
        let waker = try Waker()
        let mailbox = Mailbox<Command>(waker: waker)
        self.mailbox = mailbox
        let tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        let secret = secret.map { BusSecret($0) }
        thread = try WorkerThread(name: "redis bus") {
            do throws(SystemFault) {
                var run = Run(
                    endpoint, addresses: addresses, tls: tls, loop: try EventLoop(waker: waker), secret: secret, report: report)
                while run.turn(mailbox) {}
            } catch {
                report(.changed(problem: error.description))
            }
        }
    }

    /// Any thread; returns at once. Hints that are asked for while one waits go out as one.
    func publish() { mailbox.post(.publish) }

    /// Uses this server from now on. Any thread.
    func moved(to server: RedisServer) { moved(to: [server]) }

    /// Uses one of these servers from now on, of which each will do. Any thread.
    func moved(to servers: [RedisServer]) { mailbox.post(.moved(servers)) }

    /// The Redis Cluster has these nodes now, any of which passes messages on to all. Any thread.
    func moved(to map: RedisClusterMap) {
        // Each gateway begins with another one.
        let nodes = map.nodes.filter { !$0.isAway }.map { RedisServer(addresses: $0.addresses, name: $0.host) }
        moved(to: nodes.shuffled())
    }

    /// Ends the thread and waits for it.
    func stop() {
        mailbox.post(.stop)
        thread.join()
    }
}

/// State of the bus's thread.
private struct Run: ~Copyable {
    private static let subscriberToken: UInt64 = 1
    private static let publisherToken: UInt64 = 2
    private static let pingMilliseconds: UInt64 = 1_000

    private var subscriber: RedisConnection
    private var publisher: RedisConnection
    private var loop: EventLoop
    private let secret: BusSecret?
    private let report: @Sendable (HintEvent) -> Void
    private let sender: UInt64
    private var lastNumber: UInt64
    /// A hint is wanted, and not acknowledged.
    private var mustPublish = false
    private var isSubscribed = false
    private var pingDue: MonotonicTime

    init(
        _ endpoint: RedisEndpoint, addresses: [SocketAddress], tls: TLSClientContext?, loop: consuming EventLoop,
        secret: BusSecret?, report: @escaping @Sendable (HintEvent) -> Void
    ) {
        let now = EventLoop.now().monotonic
        let random = SecureRandom.bytes(32)
        let words = (0..<4).map { random.rawBytes.load64($0 * 8) }
        var settings = RedisConnectionSettings()
        settings.replyDeadline = 1_000
        let addresses = endpoint.fixedAddresses ?? addresses
        subscriber = RedisConnection(
            endpoint, addresses: addresses, tls: tls, settings: settings, subscription: BusMessage.channel, token: Self.subscriberToken,
            seed: words[0], now: now)
        publisher = RedisConnection(
            endpoint, addresses: addresses, tls: tls, settings: settings, token: Self.publisherToken, seed: words[1], now: now)
        self.loop = loop
        self.secret = secret
        self.report = report
        sender = words[2]
        lastNumber = words[3]
        pingDue = now
    }

    /// Handles what is there and waits for more; false once stopped.
    mutating func turn(_ mailbox: Mailbox<RedisBus.Command>) -> Bool {
        let now = EventLoop.now().monotonic
        for command in mailbox.take() {
            switch command {
            case .stop:
                subscriber.close(now)
                publisher.close(now)
                return false
            case .publish: mustPublish = true
            case .moved(let servers):
                subscriber.replace(by: servers, now)
                publisher.replace(by: servers, now)
            }
        }
        receive(now)
        publish(now)
        ping(now)
        subscriber.flush(now, loop)
        publisher.flush(now, loop)
        let ready = loop.wait(milliseconds: pause(EventLoop.now().monotonic))
        let then = EventLoop.now().monotonic
        for index in 0..<ready {
            let report = loop.ready(index)
            if report.token == Self.subscriberToken { subscriber.ready(report, then, loop) }
            if report.token == Self.publisherToken { publisher.ready(report, then, loop) }
        }
        return true
    }

    private mutating func receive(_ now: MonotonicTime) {
        subscriber.timedOut(now, loop)
        var isHinted = false
        while let result = subscriber.next(now) {
            guard result.tag == RedisConnection.messageTag else { continue }
            let message = BusMessage(subscriber.reader.reply.bytes(3), secret: secret)
            if let message {
                if message.sender != sender { isHinted = true }
            } else {
                report(.refused)
            }
        }
        reportCondition()
        if isHinted { report(.hinted) }
    }

    private mutating func reportCondition() {
        if let change = subscriber.takeChange() {
            switch change {
            case .connecting, .ready: break
            case .refusing, .down:
                report(.changed(problem: "\(change)"))
                report(.lost)
            }
        }
        guard subscriber.isReady != isSubscribed else { return }
        isSubscribed = subscriber.isReady
        guard isSubscribed else { return }
        report(.changed(problem: nil))
        report(.hinted)
    }

    private mutating func publish(_ now: MonotonicTime) {
        publisher.timedOut(now, loop)
        while let result = publisher.next(now) {
            guard result.tag == Self.publisherToken else { continue }
            switch result.outcome {
            case .answered: report(.published)
            // It may not have arrived; hearing it twice does no harm.
            case .late, .lost: mustPublish = true
            // The other gateways find the change by polling.
            case .refused: break
            }
        }
        if let change = publisher.takeChange(), change != .connecting, change != .ready { report(.lost) }
        guard mustPublish, publisher.isReady else { return }
        lastNumber &+= 1
        var command = RedisCommand()
        command.begin()
        command.append("PUBLISH")
        command.append(BusMessage.channel)
        let text = BusMessage(sender: sender, number: lastNumber).text(secret: secret)
        command.append { $0.append(text) }
        if publisher.append(command, tag: Self.publisherToken, now) == .accepted { mustPublish = false }
    }

    private mutating func ping(_ now: MonotonicTime) {
        guard now >= pingDue else { return }
        pingDue = now.advanced(milliseconds: Self.pingMilliseconds)
        var command = RedisCommand()
        command.begin()
        command.append("PING")
        if subscriber.isReady { _ = subscriber.append(command, tag: 0, now) }
        if publisher.isReady { _ = publisher.append(command, tag: 0, now) }
    }

    private mutating func pause(_ now: MonotonicTime) -> Int32 {
        var next = pingDue
        if let deadline = subscriber.nextDeadline() { next = min(next, deadline) }
        if let deadline = publisher.nextDeadline() { next = min(next, deadline) }
        // The circuit breaker refuses commands for a while: retry soon, without spinning.
        if mustPublish, publisher.isReady { next = min(next, now.advanced(milliseconds: 20)) }
        return Int32(truncatingIfNeeded: (next.nanoseconds(since: now) + 999_999) / 1_000_000)
    }
}
