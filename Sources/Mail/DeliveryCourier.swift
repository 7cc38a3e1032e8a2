package import Accounts
internal import Credentials
internal import Synchronization
package import Transport
internal import Wire

/// Puts the messages of the accounts into words and has them sent; `onEvent` hears what becomes of each, on any thread.
package final class DeliveryCourier: Courier {
    /// Milliseconds for which waiting messages may hold up the end of the gateway.
    private static let lastMilliseconds: UInt64 = 2_000

    private let thread: DeliveryThread
    private let templates: Mutex<MessageTemplates>

    package init(
        _ plan: MailPlan, outbox: Outbox, onEvent: @escaping @Sendable (DeliveryEvent) -> Void
    ) throws(SystemFault) {
        templates = Mutex(MessageTemplates(plan))
        thread = try DeliveryThread(plan, outbox: outbox, onEvent: onEvent)
    }

    package func send(_ message: Message) {
        let bytes = SecureRandom.bytes(16)
        let random = (bytes.rawBytes.load64(0), bytes.rawBytes.load64(8))
        thread.send(templates.withLock { $0 }.render(message, id: UUID(random: random).text))
    }

    /// Takes another plan over; messages that wait go by it too.
    package func adopt(_ plan: MailPlan) {
        templates.withLock { $0 = MessageTemplates(plan) }
        thread.adopt(plan)
    }

    /// Tries each waiting message once more. Blocks for up to two seconds.
    package func stop() { thread.stop(within: Self.lastMilliseconds) }
}

extension MessageTemplates {
    fileprivate init(_ plan: MailPlan) { self.init(signature: plan.signature, resetURL: plan.resetURL) }
}
