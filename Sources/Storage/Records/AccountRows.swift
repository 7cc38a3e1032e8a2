internal import Accounts
internal import Credentials
internal import Wire

extension SQLRow {
    /// The columns `tier_version`, `tier`, `tier_until` and `grants`.
    mutating func entitlement() throws(SQLFault) -> Entitlement { try entitlement(version: integer()) }

    /// The columns behind `tier_version`.
    mutating func entitlement(version: Int64) throws(SQLFault) -> Entitlement {
        let (tier, until, text) = (try optionalText(), try optionalTime(), try optionalText())
        guard let purchased = Grant.grants(in: text ?? "") else { throw .failed("the grants of an account cannot be read") }
        return Entitlement(tier: tier, until: until, version: version, purchased: purchased)
    }

    mutating func attributes() throws(SQLFault) -> Attributes { try optionalBytes().map(Attributes.init(stored:)) ?? .none }

    /// The columns `banned_at`, `banned_until` and `ban_reason`.
    mutating func ban() throws(SQLFault) -> Ban? {
        let (at, until, reason) = (try optionalTime(), try optionalTime(), try optionalText())
        return at.map { Ban(bannedAt: $0, until: until, reason: reason) }
    }

    mutating func merges() throws(SQLFault) -> [Merge] {
        guard let merges = Merge.merges(in: try optionalText() ?? "") else { throw .failed("the merges of an account cannot be read") }
        return merges
    }

    /// The columns of the entitlement behind `tier_version`, the email's, and `standingColumns`.
    mutating func standing(version: Int64) throws(SQLFault) -> AccountStanding {
        var standing = AccountStanding(try entitlement(version: version), email: try provenEmail())
        standing.attributes = try attributes()
        standing.ban = try ban()
        standing.isClosed = try optionalTime() != nil
        standing.merges = try merges()
        return standing
    }

    /// The columns `email` and `email_confirmed_at`: the email, if it is proven.
    mutating func provenEmail() throws(SQLFault) -> EmailAddress? {
        let (text, confirmedAt) = (try optionalText(), try optionalTime())
        return confirmedAt == nil ? nil : text.map { EmailAddress(stored: $0) }
    }
}

/// The table `accounts`.
extension SQLTransaction {
    static let accountColumns = """
        id, opened_by, created_at, updated_at, email, email_confirmed_at, phone, phone_confirmed_at, username, \
        given_name, family_name, password_hash, metadata, tier_version, tier, tier_until, grants, \
        password_carried_at, email_carried_at, phone_carried_at, password_set_at, language, mail_stopped_at, \(standingColumns), passkeys
        """
    /// The columns of `AccountStanding` beside those of the entitlement and the email.
    static let standingColumns = "attributes, banned_at, banned_until, ban_reason, erased_at, merges"
    static let selectAccount = "SELECT \(accountColumns) FROM accounts "

    func account(_ id: UUID) throws(SQLFault) -> Account? {
        try first(Self.selectAccount + "WHERE id = $1", [.id(id)]).map(Self.account)
    }

    func account(email: EmailAddress) throws(SQLFault) -> Account? {
        try first(Self.selectAccount + "WHERE email_key = $1", [.text(email.key)]).map(Self.account)
    }

    func account(of recipient: Recipient) throws(SQLFault) -> Account? {
        switch recipient {
        case .email(let email): try account(email: email)
        case .phone(let phone):
            try first(Self.selectAccount + "WHERE phone = $1", [.text(phone.text)]).map(Self.account)
        }
    }

    /// The same, locked until the transaction ends.
    func lockedAccount(_ id: UUID) throws(SQLFault) -> Account? {
        try locked(Self.selectAccount + "WHERE id = $1", [.id(id)]).map(Self.account)
    }

    func lockedAccount(email: EmailAddress) throws(SQLFault) -> Account? {
        try locked(Self.selectAccount + "WHERE email_key = $1", [.text(email.key)]).map(Self.account)
    }

    func lockedAccount(of recipient: Recipient) throws(SQLFault) -> Account? {
        switch recipient {
        case .email(let email): try lockedAccount(email: email)
        case .phone(let phone):
            try locked(Self.selectAccount + "WHERE phone = $1", [.text(phone.text)]).map(Self.account)
        }
    }

    func accounts(after: UUID?, limit: Int) throws(SQLFault) -> [Account] {
        try accounts("WHERE id > $1 ORDER BY id LIMIT $2", [.id(after ?? UUID(high: 0, low: 0)), .integer(Int64(limit))])
    }

    /// The accounts that `clauses`, behind the table's name, select.
    func accounts(_ clauses: String, _ values: [SQLValue]) throws(SQLFault) -> [Account] {
        try rows(Self.selectAccount + clauses, values).map(Self.account)
    }

    static func account(_ row: SQLRow) throws(SQLFault) -> Account {
        var row = row
        return try account(&row)
    }

