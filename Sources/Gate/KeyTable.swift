/// Hash table whose keys are outputs of a keyed hash, so that clients cannot cause collisions. Open addressing, at most half
/// full. Grows on insertion; entries are only removed in a pass over all.
struct KeyTable<Value> {
    private struct Slot {
        var key: LimitKey
        var value: Value?
    }

    private var slots: [Slot] = []
    private(set) var count = 0

    subscript(key: LimitKey) -> Value? {
        guard count > 0 else { return nil }
        return slots[index(of: key)].value
    }

    mutating func set(_ value: Value, for key: LimitKey) {
        if count * 2 >= slots.count { resize(to: max(64, slots.count * 2)) { _ in true } }
        let index = index(of: key)
        if slots[index].value == nil { count += 1 }
        slots[index] = Slot(key: key, value: value)
    }

    /// Whether the next insertion grows the table.
    var isFull: Bool { count * 2 >= slots.count }

    /// Removes entries for which `isKept` is false, and shrinks the table.
    mutating func keep(_ isKept: (Value) -> Bool) {
        let kept = slots.count { $0.value.map(isKept) ?? false }
        var size = 64
        while size < kept * 4 { size *= 2 }
        resize(to: size, isKept)
    }

    /// Keeps the memory.
    mutating func removeAll() {
        guard count > 0 else { return }
        for index in slots.indices { slots[index].value = nil }
        count = 0
    }

    /// Index of `key`, or of the free slot for it. There is always a free slot.
    private func index(of key: LimitKey) -> Int {
        let mask = slots.count &- 1
        var index = Int(truncatingIfNeeded: key.low) & mask
        while slots[index].value != nil, slots[index].key != key { index = (index &+ 1) & mask }
        return index
    }

    private mutating func resize(to size: Int, _ isKept: (Value) -> Bool) {
        let old = slots
        slots = Array(repeating: Slot(key: LimitKey(), value: nil), count: size)
        count = 0
        for slot in old {
            guard let value = slot.value, isKept(value) else { continue }
            slots[index(of: slot.key)] = slot
            count += 1
        }
    }
}
