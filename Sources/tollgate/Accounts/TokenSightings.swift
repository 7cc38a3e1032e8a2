internal import Accounts
internal import Gate
internal import Synchronization
internal import Wire

/// Tells the store which tokens have been seen on requests, a tenth of a second's worth at a time: by that it knows that a
/// refreshed pair has arrived.
final class TokenSightings: Sendable {
    /// What is beyond it is seen again on another worker, or not at all, which costs a grace.
    private static let capacity = 8_192

    private let sessions: Sessions
    private let waiting = Mutex<Set<ConfirmedPair>>([])

    init(sessions: Sessions) { self.sessions = sessions }

    /// Any thread; returns at once.
    func saw(_ sighting: TokenSighting) {
        guard let session = UUID(parsing: sighting.session),
            let token = sighting.token.withRawBytes({ AccessTokenID(parsing: $0) }), token.counter > 0
        else { return }
        let isFirst = waiting.withLock { waiting in
            guard waiting.count < Self.capacity else { return false }
            waiting.insert(ConfirmedPair(session: session, counter: token.counter))
            return waiting.count == 1
        }
        guard isFirst else { return }
        // Unstructured, because its parent is a loop: it ends with the store's answer.
        Task {
            await pause(milliseconds: 100)
            let pairs = waiting.withLock { waiting in
                defer { waiting = [] }
                return Array(waiting)
            }
            do throws(AccountError) {
                try await sessions.confirm(pairs)
            } catch {
                // A store that is away has been told of. An unconfirmed pair lets its parent be used longer, no more.
            }
        }
    }
}
