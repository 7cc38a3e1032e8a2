import CLinux
import Glibc
import Synchronization

/// Wakes an event loop from any thread (eventfd). The descriptor closes with the last owner, so a late wake-up is harmless.
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

/// Queue of messages from any thread to one event loop, in posting order.
///
/// Several mailboxes may share a loop's waker; after a wake-up the loop drains all of them.
package final class Mailbox<Message: Sendable>: Sendable {
    private let waker: Waker
    /// nil once closed.
    private let waiting = Mutex<[Message]?>([])

    package init(waker: Waker) {
        self.waker = waker
    }

    /// Posts a message, and wakes the loop if the mailbox was empty. Any thread. False if it is closed.
    @discardableResult
    package func post(_ message: Message) -> Bool {
        let count = waiting.withLock { messages in
            messages?.append(message)
            return messages?.count ?? 0
        }
        if count == 1 { waker.wake() }
        return count > 0
    }

    /// Drains the mailbox, oldest first. The loop's thread.
    package func take() -> [Message] {
        waker.clear()
        return waiting.withLock { messages in
            defer { if messages != nil { messages = [] } }
            return messages ?? []
        }
    }

    /// Closes the mailbox and returns the rest. Later posts fail. The loop's thread.
    package func close() -> [Message] {
        waiting.withLock { messages in
            defer { messages = nil }
            return messages ?? []
        }
    }
}
