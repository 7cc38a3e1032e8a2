internal import Accounts
internal import Credentials
internal import Synchronization
internal import Transport
internal import Wire

/// Puts the messages of the accounts into words and has them sent; the log tells what becomes of each.
final class DeliveryCourier: Courier {
    /// How long what waits may hold up the end of the gateway.
    private static let lastMilliseconds: UInt64 = 2_000

    private let thread: DeliveryThread
    private let wording: Mutex<Wording>
    private let log: ServerLog

    init(_ configuration: Configuration, log: ServerLog) throws(SystemFault) {
        let plan = DeliveryPlan(configuration)
        self.log = log
        wording = Mutex(Wording(plan))
        thread = try DeliveryThread(plan, outbox: Outbox(dataDirectory: configuration.dataDirectory)) { log.tell($0) }
        tellOutbox(plan)
    }

    func send(_ message: Message) {
        let bytes = SecureRandom.bytes(16)
        let random = (bytes.rawBytes.load64(0), bytes.rawBytes.load64(8))
        thread.send(wording.withLock { $0 }.dispatch(message, id: UUID(random: random).text))
    }

    func adopt(_ configuration: Configuration) {
        let plan = DeliveryPlan(configuration)
        wording.withLock { $0 = Wording(plan) }
        thread.adopt(plan)
        tellOutbox(plan)
    }

    /// Tries what waits once more. Blocks, for a moment.
    func stop() { thread.stop(within: Self.lastMilliseconds) }

    private func tellOutbox(_ plan: DeliveryPlan) {
        let kept = (plan.mail == nil ? ["mail (SMTP_URL is not set)"] : []) + (plan.smsURL == nil ? ["SMS (TOLLGATE_SMS_URL is not set)"] : [])
        guard !kept.isEmpty else { return }
        log.info("messages land in the development outbox, read them by tollgate outbox", ("kept", kept.joined(separator: ", ")))
    }
}

extension Wording {
    fileprivate init(_ plan: DeliveryPlan) { self.init(signature: plan.signature, resetURL: plan.resetURL) }
}

extension ServerLog {
    /// Never the message, nor whom it is for.
    fileprivate func tell(_ event: DeliveryEvent) {
        switch event {
        case .sent(let dispatch, let attempts):
            debug("message sent", ("kind", dispatch.kind), ("to", dispatch.recipientDigest), ("attempts", "\(attempts)"))
        case .postponed(let dispatch, let reason, let milliseconds):
            warning(
                "message postponed", ("kind", dispatch.kind), ("to", dispatch.recipientDigest), ("reason", reason),
                ("retry_ms", "\(milliseconds)"))
        case .lost(let dispatch, let reason):
            error("message lost", ("kind", dispatch.kind), ("to", dispatch.recipientDigest), ("reason", reason))
        }
    }
}
