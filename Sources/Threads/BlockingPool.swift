package import Wire

/// Starts a thread that runs `body`; returns a function that joins it, nil if the thread cannot be started.
package typealias ThreadStart = @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) -> ThreadEnd?

/// Joins a thread. Not to be called on the thread itself.
package typealias ThreadEnd = @Sendable () -> Void

/// Why a `BlockingPool` has not queued a call.
package enum BlockingFault: Error, Equatable, Sendable {
    /// The queue is full.
    case full
    case closed
}

/// Threads for blocking calls, with a bounded queue: such calls must not block the cooperative pool. Each thread makes and
/// owns one `Resource`, such as a connection.
///
/// A task that prefers an `executor` runs on these threads, and its calls run at once on the thread that it is on.
package final class BlockingPool<Resource>: Sendable {
    package typealias Fault = BlockingFault

    /// Ends what calls have begun together, when no other call or task waits, or after `maxTogether` of them. Returns after how many
    /// microseconds at the latest it is to be called again; nil if nothing is left.
    package typealias Flush = @Sendable (inout Resource) -> Int?

    private static var maxTogether: Int { 128 }

    private let queue: JobQueue
    private let threads: [ThreadEnd]

    /// nil if not a single thread can be started. At most `capacity` calls wait, besides those that run.
    package init?(
        name: String, threads count: Int, capacity: Int, start: ThreadStart,
        make: @escaping @Sendable () -> Resource, flush: @escaping Flush = { _ in nil }
    ) {
        let queue = JobQueue(capacity: capacity)
        self.queue = queue
        threads = (0..<count).compactMap { _ in
            start(name) { queue.serve(make(), maxTogether: Self.maxTogether, flush) }
        }
        if threads.isEmpty { return nil }
    }

    /// For tasks that make calls. Addresses take turns.
    package func executor(for address: IPAddress? = nil) -> any TaskExecutor { TaskLine(queue, for: address) }

    /// Whether the calling task is on one of the threads.
    package var isCurrent: Bool { unsafe queue.resource != nil }

    /// Runs `call` on one of the threads, or calls `refuse` with the reason. Addresses take turns; calls of one address, and calls without
    /// one, run in the order of arrival.
    package func add(
        for address: IPAddress? = nil, refuse: @escaping @Sendable (Fault) -> Void, _ call: @escaping @Sendable (inout Resource) -> Void
    ) {
        if isCurrent { return Self.run(call, queue) }
        queue.add(JobQueue.Job(run: { [queue] in Self.run(call, queue) }, refuse: refuse), for: address)
    }

    /// Runs `body` as `add` does; the calling task is suspended meanwhile, unless it is on one of the threads.
    package func run<Value: Sendable>(
        for address: IPAddress? = nil, _ body: @escaping @Sendable (inout Resource) -> Value
    ) async throws(Fault) -> Value {
        if isCurrent { return Self.run(body, queue) }
        let outcome: Result<Value, Fault> = await withCheckedContinuation { continuation in
            add(for: address, refuse: { continuation.resume(returning: .failure($0)) }) { resource in
                continuation.resume(returning: .success(body(&resource)))
            }
        }
        return try outcome.get()
    }

    /// Runs `body` on the current thread, which serves the queue.
    private static func run<Value>(_ body: (inout Resource) -> Value, _ queue: JobQueue) -> Value {
        guard let place = unsafe queue.resource else { preconditionFailure("a job runs on a thread of its queue") }
        return unsafe body(&place.assumingMemoryBound(to: Resource.self).pointee)
    }

    /// Refuses further calls, and waits until the queued ones are done. Blocks; not to be called on one of the threads.
    package func close() {
        queue.close()
        for end in threads { end() }
    }

    /// Without `close` the threads end as soon as the queued calls are done.
    deinit { queue.close() }
}
