internal import Glibc
internal import Wire

/// Jobs from any thread for a few threads that wait for them: `FairQueue` with a lock.
///
/// Unchecked because of the pointers: they are written once, point to memory that lives as long as this object, and
/// what they guard is touched by nobody who does not hold the lock.
@safe final class JobQueue<Resource>: @unchecked Sendable {
    /// Exactly one of both is called, once.
    struct Job: Sendable {
        let run: @Sendable (inout Resource) -> Void
        let refuse: @Sendable (BlockingPool<Resource>.Fault) -> Void
    }

    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let ring: UnsafeMutablePointer<pthread_cond_t>
    private var jobs: FairQueue<IPAddress?, Job>
    private var isClosed = false

    init(capacity: Int) {
        jobs = FairQueue(capacity: capacity)
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

    /// Adds a job, or refuses it or another one, on this thread.
    func add(_ job: Job, for address: IPAddress?) {
        switch insert(job, for: address) {
        case .success(.added): break
        case .success(.addedInPlace(of: let evicted)): evicted.refuse(.full)
        case .success(.refused): job.refuse(.full)
        case .failure(let fault): job.refuse(fault)
        }
    }

    private func insert(
        _ job: Job, for address: IPAddress?
    ) -> Result<FairQueue<IPAddress?, Job>.Outcome, BlockingPool<Resource>.Fault> {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        if isClosed { return .failure(.closed) }
        let outcome = jobs.add(job, for: address)
        unsafe pthread_cond_signal(ring)
        return .success(outcome)
    }

    /// The job whose turn it is. Blocks until there is one; nil when the queue is closed and empty.
    func take() -> Job? {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        while true {
            if let job = jobs.next() { return job }
            if isClosed { return nil }
            unsafe pthread_cond_wait(ring, lock)
        }
    }

    func close() {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        isClosed = true
        unsafe pthread_cond_broadcast(ring)
    }
}
