/// A noncopyable array that owns its memory. Unlike `Array` it is never shared, so elements are changed in place without a
/// uniqueness check or copy on write. For tables of the data plane.
@safe @frozen
public struct UniqueArray<Element: ~Copyable>: ~Copyable {
    @usableFromInline var base: UnsafeMutablePointer<Element>
    @usableFromInline var capacity: Int
    @usableFromInline var end: Int

    /// An empty array.
    @inlinable public init() {
        unsafe base = .allocate(capacity: 1)
        capacity = 1
        end = 0
    }

    @inlinable deinit {
        unsafe base.deinitialize(count: end)
        unsafe base.deallocate()
    }

    /// The number of elements.
    @inlinable public var count: Int { end }
    @inlinable public var isEmpty: Bool { end == 0 }
    @inlinable public var indices: Range<Int> { 0..<end }

    /// The element at `index`, in place; traps if there is none.
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

    /// Appends an element; doubles the memory when it is full.
    @inlinable public mutating func append(_ element: consuming Element) {
        if end == capacity { grow() }
        unsafe (base + end).initialize(to: element)
        end += 1
    }

    /// Removes and returns the last element; nil if there is none.
    @inlinable public mutating func popLast() -> Element? {
        guard end > 0 else { return nil }
        end -= 1
        return unsafe (base + end).move()
    }

    /// Removes all elements and keeps the memory.
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

extension UniqueArray {
    /// A copy of `elements`.
    @inlinable public init(_ elements: [Element]) {
        self.init()
        for element in elements { append(element) }
    }

    /// `count` copies of `element`.
    @inlinable public init(repeating element: Element, count: Int) {
        precondition(count >= 0)
        unsafe base = .allocate(capacity: max(count, 1))
        unsafe base.initialize(repeating: element, count: count)
        capacity = max(count, 1)
        end = count
    }
}
