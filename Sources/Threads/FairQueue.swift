/// A bounded queue that is fair by key: round robin over the keys, first in first out within each. A key with one element
/// waits for at most one element of every other key.
///
/// When it is full, the key with the most elements is evicted its newest one in favour of a key with at least two fewer, so
/// a flood from one key fills the queue only for itself. (With a difference of one the two keys would evict each other in
/// turn.)
struct FairQueue<Key: Hashable, Element> {
    /// The outcome of adding an element.
    enum Outcome {
        case added
        /// The queue was full, and this element was evicted.
        case addedEvicting(Element)
        /// The queue is full, and no key has enough more elements to be evicted one.
        case refused
    }

    private let capacity: Int
    private(set) var count = 0
    private var lines: [Key: Line<Element>] = [:]
    /// The keys with elements, once each; the first is served next.
    private var turns = Line<Key>()

    init(capacity: Int) { self.capacity = capacity }

    mutating func add(_ element: Element, for key: Key) -> Outcome {
        guard count >= capacity else {
            append(element, key)
            return .added
        }
        let held = lines[key]?.count ?? 0
        guard let most = lines.max(by: { $0.value.count < $1.value.count }), held + 1 < most.value.count,
            let evicted = lines[most.key]?.removeLast()
        else { return .refused }
        count -= 1
        append(element, key)
        return .addedEvicting(evicted)
    }

    /// Removes the next element; nil if the queue is empty.
    mutating func next() -> Element? {
        guard let key = turns.removeFirst(), let element = lines[key]?.removeFirst() else { return nil }
        count -= 1
        if lines[key]?.count == 0 { lines[key] = nil } else { turns.append(key) }
        return element
    }

    private mutating func append(_ element: Element, _ key: Key) {
        if lines[key] == nil { turns.append(key) }
        lines[key, default: Line()].append(element)
        count += 1
    }
}

/// A queue that can also drop its newest element.
struct Line<Element> {
    /// nil where an element was removed, so that it is released at once.
    private var items: [Element?] = []
    private var head = 0

    var count: Int { items.count - head }

    mutating func append(_ element: Element) { items.append(element) }

    mutating func removeFirst() -> Element? {
        guard head < items.count else { return nil }
        defer {
            items[head] = nil
            head += 1
            // Amortised constant time: an element moves at most once per removal.
            if head * 2 >= items.count {
                items.removeFirst(head)
                head = 0
            }
        }
        return items[head]
    }

    mutating func removeLast() -> Element? { head < items.count ? items.removeLast() : nil }
}
