package import Wire

/// Writes the merges that upstreams have confirmed. One that cannot be written is dropped: it is announced again, and confirmed again.
package final class MergeConfirmations: Sendable {
    private struct Pair: Hashable {
        let from: UUID
        let account: UUID
    }

    private let batch: Batch<Pair, Void>

    package init(write: @escaping @Sendable (UUID, UUID) async -> Void) {
        batch = Batch(capacity: 1_024, pause: 0, afterFailure: 0) { pairs in
            for pair in pairs.keys { await write(pair.from, pair.account) }
            return [:]
        }
    }

    /// An upstream has confirmed the merge of the first account into the second. Any thread; returns at once.
    package func confirm(_ from: UUID, _ account: UUID) { batch.add(Pair(from: from, account: account), ()) }
}
