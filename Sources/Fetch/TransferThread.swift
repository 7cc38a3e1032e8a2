internal import Synchronization
internal import System
internal import Threads
internal import Wire

/// A thread that sends requests for many callers; it starts with the first request. Any thread may call it.
package final class TransferThread: Sendable {
    /// The bounds of one thread.
    package struct Limits: Sendable {
        /// Requests under way at the same time.
        var underWay: Int
        /// Requests that wait for one of them to end, and for how long, in milliseconds.
        var queued: Int
        var queuedMilliseconds: UInt64

        package init(underWay: Int, queued: Int, queuedMilliseconds: UInt64) {
            self.underWay = underWay
            self.queued = queued
            self.queuedMilliseconds = queuedMilliseconds
        }
    }

    fileprivate struct Order: Sendable {
        let transfer: HTTPTransfer
        let deadline: MonotonicTime
        let reply: @Sendable (EndedTransfer) -> Void
    }

    private struct Shared: Sendable {
        var arrived: [Order] = []
        var waker: TransferWaker?
        var thread: WorkerThread?
        var hasEnded = false
    }

    private let name: String
    private let limits: Limits
    private let box = Box()

    private final class Box: Sendable {
        let state = Mutex(Shared())
    }

    package init(name: String, _ limits: Limits) {
        self.name = name
        self.limits = limits
    }

    /// Sends a request; returns within its time and that of the queue.
    package func send(_ transfer: HTTPTransfer) async -> EndedTransfer {
        await withCheckedContinuation { continuation in
            let deadline = SystemClock.now().monotonic.advanced(milliseconds: limits.queuedMilliseconds)
            let failure = add(Order(transfer: transfer, deadline: deadline) { continuation.resume(returning: $0) })
            if let failure { continuation.resume(returning: EndedTransfer(failure: failure)) }
        }
    }

    /// Aborts all requests and ends the thread. Blocks.
    package func stop() {
        let (thread, waker) = box.state.withLock { state in
            state.hasEnded = true
            return (state.thread, state.waker)
        }
        waker?.wake()
        thread?.join()
    }

    /// Queues a request; returns an error if it cannot, else nil.
    private func add(_ order: Order) -> String? {
        let (failure, waker) = box.state.withLock { state -> (String?, TransferWaker?) in
            if state.hasEnded { return ("shutting down", nil) }
            guard state.arrived.count < limits.queued else { return ("too many requests are queued", nil) }
            if state.thread == nil {
                do {
                    state.thread = try start()
                } catch {
                    return ("\(error)", nil)
                }
            }
            state.arrived.append(order)
            return (nil, state.waker)
        }
        waker?.wake()
        return failure
    }

    private func start() throws(SystemFault) -> WorkerThread {
        let (box, limits) = (box, limits)
        return try WorkerThread(name: name) {
            guard let group = TransferGroup() else { preconditionFailure("libcurl has no memory") }
            box.state.withLock { $0.waker = group.waker }
            var run = Run(group: group)
            while true {
                let now = SystemClock.now().monotonic
                let (room, isOver) = (limits.underWay - run.replies.count, box.state.withLock { $0.hasEnded })
                if isOver { break }
                let (late, next, pause) = box.state.withLock { $0.arrived.take(room, at: now) }
                for order in late { order.reply(EndedTransfer(failure: "the server is too slow for the requests that wait")) }
                run.turn(next, pause)
            }
            run.abortAll()
            for order in box.state.withLock({ state in
                defer { state.arrived = [] }
                state.waker = nil
                return state.arrived
            }) { order.reply(EndedTransfer(failure: "shutting down")) }
        }
    }

    /// The thread's own state.
    private struct Run {
        let group: TransferGroup
        var replies: [Int: @Sendable (EndedTransfer) -> Void] = [:]
        var last = 0

        /// Starts `orders` and drives all transfers, for at most `pause` milliseconds.
        mutating func turn(_ orders: [Order], _ pause: Int32) {
            for order in orders { begin(order) }
            for ended in group.wait(milliseconds: pause) {
                replies.removeValue(forKey: ended.id)?(ended)
            }
        }

        private mutating func begin(_ order: Order) {
            last += 1
            if group.start(last, order.transfer) {
                replies[last] = order.reply
            } else {
                order.reply(EndedTransfer(failure: "libcurl refuses the URL"))
            }
        }

        mutating func abortAll() {
            for reply in replies.values { reply(EndedTransfer(failure: "shutting down")) }
            replies = [:]
        }
    }
}

extension [TransferThread.Order] {
    /// Takes those whose time in the queue is over, and up to `room` of the others, the first come first; and how long nothing
    /// else is due, in milliseconds.
    fileprivate mutating func take(_ room: Int, at now: MonotonicTime) -> (late: [Element], next: [Element], pause: Int32) {
        let late = Array(prefix { $0.deadline <= now })
        removeFirst(late.count)
        let next = Array(prefix(room))
        removeFirst(next.count)
        let wait = first.map { ($0.deadline.nanoseconds(since: now) + 999_999) / 1_000_000 } ?? 60_000
        return (late, next, Int32(clamping: wait))
    }
}
