internal import Fetch
internal import Synchronization
internal import Transport
internal import Wire

/// The thread that delivers messages; callers never wait for it. All methods may be called on any thread. `onEvent` is called on
/// this thread or on the caller's.
final class DeliveryThread: Sendable {
    private struct Shared: Sendable {
        /// Here and not with the thread: libcurl blocks it while a mail server takes its time to accept a message, and a flood must not
        /// push other messages out meanwhile.
        var queue = DeliveryQueue()
        var plan: MailPlan
        /// Set by `stop`: how long the thread may still run, in milliseconds.
        var endsWithin: UInt64?
        var waker: TransferWaker?
    }

    private let shared: SharedBox
    private let thread: WorkerThread
    private let onEvent: @Sendable (DeliveryEvent) -> Void

    init(
        _ plan: MailPlan, outbox: Outbox, onEvent: @escaping @Sendable (DeliveryEvent) -> Void
    ) throws(SystemFault) {
        let shared = SharedBox(plan)
        self.shared = shared
        self.onEvent = onEvent
        thread = try WorkerThread(name: "delivery") {
            guard let transfers = TransferGroup() else { preconditionFailure("libcurl has no memory") }
            shared.state.withLock { $0.waker = transfers.waker }
            var run = Run(shared: shared, transfers: transfers, outbox: outbox, onEvent: onEvent)
            run.loop()
            shared.state.withLock { $0.waker = nil }
        }
    }

    /// Queues a message, which the client at `address` asked for.
    func send(_ message: OutgoingMessage, for address: IPAddress? = nil) {
        let now = EventLoop.now().monotonic
        if let event = shared.state.withLock({ $0.queue.add(message, for: address, now: now) }) { onEvent(event) }
        wake()
    }

    /// Replaces the plan from the next attempt on.
    func adopt(_ plan: MailPlan) {
        shared.state.withLock { $0.plan = plan }
        wake()
    }

    /// Tries all waiting messages once more, drops those not sent after `milliseconds`, and ends the thread. Blocks.
    func stop(within milliseconds: UInt64) {
        shared.state.withLock { $0.endsWithin = milliseconds }
        wake()
        thread.join()
    }

    private func wake() { shared.state.withLock { $0.waker }?.wake() }

    private final class SharedBox: Sendable {
        let state: Mutex<Shared>
        init(_ plan: MailPlan) { state = Mutex(Shared(plan: plan)) }
    }

    /// The thread's own state.
    private struct Run {
        /// The maximum number of concurrent transfers, so that a hanging server does not block the others.
        private static let maximumTransfers = 8

        let shared: SharedBox
        let transfers: TransferGroup
        let outbox: Outbox
        let onEvent: @Sendable (DeliveryEvent) -> Void
        var random = SystemRandomNumberGenerator()
        /// After `stop`: when the remaining messages are dropped.
        var end: MonotonicTime?

        mutating func loop() {
            while true {
                let now = EventLoop.now()
                let plan = readShared(now.monotonic)
                while transfers.count < Self.maximumTransfers, let entry = inQueue({ $0.startNext(now: now.monotonic) }) {
                    attempt(entry, plan, now)
                }
                if let end, inQueue({ $0.isEmpty }) || now.monotonic >= end { return giveUp() }
                for ended in transfers.wait(milliseconds: pause(from: now.monotonic)) { finish(ended) }
            }
        }

        private mutating func readShared(_ now: MonotonicTime) -> MailPlan {
            let (plan, endsWithin) = shared.state.withLock { ($0.plan, $0.endsWithin) }
            if let endsWithin, end == nil {
                end = now.advanced(milliseconds: endsWithin)
                inQueue { $0.makeAllDue(now: now) }
            }
            return plan
        }

        private func inQueue<Value: Sendable>(_ body: (inout DeliveryQueue) -> Value) -> Value {
            shared.state.withLock { body(&$0.queue) }
        }

        private mutating func attempt(_ entry: DeliveryQueue.Entry, _ plan: MailPlan, _ now: Moment) {
            let message = entry.message
            switch message.body {
            case .mail(let letter):
                guard let route = plan.mail else { return keep(entry, now) }
                guard let to = MailAddress(message.recipient) else {
                    return finish(entry.id, .refused("mail cannot be addressed to the recipient"))
                }
                let mail = Mail(letter, from: route.from, to: to, id: message.id, at: now.wall)
                if !transfers.start(entry.id, mail, by: route.server) { refuse(entry) }
            case .sms(let text):
                guard let url = plan.smsURL else { return keep(entry, now) }
                if !transfers.start(entry.id, post: WebhookBody.json(to: message.recipient, text: text), to: url) { refuse(entry) }
            }
        }

        private mutating func refuse(_ entry: DeliveryQueue.Entry) {
            finish(entry.id, .failed("libcurl cannot begin"))
        }

        /// Writes a message to the development outbox.
        private mutating func keep(_ entry: DeliveryQueue.Entry, _ now: Moment) {
            do throws(SystemFault) {
                try outbox.add(OutboxEntry(entry.message, at: now.wall))
                finish(entry.id, .sent)
            } catch {
                finish(entry.id, .failed(error.description))
            }
        }

        private mutating func finish(_ ended: EndedTransfer) {
            switch inQueue({ $0.message(ended.id) })?.body {
            case .mail:
                let isDenied = ended.isLoginDenied
                finish(ended.id, .mail(failure: ended.failure, status: ended.status, isLoginDenied: isDenied))
            case .sms: finish(ended.id, .webhook(failure: ended.failure, status: ended.status))
            case nil: break
            }
        }

        private mutating func finish(_ id: Int, _ outcome: DeliveryOutcome) {
            let now = EventLoop.now().monotonic
            let jitter: UInt64 = random.next()
            guard let event = inQueue({ $0.finish(id, outcome, now: now, jitter: jitter) }) else { return }
            onEvent(event)
        }

        private mutating func giveUp() {
            for event in inQueue({ $0.dropAll("the gateway ends") }) { onEvent(event) }
        }

        /// Milliseconds until the next deadline, at most a minute.
        private func pause(from now: MonotonicTime) -> Int32 {
            let next = [inQueue { $0.nextDue }, end].compactMap { $0 }.min()
            return Int32(min(next.map { $0.nanoseconds(since: now) / 1_000_000 + 1 } ?? 60_000, 60_000))
        }
    }
}
