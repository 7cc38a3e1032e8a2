internal import Glibc
internal import Wire

/// A blocking queue of jobs between any threads: `FairQueue` with a lock and a condition.
///
/// `@unchecked Sendable`: the pointers are written once, the memory behind them lives as long as this object, and the jobs are
/// accessed only under the lock.
@safe final class JobQueue<Resource>: @unchecked Sendable {
    /// Either `run` or `refuse` is called, once.
    struct Job: Sendable {
        let run: @Sendable (inout Resource) -> Void
        let refuse: @Sendable (BlockingPool<Resource>.Fault) -> Void
    }

    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var jobs: FairQueue<IPAddress?, Job>
    private var isClosed = false

    init(capacity: Int) {
        jobs = FairQueue(capacity: capacity)
        unsafe lock = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        let made = unsafe pthread_mutex_init(lock, nil) == 0 && pthread_cond_init(condition, nil) == 0
        precondition(made, "the system gives no lock")
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe pthread_mutex_destroy(lock)
        unsafe condition.deallocate()
        unsafe lock.deallocate()
    }

    /// Adds a job. Refuses it or an evicted one on the calling thread.
    func add(_ job: Job, for address: IPAddress?) {
        switch insert(job, for: address) {
        case .success(.added): break
        case .success(.addedEvicting(let evicted)): evicted.refuse(.full)
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
        unsafe pthread_cond_signal(condition)
        return .success(outcome)
    }

    /// Removes the next job, waiting for one; nil once the queue is closed and empty.
    func next() -> Job? {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        while true {
            if let job = jobs.next() { return job }
            if isClosed { return nil }
            unsafe pthread_cond_wait(condition, lock)
        }
    }

    func close() {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        isClosed = true
        unsafe pthread_cond_broadcast(condition)
    }
}
