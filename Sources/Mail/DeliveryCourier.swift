package import Accounts
internal import Credentials
internal import Synchronization
package import System
package import Wire

/// The courier of accounts: renders messages and queues them for delivery. `onEvent` is called with the outcome of each attempt, on
/// any thread.
package final class DeliveryCourier: NoticeCourier {
    /// How long `stop` waits for queued messages, in milliseconds.
    private static let stopMilliseconds: UInt64 = 2_000

    private let threads: DeliveryThreads
    private let templates: Mutex<MessageTemplates>
    private let settled: SettledNotices

    package init(
        _ plan: MailPlan, outbox: Outbox, onEvent: @escaping @Sendable (DeliveryEvent) -> Void
    ) throws(SystemFault) {
        templates = Mutex(MessageTemplates(plan: plan))
        let settled = SettledNotices()
        self.settled = settled
        threads = try DeliveryThreads(plan, outbox: outbox) { event in
            settled.note(event)
            onEvent(event)
        }
    }

    package func send(_ message: Message, for address: IPAddress?) {
        let bytes = SecureRandom.bytes(16)
        let random = (bytes.rawBytes.load64(0), bytes.rawBytes.load64(8))
        threads.send(templates.withLock { $0 }.render(message, id: UUID(random: random).text), for: address)
    }

    package var settledNotices: Set<UUID> { settled.ids.withLock { $0 } }

    package func forget(_ settled: Set<UUID>) { self.settled.ids.withLock { $0.subtract(settled) } }

    /// Replaces the plan, also for queued messages.
    package func adopt(_ plan: MailPlan) {
        templates.withLock { $0 = MessageTemplates(plan: plan) }
        threads.adopt(plan)
    }

    /// Tries each queued message once more, then ends the threads. Blocks for a little more than 2 s at most.
    package func stop() { threads.stop(within: Self.stopMilliseconds) }
}

/// The notices that need no further attempt.
private final class SettledNotices: Sendable {
    let ids = Mutex<Set<UUID>>([])

    func note(_ event: DeliveryEvent) {
        switch event {
        case .sent(let message, _), .refused(let message, _):
            guard let notice = message.notice else { return }
            ids.withLock { _ = $0.insert(notice) }
        case .postponed, .lost: break
        }
    }
}
