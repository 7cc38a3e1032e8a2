internal import Fetch
internal import Synchronization
internal import Transport
internal import Wire

/// Sends messages from a thread of its own: whoever has one to send waits for nothing. All methods, and the
/// callback, may be called on any thread.
final class DeliveryThread: Sendable {
    private struct Shared: Sendable {
        var arrived: [OutgoingMessage] = []
        var plan: MailPlan
        /// Milliseconds that are left for what waits; nil while the thread shall run on.
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

    /// Takes a message over.
    func send(_ dispatch: OutgoingMessage) {
        let fits = shared.state.withLock { state in
            guard state.arrived.count < DeliveryQueue.capacity else { return false }
            state.arrived.append(dispatch)
            return true
        }
        if fits { wake() } else { onEvent(.lost(dispatch, reason: DeliveryQueue.fullReason)) }
    }

    /// Goes another way from the next attempt on.
    func adopt(_ plan: MailPlan) {
        shared.state.withLock { $0.plan = plan }
        wake()
    }

    /// Tries everything that waits once more, gives up what is not sent after `milliseconds`, and ends the thread.
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

    /// What the thread owns.
    private struct Run {
        /// Connections to servers at a time: a server that hangs must not hold up what others take.
        private static let mostUnderWay = 8

        let shared: SharedBox
        let transfers: TransferGroup
        let outbox: Outbox
        let onEvent: @Sendable (DeliveryEvent) -> Void
        var queue = DeliveryQueue()
        var random = SystemRandomNumberGenerator()
        /// When what is left is given up.
        var end: MonotonicTime?

        mutating func loop() {
            while true {
                let now = EventLoop.now()
                let plan = takeArrived(now.monotonic)
                while transfers.count < Self.mostUnderWay, let entry = queue.takeDue(now: now.monotonic) {
                    attempt(entry, plan, now)
                }
                if let end, queue.isEmpty || now.monotonic >= end { return giveUp() }
                for ended in transfers.wait(milliseconds: pause(from: now.monotonic)) { settle(ended) }
            }
        }

        private mutating func takeArrived(_ now: MonotonicTime) -> MailPlan {
            let (arrived, plan, endsWithin) = shared.state.withLock { state in
                defer { state.arrived.removeAll() }
                return (state.arrived, state.plan, state.endsWithin)
            }
            for dispatch in arrived {
                if let event = queue.add(dispatch, now: now) { onEvent(event) }
            }
            if let endsWithin, end == nil {
                end = now.advanced(milliseconds: endsWithin)
                queue.hurry(now: now)
            }
            return plan
        }

        private mutating func attempt(_ entry: DeliveryQueue.Entry, _ plan: MailPlan, _ now: Moment) {
            let dispatch = entry.dispatch
            switch dispatch.body {
            case .mail(let letter):
                guard let route = plan.mail else { return keep(entry, now) }
                guard let to = MailAddress(dispatch.recipient) else {
                    return settle(entry.id, .refused("mail cannot be addressed to the recipient"))
                }
                let mail = Mail(letter, from: route.from, to: to, id: dispatch.id, at: now.wall)
                if !transfers.start(entry.id, mail, by: route.server) { refuse(entry) }
            case .sms(let text):
                guard let url = plan.smsURL else { return keep(entry, now) }
                if !transfers.start(entry.id, post: WebhookBody.json(to: dispatch.recipient, text: text), to: url) { refuse(entry) }
            }
        }

        private mutating func refuse(_ entry: DeliveryQueue.Entry) {
            settle(entry.id, .failed("libcurl cannot begin"))
        }

        /// Puts a message where a developer finds it.
        private mutating func keep(_ entry: DeliveryQueue.Entry, _ now: Moment) {
            do throws(SystemFault) {
                try outbox.add(OutboxEntry(entry.dispatch, at: now.wall))
                settle(entry.id, .sent)
            } catch {
                settle(entry.id, .failed(error.description))
            }
        }

        private mutating func settle(_ ended: EndedTransfer) {
            switch queue.dispatch(ended.id)?.body {
            case .mail:
                let isDenied = ended.isLoginDenied
                settle(ended.id, .mail(complaint: ended.complaint, status: ended.status, isLoginDenied: isDenied))
            case .sms: settle(ended.id, .webhook(complaint: ended.complaint, status: ended.status))
            case nil: break
            }
        }

        private mutating func settle(_ id: Int, _ outcome: DeliveryOutcome) {
            let now = EventLoop.now().monotonic
            guard let event = queue.settle(id, outcome, now: now, jitter: random.next()) else { return }
            onEvent(event)
        }

        private mutating func giveUp() {
            for event in queue.abandon("the gateway ends") { onEvent(event) }
        }

        /// Milliseconds until the clock asks for something.
        private func pause(from now: MonotonicTime) -> Int32 {
            let next = [queue.nextDue, end].compactMap { $0 }.min()
            return Int32(min(next.map { $0.nanoseconds(since: now) / 1_000_000 + 1 } ?? 60_000, 60_000))
        }
    }
}
