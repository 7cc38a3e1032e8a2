package import Accounts
import Credentials
package import Wire

extension MemoryStore {
    package func account(_ id: UUID) async throws(StoreFault) -> Account? { try at { $0.accounts[id] } }

    package func account(email: EmailAddress) async throws(StoreFault) -> Account? {
        try at { $0.account(of: .email(email)) }
    }

    package func credential(for name: SignInName) async throws(StoreFault) -> Credential? {
        try at { state in
            let found = state.accounts.values.filter { account in
                guard account.hasPassword else { return false }
                switch name {
                case .email(let email): return account.email?.key == email.key
                case .username(let username): return account.username?.key == username.key
                }
            }
            guard found.count == 1, let account = found.first, let hash = state.hashes[account.id] else { return nil }
            return Credential(user: account.id, hash: hash, isEmailConfirmed: account.emailConfirmedAt != nil, email: account.email)
        }
    }

    package func signIns(of target: GuessTarget, limit: Int) async throws(StoreFault) -> [AuditEvent] {
        try at { state in
            let account = state.accounts.values.first { account in
                switch target {
                case .email(let email): account.email?.key == email.key
                case .username(let username): account.username?.key == username.key
                case .phone(let phone): account.phone == phone
                }
            }
            guard let account else { return [] }
            let events = state.events.reversed().filter { $0.user == account.id && AddressHistory.kinds.contains($0.kind) }
            return Array(events.prefix(limit))
        }
    }

    package func open(
        _ new: NewAccount, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> Opening {
        try at { state in
            if let email = new.email, let older = state.account(of: .email(email)) {
                return state.startAnew(older, new, session, audit)
            }
            let account = new.account(now: audit.now)
            state.dropCodes(of: account)
            state.accounts[new.id] = account
            state.hashes[new.id] = new.passwordHash
            let opened = state.open(session, of: new.id, audit)
            state.logOpening(of: account, audit, session: opened?.id, detail: new.openedBy?.name ?? "operator")
            return .opened(account, opened)
        }
    }

    package func signIn(
        _ user: UUID, proof: PasswordProof, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let account = state.accounts[user], state.hashes[user] == proof.hash else { return nil }
            if let replacement = proof.replacement { state.hashes[user] = replacement }
            let opened = state.open(session?.signed(by: account.carried.password), of: user, audit)
            if let opened { state.log(.signedIn, user, audit, session: opened.id, detail: "password") }
            return SignIn(account: account, session: opened)
        }
    }

    package func signIn(
        _ proof: IdentityProof, newUser: UUID, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn {
        try at { state in
            let key = proof.key
            let holder = proof.verifiedEmail.flatMap { email in
                state.account(of: .email(email)).map { ContactHolder($0, .email(email)) }
            }
            let verdict = IdentityRule.verdict(linked: state.identities[key]?.user, holder: holder)
            let (user, ended) = state.lead(verdict, proof, newUser, session.contract, audit)
            if state.identities[key] == nil {
                var carried: WallTime?
                if case .link = verdict { carried = state.accounts[user]?.carried.email }
                state.link(proof.key, to: user, carrying: carried, audit)
            }
            state.complete(user, by: proof, emailIsFree: holder == nil, audit)
            let opened = state.open(session.signed(by: state.identities[key]?.carried), of: user, audit)
            state.log(.signedIn, user, audit, session: session.id, detail: proof.provider.rawValue)
            guard let account = state.accounts[user] else { preconditionFailure("an identity of no account") }
            return SignIn(account: account, session: opened, isNew: verdict == .create, ended: ended)
        }
    }

    package func setPassword(
        _ hash: String, of user: UUID, keeping session: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try at { state in
            guard let kept = state.sessions[session], kept.user == user else { return nil }
            state.setPassword(hash, of: user, carrying: kept.carried, audit)
            let ended = state.endSessions(of: user, .passwordChanged, keeping: session, audit)
            state.log(.passwordChanged, user, audit, session: session)
            return state.accounts[user].map { SignIn(account: $0, session: kept, ended: ended) }
        }
    }
}

extension MemoryStore {
    package func account(of identity: IdentityKey) async throws(StoreFault) -> Account? {
        try at { state in state.identities[identity].flatMap { state.accounts[$0.user] } }
    }

