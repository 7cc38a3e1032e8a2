internal import Accounts
internal import Wire

/// Applies the verdicts of `ContactProofRule`.
extension SQLTransaction {
    /// The account to sign in to and the sessions that ended; nil for a refusal. `caller` is the session that brings the proof, if any.
    mutating func carryOut(
        _ verdict: ContactVerdict, _ recipient: Recipient, by caller: Session?, _ audit: AuditContext
    ) throws(SQLFault) -> (Account, [EndedSession])? {
        switch verdict {
        case .confirm(let user):
            var account = try present(user)
            try confirm(&account, recipient, audit)
            return (account, [])
        case .complete(let user):
            var account = try present(user)
            let ended = try complete(&account, recipient, audit)
            return (account, ended)
        case .takeOver(let user):
            var account = try present(user)
            let ended = try takeOver(&account, audit)
            return (account, ended)
        case .attach(let user, let releasing):
            var ended: [EndedSession] = []
            if let releasing { ended = try release(releasing, audit) }
            var account = try present(user)
            try attach(recipient, to: &account, carrying: caller?.carried, audit)
            return (account, ended)
        case .refuse: return nil
        }
    }

    /// Marks an account's email as proven. Phones are always proven.
    private mutating func confirm(
        _ account: inout Account, _ recipient: Recipient, _ audit: AuditContext
    ) throws(SQLFault) {
        guard case .email = recipient, account.emailConfirmedAt == nil else { return }
        account.emailConfirmedAt = audit.now
        account.updatedAt = audit.now
        try update(account)
        try log(.emailConfirmed, account.id, audit)
    }

    /// Marks the email of a sign-up as proven, and removes what was added after it by an unproven user.
    private mutating func complete(
        _ account: inout Account, _ recipient: Recipient, _ audit: AuditContext
    ) throws(SQLFault) -> [EndedSession] {
        account.dropPhone()
        try dropIdentities(of: account.id, at: audit.now)
        try dropFactor(of: account.id)
        try confirm(&account, recipient, audit)
        return try endSessions(of: account.id, .accountTaken, at: audit.now)
    }

    /// Makes the account the prover's: all other credentials and sessions are removed.
    mutating func takeOver(_ account: inout Account, _ audit: AuditContext) throws(SQLFault) -> [EndedSession] {
        let ended = try strip(&account, audit)
        account.emailConfirmedAt = audit.now
        try update(account)
        try log(.accountTaken, account.id, audit)
        return ended
    }

    private mutating func release(_ user: UUID, _ audit: AuditContext) throws(SQLFault) -> [EndedSession] {
        var account = try present(user)
        let ended = try strip(&account, audit)
        account.email = nil
        account.emailConfirmedAt = nil
        try update(account)
        try log(.emailReleased, user, audit)
        return ended
    }

    private mutating func attach(
        _ recipient: Recipient, to account: inout Account, carrying carried: WallTime?, _ audit: AuditContext
    ) throws(SQLFault) {
        // Also those sent to the address that it gives up.
        try dropCodes(of: account)
        let former = account
        switch recipient {
        case .email(let email):
            account.email = email
            account.emailConfirmedAt = audit.now
            try resumeMail(to: &account)
        case .phone(let phone):
            account.phone = phone
            account.phoneConfirmedAt = audit.now
        }
        account.carried[recipient] = carried
        account.updatedAt = audit.now
        try update(account)
        try dropCodes(to: recipient.key)
        try log(recipient.changeEvent, account.id, audit)
        if case .email = recipient, former.emailConfirmedAt == nil { try log(.emailConfirmed, account.id, audit) }
        switch recipient {
        case .email where former.emailConfirmedAt != nil && former.email?.key != recipient.key:
            try notify(.emailLeft, former, audit)
            try notify(.emailChanged, account, audit)
        case .phone where former.phone != account.phone:
            var (told, left) = (account, former)
            (told.phone, left.email) = (nil, nil)
            for one in [told, left] { try notify(.phoneChanged, one, audit) }
        case .email, .phone: break
        }
    }

    /// The address to which no mail went is no longer the account's.
    private func resumeMail(to account: inout Account) throws(SQLFault) {
        guard account.mailStoppedAt != nil else { return }
        account.mailStoppedAt = nil
        try change(
            .account(account.id), "UPDATE accounts SET mail_stopped_at = NULL, tier_version = tier_version + 1 WHERE id = $1",
            [.id(account.id)])
    }

    /// The account of a verdict. If it was deleted meanwhile the transaction is retried, with a new verdict.
    func present(_ user: UUID) throws(SQLFault) -> Account {
        guard let account = try lockedAccount(user) else { throw .conflict }
        return account
    }
}

extension Recipient {
    fileprivate var changeEvent: AuditEvent.Kind {
        switch self {
        case .email: .emailChanged
        case .phone: .phoneChanged
        }
    }
}
