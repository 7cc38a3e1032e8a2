internal import Fetch
internal import Synchronization
internal import System
internal import Threads
internal import Wire

/// The threads that deliver messages; callers never wait for them. All methods may be called on any thread. `onEvent` is called on one of
/// these threads or on the caller's.
///
/// Each has one delivery at a time: libcurl blocks the thread while a mail server takes its time to accept a message (`smtp_done`), and
/// the others go on meanwhile. A thread is started when a message is due and all have one.
final class DeliveryThreads: Sendable {
    /// Deliveries at the same time.
    static let most = 8
    /// Milliseconds that threads have to notice the end.
    private static let endGrace: UInt64 = 200
    /// Milliseconds between two looks at a transfer: libcurl looks for an answer that is late only when it is called.
    private static let look: UInt64 = 1_000

    fileprivate struct Shared: Sendable {
        var queue = DeliveryQueue()
        var plan: MailPlan
        /// After `stop`: when the remaining messages are dropped.
        var end: MonotonicTime?
        var threads: [WorkerThread] = []
        /// Threads that have a delivery, and those that have not ended.
        var busy = 0
        var running = 0
        /// By thread.
        var wakers: [Int: TransferWaker] = [:]

        /// Whether a message is due for which no thread is free.
        func wantsThread(_ now: MonotonicTime) -> Bool {
            guard running == busy, threads.count < DeliveryThreads.most, end.map({ now < $0 }) ?? true else { return false }
            // The outbox is a file with an order.
            guard threads.isEmpty || plan.channelsInOutbox.count < 2 else { return false }
            return queue.nextDue.map { $0 <= now } ?? false
        }
    }

    private let shared: Mutex<Shared>
    private let outbox: Outbox
    /// Held while the outbox is written.
    private let outboxTurn = Mutex<Void>(())
    private let onEvent: @Sendable (DeliveryEvent) -> Void
    private let timeouts: MailTimeouts
    /// Woken when the last thread has ended.
    private let ended: Waker

    init(
        _ plan: MailPlan, outbox: Outbox, timeouts: MailTimeouts = MailTimeouts(), onEvent: @escaping @Sendable (DeliveryEvent) -> Void
    ) throws(SystemFault) {
        shared = Mutex(Shared(plan: plan))
        self.timeouts = timeouts
        self.outbox = outbox
        self.onEvent = onEvent
        ended = try Waker()
        // The first one now: without any, no message would ever go out.
        try startThread()
    }

    /// Queues a message, which the client at `address` asked for.
    func send(_ message: OutgoingMessage, for address: IPAddress? = nil) {
        let now = SystemClock.now().monotonic
        if let event = shared.withLock({ $0.queue.add(message, for: address, now: now) }) { onEvent(event) }
        startThreadIfWanted(now)
        wake()
    }

    /// Replaces the plan from the next attempt on.
    func adopt(_ plan: MailPlan) {
        shared.withLock { $0.plan = plan }
        wake()
    }

    /// Tries all waiting messages once more, drops those not sent after `milliseconds`, and ends the threads. Blocks so long at most: a
    /// thread that a mail server holds up is left behind, and its message counts as lost.
    func stop(within milliseconds: UInt64) {
        let now = SystemClock.now().monotonic
        shared.withLock { shared in
            shared.end = now.advanced(milliseconds: milliseconds)
            shared.queue.makeAllDue(now: now)
        }
        startThreadIfWanted(now)
        wake()
        let haveEnded = ended.wait(milliseconds: Int32(clamping: milliseconds + Self.endGrace))
        let (lost, threads) = shared.withLock { ($0.queue.dropAll("shutting down"), $0.threads) }
        for event in lost { onEvent(event) }
        if haveEnded { for thread in threads { thread.join() } }
    }

    private func wake() { for waker in shared.withLock({ Array($0.wakers.values) }) { waker.wake() } }

    private func startThreadIfWanted(_ now: MonotonicTime) {
        guard shared.withLock({ $0.wantsThread(now) }) else { return }
        // Those that there are do the work all the same.
        do throws(SystemFault) { try startThread() } catch {}
    }

    private func startThread() throws(SystemFault) {
        try shared.withLock { shared throws(SystemFault) in
            let number = shared.threads.count
            guard number < Self.most else { return }
            shared.threads.append(try WorkerThread(name: "delivery") { [self] in run(number) })
            shared.running += 1
        }
    }

