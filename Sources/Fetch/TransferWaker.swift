internal import CCurl
internal import Synchronization

/// Wakes the thread that waits in a `TransferGroup`. Any thread.
///
/// Unchecked because of the pointer: waking is the only libcurl call that is allowed from other threads while the group lives,
/// and the lock prevents it after `close`, which the owner calls before it frees the group.
@safe package final class TransferWaker: @unchecked Sendable {
    private let group: UnsafeMutableRawPointer
    private let isOpen = Mutex(true)

    init(_ group: UnsafeMutableRawPointer) { unsafe self.group = group }

    /// Makes `wait` return soon. Does nothing once the group is gone.
    package func wake() {
        isOpen.withLock { isOpen in
            if isOpen { unsafe ccurl_group_wake(group) }
        }
    }

    func close() { isOpen.withLock { $0 = false } }
}
