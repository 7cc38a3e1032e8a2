/// A session of the gateway's own whose access tokens are refused although they have not expired.
package struct RevokedSession: Sendable, Hashable {
    /// As tokens name it (`sid`).
    package var id: String
    /// Seconds since 1970: by then the last of its tokens has expired.
    package var until: Int64
    /// When it ended, in seconds since 1970; nil if nobody says.
    package var endedAt: Int64?

    package init(id: String, until: Int64, endedAt: Int64? = nil) {
        self.id = id
        self.until = until
        self.endedAt = endedAt
    }
}

/// The sessions that ended while tokens of theirs may still be out. Each worker has its own, so that to ask is a probe
/// and no lock. An entry leaves when the last token that it is about has expired: what ends in the longest life of a
/// token bounds it.
struct RevokedSessions {
    private struct End {
        var until: Int64
        var endedAt: Int64?
    }

    private var ends = KeyTable<End>()

    var count: Int { ends.count }

    func contains(_ session: LimitKey) -> Bool { ends[session] != nil }

    /// When it ended, in seconds since 1970; nil if that is not known.
    func endedAt(_ session: LimitKey) -> Int64? { ends[session]?.endedAt }

    /// `now` is in seconds since 1970.
    mutating func insert(_ session: LimitKey, until: Int64, endedAt: Int64? = nil, at now: Int64) {
        guard until > now else { return }
        if ends.isFull { ends.keep { $0.until > now } }
        let known = ends[session]
        ends.set(End(until: max(until, known?.until ?? until), endedAt: known?.endedAt ?? endedAt), for: session)
    }
}