    // MARK: on a thread

    private func run(_ number: Int) {
        guard let transfers = TransferGroup() else { preconditionFailure("libcurl has no memory") }
        shared.withLock { $0.wakers[number] = transfers.waker }
        while deliver(by: transfers) {}
        let isLast = shared.withLock { shared in
            shared.wakers[number] = nil
            shared.running -= 1
            return shared.running == 0
        }
        if isLast { ended.wake() }
    }

    /// Makes the next attempt, or waits for a message; false at the end.
    private func deliver(by transfers: TransferGroup) -> Bool {
        let now = SystemClock.now()
        let (entry, plan, pause) = shared.withLock { shared -> (DeliveryQueue.Entry?, MailPlan, Int32?) in
            if let end = shared.end, shared.queue.isEmpty || now.monotonic >= end { return (nil, shared.plan, nil) }
            let entry = shared.queue.startNext(now: now.monotonic)
            if entry != nil { shared.busy += 1 }
            return (entry, shared.plan, shared.pause(from: now.monotonic))
        }
        guard let entry else {
            guard let pause else { return false }
            _ = transfers.wait(milliseconds: pause)
            return true
        }
        startThreadIfWanted(now.monotonic)
        guard let outcome = attempt(entry, plan, now, by: transfers) else { return false }
        let (ended, jitter) = (SystemClock.now().monotonic, UInt64.random(in: 0 ... .max))
        let event = shared.withLock { shared in
            shared.busy -= 1
            return shared.queue.finish(entry.id, outcome, now: ended, jitter: jitter)
        }
        if let event { onEvent(event) }
        // Another message to the same recipient may go now, or the next one is due at another time.
        wake()
        return true
    }

    /// How an attempt ended; nil if the end came first.
    private func attempt(
        _ entry: DeliveryQueue.Entry, _ plan: MailPlan, _ now: Moment, by transfers: TransferGroup
    ) -> DeliveryOutcome? {
        let message = entry.message
        switch message.body {
        case .mail(let letter):
            guard let route = plan.mail else { return keep(message, now) }
            guard let to = MailAddress(message.recipient) else { return .refused("mail cannot be addressed to the recipient") }
            let mail = Mail(letter, from: route.from, to: to, id: message.id, at: now.wall)
            guard transfers.start(entry.id, mail, by: route.server, timeouts) else { return .failed("libcurl cannot begin") }
            return wait(for: transfers).map { .mail(failure: $0.failure, status: $0.status, isLoginDenied: $0.isLoginDenied) }
        case .sms(let text):
            guard let url = plan.smsURL else { return keep(message, now) }
            let body = WebhookBody.json(to: message.recipient, text: text)
            guard transfers.start(entry.id, post: body, to: url) else { return .failed("libcurl cannot begin") }
            return wait(for: transfers).map { .webhook(failure: $0.failure, status: $0.status) }
        }
    }

    /// The end of the transfer under way; nil if the end of the threads comes first.
    private func wait(for transfers: TransferGroup) -> EndedTransfer? {
        while true {
            let now = SystemClock.now().monotonic
            let end = shared.withLock { $0.end }
            if let end, now >= end { return nil }
            let pause = end.map { min($0.nanoseconds(since: now) / 1_000_000 + 1, Self.look) } ?? Self.look
            if let ended = transfers.wait(milliseconds: Int32(pause)).first { return ended }
        }
    }

    /// Writes a message to the development outbox.
    private func keep(_ message: OutgoingMessage, _ now: Moment) -> DeliveryOutcome {
        outboxTurn.withLock { _ in
            do throws(SystemFault) {
                try outbox.add(OutboxEntry(message, at: now.wall))
                return .sent
            } catch {
                return .failed(error.description)
            }
        }
    }
}

extension DeliveryThreads.Shared {
    /// Milliseconds until a message is due or the end comes, at most a minute.
    fileprivate func pause(from now: MonotonicTime) -> Int32 {
        let next = [queue.nextDue, end].compactMap { $0 }.min()
        return Int32(min(next.map { $0.nanoseconds(since: now) / 1_000_000 + 1 } ?? 60_000, 60_000))
    }
}
