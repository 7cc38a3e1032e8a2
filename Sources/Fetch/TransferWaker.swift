internal import CCurl
internal import Synchronization

/// Ends the wait of a `TransferGroup` from any thread.
///
/// Unchecked because of the pointer: waking is the one call that libcurl allows from other threads while the group lives,
/// and the lock keeps it from coming after `close`, which the owner calls before it frees the group.
@safe package final class TransferWaker: @unchecked Sendable {
    private let group: UnsafeMutableRawPointer
    private let isOpen = Mutex(true)

    init(_ group: UnsafeMutableRawPointer) { unsafe self.group = group }

    package func wake() {
        isOpen.withLock { isOpen in
            if isOpen { unsafe ccurl_group_wake(group) }
        }
    }

    func close() { isOpen.withLock { $0 = false } }
}
