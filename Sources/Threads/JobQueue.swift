internal import Glibc
internal import Wire

/// A blocking queue of jobs between any threads: `FairQueue` with a lock and a condition. Tasks that prefer its `TaskLine`s run on its
/// threads, too, in turn with the jobs.
///
/// `@unchecked Sendable`: the pointers are written once, the memory behind them lives as long as this object, and the jobs are
/// accessed only under the lock.
///
/// Not generic, so that the compiler knows what it holds: looking for that at run time took a tenth of a refresh.
@safe final class JobQueue: @unchecked Sendable {
    /// Either `run` or `refuse` is called, once.
    struct Job: Sendable {
        /// Finds its resource by `resource`.
        let run: @Sendable () -> Void
        let refuse: @Sendable (BlockingFault) -> Void
    }

    private enum Work {
        case job(Job)
        case task(Part)
    }

    /// A part of a task.
    private struct Part {
        let job: UnownedJob
        let line: TaskLine

        func run() { unsafe job.runSynchronously(on: line.asUnownedTaskExecutor()) }
    }

    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var jobs: FairQueue<IPAddress?, Job>
    /// Not bounded: they are those of calls that were let in already.
    private var tasks = FairQueue<IPAddress?, Part>(capacity: .max)
    private var isTurnOfTasks = false
    /// How many threads wait for the condition.
    private var sleeping = 0
    private var isClosed = false

    init(capacity: Int) {
        jobs = FairQueue(capacity: capacity)
        unsafe lock = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        // Pauses are measured by the monotonic clock.
        var attributes = pthread_condattr_t()
        let made =
            unsafe pthread_mutex_init(lock, nil) == 0 && pthread_condattr_init(&attributes) == 0
            && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(condition, &attributes) == 0
        unsafe pthread_condattr_destroy(&attributes)
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

    private func insert(_ job: Job, for address: IPAddress?) -> Result<FairQueue<IPAddress?, Job>.Outcome, BlockingFault> {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        if isClosed { return .failure(.closed) }
        let outcome = jobs.add(job, for: address)
        if sleeping > 0 { unsafe pthread_cond_signal(condition) }
        return .success(outcome)
    }

    /// Adds a part of a task. Once the queue is closed such parts run where all other tasks do.
    fileprivate func add(_ job: UnownedJob, of line: TaskLine) {
        unsafe pthread_mutex_lock(lock)
        let isTaken = !isClosed
        if isTaken {
            _ = tasks.add(Part(job: job, line: line), for: line.address)
            if sleeping > 0 { unsafe pthread_cond_signal(condition) }
        }
        unsafe pthread_mutex_unlock(lock)
        if !isTaken { globalConcurrentExecutor.enqueue(job) }
    }

    /// Serves the queue on the calling thread until it is closed and empty.
    func serve<Resource>(_ resource: consuming Resource, maxTogether: Int, _ flush: BlockingPool<Resource>.Flush) {
        // `run` of a task on this thread finds the resource by `resource`.
        let place = UnsafeMutablePointer<Resource>.allocate(capacity: 1)
        unsafe place.initialize(to: resource)
        var here = unsafe ThreadPlace(owner: ObjectIdentifier(self), resource: place)
        unsafe withUnsafeMutablePointer(to: &here) { here in
            unsafe ThreadPlace.set(here)
            serve(maxTogether) { unsafe flush(&place.pointee) }
            unsafe ThreadPlace.set(nil)
        }
        unsafe place.deinitialize(count: 1)
        unsafe place.deallocate()
    }

    private func serve(_ maxTogether: Int, _ flush: () -> Int?) {
        var (together, pause): (Int, Int?) = (0, nil)
        while true {
            if together < maxTogether, let work = next(within: together > 0 ? 0 : pause) {
                switch work {
                case .job(let job): job.run()
                case .task(let part): part.run()
                }
                together += 1
            } else if together > 0 || pause != nil {
                pause = flush()
                together = 0
            } else {
                break
            }
        }
    }

    /// The resource of the calling thread; nil if that does not serve this queue.
    @unsafe var resource: UnsafeMutableRawPointer? {
        guard let place = unsafe ThreadPlace.current, unsafe place.pointee.owner == ObjectIdentifier(self) else { return nil }
        return unsafe place.pointee.resource
    }

    /// Removes what is to be done next, waiting so many microseconds for it, without a limit for nil. nil once that time is over, and once
    /// the queue is closed and empty.
    private func next(within microseconds: Int?) -> Work? {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        var isLate = microseconds == 0
        isTurnOfTasks.toggle()
        while true {
            if isTurnOfTasks, let part = tasks.next() { return .task(part) }
            if let job = jobs.next() { return .job(job) }
            if let part = tasks.next() { return .task(part) }
            if isLate || isClosed && microseconds == nil { return nil }
            sleeping += 1
            if let microseconds {
                var end = timespec()
                unsafe clock_gettime(CLOCK_MONOTONIC, &end)
                let nanoseconds = end.tv_nsec + microseconds * 1_000
                end = timespec(tv_sec: end.tv_sec + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000)
                isLate = unsafe pthread_cond_timedwait(condition, lock, &end) == ETIMEDOUT
            } else {
                unsafe pthread_cond_wait(condition, lock)
            }
            sleeping -= 1
        }
    }

    func close() {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        isClosed = true
        unsafe pthread_cond_broadcast(condition)
    }
}

/// Runs the tasks of one address on the threads of a queue; addresses take turns there.
final class TaskLine: TaskExecutor {
    private let queue: JobQueue
    fileprivate let address: IPAddress?

    init(_ queue: JobQueue, for address: IPAddress?) {
        self.queue = queue
        self.address = address
    }

    func enqueue(_ job: consuming ExecutorJob) { queue.add(UnownedJob(job), of: self) }
}

/// The queue that a thread serves, and the thread's resource.
@unsafe private struct ThreadPlace {
    let owner: ObjectIdentifier
    let resource: UnsafeMutableRawPointer

    private static let key = {
        var key = pthread_key_t()
        precondition(unsafe pthread_key_create(&key, nil) == 0, "the system gives no place for a thread's resource")
        return key
    }()

    static var current: UnsafeMutablePointer<ThreadPlace>? {
        unsafe pthread_getspecific(key).map { unsafe $0.assumingMemoryBound(to: ThreadPlace.self) }
    }

    static func set(_ place: UnsafeMutablePointer<ThreadPlace>?) { unsafe pthread_setspecific(key, place) }
}
