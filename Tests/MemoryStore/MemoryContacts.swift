package import Accounts
package import Wire

extension MemoryStore {
    package func putCode(_ code: PendingCode) async throws(StoreFault) -> Account? {
        try at { state in
            state.codes["\(code.purpose.rawValue) \(code.recipient)"] = code
            let isPhone = code.purpose.isForPhones
            return state.account(
                of: isPhone ? .phone(PhoneNumber(stored: code.recipient)) : .email(EmailAddress(stored: code.recipient)))
        }
    }

    package func redeem(
        _ redemption: CodeRedemption, _ occasion: Occasion
    ) async throws(StoreFault) -> Redemption {
        try at { state in
            guard let code = state.use(redemption, occasion.now) else { return .wrongCode }
            let kept = redemption.callerSession.flatMap { state.sessions[$0] }
            if let caller = redemption.proof.caller, kept?.user != caller || state.accounts[caller] == nil {
                return .refused(.callerGone)
            }
            let holder = state.account(of: redemption.recipient).map { ContactHolder($0, redemption.recipient) }
            let verdict = ContactProofRule.verdict(redemption.proof, code: code, holder: holder)
            guard let (user, ended) = state.carryOut(verdict, redemption.recipient, occasion),
                let account = state.accounts[user]
            else { return .refused(verdict.refusal ?? .noAccount) }
            if let kept, redemption.proof.caller == user, kept.contract == redemption.session.contract {
                return .proven(SignIn(account: account, session: kept, ended: ended))
            }
            let opened = state.open(redemption.session, of: user, occasion)
            state.log(.signedIn, user, occasion, session: opened?.id, detail: "code")
            return .proven(SignIn(account: account, session: opened, ended: ended))
        }
    }

    package func putResetToken(_ token: PendingReset) async throws(StoreFault) -> Account? {
        try at { state in
            state.resets[token.digest] = token
            return state.account(of: .email(token.email))
        }
    }

    package func holdsResetToken(digest: [UInt8], now: WallTime) async throws(StoreFault) -> Bool {
        try at { state in state.resets[digest].map { now < $0.expiresAt } ?? false }
    }

    package func resetPassword(
        digest: [UInt8], hash: String, session: NewSession, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let token = state.resets[digest], occasion.now < token.expiresAt else { return nil }
            state.resets = state.resets.filter { $0.value.email.key != token.email.key }
            let recipient = Recipient.email(token.email)
            let holder = state.account(of: recipient).map { ContactHolder($0, recipient) }
            let verdict = ContactProofRule.verdict(.signIn(caller: nil), code: .recovery, holder: holder)
            guard case (let user, var ended)? = state.carryOut(verdict, recipient, occasion) else { return nil }
            state.setPassword(hash, of: user, occasion)
            ended += state.endSessions(of: user, .passwordChanged, occasion)
            let opened = state.open(session, of: user, occasion)
            state.log(.passwordReset, user, occasion, session: session.id)
            return state.accounts[user].map { SignIn(account: $0, session: opened, ended: ended) }
        }
    }
}

extension MemoryStore.State {
    private mutating func confirm(_ user: UUID, _ recipient: Recipient, _ occasion: Occasion) {
        guard case .email = recipient, accounts[user]?.emailConfirmedAt == nil else { return }
        accounts[user]?.emailConfirmedAt = occasion.now
        accounts[user]?.updatedAt = occasion.now
        log(.emailConfirmed, user, occasion)
    }

    fileprivate mutating func use(_ redemption: CodeRedemption, _ now: WallTime) -> CodePurpose? {
        let recipient = redemption.recipient.key
        let pending = codes.values.filter { $0.recipient == recipient }
        switch CodeRule.verdict(redemption.guess, pending: pending, now: now) {
        case .right(let purpose):
            codes["\(purpose.rawValue) \(recipient)"] = nil
            return purpose
        case .wrong(let left):
            codes = codes.filter { $0.value.recipient != recipient }
            for code in left { codes["\(code.purpose.rawValue) \(recipient)"] = code }
            return nil
        }
    }

    fileprivate mutating func carryOut(
        _ verdict: ContactVerdict, _ recipient: Recipient, _ occasion: Occasion
    ) -> (UUID, [EndedSession])? {
        switch verdict {
        case .confirm(let user):
            confirm(user, recipient, occasion)
            return (user, [])
        case .complete(let user):
            accounts[user]?.dropPhone()
            identities = identities.filter { $0.value.user != user }
            confirm(user, recipient, occasion)
            return (user, endSessions(of: user, .accountTaken, occasion))
        case .takeOver(let user): return (user, takeOver(user, occasion))
        case .attach(let user, let releasing):
            let ended = releasing.map { release($0, occasion) } ?? []
            accounts[user]?.updatedAt = occasion.now
            if let account = accounts[user] { dropCodes(of: account) }
            dropCodes(to: recipient)
            switch recipient {
            case .email(let email):
                accounts[user]?.email = email
                accounts[user]?.emailConfirmedAt = occasion.now
                log(.emailChanged, user, occasion)
            case .phone(let phone):
                accounts[user]?.phone = phone
                accounts[user]?.phoneConfirmedAt = occasion.now
                log(.phoneChanged, user, occasion)
            }
            return (user, ended)
        case .refuse: return nil
        }
    }
}
