internal import Synchronization
package import System

/// Runs `body` as a task and blocks the calling thread until it returns; nil after `milliseconds` (-1: no limit). Must not
/// be called on a thread of the cooperative pool.
package func blocking<Value: Sendable>(
    atMost milliseconds: Int32 = -1, _ body: @escaping @Sendable () async -> Value
) throws(SystemFault) -> Value? {
    let answer = BlockingAnswer<Value>(waker: try Waker())
    // Awaited below. After a timeout it runs to its end, and its result is dropped.
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

/// Suspends the calling task; returns early if it is cancelled.
@Sendable package func pause(milliseconds: UInt64) async {
    do {
        try await Task.sleep(nanoseconds: milliseconds * 1_000_000)
    } catch {
        // Cancelled: the caller looks at the clock or at its task next.
    }
}

extension WorkerThread {
    /// The value of `body`, which may block: it runs on a thread of its own. Throws if the system gives none.
    package static func run<Value: Sendable>(
        _ name: String, _ body: @escaping @Sendable () -> Value
    ) async throws(SystemFault) -> Value {
        let outcome: Result<Value, SystemFault> = await withCheckedContinuation { continuation in
            do throws(SystemFault) {
                _ = try WorkerThread(name: name) { continuation.resume(returning: .success(body())) }
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        return try outcome.get()
    }
}
