internal import Synchronization
internal import Threads

/// Collects values by their keys, from any thread, and has those of one pause written together.
final class Batch<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct State {
        var waiting: [Key: Value] = [:]
        var isWriting = false
    }

    private let capacity: Int
    private let pauses: (next: UInt64, afterFailure: UInt64)
    private let write: @Sendable ([Key: Value]) async -> [Key: Value]
    private let state = Mutex(State())

    /// Keys beyond `capacity` are not kept. `write` returns what it could not write, which waits on unless there is a newer value. The pauses
    /// are in milliseconds.
    init(
        capacity: Int, pause: UInt64, afterFailure: UInt64, write: @escaping @Sendable (_ waiting: [Key: Value]) async -> [Key: Value]
    ) {
        self.capacity = capacity
        pauses = (pause, afterFailure)
        self.write = write
    }

    /// Returns at once.
    func add(_ key: Key, _ value: Value) {
        let isFirst = state.withLock { state in
            guard state.waiting.count < capacity || state.waiting[key] != nil else { return false }
            state.waiting[key] = value
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends when nothing waits.
        Task {
            var wait = pauses.next
            repeat {
                await pause(milliseconds: wait)
                wait = await writeAll() ? pauses.next : pauses.afterFailure
            } while hasMore()
        }
    }

    /// False if something waits on.
    private func writeAll() async -> Bool {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting
        }
        let rest = await write(waiting)
        state.withLock { state in
            for (key, value) in rest where state.waiting.count < capacity && state.waiting[key] == nil { state.waiting[key] = value }
        }
        return rest.isEmpty
    }

    private func hasMore() -> Bool {
        state.withLock { state in
            state.isWriting = !state.waiting.isEmpty
            return state.isWriting
        }
    }
}
