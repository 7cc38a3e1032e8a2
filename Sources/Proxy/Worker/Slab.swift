import Wire

/// Index of an element of a `Slab`, typed so that a client's cannot be used for an exchange.
package struct SlabIndex<Element: ~Copyable>: Hashable, Sendable {
    let number: UInt32

    /// The id of its timer.
    var id: Int { Int(number) }
}

/// Names one element of a `Slab` for its lifetime: a reused index has another generation.
package struct Handle<Element: ~Copyable>: Hashable, Sendable {
    let index: SlabIndex<Element>
    let generation: UInt32

    static var none: Self { Handle(index: SlabIndex(number: .max), generation: .max) }
    var isNone: Bool { index.number == .max }

    init(index: SlabIndex<Element>, generation: UInt32) {
        self.index = index
        self.generation = generation
    }

    /// The handle as a number, for Redis tickets.
    var bits: UInt64 { UInt64(generation) << 32 | UInt64(index.number) }

    init(bits: UInt64) {
        index = SlabIndex(number: UInt32(truncatingIfNeeded: bits))
        generation = UInt32(truncatingIfNeeded: bits >> 32)
    }
}

typealias ClientIndex = SlabIndex<Client>
typealias SessionIndex = SlabIndex<HTTP2Carrier>
typealias ExchangeIndex = SlabIndex<Exchange>
typealias UpstreamIndex = SlabIndex<UpstreamConnection>
typealias UpstreamSessionIndex = SlabIndex<UpstreamCarrier>

/// Elements in pages that never move, addressed by a small index and reused last-in first-out.
///
/// A page holds 64 elements, so memory follows the number in use and nothing is copied when it grows. Owned by one loop, without
/// locks. The only raw element storage of Proxy.
@safe
struct Slab<Element: ~Copyable>: ~Copyable {
    private static var pageShift: Int { 6 }
    private static var pageSize: Int { 1 << pageShift }

    /// The pages by their numbers: memory of its own in place of an array, whose bounds would be checked besides the index.
    private var pages: UnsafeMutablePointer<UnsafeMutablePointer<Element>>?
    private var pageCount = 0
    /// Elements that were made, in use or not.
    private var made = 0
    private var generations = UniqueArray<UInt32>()
    private var free = UniqueArray<UInt32>()
    private let make: () -> Element

    /// Elements in use.
    private(set) var count = 0

    /// `make` builds an element when an index is first used. A reused index keeps its element with the memory of its buffers, so
    /// the caller of `acquire` resets what must not carry over.
    init(make: @escaping () -> Element) {
        self.make = make
    }

    deinit {
        for page in 0..<pageCount {
            let count = min(Self.pageSize, made - page * Self.pageSize)
            unsafe pages![page].deinitialize(count: count)
            unsafe pages![page].deallocate()
        }
        unsafe pages?.deallocate()
    }

    /// Takes a free index, or makes a new one: there are never more than were in use at once.
    mutating func acquire() -> Handle<Element> {
        count += 1
        if let index = free.popLast() {
            return Handle(index: SlabIndex(number: index), generation: generations[Int(index)])
        }
        let index = made
        if index & (Self.pageSize - 1) == 0 { addPage() }
        unsafe address(index).initialize(to: make())
        made += 1
        generations.append(0)
        return Handle(index: SlabIndex(number: UInt32(index)), generation: 0)
    }

    private mutating func addPage() {
        // The table doubles when it is full, at every power of two.
        if pageCount & (pageCount - 1) == 0 {
            let larger = UnsafeMutablePointer<UnsafeMutablePointer<Element>>.allocate(capacity: max(2 * pageCount, 1))
            if let old = unsafe pages {
                unsafe larger.moveInitialize(from: old, count: pageCount)
                unsafe old.deallocate()
            }
            unsafe pages = larger
        }
        unsafe (pages! + pageCount).initialize(to: .allocate(capacity: Self.pageSize))
        pageCount += 1
    }

    /// The place of an index, whose page must be there.
    @inline(__always)
    private func address(_ index: Int) -> UnsafeMutablePointer<Element> {
        unsafe pages.unsafelyUnwrapped[index >> Self.pageShift] + (index & (Self.pageSize - 1))
    }

    /// Frees an index; handles to it are stale from here on.
    mutating func release(_ index: SlabIndex<Element>) {
        generations[index.id] &+= 1
        free.append(index.number)
        count -= 1
    }

    /// Whether `handle` still names the element that it was made for.
    func isCurrent(_ handle: Handle<Element>) -> Bool {
        handle.index.id < generations.count && generations[handle.index.id] == handle.generation
    }

    /// Names the element that lives at `index` now.
    func handle(_ index: SlabIndex<Element>) -> Handle<Element> {
        Handle(index: index, generation: generations[index.id])
    }

    /// The element at an index; traps on one that never was in use.
    subscript(index: SlabIndex<Element>) -> Element {
        unsafeAddress {
            precondition(index.id < made)
            return unsafe UnsafePointer(address(index.id))
        }
        unsafeMutableAddress {
            precondition(index.id < made)
            return unsafe address(index.id)
        }
    }

    /// Every index that was ever in use; the caller knows which are now.
    var indices: LazyMapSequence<Range<UInt32>, SlabIndex<Element>> {
        (0..<UInt32(made)).lazy.map { SlabIndex(number: $0) }
    }

    /// Up to `most` of these, from the one at `start` on.
    func indices(from start: Int, most: Int) -> LazyMapSequence<Range<UInt32>, SlabIndex<Element>> {
        let start = min(start, made)
        return (UInt32(start)..<UInt32(min(made, start + most))).lazy.map { SlabIndex(number: $0) }
    }
}
