package import Accounts
internal import Credentials
package import Gate
package import Wire

/// Notes when API keys are used, as `SessionUses` does of sessions.
package final class APIKeyUses: Sendable {
    private let keys: APIKeys
    private let batch: Batch<UUID, WallTime>

    package init(keys: APIKeys, batchMilliseconds: UInt64 = 20_000) {
        self.keys = keys
        batch = Batch(capacity: APIKeys.most, pause: batchMilliseconds, afterFailure: batchMilliseconds) { waiting in
            do throws(AccountFailure) { try await keys.note(waiting) } catch {
                // The service has logged it.
                return waiting
            }
            return [:]
        }
    }

    /// A request came with this key. Any thread; returns at once.
    package func saw(_ id: UUID) { batch.add(id, keys.now) }
}

extension APIKeyTable {
    /// A key that cannot be read, as only a row written by hand can be, is left out.
    package convenience init(_ keys: [APIKey]) {
        self.init(
            keys.compactMap { key in
                guard let digest = APIKeyDigest(key.digest.rawBytes) else { return nil }
                let rate = key.limit.flatMap { LimitRate(parsing: $0) }
                guard key.limit == nil || rate != nil else { return nil }
                return KnownAPIKey(
                    id: key.id, digest: digest, tier: key.tier, routes: key.routes, rate: rate,
                    expiresAt: key.until?.seconds ?? KnownAPIKey.noEnd)
            })
    }
}
