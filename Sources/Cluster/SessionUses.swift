package import Accounts
package import Gate
internal import Wire

/// Notes when sessions are used: the workers tell of each at most every half minute, and every 20 seconds the store is told of all that were
/// used since. The last use of a session is therefore true within a minute, on every gateway.
package final class SessionUses: Sendable {
    /// Sessions that may wait. One beyond is noted in the next half minute.
    private static let capacity = 65_536
    /// Other writes come in between.
    private static let perTransaction = 200

    private let sessions: Sessions
    private let batch: Batch<UUID, WallTime>

    package init(sessions: Sessions, batchMilliseconds: UInt64 = 20_000) {
        self.sessions = sessions
        batch = Batch(capacity: Self.capacity, pause: batchMilliseconds, afterFailure: batchMilliseconds) { waiting in
            // In one order on all gateways, so that none waits for another in a circle.
            var uses = waiting.map { SessionUse(session: $0.key, at: $0.value) }.sorted { $0.session < $1.session }[...]
            do throws(AccountFailure) {
                while !uses.isEmpty {
                    try await sessions.note(Array(uses.prefix(Self.perTransaction)))
                    uses = uses.dropFirst(Self.perTransaction)
                }
            } catch {
                // The service has logged it.
            }
            return Dictionary(uniqueKeysWithValues: uses.map { ($0.session, $0.at) })
        }
    }

    /// A request came with a token of an own session. Any thread; returns at once.
    package func saw(_ token: TokenDelivery) {
        guard let session = UUID(parsing: token.session) else { return }
        batch.add(session, sessions.now)
    }
}