    package func add(
        _ lines: [ImportedAccount], newIDs: [UUID], _ audit: AuditContext
    ) async throws(StoreFault) -> [ImportVerdict] {
        try at { state in zip(lines, newIDs).map { state.add($0, newID: $1, audit) } }
    }
}

extension MemoryStore.State {
    mutating func link(_ key: IdentityKey, to user: UUID, carrying carried: WallTime? = nil, _ audit: AuditContext) {
        identities[key] = MemoryStore.Link(identity: LinkedIdentity(key: key, linkedAt: audit.now), user: user, carried: carried)
        log(.identityLinked, user, audit, detail: key.source.name)
    }

    mutating func logOpening(of account: Account, _ audit: AuditContext, session: UUID?, detail: String) {
        log(.accountOpened, account.id, audit, session: session, detail: detail)
        if account.emailConfirmedAt != nil { log(.emailConfirmed, account.id, audit) }
        if let tier = account.entitlement.tier { log(.tierChanged, account.id, audit, detail: tier) }
    }

    fileprivate mutating func add(_ line: ImportedAccount, newID: UUID, _ audit: AuditContext) -> ImportVerdict {
        var holders = ImportHolders()
        holders.byID = line.id.flatMap { accounts[$0] }
        for key in line.identities {
            if let user = identities[key]?.user, let account = accounts[user] { holders.byIdentity.append(.init(key: key, account: account)) }
        }
        holders.byEmail = line.email.flatMap { account(of: .email($0)) }
        let verdict = ImportRule.verdict(line, holders)
        switch verdict {
        case .create:
            let account = line.account(newID: newID, now: audit.now)
            dropCodes(of: account)
            accounts[account.id] = account
            hashes[account.id] = line.passwordHash?.text
            logOpening(of: account, audit, session: nil, detail: line.origin.rawValue)
            for key in line.identities { link(key, to: account.id, audit) }
        case .complete(let user):
            guard let bare = accounts[user] else { break }
            let account = line.completing(bare, now: audit.now)
            dropCodes(of: account)
            accounts[user] = account
            hashes[user] = line.passwordHash?.text
            log(.accountOpened, user, audit, detail: line.origin.rawValue)
            for key in holders.missing(line) { link(key, to: user, audit) }
        case .keep, .refuse: break
        }
        return verdict
    }

    mutating func setPassword(_ hash: String, of user: UUID, carrying carried: WallTime?, _ audit: AuditContext) {
        hashes[user] = hash
        accounts[user]?.carried.password = carried
        accounts[user]?.hasPassword = true
        accounts[user]?.updatedAt = audit.now
        if let account = accounts[user] { dropCodes(of: account) }
    }

    fileprivate mutating func startAnew(
        _ older: Account, _ new: NewAccount, _ session: NewSession?, _ audit: AuditContext
    ) -> Opening {
        let hasSessions = sessions.values.contains { $0.user == older.id }
        guard SignUpRule.startsAnew(over: older, as: new, hasSessions: hasSessions) else { return .emailTaken }
        _ = strip(older.id, audit)
        let account = new.anew(older, now: audit.now)
        accounts[older.id] = account
        hashes[older.id] = new.passwordHash
        let opened = open(session, of: older.id, audit)
        log(
            .accountOpened, older.id, audit, session: opened?.id, detail: "\(new.openedBy?.name ?? "operator"), anew")
        return .opened(account, opened)
    }

    fileprivate mutating func lead(
        _ verdict: IdentityVerdict, _ proof: IdentityProof, _ newUser: UUID, _ contract: ContractID, _ audit: AuditContext
    ) -> (UUID, [EndedSession]) {
        switch verdict {
        case .known(let user), .link(let user): return (user, [])
        case .takeOver(let user): return (user, takeOver(user, audit))
        case .create:
            let new = NewAccount(id: newUser, openedBy: contract, email: proof.verifiedEmail)
            var account = new.account(now: audit.now)
            account.emailConfirmedAt = account.email.map { _ in audit.now }
            accounts[newUser] = account
            dropCodes(of: account)
            log(.accountOpened, newUser, audit, detail: proof.provider.rawValue)
            return (newUser, [])
        }
    }

    fileprivate mutating func complete(
        _ user: UUID, by proof: IdentityProof, emailIsFree: Bool, _ audit: AuditContext
    ) {
        guard var account = accounts[user] else { return }
        if account.email == nil, emailIsFree, let email = proof.verifiedEmail {
            account.email = email
            account.emailConfirmedAt = audit.now
            account.carried.email = identities[proof.key]?.carried
            dropCodes(to: .email(email))
        }
        if let name = proof.name, proof.nameRule.accepts(account, now: audit.now) { account.name = name }
        if account != accounts[user] { account.updatedAt = audit.now }
        accounts[user] = account
    }
}
