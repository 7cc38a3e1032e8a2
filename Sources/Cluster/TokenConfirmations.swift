package import Accounts
package import Gate
internal import Synchronization
internal import Wire

/// Batches, every 100 ms, the access tokens seen on requests: the use of one confirms to the store that its refreshed pair
/// has reached the client. Each pair is written once, and again later while the store is away.
package final class TokenConfirmations: Sendable {
    /// Pairs that may wait. One beyond is seen again on another worker, or costs no more than a refresh's grace.
    private static let capacity = 8_192
    /// Written pairs that are remembered, so that they are not written again.
    private static let rememberedPairs = 65_536

    private let written: Written
    private let batch: Batch<ConfirmedPair, Void>

    private final class Written: Sendable {
        let pairs = Mutex<Set<ConfirmedPair>>([])
    }

    package init(sessions: Sessions) {
        let written = Written()
        self.written = written
        batch = Batch(capacity: Self.capacity, pause: 100, afterFailure: 1_000) { waiting in
            do throws(AccountFailure) { try await sessions.confirm(Array(waiting.keys)) } catch {
                // The service has logged it.
                return waiting
            }
            written.pairs.withLock { pairs in
                if pairs.count >= Self.rememberedPairs { pairs = [] }
                pairs.formUnion(waiting.keys)
            }
            return [:]
        }
    }

    /// A request came with this token of an own session. Any thread; returns at once.
    package func saw(_ sighting: TokenDelivery) {
        guard let session = UUID(parsing: sighting.session),
            let token = sighting.token.withRawBytes({ AccessTokenID(parsing: $0) }), token.counter > 0
        else { return }
        let pair = ConfirmedPair(session: session, counter: token.counter)
        guard !written.pairs.withLock({ $0.contains(pair) }) else { return }
        batch.add(pair, ())
    }
}
