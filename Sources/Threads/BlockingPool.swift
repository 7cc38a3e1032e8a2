package import Wire

/// Starts a thread that runs `body`; returns a function that joins it, nil if the thread cannot be started.
package typealias ThreadStart = @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) -> ThreadEnd?

/// Joins a thread. Not to be called on the thread itself.
package typealias ThreadEnd = @Sendable () -> Void

/// Threads for blocking calls, with a bounded queue: such calls must not block the cooperative pool. Each thread makes and
/// owns one `Resource`, such as a connection.
package final class BlockingPool<Resource>: Sendable {
    /// Why a call was not queued.
    package enum Fault: Error, Equatable, Sendable {
        /// The queue is full.
        case full
        case closed
    }

    private let queue: JobQueue<Resource>
    private let threads: [ThreadEnd]

    /// nil if not a single thread can be started. At most `capacity` calls wait, besides those that run.
    package init?(
        name: String, threads count: Int, capacity: Int, start: ThreadStart,
        make: @escaping @Sendable () -> Resource
    ) {
        let queue = JobQueue<Resource>(capacity: capacity)
        self.queue = queue
        threads = (0..<count).compactMap { _ in
            start(name) {
                var resource = make()
                while let job = queue.next() { job.run(&resource) }
            }
        }
        if threads.isEmpty { return nil }
    }

    /// Runs `body` on one of the threads; the calling task is suspended meanwhile. Addresses take turns; calls of one
    /// address, and calls without one, run in the order of arrival.
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

    /// Refuses further calls, and waits until the queued ones are done. Blocks; not to be called on one of the threads.
    package func close() {
        queue.close()
        for end in threads { end() }
    }

    /// Without `close` the threads end as soon as the queued calls are done.
    deinit { queue.close() }
}
