/// Values under keys that are outputs of a keyed hash, so that nobody can steer where one lies: open addressing, at most
/// half full. It grows, and loses entries only where it is gone through as a whole.
struct KeyTable<Value> {
    private struct Slot {
        var key: LimitKey
        var value: Value?
    }

    private var slots: [Slot] = []
    private(set) var count = 0

    subscript(key: LimitKey) -> Value? {
        guard count > 0 else { return nil }
        return slots[place(of: key)].value
    }

    mutating func set(_ value: Value, for key: LimitKey) {
        if count * 2 >= slots.count { resize(to: max(64, slots.count * 2)) { _ in true } }
        let place = place(of: key)
        if slots[place].value == nil { count += 1 }
        slots[place] = Slot(key: key, value: value)
    }

    /// Whether another entry would make it grow.
    var isFull: Bool { count * 2 >= slots.count }

    /// Drops what `isKept` does not want, and memory that the rest does not need.
    mutating func keep(_ isKept: (Value) -> Bool) {
        let kept = slots.count { $0.value.map(isKept) ?? false }
        var size = 64
        while size < kept * 4 { size *= 2 }
        resize(to: size, isKept)
    }

    /// Its memory stays.
    mutating func removeAll() {
        guard count > 0 else { return }
        for place in slots.indices { slots[place].value = nil }
        count = 0
    }

    /// Where `key` is, or where it would be put. There always is a free place.
    private func place(of key: LimitKey) -> Int {
        let mask = slots.count &- 1
        var place = Int(truncatingIfNeeded: key.low) & mask
        while slots[place].value != nil, slots[place].key != key { place = (place &+ 1) & mask }
        return place
    }

    private mutating func resize(to size: Int, _ isKept: (Value) -> Bool) {
        let old = slots
        slots = Array(repeating: Slot(key: LimitKey(), value: nil), count: size)
        count = 0
        for slot in old {
            guard let value = slot.value, isKept(value) else { continue }
            slots[place(of: slot.key)] = slot
            count += 1
        }
    }
}