    /// Reads its columns, which are the row's next.
    static func account(_ row: inout SQLRow) throws(SQLFault) -> Account {
        var account = Account(
            id: try row.id(), openedBy: try row.optionalContract(), createdAt: try row.time(), updatedAt: try row.time())
        account.email = try row.optionalText().map { EmailAddress(stored: $0) }
        account.emailConfirmedAt = try row.optionalTime()
        account.phone = try row.optionalText().map { PhoneNumber(stored: $0) }
        account.phoneConfirmedAt = try row.optionalTime()
        account.username = try row.optionalText().map { Username(stored: $0) }
        account.name = PersonName(storedGiven: try row.optionalText(), family: try row.optionalText())
        account.hasPassword = try row.optionalText() != nil
        account.metadata = Metadata(stored: try row.bytes())
        account.entitlement = try row.entitlement()
        account.carried = CarriedSignIns(
            password: try row.optionalTime(), email: try row.optionalTime(), phone: try row.optionalTime())
        account.passwordSetAt = try row.optionalTime()
        account.language = try row.optionalText()
        account.mailStoppedAt = try row.optionalTime()
        account.attributes = try row.attributes()
        account.ban = try row.ban()
        account.erasedAt = try row.optionalTime()
        account.merges = try row.merges()
        account.passkeys = try row.optionalInteger() ?? 0
        return account
    }

    /// Adds an account; false if its email is taken.
    func insert(_ account: Account, passwordHash: String?) throws(SQLFault) -> Bool {
        try change(
            .unlogged,
            """
            INSERT INTO accounts (
                id, opened_by, created_at, updated_at, email, email_key, email_confirmed_at, username, username_key,
                password_hash, metadata, tier, tier_until, tier_version, attributes)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING
            """,
            [
                .id(account.id), account.openedBy.map { .integer(Int64($0.rawValue)) } ?? .null,
                .time(account.createdAt), .time(account.updatedAt), .text(account.email?.text),
                .text(account.email?.key), .time(account.emailConfirmedAt), .text(account.username?.text),
                .text(account.username?.key), .text(passwordHash), .bytes(account.metadata.json),
                .text(account.entitlement.tier), .time(account.entitlement.until), .integer(account.entitlement.version),
                account.attributes == .none ? .null : .bytes(account.attributes.json),
            ]) == 1
    }

    /// Writes back the columns that sign-ins and proofs change.
    func update(_ account: Account) throws(SQLFault) {
        try change(
            .account(account.id),
            """
            UPDATE accounts SET updated_at = $2, email = $3, email_key = $4, email_confirmed_at = $5, phone = $6,
                phone_confirmed_at = $7, given_name = $8, family_name = $9, username = $10, username_key = $11,
                metadata = $12, password_carried_at = $13, email_carried_at = $14, phone_carried_at = $15,
                mail_stopped_at = $16, password_set_at = $17 WHERE id = $1
            """,
            [
                .id(account.id), .time(account.updatedAt), .text(account.email?.text), .text(account.email?.key),
                .time(account.emailConfirmedAt), .text(account.phone?.text), .time(account.phoneConfirmedAt),
                .text(account.name?.given), .text(account.name?.family), .text(account.username?.text),
                .text(account.username?.key), .bytes(account.metadata.json), .time(account.carried.password),
                .time(account.carried.email), .time(account.carried.phone), .time(account.mailStoppedAt),
                .time(account.passwordSetAt),
            ])
    }

    func setPasswordHash(_ hash: String?, of account: UUID) throws(SQLFault) {
        try change(.account(account), "UPDATE accounts SET password_hash = $2 WHERE id = $1", [.id(account), .text(hash)])
    }

    /// Removes the data and credentials of the user who created an account, except its email, with its sessions, codes,
    /// reset tokens, and the purchases that the user claimed. The caller must write `account` back.
    mutating func strip(_ account: inout Account, _ audit: AuditContext) throws(SQLFault) -> [EndedSession] {
        try releasePurchases(claimedBy: &account, audit)
        try dropCodes(of: account)
        account.strip(at: audit.now)
        if account.attributes != .none { try setAttributes(.none, of: account.id, at: audit.now) }
        try setPasswordHash(nil, of: account.id)
        try dropIdentities(of: account.id, at: audit.now)
        try dropFactor(of: account.id)
        for table in ["actor_grants", "account_devices"] {
            try change(.unlogged, "DELETE FROM \(table) WHERE account = $1", [.id(account.id)])
        }
        return try endSessions(of: account.id, .accountTaken, at: audit.now)
    }

    /// Removes the passkeys and identities that were linked to an account from `start` on, and returns these; tokens of outside ones are
    /// refused from now on.
    @discardableResult
    func dropIdentities(
        of account: UUID, since start: WallTime = WallTime(microseconds: 0), at now: WallTime
    ) throws(SQLFault) -> [IdentityKey] {
        try dropPasskeys(of: account, since: start)
        let linked = "FROM identities WHERE account = $1 AND linked_at >= $2"
        let found = try rows("SELECT provider, subject \(linked)", [.id(account), .time(start)]) { row throws(SQLFault) in
            IdentityKey(IdentitySource(stored: try row.text()), stored: try row.text())
        }
        for key in found {
            if key.source.isIssuer { try refuseSubject(key, at: now) }
            if key.source == IdentitySource(.apple) { try revokeAppleTokens(of: account, subject: key.subject, at: now) }
        }
        try change(.identity, "DELETE \(linked)", [.id(account), .time(start)])
        return found
    }
}
