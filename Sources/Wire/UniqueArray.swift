/// Elements at numbers from 0 on, in memory that one holder owns: what an array is, but for that nobody else can hold the same
/// memory, so that an element is changed where it lies and no call asks whether it may be. For tables of the data path.
@safe @frozen
public struct UniqueArray<Element>: ~Copyable {
    @usableFromInline var base: UnsafeMutablePointer<Element>
    @usableFromInline var capacity: Int
    @usableFromInline var end: Int

    /// `count` elements like `element`.
    @inlinable public init(repeating element: Element, count: Int) {
        precondition(count >= 0)
        unsafe base = .allocate(capacity: max(count, 1))
        unsafe base.initialize(repeating: element, count: count)
        capacity = max(count, 1)
        end = count
    }

    /// No element.
    @inlinable public init() {
        unsafe base = .allocate(capacity: 1)
        capacity = 1
        end = 0
    }

    @inlinable deinit {
        unsafe base.deinitialize(count: end)
        unsafe base.deallocate()
    }

    /// How many there are.
    @inlinable public var count: Int { end }
    @inlinable public var isEmpty: Bool { end == 0 }

    /// Element `index`, in place; traps if there is none.
    @inlinable public subscript(index: Int) -> Element {
        @inline(__always) unsafeAddress {
            precondition(index >= 0 && index < end)
            return unsafe UnsafePointer(base + index)
        }
        @inline(__always) unsafeMutableAddress {
            precondition(index >= 0 && index < end)
            return unsafe base + index
        }
    }

    /// One more element at the end; memory doubles when it is used up.
    @inlinable public mutating func append(_ element: Element) {
        if end == capacity { grow() }
        unsafe (base + end).initialize(to: element)
        end += 1
    }

    /// The last element, taken out; nil if there is none.
    @inlinable public mutating func popLast() -> Element? {
        guard end > 0 else { return nil }
        end -= 1
        return unsafe (base + end).move()
    }

    /// Takes all elements out and keeps the memory.
    @inlinable public mutating func removeAll() {
        unsafe base.deinitialize(count: end)
        end = 0
    }

    @inlinable mutating func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        unsafe larger.moveInitialize(from: base, count: end)
        unsafe base.deallocate()
        unsafe base = larger
        capacity *= 2
    }
}
