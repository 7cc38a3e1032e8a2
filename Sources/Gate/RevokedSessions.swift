/// A session of the gateway whose unexpired access tokens are refused.
package struct RevokedSession: Sendable, Hashable {
    /// `sid` of its tokens.
    package var id: String
    /// Expiry of its last token, in seconds since 1970.
    package var until: Int64
    /// When it ended, in seconds since 1970; nil if unknown.
    package var endedAt: Int64?

    package init(id: String, until: Int64, endedAt: Int64? = nil) {
        self.id = id
        self.until = until
        self.endedAt = endedAt
    }
}

/// Revocation list of a worker: ended sessions with tokens that may not have expired. Per worker, so that a lookup needs no
/// lock. An entry is removed when the session's last token has expired, which bounds the list.
///
/// Its clock is the worker's, or the newest end that it knows if that is earlier: a worker whose clock is days ahead removes nothing
/// that still counts when the clock has been put right.
struct RevokedSessions {
    private struct End {
        var until: Int64
        var endedAt: Int64?
    }

    private var ends = KeyTable<End>()
    /// The latest `endedAt`, by the clock of the store.
    private var newest = Int64.min

    var count: Int { ends.count }

    func contains(_ session: LimitKey) -> Bool { ends[session] != nil }

    /// When it ended, in seconds since 1970; nil if unknown.
    func endedAt(_ session: LimitKey) -> Int64? { ends[session]?.endedAt }

    /// `now` is in seconds since 1970.
    mutating func insert(_ session: LimitKey, until: Int64, endedAt: Int64? = nil, at now: Int64) {
        if let endedAt { newest = max(newest, endedAt) }
        let now = newest == .min ? now : min(now, newest)
        guard until > now else { return }
        if ends.isFull { ends.keep { $0.until > now } }
        let known = ends[session]
        ends.set(End(until: max(until, known?.until ?? until), endedAt: known?.endedAt ?? endedAt), for: session)
    }
}
