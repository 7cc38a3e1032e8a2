package import Credentials
internal import Synchronization
internal import Threads
package import Wire

/// Readings of the signing keys that gateways share: one at a time after each notice of a change, repeated every second until it
/// succeeds. The notice does not come again, so a reading that fails and is not repeated would leave this gateway with the keys that it
/// has, until the next rotation.
package final class SharedKeyReadings: Sendable {
    private struct State {
        var isReading = false
        /// Whether a change was noticed since the latest reading began, or that has failed.
        var isWanted = false
        /// Called when the next reading has ended.
        var waiting: [@Sendable () -> Void] = []
    }

    private static let retryMilliseconds: UInt64 = 1_000

    private let read: @Sendable () async throws -> SigningKeyRing?
    private let adopt: @Sendable (SigningKeyRing, _ asOf: MonotonicTime, _ then: @escaping @Sendable () -> Void) -> Void
    private let failed: @Sendable (String) -> Void
    private let wait: @Sendable (_ milliseconds: UInt64) async -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - read: nil if there are no keys; answers in bounded time.
    ///   - adopt: called with keys and the begin of their reading; calls its closure once they are in force.
    ///   - failed: called with the reason, once as long as it stays the same.
    package init(
        read: @escaping @Sendable () async throws -> SigningKeyRing?,
        adopt: @escaping @Sendable (SigningKeyRing, _ asOf: MonotonicTime, _ then: @escaping @Sendable () -> Void) -> Void,
        failed: @escaping @Sendable (String) -> Void, wait: @escaping @Sendable (_ milliseconds: UInt64) async -> Void = pause
    ) {
        self.read = read
        self.adopt = adopt
        self.failed = failed
        self.wait = wait
    }

    /// The keys may have changed. Any thread; returns at once.
    package func changed() {
        let starts = state.withLock { state in
            state.isWanted = true
            defer { state.isReading = true }
            return !state.isReading
        }
        // Unstructured: the poller must not wait for it. It ends with the first reading that succeeds.
        if starts { Task { await run() } }
    }

    /// Reads the keys now, and calls `done` once they are in force or the reading has failed. Any thread; returns at once.
    package func read(then done: @escaping @Sendable () -> Void) {
        state.withLock { $0.waiting.append(done) }
        changed()
    }

    private func run() async {
        var problem: String?
        while let waiting = takeWanted() {
            let begin = SystemClock.now().monotonic
            let done = { @Sendable in for done in waiting { done() } }
            do {
                if let ring = try await read() { adopt(ring, begin, done) } else { done() }
                problem = nil
            } catch {
                done()
                if problem != "\(error)" { failed("\(error)") }
                problem = "\(error)"
                state.withLock { $0.isWanted = true }
                await wait(Self.retryMilliseconds)
            }
        }
    }

    /// Those that wait for the reading that begins now; nil if none is wanted.
    private func takeWanted() -> [@Sendable () -> Void]? {
        state.withLock { state in
            state.isReading = state.isWanted
            state.isWanted = false
            guard state.isReading else { return nil }
            defer { state.waiting.removeAll() }
            return state.waiting
        }
    }
}
