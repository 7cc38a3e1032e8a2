internal import Mail
internal import Transport

extension MailPlan {
    init(_ configuration: Configuration) {
        let route = configuration.mailServer.flatMap { server in
            configuration.mailFrom.map { MailRoute(server: server, from: $0) }
        }
        self.init(
            mail: route, smsURL: configuration.smsURL, resetURL: configuration.resetURL, publicURL: configuration.publicURL)
    }
}

extension ServerLog {
    /// Never the message, nor its recipient in the clear.
    func write(_ event: DeliveryEvent) {
        switch event {
        case .sent(let message, let attempts):
            debug("message sent", ("kind", message.kind), ("to", message.recipientDigest), ("attempts", "\(attempts)"))
        case .postponed(let message, let reason, let milliseconds):
            warning(
                "message postponed", ("kind", message.kind), ("to", message.recipientDigest), ("reason", reason),
                ("retry_ms", "\(milliseconds)"))
        case .lost(let message, let reason):
            error("message lost", ("kind", message.kind), ("to", message.recipientDigest), ("reason", reason))
        }
    }

    func writeOutboxChannels(of plan: MailPlan) {
        guard !plan.outboxChannels.isEmpty else { return }
        info(
            "messages land in the development outbox, read them by tollgate outbox",
            ("kept", plan.outboxChannels.joined(separator: ", ")))
    }
}
