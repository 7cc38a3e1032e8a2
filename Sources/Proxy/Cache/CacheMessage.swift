package import Gate
package import Telemetry
package import Wire

/// A message about stored answers from one worker to another. Each key has a home, the worker that fetches and keeps its answers; every
/// worker has an index of all entries, from which it answers.
package enum CacheMessage: Sendable {
    /// To the home: an answer is wanted; without a seat, to take the place of one that is stale.
    case ask(CacheOrder, CacheSeat?)
    /// From the home to the request that waits, or reads along.
    case news(Handle<Exchange>, CacheNews)
    /// To the home: the client has taken all that was sent to it.
    case taken(flight: UInt64, CacheSeat)
    /// To the home: the client has gone.
    case left(LimitKey, CacheSeat)
    /// From the home: an entry to answer from, in the place of the one with that serial.
    case stored(CacheEntry, insteadOf: UInt64?)
    case dropped([CacheEntry])
    /// A request that changes something has succeeded at this target, at that time.
    case invalidated(UInt64, at: MonotonicTime)
    /// Asks for the entries that are chosen, all without a selector, and removes them on request. The closure is called on the loop and must
    /// not block it.
    case select(CacheSelector, removes: Bool, @Sendable (CacheTotals) -> Void)
}

/// The request that waits at a worker.
package struct CacheSeat: Equatable, Sendable {
    let worker: Int
    let exchange: Handle<Exchange>
}

/// News for a request that has asked for an answer.
package enum CacheNews: Sendable {
    /// A stored answer.
    case entry(CacheEntry, CacheResult)
    /// The upstream's answer begins; its content follows.
    case began(CacheHead, flight: UInt64, of: LimitKey, CacheResult)
    /// `isPaced`: more is sent once the client has taken this.
    case content([UInt8], isPaced: Bool)
    /// The answer is complete, and stored as this entry.
    case ended(CacheEntry?)
    /// The rest of the answer will not come.
    case cut
    /// The request is to be forwarded by itself.
    case pass
    case refused(Refusal)
}

/// Entries in one worker's keeping.
package struct CacheTotals: Sendable {
    package var entries = 0
    package var bytes = 0
    /// Entries and bytes by route.
    package var routes: [String: (entries: Int, bytes: Int)] = [:]

    package init() {}

    /// Adds those of another worker.
    package mutating func add(_ other: CacheTotals) {
        entries += other.entries
        bytes += other.bytes
        for (route, more) in other.routes {
            let former = routes[route] ?? (0, 0)
            routes[route] = (former.entries + more.entries, former.bytes + more.bytes)
        }
    }

    mutating func add(_ entry: CacheEntry) {
        entries += 1
        bytes += entry.size
        let former = routes[entry.key.route] ?? (0, 0)
        routes[entry.key.route] = (former.entries + 1, former.bytes + entry.size)
    }
}

/// A request for an answer that is not stored: what the upstream is asked, and what decides whether others may share the answer.
package final class CacheOrder: Sendable {
    let key: CacheKey
    let generation: Int
    let rule: CacheRule
    let isShared: Bool
    /// The field lines by which the upstream may choose its answer.
    let lines: [UInt8]
    /// The head for the upstream, and its parts.
    let head: [UInt8]
    let parts: UpstreamHead
    let upstream: Int
    let timeout: UInt64
    let retries: Int
    /// The conditions of the client, which the upstream does not get.
    let conditions: [UInt8]
    /// For whose share of the bounds a fetch counts.
    let client: ClientKey?

    init(
        key: CacheKey, generation: Int, rule: CacheRule, isShared: Bool, lines: [UInt8], head: [UInt8], parts: UpstreamHead, upstream: Int,
        timeout: UInt64, retries: Int, conditions: [UInt8], client: ClientKey?
    ) {
        (self.key, self.generation, self.rule, self.isShared) = (key, generation, rule, isShared)
        (self.lines, self.head, self.parts, self.conditions) = (lines, head, parts, conditions)
        (self.upstream, self.timeout, self.retries, self.client) = (upstream, timeout, retries, client)
    }
}
