package import Accounts
package import Wire

extension SQLStore {
    package func signIn(
        _ proof: IdentityProof, newUser: UUID, session: NewSession, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn {
        try await database.write { sql throws(SQLFault) in
            let linked = try sql.account(of: proof.provider, subject: proof.subject)
            let holder = try sql.holder(of: proof.verifiedEmail)
            let verdict = IdentityRule.verdict(linked: linked, holder: holder)
            let new = NewAccount(id: newUser, openedBy: session.contract, email: proof.verifiedEmail)
            var signIn = try sql.lead(verdict, proof, new, occasion)
            try sql.complete(&signIn.account, by: proof, emailIsFree: holder == nil, occasion)
            signIn.session = try sql.open(session, of: signIn.account.id, at: occasion.now)
            try sql.log(
                .signedIn, signIn.account.id, occasion, session: session.id, detail: proof.provider.rawValue)
            return signIn
        }
    }

    package func holdsIdentity(_ provider: Provider, subject: String) async throws(StoreFault) -> Bool {
        try await database.read { sql throws(SQLFault) in try sql.account(of: provider, subject: subject) != nil }
    }

    package func identities(of user: UUID) async throws(StoreFault) -> [LinkedIdentity] {
        try await database.read { sql throws(SQLFault) in
            let found = try sql.rows(
                "SELECT provider, subject, linked_at FROM identities WHERE account = $1 ORDER BY provider, subject",
                [.id(user)])
            var identities: [LinkedIdentity] = []
            for var row in found {
                identities.append(
                    LinkedIdentity(
                        provider: try row.word(Provider.self), subject: try row.text(), linkedAt: try row.time()))
            }
            return identities
        }
    }
}

extension SQLTransaction {
    /// The account that the identity was linked to.
    fileprivate func account(of provider: Provider, subject: String) throws(SQLFault) -> UUID? {
        let row = try first(
            "SELECT account FROM identities WHERE provider = $1 AND subject = $2",
            [.text(provider.rawValue), .text(subject)])
        guard var row else { return nil }
        return try row.id()
    }

    fileprivate func holder(of email: EmailAddress?) throws(SQLFault) -> ContactHolder? {
        guard let email, let account = try lockedAccount(email: email) else { return nil }
        return ContactHolder(account, .email(email))
    }

    /// The account that the verdict leads to, and what happened to it on the way.
    fileprivate mutating func lead(
        _ verdict: IdentityVerdict, _ proof: IdentityProof, _ new: NewAccount, _ occasion: Occasion
    ) throws(SQLFault) -> SignIn {
        switch verdict {
        case .known(let user):
            let account = try present(user)
            // Whoever took the account over meanwhile has unlinked what its opener had.
            guard try self.account(of: proof.provider, subject: proof.subject) == user else { throw .conflict }
            return SignIn(account: account, session: nil)
        case .link(let user):
            let account = try present(user)
            try link(proof, to: user, occasion)
            return SignIn(account: account, session: nil)
        case .takeOver(let user):
            var account = try present(user)
            let ended = try takeOver(&account, occasion)
            try link(proof, to: user, occasion)
            return SignIn(account: account, session: nil, ended: ended)
        case .create:
            return SignIn(account: try create(new, proof, occasion), session: nil, isNew: true)
        }
    }

    private mutating func create(
        _ new: NewAccount, _ proof: IdentityProof, _ occasion: Occasion
    ) throws(SQLFault) -> Account {
        var account = new.account(now: occasion.now)
        if account.email != nil { account.emailConfirmedAt = occasion.now }
        // Somebody else opened one with the email a moment ago: with that one there, the verdict is another.
        guard try insert(account, passwordHash: nil) else { throw .conflict }
        try dropCodes(of: account)
        try log(.accountOpened, new.id, occasion, detail: proof.provider.rawValue)
        try link(proof, to: new.id, occasion)
        return account
    }

    private mutating func link(_ proof: IdentityProof, to user: UUID, _ occasion: Occasion) throws(SQLFault) {
        let isNew =
            try change(
                .unlogged,
                """
                INSERT INTO identities (provider, subject, account, linked_at) VALUES ($1, $2, $3, $4)
                ON CONFLICT DO NOTHING
                """,
                [.text(proof.provider.rawValue), .text(proof.subject), .id(user), .time(occasion.now)]) == 1
        guard isNew else { throw .conflict }
        try log(.identityLinked, user, occasion, detail: proof.provider.rawValue)
    }

    /// Adds what the account still lacks and the proof brings.
    fileprivate func complete(
        _ account: inout Account, by proof: IdentityProof, emailIsFree: Bool, _ occasion: Occasion
    ) throws(SQLFault) {
        let before = account
        if account.email == nil, emailIsFree, let email = proof.verifiedEmail {
            account.email = email
            account.emailConfirmedAt = occasion.now
            try dropCodes(to: email.key)
        }
        if let name = proof.name, proof.nameRule.takes(account, now: occasion.now) { account.name = name }
        guard account != before else { return }
        account.updatedAt = occasion.now
        try update(account)
    }
}
