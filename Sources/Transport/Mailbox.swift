internal import Synchronization
package import Threads

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
