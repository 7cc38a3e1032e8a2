package import Wire

/// Key of a count: 128 bits of a keyed hash over the policy (name, rate, burst, subject kind) and the subject.
///
/// The policy is part of the key, so a caller whose tier changes is counted under the new tier's limit at once.
@frozen
public struct LimitKey: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    @inlinable public init(high: UInt64 = 0, low: UInt64 = 0) {
        self.high = high
        self.low = low
    }

    /// The hash tag of a subject with this key.
    package var tag: HashTag { HashTag(UInt8(truncatingIfNeeded: high >> 56)) }

    /// The key of a subject under a policy. Both are outputs of a keyed hash, so their XOR is as good as a hash of both.
    @inlinable public func combined(with other: LimitKey) -> LimitKey {
        LimitKey(high: high ^ other.high, low: low ^ other.low)
    }
}

extension LimitKey {
    /// Appends 32 hexadecimal digits.
    package func write(into out: inout ByteBuffer) {
        out.append(hex: high, digits: 16)
        out.append(hex: low, digits: 16)
    }

    package var text: String {
        var out = ByteBuffer(capacity: 32)
        write(into: &out)
        return out.readable.text
    }

    /// Parses the output of `write`; nil for anything else.
    package init?(parsing text: String) {
        guard let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16) else { return nil }
        self.init(high: high, low: low)
        guard self.text == text else { return nil }
    }
}

/// A value for each count of a charge.
package typealias PerCount<Value> = InlineArray<6, Value>

/// A request's charge: the counts that must all admit it. The interface between Admission and whatever counts, this process
/// or Redis.
///
/// Holds its counts inline, so it allocates nothing. Passed `inout` because a copy would move all of them.
package struct LimitCharge: Sendable {
    /// One limit's count of one subject.
    package struct Item: Equatable, Sendable {
        package var key: LimitKey
        package var rate: LimitRate
        package var subject: SubjectKind
        /// Where the count lies in a Redis Cluster: that of the subject, so all limits of one subject are together.
        package var tag: HashTag

        package init(key: LimitKey, rate: LimitRate, subject: SubjectKind, tag: HashTag = HashTag(0)) {
            self.key = key
            self.rate = rate
            self.subject = subject
            self.tag = tag
        }
    }

    /// Maximum limits per request.
    package static let capacity = 4
    /// Maximum counts: those of the limits, and behind them those of `SingleUses`.
    package static let room = PerCount<Void>.count

    /// Number of limits; the first is the first of the route.
    package private(set) var count = 0
    /// Microseconds for which grants of this charge may be held in advance: the minimum over its limits; 0 for not at all.
    package private(set) var leaseTime: UInt64 = 0
    private var items: PerCount<Item>

    /// An empty charge.
    package init() { items = InlineArray(repeating: Item(key: LimitKey(), rate: .nothing, subject: .address)) }

    /// Adds a count. Traps beyond `room`.
    package mutating func append(_ item: Item) {
        items[count] = item
        leaseTime = count == 0 ? item.rate.leaseTime : min(leaseTime, item.rate.leaseTime)
        count += 1
    }

    package mutating func removeAll() { count = 0 }

    /// Takes off the last count, if it is one of `SingleUses`.
    package mutating func takeSingleUse() -> Item? {
        guard count > 0, items[count - 1].subject.countsOnce else { return nil }
        count -= 1
        return items[count]
    }

    /// Copies `other`, and only the items that it has.
    package mutating func copy(from other: inout LimitCharge) {
        count = other.count
        leaseTime = other.leaseTime
        for index in 0..<count { items[index] = other.items[index] }
    }

    /// Interval and stored tolerance of item `index`, in microseconds. Reads in place; the subscript would copy the item.
    package mutating func terms(_ index: Int) -> (interval: UInt64, tolerance: UInt64) {
        precondition(index < count)
        return (items[index].rate.interval, items[index].rate.storedTolerance)
    }

    /// Hash tag of item `index`. Reads in place.
    package mutating func tag(_ index: Int) -> HashTag {
        precondition(index < count)
        return items[index].tag
    }

    /// Copies those items of `other` whose bit is set in `chosen`.
    package mutating func copy(from other: inout LimitCharge, only chosen: UInt8) {
        removeAll()
        for index in 0..<other.count where chosen & 1 << index != 0 { append(other.items[index]) }
    }

    /// Whether both charge the same counts in the same order.
    package func hasSameCounts(as other: inout LimitCharge) -> Bool {
        guard count == other.count else { return false }
        for index in 0..<count where items[index].key != other.items[index].key { return false }
        return true
    }

    /// Item `index`, below `count`.
    package subscript(index: Int) -> Item {
        precondition(index < count)
        return items[index]
    }
}
