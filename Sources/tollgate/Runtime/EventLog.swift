internal import Accounts
internal import Credentials
internal import Issuers
internal import Mail
internal import Telemetry
internal import Wire

extension ConditionLog {
    func report(_ notice: AccountNotice) {
        switch notice {
        case .refreshStorm(let session, let contract):
            log.warning("repeated refresh with one token", ("session", session.text), ("contract", contract.name))
        case .refreshReuse(let session, let user):
            log.warning("a spent refresh token came back, its session has ended", ("session", session.text), ("user", user.text))
        case .refreshAhead(let session):
            log.warning("a refresh token came that was never issued", ("session", session.text))
        case .storeFailed(let reason): log.error("account store failed", ("error", reason))
        case .storeAway(let reason): storeUnavailable(reason)
        case .merged: count(.made)
        case .mergeTaken: count(.taken)
        case .mergeUntaken(let from, let into):
            count(.untaken)
            log.warning(
                "no service has taken a merge, what they keep of the merged account is still under its id", ("from", from.text),
                ("into", into.text))
        case .appleAway(let reason): log.warning("Apple does not revoke or exchange tokens now, it is asked again", ("reason", reason))
        case .outgoing(let queue, let result, let number):
            count { $0.settled(queue.rawValue, result: result.rawValue, number) }
            guard result == .givenUp else { return }
            switch queue {
            case .appleTokens: log.error("tokens of Apple were given up, they are not revoked", ("count", "\(number)"))
            case .notices: log.error("notices to users were given up, the mail server has not taken them", ("count", "\(number)"))
            }
        case .waiting(let states): for state in states { count { $0.waiting(state.queue.rawValue, state.waiting, since: state.since) } }
        case .cannotSign(let reason): log.error("no token can be signed", ("error", reason))
        }
    }
}

extension ServerLog {
    func write(_ event: KeyEvent) {
        write(max(event.level, .info), "keys", [("issuer", event.issuer ?? "own"), ("detail", event.message)])
    }

    /// Neither the text of a message nor its recipient in the clear.
    func write(_ event: DeliveryEvent) {
        switch event {
        case .sent(let message, let attempts):
            debug("message sent", ("kind", message.kind), ("to", message.recipientDigest), ("attempts", "\(attempts)"))
        case .postponed(let message, let reason, let milliseconds):
            warning(
                "message postponed", ("kind", message.kind), ("to", message.recipientDigest), ("reason", reason),
                ("retry_ms", "\(milliseconds)"))
        case .lost(let message, let reason), .refused(let message, let reason):
            error("message lost", ("kind", message.kind), ("to", message.recipientDigest), ("reason", reason))
        }
    }

    func writeOutboxChannels(of plan: MailPlan) {
        let kept = plan.channelsInOutbox.map { channel in
            switch channel {
            case .mail: "mail (SMTP_URL is not set)"
            case .sms: "SMS (TOLLGATE_SMS_URL is not set)"
            }
        }
        guard !kept.isEmpty else { return }
        info("messages land in the development outbox, read them by tollgate outbox", ("kept", kept.joined(separator: ", ")))
    }
}
