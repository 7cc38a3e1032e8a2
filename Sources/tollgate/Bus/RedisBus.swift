internal import Credentials
internal import Redis
internal import Synchronization
internal import Transport
internal import Wire

/// Tells the other gateways over Redis that something has changed, and hears it from them: two connections on a loop and a
/// thread of their own, one to say it and one to hear it, as Redis wants it.
final class RedisBus: Sendable {
    /// What the bus's owner hears, on the bus's thread.
    struct Events: Sendable {
        /// Somebody says that there is something to be read; also called when a lost connection is there again, for what
        /// was said meanwhile went unheard.
        var heard: @Sendable () -> Void
        /// A message that no gateway of ours has sent.
        var refused: @Sendable () -> Void = {}
        /// Why nothing can be heard; nil once it can.
        var changed: @Sendable (_ problem: String?) -> Void = { _ in }
        /// What was to be told has been told.
        var told: @Sendable () -> Void = {}
    }

    enum Command: Sendable {
        case tell
        case addresses([SocketAddress])
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let thread: WorkerThread

    /// - Parameter addresses: of the endpoint's name, where it has one that must be resolved.
    init(_ endpoint: RedisEndpoint, addresses: [SocketAddress], secret: [UInt8]?, events: Events) throws {
        let waker = try Waker()
        let mailbox = Mailbox<Command>(waker: waker)
        self.mailbox = mailbox
        let tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        let secret = secret.map { BusSecret($0) }
        thread = try WorkerThread(name: "redis bus") {
            do throws(SystemFault) {
                var run = Run(
                    endpoint, addresses: addresses, tls: tls, loop: try EventLoop(waker: waker), secret: secret, events: events)
                while run.turn(mailbox) {}
            } catch {
                events.changed(error.description)
            }
        }
    }

    /// Any thread; returns at once.
    func tell() { mailbox.post(.tell) }

    /// The name of the Redis has these addresses now.
    func moved(to addresses: [SocketAddress]) { mailbox.post(.addresses(addresses)) }

    /// Ends the thread and waits for it.
    func stop() {
        mailbox.post(.stop)
        thread.join()
    }
}

/// What the bus's thread owns.
private struct Run: ~Copyable {
    private static let hearing: UInt64 = 1
    private static let telling: UInt64 = 2
    /// Milliseconds between two questions whether the connections still answer.
    private static let pingPeriod: UInt64 = 1_000

    private var hearer: RedisConnection
    private var teller: RedisConnection
    private var loop: EventLoop
    private let secret: BusSecret?
    private let events: RedisBus.Events
    private let sender: UInt64
    private var lastNumber: UInt64
    /// Something is to be told, and the message has not left.
    private var mustTell = false
    private var isHearing = false
    private var pingDue: MonotonicTime

    init(
        _ endpoint: RedisEndpoint, addresses: [SocketAddress], tls: TLSClientContext?, loop: consuming EventLoop,
        secret: BusSecret?, events: RedisBus.Events
    ) {
        let now = EventLoop.now().monotonic
        let random = SecureRandom.bytes(32)
        let words = (0..<4).map { random.rawBytes.load64($0 * 8) }
        var settings = RedisConnectionSettings()
        settings.replyDeadline = 1_000
        let places = endpoint.fixedAddresses ?? addresses
        hearer = RedisConnection(
            endpoint, addresses: places, tls: tls, settings: settings, subscription: BusMessage.channel, token: Self.hearing,
            seed: words[0], now: now)
        teller = RedisConnection(
            endpoint, addresses: places, tls: tls, settings: settings, token: Self.telling, seed: words[1], now: now)
        self.loop = loop
        self.secret = secret
        self.events = events
        sender = words[2]
        lastNumber = words[3]
        pingDue = now
    }

    /// Works on what is there and waits for more; false when it is to end.
    mutating func turn(_ mailbox: Mailbox<RedisBus.Command>) -> Bool {
        let now = EventLoop.now().monotonic
        for command in mailbox.take() {
            switch command {
            case .stop:
                hearer.close(now)
                teller.close(now)
                return false
            case .tell: mustTell = true
            case .addresses(let addresses):
                hearer.replace(addresses: addresses, now)
                teller.replace(addresses: addresses, now)
            }
        }
        hear(now)
        tell(now)
        ping(now)
        hearer.flush(now, loop)
        teller.flush(now, loop)
        let ready = loop.wait(milliseconds: pause(EventLoop.now().monotonic))
        let then = EventLoop.now().monotonic
        for index in 0..<ready {
            let report = loop.ready(index)
            if report.token == Self.hearing { hearer.ready(report, then, loop) }
            if report.token == Self.telling { teller.ready(report, then, loop) }
        }
        return true
    }

    private mutating func hear(_ now: MonotonicTime) {
        hearer.timedOut(now, loop)
        var isHeard = false
        while let result = hearer.next(now) {
            guard result.tag == RedisConnection.messageTag else { continue }
            let message = BusMessage(hearer.reader.reply.bytes(3), secret: secret)
            if let message {
                if message.sender != sender { isHeard = true }
            } else {
                events.refused()
            }
        }
        noteCondition()
        if isHeard { events.heard() }
    }

    private mutating func noteCondition() {
        if let change = hearer.takeChange() {
            switch change {
            case .connecting, .ready: break
            case .refusing, .down: events.changed("\(change)")
            }
        }
        guard hearer.isReady != isHearing else { return }
        isHearing = hearer.isReady
        guard isHearing else { return }
        events.changed(nil)
        events.heard()
    }

    private mutating func tell(_ now: MonotonicTime) {
        teller.timedOut(now, loop)
        while let result = teller.next(now) {
            guard result.tag == Self.telling else { continue }
            switch result.outcome {
            case .answered: events.told()
            // What may not have arrived is said again: nobody minds hearing it twice.
            case .late, .lost: mustTell = true
            // Nobody will hear it; all look for changes by themselves too.
            case .refused: break
            }
        }
        guard mustTell, teller.isReady else { return }
        lastNumber &+= 1
        var command = RedisCommand()
        command.begin()
        command.append("PUBLISH")
        command.append(BusMessage.channel)
        let text = BusMessage(sender: sender, number: lastNumber).text(secret: secret)
        command.append { $0.append(text) }
        if teller.append(command, tag: Self.telling, now) == .accepted { mustTell = false }
    }

    private mutating func ping(_ now: MonotonicTime) {
        guard now >= pingDue else { return }
        pingDue = now.advanced(milliseconds: Self.pingPeriod)
        var command = RedisCommand()
        command.begin()
        command.append("PING")
        if hearer.isReady { _ = hearer.append(command, tag: 0, now) }
        if teller.isReady { _ = teller.append(command, tag: 0, now) }
    }

    private mutating func pause(_ now: MonotonicTime) -> Int32 {
        var next = pingDue
        if let deadline = hearer.nextDeadline() { next = min(next, deadline) }
        if let deadline = teller.nextDeadline() { next = min(next, deadline) }
        // The breaker holds back what could not be told: not for long, and not in a busy loop.
        if mustTell, teller.isReady { next = min(next, now.advanced(milliseconds: 20)) }
        return Int32(truncatingIfNeeded: (next.nanoseconds(since: now) + 999_999) / 1_000_000)
    }
}
