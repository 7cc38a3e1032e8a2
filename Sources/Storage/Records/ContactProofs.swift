internal import Accounts
internal import Wire

/// What a proof of an address does to accounts.
extension SQLTransaction {
    /// The account that the verdict leads to and the sessions that it ended; nil for a refusal.
    mutating func carryOut(
        _ verdict: ContactVerdict, _ recipient: Recipient, _ occasion: Occasion
    ) throws(SQLFault) -> (Account, [EndedSession])? {
        switch verdict {
        case .confirm(let user):
            var account = try present(user)
            try confirm(&account, recipient, occasion)
            return (account, [])
        case .complete(let user):
            var account = try present(user)
            let ended = try complete(&account, recipient, occasion)
            return (account, ended)
        case .takeOver(let user):
            var account = try present(user)
            let ended = try takeOver(&account, occasion)
            return (account, ended)
        case .attach(let user, let releasing):
            var ended: [EndedSession] = []
            if let releasing { ended = try release(releasing, occasion) }
            var account = try present(user)
            try attach(recipient, to: &account, occasion)
            return (account, ended)
        case .refuse: return nil
        }
    }

    /// Marks an account's email as proven. A phone is so from the start.
    private mutating func confirm(
        _ account: inout Account, _ recipient: Recipient, _ occasion: Occasion
    ) throws(SQLFault) {
        guard case .email = recipient, account.emailConfirmedAt == nil else { return }
        account.emailConfirmedAt = occasion.now
        account.updatedAt = occasion.now
        try update(account)
        try log(.emailConfirmed, account.id, occasion)
    }

    /// Marks the email of a sign-up as proven, and takes away what came after it: nobody has shown yet whose that is.
    private mutating func complete(
        _ account: inout Account, _ recipient: Recipient, _ occasion: Occasion
    ) throws(SQLFault) -> [EndedSession] {
        account.dropPhone()
        try dropIdentities(of: account.id)
        try confirm(&account, recipient, occasion)
        return try endSessions(of: account.id, .accountTaken, at: occasion.now)
    }

    /// The account is the prover's from now on, and nobody else gets in any more.
    mutating func takeOver(_ account: inout Account, _ occasion: Occasion) throws(SQLFault) -> [EndedSession] {
        let ended = try strip(&account, occasion)
        account.emailConfirmedAt = occasion.now
        try update(account)
        try log(.accountTaken, account.id, occasion)
        return ended
    }

    private mutating func release(_ user: UUID, _ occasion: Occasion) throws(SQLFault) -> [EndedSession] {
        var account = try present(user)
        let ended = try strip(&account, occasion)
        account.email = nil
        account.emailConfirmedAt = nil
        try update(account)
        try log(.emailReleased, user, occasion)
        return ended
    }

    private mutating func attach(
        _ recipient: Recipient, to account: inout Account, _ occasion: Occasion
    ) throws(SQLFault) {
        // What was sent to the address that it gives up as well.
        try dropCodes(of: account)
        switch recipient {
        case .email(let email):
            account.email = email
            account.emailConfirmedAt = occasion.now
        case .phone(let phone):
            account.phone = phone
            account.phoneConfirmedAt = occasion.now
        }
        account.updatedAt = occasion.now
        try update(account)
        try dropCodes(to: recipient.key)
        try log(recipient.changeEvent, account.id, occasion)
    }

    /// An account that is known to be there; if it has just gone, what led to it has too.
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
