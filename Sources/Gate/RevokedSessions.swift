/// A session of the gateway's own whose access tokens are refused although they have not expired.
package struct RevokedSession: Sendable, Hashable {
    /// As tokens name it (`sid`).
    package var id: String
    /// Seconds since 1970: by then the last of its tokens has expired.
    package var until: Int64

    package init(id: String, until: Int64) {
        self.id = id
        self.until = until
    }
}

/// The sessions that ended while tokens of theirs may still be out. Each worker has its own, so that to ask is a probe
/// and no lock. An entry leaves when the last token that it is about has expired: what ends in the longest life of a
/// token bounds it.
struct RevokedSessions {
    private var untils = KeyTable<Int64>()

    var count: Int { untils.count }

    func contains(_ session: LimitKey) -> Bool { untils[session] != nil }

    /// `now` is in seconds since 1970.
    mutating func insert(_ session: LimitKey, until: Int64, at now: Int64) {
        guard until > now else { return }
        if untils.isFull { untils.keep { $0 > now } }
        untils.set(max(until, untils[session] ?? until), for: session)
    }
}
