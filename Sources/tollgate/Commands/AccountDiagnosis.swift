internal import Accounts
internal import Admin
internal import Cluster
internal import Credentials
internal import Gate
internal import Issuers
internal import Storage
internal import System
internal import Threads
internal import Wire

/// The user of a token, and the session of an own one, read from the store or asked of the tier server now, as by a gateway
/// that has not seen the user yet.
struct AccountDiagnosis: Sendable {
    /// For the policy that decides.
    let status: UserTier
    let revoked: [RevokedSession]
    private(set) var proven: [ProvenSession] = []
    /// For people.
    let account: String
    /// nil where the token names no session.
    let session: String?

    static func find(
        _ user: TokenUser, session: String, _ configuration: GatewayConfiguration, at now: Moment
    ) -> AccountDiagnosis {
        switch user.issuer.flatMap({ IssuerTiers.all(configuration)[$0] }) {
        case nil: find(own: user, session: session, configuration, at: now)
        case .account?: find(subject: user, configuration, at: now)
        case .lookup(let server)?: ask(server, user, TierScale(configuration), at: now)
        }
    }

    /// The API keys as the store has them.
    static func apiKeys(_ configuration: GatewayConfiguration, at now: Moment) throws(AccountCommandFault) -> APIKeyTable {
        APIKeyTable(try OfflineAccounts.ask(configuration, at: now) { try await $0.operator.directory.apiKeys.live() })
    }

    private static func find(
        own user: TokenUser, session: String, _ configuration: GatewayConfiguration, at now: Moment
    ) -> AccountDiagnosis {
        guard let id = UUID(parsing: user.id), holdsAccounts(configuration) else {
            return AccountDiagnosis(user, "there is none, the token's own tier counts")
        }
        return answer(user, configuration, at: now) { accounts in
            try await AccountDiagnosis(of: id, user, session: UUID(parsing: session), accounts, configuration)
        }
    }

    /// A user of an outside issuer, whose tier the operator sets.
    private static func find(subject user: TokenUser, _ configuration: GatewayConfiguration, at now: Moment) -> AccountDiagnosis {
        let none = "no account of \(user.text), so the tier is the lowest; `tollgate user set-tier` makes one"
        let source = user.issuer.flatMap { IdentitySource(trustLine: $0) }
        guard let key = source.flatMap({ IdentityKey($0, subject: user.id) }), holdsAccounts(configuration) else {
            return AccountDiagnosis(user, none)
        }
        return answer(user, configuration, at: now) { accounts in
            guard let account = try await accounts.operator.directory.account(of: key) else { return AccountDiagnosis(user, none) }
            let status = TierScale(configuration).status(of: user, account.entitlement, .lookedUp, at: accounts.operator.now)
            return AccountDiagnosis(
                status: status, revoked: [],
                account: "\(account.id.text) of \(user.text), tier \(accounts.operator.view(account).tierText), as the store has it now",
                session: nil)
        }
    }

    private static func ask(_ server: TierServer, _ user: TokenUser, _ scale: TierScale, at now: Moment) -> AccountDiagnosis {
        let client = TierClient()
        defer { client.stop() }
        do {
            switch try blocking({ await client.tier(of: user.id, at: server) }) {
            case .tier(let name)?:
                let known = KnownTier(name: name, askedAt: now.wall, freshUntil: WallTime(seconds: .max))
                let text = "the tier server names \(name.map { quoted($0) } ?? "no tier")"
                return AccountDiagnosis(status: scale.status(of: user, known), revoked: [], account: text, session: nil)
            case .failed(let why, _)?: return AccountDiagnosis(away: user, "the tier server does not answer: \(why)", at: now)
            case nil: return AccountDiagnosis(away: user, "the tier server did not answer", at: now)
            }
        } catch {
            return AccountDiagnosis(away: user, "the tier server cannot be asked: \(error)", at: now)
        }
    }

    private static func answer(
        _ user: TokenUser, _ configuration: GatewayConfiguration, at now: Moment,
        _ question: @escaping @Sendable (OfflineAccounts) async throws -> AccountDiagnosis
    ) -> AccountDiagnosis {
        do throws(AccountCommandFault) {
            return try OfflineAccounts.ask(configuration, at: now, question)
        } catch {
            return AccountDiagnosis(away: user, error.message, at: now)
        }
    }

