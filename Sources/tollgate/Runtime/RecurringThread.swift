internal import Synchronization
internal import Transport

/// A thread that repeats one task, with pauses, until it is stopped.
final class RecurringThread: Sendable {
    private let waker: Waker
    private let isStopping = Atomic<Bool>(false)
    private let thread = Mutex<WorkerThread?>(nil)

    init() throws { waker = try Waker() }

    /// Runs `work` after `pause`, and again after each pause that it returns, in milliseconds.
    func start(name: String, after pause: Int32, _ work: @escaping @Sendable () -> Int32) throws {
        let started = try WorkerThread(name: name) { [self] in
            var pause = pause
            while true {
                waker.wait(milliseconds: pause)
                if isStopping.load(ordering: .acquiring) { return }
                pause = work()
            }
        }
        thread.withLock { $0 = started }
    }

    /// Ends the pause under way, or the next one.
    func runSoon() { waker.wake() }

    /// Waits for the task under way. Blocks.
    func stop() {
        isStopping.store(true, ordering: .releasing)
        waker.wake()
        thread.withLock { running in
            running?.join()
            running = nil
        }
    }
}
