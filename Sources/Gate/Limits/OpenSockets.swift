import Synchronization

/// The open WebSockets of each subject on routes with `websocket-max`, for all workers of the process: a subject never has more than its
/// maximum here, and as many again on each other gateway. Any thread.
///
/// Behind a lock: it is held for one look into a dictionary when a WebSocket opens or ends, never for a message.
package final class OpenSockets: Sendable {
    private let counts = Mutex<[LimitKey: UInt32]>([:])

    package init() {}

    /// Counts one more; false if there are `most` already.
    func open(_ charge: SocketCharge) -> Bool {
        counts.withLock { counts in
            let count = counts[charge.key] ?? 0
            guard count < charge.most else { return false }
            counts[charge.key] = count + 1
            return true
        }
    }

    func close(_ key: LimitKey) {
        counts.withLock { counts in
            guard let count = counts[key] else { preconditionFailure("a WebSocket that was not counted") }
            counts[key] = count > 1 ? count - 1 : nil
        }
    }
}
