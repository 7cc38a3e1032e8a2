import CLinux
import Glibc
package import System

/// Wakes an event loop from any thread (eventfd). The descriptor closes with the last owner, so a late wake-up is harmless.
package final class Waker: Sendable {
    /// For a loop that waits for it beside others.
    package let descriptor: Int32

    package init() throws(SystemFault) {
        descriptor = clinux_eventfd()
        guard descriptor >= 0 else { throw SystemFault("create a wake-up descriptor") }
    }

    deinit { Glibc.close(descriptor) }

    /// Makes the loop's `wait` return. Any thread.
    package func wake() {
        var one: UInt64 = 1
        _ = unsafe write(descriptor, &one, 8)
    }

    /// Blocks the calling thread, which must not be a loop's, until woken or timed out after `milliseconds` (-1: no limit),
    /// and clears pending wake-ups; returns whether it was woken.
    @discardableResult
    package func wait(milliseconds: Int32 = -1) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let isWoken = unsafe poll(&entry, 1, milliseconds) == 1
        clear()
        return isWoken
    }

    /// Clears pending wake-ups. The loop's thread.
    package func clear() {
        var count: UInt64 = 0
        _ = unsafe read(descriptor, &count, 8)
    }
}
