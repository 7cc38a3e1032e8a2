internal import Accounts
internal import Gate
internal import Proxy
internal import Synchronization
internal import Telemetry
internal import Wire

/// What the accounts have to say to the workers, the log and whoever asks whether the gateway is ready.
extension ControlState {
    func revoke(_ sessions: [RevokedSession]) {
        if !sessions.isEmpty { tell(.revoked(sessions)) }
    }

    func learn(_ users: [UserTier]) { tell(.learnedUsers(users)) }

    func forgetUsers() { tell(.forgotUsers) }

    /// Changes count here, each so many microseconds after it was made.
    func changesApplied(lags: [Int64]) {
        countBus { bus in
            for lag in lags { bus.applied(lag: lag) }
        }
    }

    /// The bus over which changes are heard works, or does not for this reason; each change is told once.
    func busChanged(_ carrier: String, problem: String?) {
        guard noteBus(problem: problem) else { return }
        if let problem {
            log.warning("the bus is away, changes are looked for in the database", ("carrier", carrier), ("error", problem))
        } else {
            log.info("the bus tells of changes", ("carrier", carrier))
        }
    }

    /// A bucket had no room for an attempt. That there is none for an SMS is said once a minute at most.
    func attemptRefused(_ refusal: AttemptRefusal, at now: MonotonicTime) {
        countRefusal(refusal.kind.rawValue)
        guard refusal.kind == .smsBudget else { return }
        let before = budgetToldAt.load(ordering: .relaxed)
        guard before == 0 || now.nanoseconds(since: MonotonicTime(nanoseconds: before)) >= 60_000_000_000 else { return }
        let (isMine, _) = budgetToldAt.compareExchange(expected: before, desired: now.nanoseconds, ordering: .relaxed)
        guard isMine else { return }
        log.warning(
            "the budget for SMS is spent, raise TOLLGATE_SMS_BUDGET if these are your users",
            ("retry_s", "\(refusal.retryAfterSeconds)"))
    }

    /// The store did not answer; said once, until it has answered again.
    func accountsAway(_ reason: String) {
        if noteAccounts(problem: reason) { log.error("the accounts are away", ("error", reason)) }
    }

    func accountsAnswered() {
        if noteAccounts(problem: nil) { log.info("the accounts are back") }
    }

    func tell(_ notice: AccountNotice) {
        switch notice {
        case .refreshStorm(let session, let contract):
            log.warning("refreshed again and again", ("session", session.text), ("contract", contract.name))
        case .refreshReuse(let session, let user):
            log.warning("a spent refresh token came back, its session has ended", ("session", session.text), ("user", user.text))
        case .refreshAhead(let session):
            log.warning("a refresh token came that was never issued", ("session", session.text))
        case .storeFailed(let reason): log.error("the accounts failed", ("error", reason))
        case .storeAway(let reason): accountsAway(reason)
        case .cannotSign(let reason): log.error("no token can be signed", ("error", reason))
        }
    }
}
