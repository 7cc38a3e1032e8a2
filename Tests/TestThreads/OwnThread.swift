import Foundation
public import Testing

/// Runs each test on a thread of its own.
///
/// For tests that wait for processes, threads and sockets. The threads that all tasks share are about as many as processors:
/// on those, such tests would run two or four at a time, whatever width is asked for, and starve the tasks of what they test.
public struct OwnThread: TestTrait, SuiteTrait, TestScoping {
    public let isRecursive = true

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await body() }
        let thread = TaskThread()
        defer { thread.end() }
        try await withTaskExecutorPreference(thread) { try await body() }
    }
}

extension Trait where Self == OwnThread {
    public static var ownThread: Self { OwnThread() }
}

/// A thread that runs the jobs of the tasks that prefer it, one after the other.
// Unchecked: what changes is touched under the lock of `condition` alone.
private final class TaskThread: TaskExecutor, @unchecked Sendable {
    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []
    private var isEnding = false

    init() {
        // A test has as much stack there as on the main thread.
        let thread = Thread { [self] in
            while let job = next() { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
        thread.stackSize = 8 << 20
        thread.start()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        condition.withLock {
            jobs.append(job)
            condition.signal()
        }
    }

    /// Ends the thread once it has nothing left to run.
    func end() {
        condition.withLock {
            isEnding = true
            condition.signal()
        }
    }

    private func next() -> UnownedJob? {
        condition.withLock {
            while jobs.isEmpty, !isEnding { condition.wait() }
            return jobs.isEmpty ? nil : jobs.removeFirst()
        }
    }
}
