/// Names one element of a `Slab` for as long as it lives: a place used again has another generation.
package struct Handle: Equatable, Sendable {
    var index: UInt32
    var generation: UInt32

    static let none = Handle(index: .max, generation: .max)
    var isNone: Bool { index == .max }
}

/// Elements in pages that never move, addressed by a small index and used again last-in first-out.
///
/// A page holds 64 elements, so memory follows the number in use and nothing is copied when it grows. The owner is
/// one loop; there is no locking. This is Proxy's one place of raw element storage.
@safe
struct Slab<Element: ~Copyable>: ~Copyable {
    private static var pageShift: Int { 6 }
    private static var pageSize: Int { 1 << pageShift }

    private var pages: [UnsafeMutablePointer<Element>] = unsafe []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    private let make: () -> Element

    /// Elements in use.
    private(set) var count = 0

    /// `make` builds an element when a place is used for the first time; a place used again keeps its element, and
    /// with it the memory of its buffers, so the one who takes it resets what must not carry over.
    init(make: @escaping () -> Element) {
        self.make = make
    }

    deinit {
        for page in unsafe pages.indices {
            let made = min(Self.pageSize, generations.count - page * Self.pageSize)
            unsafe pages[page].deinitialize(count: made)
            unsafe pages[page].deallocate()
        }
    }

    /// Takes a place. Its index stays below the largest number that were ever in use at once.
    mutating func take() -> Handle {
        count += 1
        if let index = free.popLast() {
            return Handle(index: index, generation: generations[Int(index)])
        }
        let index = generations.count
        if index & (Self.pageSize - 1) == 0 {
            unsafe pages.append(.allocate(capacity: Self.pageSize))
        }
        unsafe (pages[index >> Self.pageShift] + (index & (Self.pageSize - 1))).initialize(to: make())
        generations.append(0)
        return Handle(index: UInt32(index), generation: 0)
    }

    /// Gives a place back; handles to it are stale from here on.
    mutating func release(_ index: Int) {
        generations[index] &+= 1
        free.append(UInt32(index))
        count -= 1
    }

    /// Whether `handle` still names the element it was taken for.
    func isCurrent(_ handle: Handle) -> Bool {
        Int(handle.index) < generations.count && generations[Int(handle.index)] == handle.generation
    }

    func generation(_ index: Int) -> UInt32 { generations[index] }

    /// The element at an index that was handed out; traps on one that never was.
    subscript(index: Int) -> Element {
        unsafeAddress {
            precondition(index >= 0 && index < generations.count)
            return unsafe UnsafePointer(pages[index >> Self.pageShift] + (index & (Self.pageSize - 1)))
        }
        unsafeMutableAddress {
            precondition(index >= 0 && index < generations.count)
            return unsafe pages[index >> Self.pageShift] + (index & (Self.pageSize - 1))
        }
    }

    /// Every index that was ever handed out; the caller knows which are in use.
    var indices: Range<Int> { 0..<generations.count }
}
