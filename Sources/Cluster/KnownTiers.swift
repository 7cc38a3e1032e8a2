internal import Gate
package import Wire

/// A tier that a tier server named.
package struct KnownTier: Equatable, Sendable {
    /// nil for the lowest.
    package let name: String?
    package let askedAt: WallTime
    /// Until then it counts without another question; afterwards for as long as the server fails.
    package fileprivate(set) var freshUntil: WallTime

    package init(name: String?, askedAt: WallTime, freshUntil: WallTime) {
        self.name = name
        self.askedAt = askedAt
        self.freshUntil = freshUntil
    }
}

/// Cache of the answers of tier servers, for all workers. Bounded like `TierCache`, by two generations; an evicted user is
/// asked for again.
struct KnownTiers {
    /// How long a known tier counts after its server has failed, in seconds. Then the server is asked again.
    static var retrySeconds: Int64 { 5 }
    /// How long a user whose tier is no longer fresh is not asked about because the server is away, in seconds. Bounded, so that
    /// failures for other users never keep an old tier alive.
    private static var sparedSeconds: Int64 { 60 }

    private let generationSize: Int
    /// By trust line: how long its server, which answers nothing, is not asked about users whose tier is known. Each question
    /// would hold its request up until it times out.
    private var awayUntil: [String: WallTime] = [:]
    private var young: [TokenUser: KnownTier] = [:]
    private var old: [TokenUser: KnownTier] = [:]

    init(capacity: Int) { generationSize = max(1, capacity / 2) }

    var count: Int { young.count + old.count }

    /// The tier of `user`, fresh or not.
    mutating func known(_ user: TokenUser) -> KnownTier? {
        if let known = young[user] { return known }
        guard let known = old.removeValue(forKey: user) else { return nil }
        put(known, user)
        return known
    }

    /// The tier of `user` if the server need not be asked at `now`.
    mutating func fresh(_ user: TokenUser, at now: WallTime) -> KnownTier? {
        guard var known = known(user) else { return nil }
        if now < known.freshUntil { return known }
        guard let away = user.issuer.flatMap({ awayUntil[$0] }), now < away,
            now < known.freshUntil.advanced(by: Self.sparedSeconds)
        else { return nil }
        known.freshUntil = away
        return known
    }

    /// The server has answered.
    mutating func learn(_ known: KnownTier, of user: TokenUser) {
        if let issuer = user.issuer { awayUntil[issuer] = nil }
        old[user] = nil
        put(known, user)
    }

    /// The server has failed at `now`: a known tier stays, for `retrySeconds` without another question. nil if none is known.
    mutating func failed(_ user: TokenUser, at now: WallTime, isAway: Bool) -> KnownTier? {
        let retry = now.advanced(by: Self.retrySeconds)
        if isAway, let issuer = user.issuer { awayUntil[issuer] = retry }
        guard var known = known(user) else { return nil }
        known.freshUntil = max(known.freshUntil, retry)
        young[user] = known
        return known
    }

    mutating func forget(_ user: TokenUser) {
        young[user] = nil
        old[user] = nil
    }

    mutating func removeAll() {
        young = [:]
        old = [:]
        awayUntil = [:]
    }

    private mutating func put(_ known: KnownTier, _ user: TokenUser) {
        if young[user] == nil, young.count >= generationSize {
            old = young
            young = [:]
        }
        young[user] = known
    }
}

extension WallTime {
    func advanced(by seconds: Int64) -> WallTime { WallTime(microseconds: microseconds + seconds * 1_000_000) }
}
