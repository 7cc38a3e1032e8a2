/// A bounded queue that is fair by key. Keys that wait take turns, and each has its own elements served in the order in which
/// they came; so whoever holds one element waits for one of each other key, however many those hold.
///
/// When it is full, the key that holds most loses its newest element to a key that then still holds no more than the other:
/// a flood from one key finds the queue full for itself alone. (Not if that would only turn the two around, or they would
/// evict each other for ever.)
struct FairQueue<Key: Hashable, Element> {
    /// What became of an element that was to be added.
    enum Outcome {
        case added
        /// The queue was full, and this one left it.
        case addedInPlace(of: Element)
        /// The queue is full, and no key holds more than this one.
        case refused
    }

    private let capacity: Int
    private(set) var count = 0
    private var lines: [Key: Line<Element>] = [:]
    /// Each key that has elements, once; the first is served next.
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
        return .addedInPlace(of: evicted)
    }

    /// The element whose turn it is; nil if there is none.
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

/// First in, first out; or the newest, out.
private struct Line<Element> {
    /// Taken ones are nil: nothing is kept that was handed out.
    private var items: [Element?] = []
    private var head = 0

    var count: Int { items.count - head }

    mutating func append(_ element: Element) { items.append(element) }

    mutating func removeFirst() -> Element? {
        guard head < items.count else { return nil }
        defer {
            items[head] = nil
            head += 1
            // Each is moved at most once for each that was taken.
            if head * 2 >= items.count {
                items.removeFirst(head)
                head = 0
            }
        }
        return items[head]
    }

    mutating func removeLast() -> Element? { head < items.count ? items.removeLast() : nil }
}
