private import Synchronization

/// A member for large values that are borrowed often: what holds one is borrowed where it is. Without it the compiler hands
/// every function that borrows such a value out of another one a copy of all its bytes, for nothing tells it that the value
/// may not be moved: each proxied request paid for 25 KiB of such copies.
package struct AddressPin: ~Copyable {
    /// Atomics have an address by which others know them, so what holds one must have it too.
    private let anchor = Atomic<UInt8>(0)

    package init() {}
}
