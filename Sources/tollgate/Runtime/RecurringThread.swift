internal import Synchronization
internal import Threads

/// A thread that repeats one task, with pauses, until it is stopped.
final class RecurringThread: Sendable {
    private let waker: Waker
    private let stops = Atomic<Bool>(false)
    private let thread = Mutex<WorkerThread?>(nil)

    init() throws { waker = try Waker() }

    /// Runs `work` after `pause`, and again after each pause that it returns, in milliseconds.
    func start(name: String, after pause: Int32, _ work: @escaping @Sendable () -> Int32) throws {
        let started = try WorkerThread(name: name) { [self] in
            var pause = pause
            while true {
                waker.wait(milliseconds: pause)
                if isStopping { return }
                pause = work()
            }
        }
        thread.withLock { $0 = started }
    }

    /// Ends the pause under way, or the next one.
    func runSoon() { waker.wake() }

    /// Whether `stop` was called: a long task should end early.
    var isStopping: Bool { stops.load(ordering: .acquiring) }

    /// Waits for the task under way. Blocks.
    func stop() {
        stops.store(true, ordering: .releasing)
        waker.wake()
        thread.withLock { running in
            running?.join()
            running = nil
        }
    }
}
