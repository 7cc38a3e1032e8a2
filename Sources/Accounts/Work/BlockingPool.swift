package import Wire

/// Starts a thread of the process's own that runs `body`; answers what waits for its end. nil if the system gives none.
package typealias ThreadStart = @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) -> ThreadEnd?

/// Waits until a thread has ended. Not from the thread itself.
package typealias ThreadEnd = @Sendable () -> Void

/// A few threads for calls that block, and a bounded queue before them: such calls never run on the threads that tasks
/// share. Each thread owns one `Resource`, such as a connection, made by it and for it alone.
package final class BlockingPool<Resource>: Sendable {
    /// Why a call was not taken.
    package enum Fault: Error, Equatable, Sendable {
        /// As many calls wait as may.
        case full
        case closed
    }

    private let queue: JobQueue<Resource>
    private let threads: [ThreadEnd]

    /// nil if the system gives not a single thread. `capacity` calls may wait at most, beside those that run.
    package init?(
        name: String, threads count: Int, capacity: Int, start: ThreadStart,
        make: @escaping @Sendable () -> Resource
    ) {
        let queue = JobQueue<Resource>(capacity: capacity)
        self.queue = queue
        threads = (0..<count).compactMap { _ in
            start(name) {
                var resource = make()
                while let job = queue.take() { job.run(&resource) }
            }
        }
        if threads.isEmpty { return nil }
    }

    /// Runs `body` on one of the threads; the calling task waits without blocking one. Those who call take turns; calls of
    /// one, and calls without one, run in the order in which they came.
    package func run<Value: Sendable>(
        for address: IPAddress? = nil, _ body: @escaping @Sendable (inout Resource) -> Value
    ) async throws(Fault) -> Value {
        let outcome: Result<Value, Fault> = await withCheckedContinuation { continuation in
            queue.add(
                JobQueue.Job(
                    run: { resource in continuation.resume(returning: .success(body(&resource))) },
                    refuse: { continuation.resume(returning: .failure($0)) }), for: address)
        }
        return try outcome.get()
    }

    /// Takes no more calls, and waits until those taken are done. Blocks; not from one of the threads.
    package func close() {
        queue.close()
        for end in threads { end() }
    }

    /// Without a `close` the threads end as soon as the calls taken are done.
    deinit { queue.close() }
}