    /// Without the file of the embedded database there are none; it is not created for the question.
    static func holdsAccounts(_ configuration: GatewayConfiguration) -> Bool {
        do {
            guard case .sqlite(let path) = StoreLocation.configured(configuration) else { return true }
            _ = try FileBytes.stamp(path)
            return true
        } catch {
            return false
        }
    }

    /// A user without an account.
    private init(_ user: TokenUser, _ account: String) {
        self.init(status: UserTier(user: user, status: .noAccount, version: -1), revoked: [], account: account, session: nil)
    }

    /// A user whose tier cannot be found out.
    private init(away user: TokenUser, _ why: String, at now: Moment) {
        let status = TierStatus.unavailable(until: now.wall.seconds + 1)
        self.init(status: UserTier(user: user, status: status, version: -1), revoked: [], account: why, session: nil)
    }

    private init(status: UserTier, revoked: [RevokedSession], account: String, session: String?) {
        self.status = status
        self.revoked = revoked
        self.account = account
        self.session = session
    }

    private init(
        of user: UUID, _ name: TokenUser, session: UUID?, _ accounts: OfflineAccounts, _ configuration: GatewayConfiguration
    ) async throws {
        let ended = try await accounts.operator.directory.endedSessions().first { $0.id == session }
        revoked = ended.map { [RevokedSession($0)] } ?? []
        if let account = try await accounts.operator.directory.account(user) {
            status = TierScale(configuration).status(of: name, standing: AccountStanding(account), .lookedUp, at: accounts.operator.now)
            let answer = accounts.operator.view(account)
            self.account = "\(answer.name), tier \(answer.tierText), as the store has it now"
        } else {
            let erased = try await accounts.operator.directory.standing(of: user)
            status = TierScale(configuration).status(of: name, standing: erased, .lookedUp, at: accounts.operator.now)
            account = erased == nil ? "there is none, the token's own tier counts" : "it was erased"
        }
        guard let session else {
            self.session = nil
            return
        }
        if let ended {
            self.session = "ended at \(ISO8601.text(ended.endedAt)): \(ended.reason.rawValue)"
        } else if let found = try await accounts.operator.directory.sessions(of: user).first(where: { $0.id == session }) {
            proven = [ProvenSession(id: found.id, at: found.factorAt)]
            self.session = "stands, of contract \(found.contract.name), last refreshed at \(ISO8601.text(found.lastUsedAt))"
        } else {
            self.session = "not in use any more, though it was not ended"
        }
    }
}

/// The account of an outside issuer's subject (`accounts=on`), read from the store now.
struct SubjectDiagnosis: Sendable {
    /// For the policy that decides.
    let known: KnownSubject
    /// Every token that was signed out.
    let revoked: [RevokedSession]
    /// For people.
    let account: String

    static func find(_ user: TokenUser, _ configuration: GatewayConfiguration, at now: Moment) -> SubjectDiagnosis {
        func diagnosis(_ status: SubjectStatus, _ account: String, _ ended: [EndedSession] = []) -> SubjectDiagnosis {
            let known = KnownSubject(user: user, status: status, learnedAt: now.wall.seconds)
            return SubjectDiagnosis(known: known, revoked: ended.map { RevokedSession($0) }, account: account)
        }
        let name = user.text
        guard let source = user.issuer.flatMap({ IdentitySource(trustLine: $0) }), let key = IdentityKey(source, subject: user.id),
            AccountDiagnosis.holdsAccounts(configuration)
        else { return diagnosis(.unknown, "\(name) has none") }
        do throws(AccountCommandFault) {
            let (verdict, ended) = try OfflineAccounts.ask(configuration, at: now) { accounts in
                (try await accounts.operator.directory.subject(key), try await accounts.operator.directory.endedSessions())
            }
            return switch verdict {
            case .account(let id): diagnosis(.account(id), "\(name) is \(id.text)", ended)
            case .unknown: diagnosis(.unknown, "\(name) has none", ended)
            case .refused:
                diagnosis(.refused, "\(name) is refused: the account is gone or not the issuer's, or its sessions there ended", ended)
            }
        } catch {
            return diagnosis(.unavailable, error.message)
        }
    }
}
