import Credentials
package import Wire

/// Whom a limit refused.
package struct LimitedKey: Hashable, Sendable {
    package let route: String
    /// The limit's name in answers and logs, and its text in the settings.
    package let policy: String
    package let limit: String
    /// The limit's subject, as `limit-by=` names it.
    package let by: LimitBy
    /// The issuer of the user's tokens; nil if `key` is an address.
    package let issuer: String?
    /// A user's id, or an address (IPv6: its /64). A limit by session names the session's user, one by a field the client's address: the
    /// value of a field may be a secret.
    package let key: String
}

/// A key, and how often limits refused it: at least so many times.
package struct HotKey: Equatable, Sendable {
    package let key: LimitedKey
    package internal(set) var refused: UInt64
}

/// The keys that limits refused most often, as one worker counts them: a space-saving counter (Metwally, Agrawal, El Abbadi 2005) of fixed
/// size, which is touched only when a limit refuses a request.
///
/// A key without a counter takes over that of the least refused key, with its count, which is then too high by at most that much. So every
/// key with more than 1/128 of a window's refusals has a counter, however many other keys there are. A window lasts ten minutes; the one
/// before is kept beside the current one.
package struct HottestKeys: Sendable {
    package static let capacity = 128
    package static let windowSeconds: Int64 = 600

    fileprivate struct Window {
        var ids: [LimitKey] = []
        var counts: [UInt64] = []
        /// How much of each count may belong to other keys.
        var inherited: [UInt64] = []
        var keys: [LimitedKey] = []
    }

    private let hash = KeyedHash.random()
    private var number: Int64 = 0
    private var current = Window()
    private var former = Window()

    package init() {}

    /// Counts a request if a limit refused it. `policy` is in force: a request that an older one decided about is left out.
    package mutating func count(_ note: borrowing DecisionRecord, policy: Policy, at now: WallTime) {
        guard note.limitResult == .refused, note.policyVersion == policy.version, note.routeIndex >= 0 else { return }
        let rule = policy.rules[Int(note.routeIndex)], index = Int(note.tightestLimit)
        let isOwn = index >= rule.limits.count
        let by = isOwn ? .user : rule.limits[index].rule(of: note.tier).by ?? rule.limitBy
        let isUser = (by.kind == .user || by.kind == .session) && note.issuerIndex >= 0
        turn(to: now)
        let place = UInt64(policy.version) << 32 | UInt64(note.routeIndex) << 8 | UInt64(index)
        let id = note.subjectHash(isUser: isUser, hash, domain: place)
        if current.countAgain(id) { return }
        current.count(
            id,
            LimitedKey(
                route: rule.name, policy: isOwn ? "key" : rule.limitName(index),
                limit: isOwn ? note.ownRate?.text ?? "" : rule.limits[index].text, by: by,
                issuer: isUser ? policy.trust.issuers[Int(note.issuerIndex)].name : nil,
                key: isUser ? note.userID : note.client.address.limitText))
    }

    /// The keys of the current window and the one before.
    package mutating func keys(at now: WallTime) -> [HotKey] {
        turn(to: now)
        return former.hotKeys + current.hotKeys
    }

    /// The beginning of the window before the current one.
    package static func since(_ now: WallTime) -> WallTime { WallTime(seconds: (now.seconds / windowSeconds - 1) * windowSeconds) }

    /// The keys of all workers, each once, the most refused first; at most `limit`.
    package static func merged(_ keys: [HotKey], limit: Int) -> [HotKey] {
        let sums = Dictionary(keys.map { ($0.key, $0.refused) }, uniquingKeysWith: +)
        let sorted = sums.map { HotKey(key: $0.key, refused: $0.value) }.sorted {
            ($1.refused, $0.key.route, $0.key.policy, $0.key.key) < ($0.refused, $1.key.route, $1.key.policy, $1.key.key)
        }
        return Array(sorted.prefix(limit))
    }

    private mutating func turn(to now: WallTime) {
        let next = now.seconds / Self.windowSeconds
        guard next != number else { return }
        former = next == number + 1 ? current : Window()
        current = Window()
        number = next
    }
}

extension HottestKeys.Window {
    fileprivate var hotKeys: [HotKey] { keys.indices.map { HotKey(key: keys[$0], refused: counts[$0] - inherited[$0]) } }

    /// False for a key without a counter.
    fileprivate mutating func countAgain(_ id: LimitKey) -> Bool {
        for index in ids.indices where ids[index].low == id.low && ids[index].high == id.high {
            counts[index] += 1
            return true
        }
        return false
    }

    fileprivate mutating func count(_ id: LimitKey, _ key: LimitedKey) {
        if ids.count < HottestKeys.capacity {
            ids.append(id)
            counts.append(1)
            inherited.append(0)
            keys.append(key)
        } else {
            var least = 0
            for index in counts.indices where counts[index] < counts[least] { least = index }
            ids[least] = id
            inherited[least] = counts[least]
            counts[least] += 1
            keys[least] = key
        }
    }
}

extension IPAddress {
    /// The address or network that a limit by address counts by.
    fileprivate var limitText: String { limitPrefix.isIPv4 ? limitPrefix.text : "\(limitPrefix.text)/64" }
}
