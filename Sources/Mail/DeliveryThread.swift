internal import Fetch
internal import Synchronization
internal import Transport
internal import Wire

/// The thread that delivers messages; callers never wait for it. All methods may be called on any thread. `onEvent` is called on
/// this thread or on the caller's.
final class DeliveryThread: Sendable {
    private struct Shared: Sendable {
        var arrived: [(message: OutgoingMessage, address: IPAddress?)] = []
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
        let fits = shared.state.withLock { state in
            guard state.arrived.count < DeliveryQueue.capacity else { return false }
            state.arrived.append((message, address))
            return true
        }
        if fits { wake() } else { onEvent(.lost(message, reason: DeliveryQueue.fullReason)) }
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
        var queue = DeliveryQueue()
        var random = SystemRandomNumberGenerator()
        /// After `stop`: when the remaining messages are dropped.
        var end: MonotonicTime?

        mutating func loop() {
            while true {
                let now = EventLoop.now()
                let plan = readShared(now.monotonic)
                while transfers.count < Self.maximumTransfers, let entry = queue.startNext(now: now.monotonic) {
                    attempt(entry, plan, now)
                }
                if let end, queue.isEmpty || now.monotonic >= end { return giveUp() }
                for ended in transfers.wait(milliseconds: pause(from: now.monotonic)) { finish(ended) }
            }
        }

        private mutating func readShared(_ now: MonotonicTime) -> MailPlan {
            let (arrived, plan, endsWithin) = shared.state.withLock { state in
                defer { state.arrived.removeAll() }
                return (state.arrived, state.plan, state.endsWithin)
            }
            for (message, address) in arrived {
                if let event = queue.add(message, for: address, now: now) { onEvent(event) }
            }
            if let endsWithin, end == nil {
                end = now.advanced(milliseconds: endsWithin)
                queue.makeAllDue(now: now)
            }
            return plan
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
            switch queue.message(ended.id)?.body {
            case .mail:
                let isDenied = ended.isLoginDenied
                finish(ended.id, .mail(failure: ended.failure, status: ended.status, isLoginDenied: isDenied))
            case .sms: finish(ended.id, .webhook(failure: ended.failure, status: ended.status))
            case nil: break
            }
        }

        private mutating func finish(_ id: Int, _ outcome: DeliveryOutcome) {
            let now = EventLoop.now().monotonic
            guard let event = queue.finish(id, outcome, now: now, jitter: random.next()) else { return }
            onEvent(event)
        }

        private mutating func giveUp() {
            for event in queue.dropAll("the gateway ends") { onEvent(event) }
        }

        /// Milliseconds until the next deadline, at most a minute.
        private func pause(from now: MonotonicTime) -> Int32 {
            let next = [queue.nextDue, end].compactMap { $0 }.min()
            return Int32(min(next.map { $0.nanoseconds(since: now) / 1_000_000 + 1 } ?? 60_000, 60_000))
        }
    }
}
