internal import Glibc

/// Jobs from any thread for a few threads that wait for them.
///
/// Unchecked because of the pointers: they are written once, point to memory that lives as long as this object, and
/// what they guard is touched by nobody who does not hold the lock.
@safe final class JobQueue<Resource>: @unchecked Sendable {
    typealias Job = @Sendable (inout Resource) -> Void

    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let ring: UnsafeMutablePointer<pthread_cond_t>
    private let capacity: Int
    private var jobs: [Job] = []
    private var isClosed = false

    init(capacity: Int) {
        self.capacity = capacity
        unsafe lock = .allocate(capacity: 1)
        unsafe ring = .allocate(capacity: 1)
        let made = unsafe pthread_mutex_init(lock, nil) == 0 && pthread_cond_init(ring, nil) == 0
        precondition(made, "the system gives no lock")
    }

    deinit {
        unsafe pthread_cond_destroy(ring)
        unsafe pthread_mutex_destroy(lock)
        unsafe ring.deallocate()
        unsafe lock.deallocate()
    }

    /// Adds a job at the end; answers why not.
    func add(_ job: @escaping Job) -> BlockingPool<Resource>.Fault? {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        if isClosed { return .closed }
        if jobs.count >= capacity { return .full }
        jobs.append(job)
        unsafe pthread_cond_signal(ring)
        return nil
    }

    /// The oldest job. Blocks until there is one; nil when the queue is closed and empty.
    func take() -> Job? {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        while jobs.isEmpty {
            if isClosed { return nil }
            unsafe pthread_cond_wait(ring, lock)
        }
        return jobs.removeFirst()
    }

    func close() {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        isClosed = true
        unsafe pthread_cond_broadcast(ring)
    }
}
