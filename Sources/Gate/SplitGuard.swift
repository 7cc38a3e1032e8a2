import Synchronization
import Wire

/// How many users each side of a split had, and of how many a request failed.
package struct SplitCounts: Equatable, Sendable {
    package var main = 0
    package var mainFailed = 0
    package var split = 0
    package var splitFailed = 0

    package init(main: Int = 0, mainFailed: Int = 0, split: Int = 0, splitFailed: Int = 0) {
        (self.main, self.mainFailed, self.split, self.splitFailed) = (main, mainFailed, split, splitFailed)
    }

    /// Users of each side below which nothing is judged, and users that must have met a failure.
    package static let leastUsers = 20
    package static let leastFailed = 5

    /// Whether a request failed for more than `factor` times as large a part of the users on the split side as on the other, where one
    /// user counts as failed at least.
    package func isFailing(beyond factor: Int) -> Bool {
        main >= Self.leastUsers && split >= Self.leastUsers && splitFailed >= Self.leastFailed
            && splitFailed * main > factor * max(mainFailed, 1) * split
    }
}

/// Counts the users of a split for its guard (`split-guard=`), for all workers of the process, without a lock. Users, and not requests: one
/// client that makes its own requests fail is one. Belongs to the route's line: all policies of one configuration count in it.
package final class SplitWatch: Sendable {
    /// A user is one bit of this many, by a hash: two who share one count as one.
    private static let bits = 2_048
    /// After so many looks, one a second, or once half the bits of a set are taken, the counts begin anew.
    private static let window = 60

    /// Bit sets: the users of the main side, those that met a failure, and both again for the split side.
    private let words = InlineArray<128, Atomic<UInt64>> { _ in Atomic(0) }
    private let looks = Atomic<Int>(0)
    /// The share that the users were counted under.
    private let percent = Atomic<Int>(-1)
    package let factor: Int

    package init(factor: Int) { self.factor = factor }

    /// A policy has this share: users who were counted under another one say nothing of it.
    func begin(_ share: Int) {
        guard percent.exchange(share, ordering: .relaxed) != share else { return }
        beginAnew()
    }

    private func beginAnew() {
        looks.store(0, ordering: .relaxed)
        for word in 0..<128 { words[word].store(0, ordering: .relaxed) }
    }

    func note(_ user: UInt64, isSplit: Bool, isFailed: Bool) {
        let bit = Int(user % UInt64(Self.bits))
        let word = (isSplit ? 64 : 0) + bit >> 6
        words[word].bitwiseOr(1 << UInt64(bit & 63), ordering: .relaxed)
        if isFailed { words[word + 32].bitwiseOr(1 << UInt64(bit & 63), ordering: .relaxed) }
    }

    private func count(_ set: Int) -> Int {
        var count = 0
        for word in set * 32..<set * 32 + 32 { count += words[word].load(ordering: .relaxed).nonzeroBitCount }
        return count
    }

    /// Called once a second, by one thread: the counts if they are beyond the factor. Then, and when a window ends, they begin anew.
    func look() -> SplitCounts? {
        let counts = SplitCounts(main: count(0), mainFailed: count(1), split: count(2), splitFailed: count(3))
        let isFailing = counts.isFailing(beyond: factor)
        let looks = looks.add(1, ordering: .relaxed).newValue
        if isFailing || looks >= Self.window || max(counts.main, counts.split) > Self.bits / 2 {
            beginAnew()
        }
        return isFailing ? counts : nil
    }
}

extension Policy {
    /// The routes whose split fails beyond its guard's factor. Called once a second.
    package func failingSplits() -> [(route: String, counts: SplitCounts)] {
        zip(rules, plans).compactMap { rule, plan in plan.split?.watch?.look().map { (rule.name, $0) } }
    }
}

extension Admission {
    /// An upstream has answered the request, or has failed to: counts its user for the guard of the split.
    package func noteSplit(_ note: borrowing DecisionRecord, isFailed: Bool) {
        guard note.policyVersion == policy.version, note.routeIndex >= 0, let watch = policy.plans[Int(note.routeIndex)].split?.watch else {
            return
        }
        let mark = note.clientMark
        let user = mark.user ?? KeyedHash(first: 0, second: 0).hash128(mark.address.high, mark.address.low, domain: 0).low
        watch.note(user, isSplit: note.splitSide == .split, isFailed: isFailed)
    }
}
