package import Wire

/// Whom a charge counts against: 128 bits of a keyed hash, of the policy (limit, rate, burst and what it counts by) and
/// of the subject.
///
/// The policy is part of it, so a caller whose tier changes is counted under the new one's limit at once.
@frozen
public struct LimitKey: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    @inlinable public init(high: UInt64 = 0, low: UInt64 = 0) {
        self.high = high
        self.low = low
    }

    /// The key of a subject under a policy. Both are outputs of a keyed hash, so that their sum is as good as a hash of
    /// the two together.
    @inlinable public func combined(with other: LimitKey) -> LimitKey {
        LimitKey(high: high ^ other.high, low: low ^ other.low)
    }
}

extension LimitKey {
    /// 32 hexadecimal digits.
    package func write(into out: inout ByteBuffer) {
        out.append(hex: high, digits: 16)
        out.append(hex: low, digits: 16)
    }

    package var text: String {
        var out = ByteBuffer(capacity: 32)
        write(into: &out)
        return out.readable.text
    }

    /// What `write` wrote; nil for anything else.
    package init?(parsing text: String) {
        guard let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16) else { return nil }
        self.init(high: high, low: low)
        guard self.text == text else { return nil }
    }
}

/// What a store of counts is asked: may one more pass, by all of these limits? The seam between the gate and whatever
/// counts.
///
/// Up to four counts in a fixed place, so that none is allocated; filled and asked about where it lies (`inout`), for to
/// hand it over by value would copy them all.
package struct LimitCharge: Sendable {
    /// One limit's count of one subject.
    package struct Item: Equatable, Sendable {
        package var key: LimitKey
        package var rate: LimitRate
        package var subject: SubjectKind

        package init(key: LimitKey, rate: LimitRate, subject: SubjectKind) {
            self.key = key
            self.rate = rate
            self.subject = subject
        }
    }

    /// Limits of one request at most.
    package static let capacity = 4

    /// How many limits count the request; the first is the route's first.
    package private(set) var count = 0
    /// Microseconds for which grants of this charge may be held in advance: all of its limits must allow it.
    package private(set) var leaseTime: UInt64 = 0
    private var items: InlineArray<4, Item>

    /// A charge of nothing.
    package init() { items = InlineArray(repeating: Item(key: LimitKey(), rate: .nothing, subject: .address)) }

    /// One more limit that must admit the request; traps past `capacity`.
    package mutating func append(_ item: Item) {
        items[count] = item
        leaseTime = count == 0 ? item.rate.leaseTime : min(leaseTime, item.rate.leaseTime)
        count += 1
    }

    package mutating func removeAll() { count = 0 }

    /// Becomes `other`; copies the items that it has and no more.
    mutating func becomes(_ other: inout LimitCharge) {
        count = other.count
        leaseTime = other.leaseTime
        for index in 0..<count { items[index] = other.items[index] }
    }

    /// The interval of item `index` and what is stored as its tolerance. The charge lies where it is: read as a value, all of it
    /// would be copied.
    mutating func terms(_ index: Int) -> (interval: UInt64, tolerance: UInt64) {
        precondition(index < count)
        return (items[index].rate.interval, items[index].rate.storedTolerance)
    }

    /// Whether both ask the same counts in the same order.
    func hasSameCounts(as other: inout LimitCharge) -> Bool {
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
