private import Synchronization

/// A zero-cost member that pins a large noncopyable struct to its address, so that borrowing it never copies it.
///
/// Without one the compiler may move a borrowed value, and copies the whole struct for each function that borrows it out of
/// another (measured: 25 KiB of memcpy for each proxied request).
package struct AddressPin: ~Copyable {
    /// An atomic must keep its address, so the struct that contains it is borrowed in place.
    private let anchor = Atomic<UInt8>(0)

    package init() {}
}
