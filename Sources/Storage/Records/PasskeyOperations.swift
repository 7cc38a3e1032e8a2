package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func passkey(_ credentialID: [UInt8]) async throws(StoreFault) -> Passkey? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.passkey(credentialID) }
    }

    package func passkeys(of user: UUID) async throws(StoreFault) -> [Passkey] {
        try await database.read { sql throws(SQLFault) in
            try sql.passkeys("WHERE account = $1 ORDER BY created_at, credential", [.id(user)])
        }
    }

    package func add(
        _ passkey: Passkey, by session: CallerSession, spending proof: SpentProof, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Passkey, PasskeyRefusal> {
        try await database.write(locking: .account(passkey.user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(passkey.user), let open = try sql.session(session.session)?.0, open.user == account.id
            else { return .failure(.sessionEnded) }
            var passkey = passkey
            passkey.carriedAt = open.carriedByPasskey(at: audit.now)
            if let refusal = try sql.refusal(of: passkey, on: account, spending: proof) { return .failure(refusal) }
            try sql.put(passkey, on: account, audit)
            try sql.notify(.passkeyAdded, account, detail: passkey.name, audit)
            return .success(passkey)
        }
    }

    package func open(
        _ new: NewAccount, with passkey: Passkey, spending proof: SpentProof, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<SignIn, PasskeyRefusal> {
        try await database.write(locking: .account(new.id)) { sql throws(SQLFault) in
            let guest = try sql.guest(new.guest, at: audit.now)
            // Something signs in to the guest's account since, or its session has ended.
            guard guest?.id == (new.guest == nil ? nil : new.id) else { return .failure(.challenge) }
            var (account, passkey, session) = (guest ?? new.account(now: audit.now), passkey, session)
            if let refusal = try sql.refusal(of: passkey, on: account, spending: proof) { return .failure(refusal) }
            if let caller = new.guest {
                passkey.carriedAt = try sql.session(caller.session)?.0.carriedByPasskey(at: audit.now)
                session = session.signed(by: passkey.carriedAt)
                try sql.add(new.attributes, to: &account, audit)
            } else {
                // Its id is of a challenge that was just spent.
                guard try sql.insert(account, passwordHash: nil) else { throw .failed("the id of a new account is another one's") }
                try sql.logOpening(of: account, audit, session: session.id, detail: session.contract.name)
            }
            try sql.put(passkey, on: account, audit)
            account.passkeys = 1
            let opened = try sql.open(session, of: &account, audit)
            return .success(SignIn(account: account, session: opened, isNew: true))
        }
    }

    package func signIn(
        _ used: Passkey, spending proof: SpentProof, session: NewSession, present: CallerSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<SignIn, PasskeyRefusal> {
        try await database.write(locking: .account(used.user)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(used.user), let known = try sql.passkey(used.credentialID), known.user == account.id,
                known.publicKey == used.publicKey
            else { return .failure(.unknown) }
            guard try sql.spend(proof) else { return .failure(.challenge) }
            let carried = audit.counted(known.carriedAt, since: known.createdAt)
            let session = session.signed(by: carried)
            let renewed = try sql.renewed(present, by: session, carried: carried, of: account, audit)
            let opened = if let renewed { renewed } else { try sql.open(session, of: &account, audit) }
            try sql.change(
                .unlogged, "UPDATE passkeys SET sign_count = $2, is_backed_up = $3, last_used_at = $4 WHERE credential = $1",
                [.bytes(used.credentialID), .integer(Int64(used.signCount)), .flag(used.isBackedUp), .time(audit.now)])
            try sql.log(.signedIn, account.id, audit, session: opened.id, detail: "passkey")
            if known.isFalling(to: used.signCount) {
                try sql.log(.passkeyCounterFell, account.id, audit, session: opened.id, detail: "\(known.signCount) to \(used.signCount)")
                try sql.notify(.passkeyCounterFell, account, detail: known.name, audit)
            }
            return .success(SignIn(account: account, session: opened))
        }
    }

    package func rename(_ credentialID: [UInt8], of user: UUID, to name: String) async throws(StoreFault) -> Passkey? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.change(
                .unlogged, "UPDATE passkeys SET name = $3 WHERE credential = $1 AND account = $2",
                [.bytes(credentialID), .id(user), .text(name)])
            return try sql.passkey(credentialID).flatMap { $0.user == user ? $0 : nil }
        }
    }

    package func remove(
        _ credentialID: [UInt8], of user: UUID, keeping session: UUID?, _ ways: SignInWays?, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Account, PasskeyRefusal> {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(user) else { return .failure(.sessionEnded) }
            if let session {
                guard try sql.session(session)?.1.id == user else { return .failure(.sessionEnded) }
            }
            guard let passkey = try sql.passkey(credentialID), passkey.user == user else { return .failure(.unknown) }
            account.passkeys -= 1
            if let ways, !ways.lead(to: account, identities: try sql.identities(of: user).map(\.key)) { return .failure(.last) }
            try sql.change(.unlogged, "DELETE FROM passkeys WHERE credential = $1", [.bytes(credentialID)])
            try sql.countPasskeys(of: user)
            // As when an identity is unlinked: sessions do not know by what they were opened.
            _ = try sql.endSessions(of: user, keeping: session, .identityUnlinked, audit)
            try sql.log(.identityUnlinked, user, audit, detail: "passkey")
            try sql.notify(.passkeyRemoved, account, detail: passkey.name, audit)
            return .success(account)
        }
    }
}

extension SQLTransaction {
    /// The session with which a user sends a sign-in, renewed by it; nil unless it is open, of the account and contract, and bound to the key
    /// that the request proves, if any. One whose end is fixed must last as long as the new access token.
    fileprivate func renewed(
        _ present: CallerSession?, by new: NewSession, carried: WallTime?, of account: Account, _ audit: AuditContext
    ) throws(SQLFault) -> Session? {
        guard let present, var open = try lockedSession(present.session)?.0, open.user == account.id, open.contract == new.contract,
            open.deviceKey == new.deviceKey, audit.now < open.deadline,
            open.maxDeadline.map({ audit.now.advanced(seconds: new.accessSeconds) <= $0 }) ?? true
        else { return nil }
        if let factorAt = new.factorAt {
            open.factorAt = factorAt
            try logFactor(of: open.id, at: factorAt)
        }
        return try renewSignIn(of: open, as: new, by: carried, at: audit.now)
    }

    fileprivate func passkey(_ credentialID: [UInt8]) throws(SQLFault) -> Passkey? {
        try passkeys("WHERE credential = $1", [.bytes(credentialID)]).first
    }

    fileprivate func passkeys(_ clauses: String, _ values: [SQLValue]) throws(SQLFault) -> [Passkey] {
        let columns = """
            credential, account, public_key, algorithm, sign_count, is_backup_eligible, is_backed_up, aaguid, transports, name, \
            created_at, last_used_at, carried_at
            """
        return try rows("SELECT \(columns) FROM passkeys \(clauses)", values) { row throws(SQLFault) in
            let (credential, user, key, name) = (try row.bytes(), try row.id(), try row.bytes(), try row.text())
            guard let algorithm = SigningAlgorithm.allCases.first(where: { $0.name == name }) else {
                throw .failed("the algorithm of a passkey cannot be read")
            }
            var passkey = Passkey(
                credentialID: credential, user: user, publicKey: key, algorithm: algorithm, signCount: UInt32(clamping: try row.count()),
                isBackupEligible: try row.flag(), isBackedUp: try row.flag(), aaguid: try row.id(),
                transports: try row.text().split(separator: " ").map(String.init), name: try row.text(), createdAt: try row.time(),
                lastUsedAt: try row.optionalTime())
            passkey.carriedAt = try row.optionalTime()
            return passkey
        }
    }

    /// Why a passkey is not added to an account, which the transaction has locked; nil if it is, and the proof is spent.
    fileprivate func refusal(of passkey: Passkey, on account: Account, spending proof: SpentProof) throws(SQLFault) -> PasskeyRefusal? {
        guard account.passkeys < Passkey.most else { return .full }
        guard try self.passkey(passkey.credentialID) == nil else { return .registered }
        return try spend(proof) ? nil : .challenge
    }

    fileprivate mutating func put(_ passkey: Passkey, on account: Account, _ audit: AuditContext) throws(SQLFault) {
        let isNew = try change(
            .unlogged,
            """
            INSERT INTO passkeys (credential, account, public_key, algorithm, sign_count, is_backup_eligible, is_backed_up, aaguid,
                transports, name, created_at, carried_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING
            """,
            [
                .bytes(passkey.credentialID), .id(account.id), .bytes(passkey.publicKey), .text(passkey.algorithm.name),
                .integer(Int64(passkey.signCount)), .flag(passkey.isBackupEligible), .flag(passkey.isBackedUp), .id(passkey.aaguid),
                .text(passkey.transports.joined(separator: " ")), .text(passkey.name), .time(audit.now),
                .time(passkey.carriedAt),
            ])
        // Registered by another transaction since.
        guard isNew == 1 else { throw .conflict }
        try countPasskeys(of: account.id)
        try log(.identityLinked, account.id, audit, detail: "passkey")
    }

    /// Removes the passkeys that were added to an account from `start` on.
    func dropPasskeys(of account: UUID, since start: WallTime) throws(SQLFault) {
        let dropped = try change(
            .unlogged, "DELETE FROM passkeys WHERE account = $1 AND created_at >= $2", [.id(account), .time(start)])
        if dropped > 0 { try countPasskeys(of: account) }
    }

    /// Writes `Account.passkeys`.
    fileprivate func countPasskeys(of account: UUID) throws(SQLFault) {
        try change(
            .account(account),
            """
            UPDATE accounts SET passkeys = (SELECT COUNT(*) FROM passkeys WHERE account = $1), tier_version = tier_version + 1
            WHERE id = $1
            """, [.id(account)])
    }

    /// False if the proof was spent before.
    func spend(_ proof: SpentProof) throws(SQLFault) -> Bool {
        try change(
            .unlogged, "INSERT INTO spent_proofs (digest, ends_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            [.bytes(proof.digest), .time(proof.endsAt)]) == 1
    }
}
