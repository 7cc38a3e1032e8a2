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
        _ redemption: CodeRedemption, _ audit: AuditContext
    ) async throws(StoreFault) -> Redemption {
        try at { state in
            guard let code = state.use(redemption, audit.now) else { return .wrongCode }
            let kept = redemption.callerSession.flatMap { state.sessions[$0] }
            if let caller = redemption.proof.caller, kept?.user != caller || state.accounts[caller] == nil {
                return .refused(.callerGone)
            }
            let holder = state.account(of: redemption.recipient).map { ContactHolder($0, redemption.recipient) }
            let verdict = ContactProofRule.verdict(redemption.proof, code: code, holder: holder)
            guard let (user, ended) = state.carryOut(verdict, redemption.recipient, by: kept, audit),
                let account = state.accounts[user]
            else { return .refused(verdict.refusal ?? .noAccount) }
            let carried = account.carried[redemption.recipient]
            if var kept, redemption.proof.caller == user, kept.contract == redemption.session.contract {
                if verdict.isSignIn(by: redemption.proof) {
                    kept.signedInAt = kept.signInRenewed(by: carried, at: audit.now)
                    state.sessions[kept.id] = kept
                }
                return .proven(SignIn(account: account, session: kept, ended: ended))
            }
            let opened = state.open(redemption.session.signed(by: carried), of: user, audit)
            state.log(.signedIn, user, audit, session: opened?.id, detail: "code")
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
        digest: [UInt8], hash: String, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let token = state.resets[digest], audit.now < token.expiresAt else { return nil }
            state.resets = state.resets.filter { $0.value.email.key != token.email.key }
            let recipient = Recipient.email(token.email)
            let holder = state.account(of: recipient).map { ContactHolder($0, recipient) }
            let verdict = ContactProofRule.verdict(.signIn(caller: nil), code: .recovery, holder: holder)
            guard case (let user, var ended)? = state.carryOut(verdict, recipient, by: nil, audit) else { return nil }
            let carried = state.accounts[user]?.carried.email
            state.setPassword(hash, of: user, carrying: carried, audit)
            ended += state.endSessions(of: user, .passwordChanged, audit)
            let opened = state.open(session.signed(by: carried), of: user, audit)
            state.log(.passwordReset, user, audit, session: session.id)
            return state.accounts[user].map { SignIn(account: $0, session: opened, ended: ended) }
        }
    }
}

extension MemoryStore.State {
    private mutating func confirm(_ user: UUID, _ recipient: Recipient, _ audit: AuditContext) {
        guard case .email = recipient, accounts[user]?.emailConfirmedAt == nil else { return }
        accounts[user]?.emailConfirmedAt = audit.now
        accounts[user]?.updatedAt = audit.now
        log(.emailConfirmed, user, audit)
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
        _ verdict: ContactVerdict, _ recipient: Recipient, by caller: Session?, _ audit: AuditContext
    ) -> (UUID, [EndedSession])? {
        switch verdict {
        case .confirm(let user):
            confirm(user, recipient, audit)
            return (user, [])
        case .complete(let user):
            accounts[user]?.dropPhone()
            dropIdentities(of: user)
            confirm(user, recipient, audit)
            return (user, endSessions(of: user, .accountTaken, audit))
        case .takeOver(let user): return (user, takeOver(user, audit))
        case .attach(let user, let releasing):
            let ended = releasing.map { release($0, audit) } ?? []
            accounts[user]?.updatedAt = audit.now
            if let account = accounts[user] { dropCodes(of: account) }
            dropCodes(to: recipient)
            accounts[user]?.carried[recipient] = caller?.carried
            switch recipient {
            case .email(let email):
                accounts[user]?.email = email
                accounts[user]?.emailConfirmedAt = audit.now
                log(.emailChanged, user, audit)
            case .phone(let phone):
                accounts[user]?.phone = phone
                accounts[user]?.phoneConfirmedAt = audit.now
                log(.phoneChanged, user, audit)
            }
            return (user, ended)
        case .refuse: return nil
        }
    }
}
