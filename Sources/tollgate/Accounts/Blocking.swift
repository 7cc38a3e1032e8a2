internal import Synchronization
internal import Transport

/// Runs `body` as a task and blocks the calling thread, which must not be one that tasks share, until it has answered or
/// so many milliseconds have passed (-1: no limit); nil in the latter case.
func blocking<Value: Sendable>(
    atMost milliseconds: Int32 = -1, _ body: @escaping @Sendable () async -> Value
) throws(SystemFault) -> Value? {
    let answer = BlockingAnswer<Value>(waker: try Waker())
    // Waited for below; past the limit it ends by itself, and its answer goes nowhere.
    Task { answer.set(await body()) }
    answer.waker.wait(milliseconds: milliseconds)
    return answer.value.withLock { $0 }
}

private final class BlockingAnswer<Value: Sendable>: Sendable {
    let waker: Waker
    let value = Mutex<Value?>(nil)

    init(waker: Waker) { self.waker = waker }

    func set(_ value: Value) {
        self.value.withLock { $0 = value }
        waker.wake()
    }
}
