import CLinux
import Glibc
import Synchronization

/// Wakes one event loop from any thread. The descriptor closes with the last owner, so a late wake-up is harmless.
package final class Waker: Sendable {
    let descriptor: Int32

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

    /// Blocks the calling thread, which must be no loop's, until woken or until so many milliseconds have passed (-1: no
    /// limit), and forgets the wake-ups so far; answers whether it was woken.
    @discardableResult
    package func wait(milliseconds: Int32 = -1) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let isWoken = unsafe poll(&entry, 1, milliseconds) == 1
        clear()
        return isWoken
    }

    /// Forgets the wake-ups so far. The loop's thread.
    package func clear() {
        var count: UInt64 = 0
        _ = unsafe read(descriptor, &count, 8)
    }
}

/// Messages from any thread to one event loop, in the order of posting.
///
/// Several mailboxes may share a loop's waker; after a wake-up the loop takes from every one of them.
package final class Mailbox<Message: Sendable>: Sendable {
    private let waker: Waker
    /// nil once nobody reads it any more.
    private let waiting = Mutex<[Message]?>([])

    package init(waker: Waker) {
        self.waker = waker
    }

    /// Any thread. Wakes the loop if nothing was waiting. False if the loop has ended: nobody will read it.
    @discardableResult
    package func post(_ message: Message) -> Bool {
        let count = waiting.withLock { messages in
            messages?.append(message)
            return messages?.count ?? 0
        }
        if count == 1 { waker.wake() }
        return count > 0
    }

    /// The loop's thread: everything posted so far, oldest first.
    package func take() -> [Message] {
        waker.clear()
        return waiting.withLock { messages in
            defer { if messages != nil { messages = [] } }
            return messages ?? []
        }
    }

    /// The loop's thread, at its end: what was posted and not taken. Later posts are refused.
    package func close() -> [Message] {
        waiting.withLock { messages in
            defer { messages = nil }
            return messages ?? []
        }
    }
}
