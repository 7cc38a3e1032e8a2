internal import Synchronization
package import Wire

/// Writes the merges that upstreams have confirmed. One that cannot be written is dropped: it is announced again, and confirmed again.
package final class MergeConfirmations: Sendable {
    private struct Pair: Hashable {
        let from: UUID
        let account: UUID
    }

    /// Confirmations that may be under way.
    private static let capacity = 1_024

    private let write: @Sendable (UUID, UUID) async -> Void
    private let waiting = Mutex<Set<Pair>>([])

    package init(write: @escaping @Sendable (UUID, UUID) async -> Void) { self.write = write }

    /// An upstream has confirmed the merge of the first account into the second. Any thread; returns at once.
    package func confirm(_ from: UUID, _ account: UUID) {
        let pair = Pair(from: from, account: account)
        let isFirst = waiting.withLock { $0.count < Self.capacity && $0.insert(pair).inserted }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends with the write.
        Task {
            await write(from, account)
            waiting.withLock { _ = $0.remove(pair) }
        }
    }
}
