internal import Accounts
internal import Admin
internal import Cluster
internal import Gate
internal import Storage
internal import Transport
internal import Wire

/// The user and the session of an own token, read from the store now, as by a gateway that has not seen the user yet.
struct AccountDiagnosis: Sendable {
    /// For the policy that decides.
    let status: UserTier
    let revoked: [RevokedSession]
    /// For people.
    let account: String
    /// nil where the token names no session.
    let session: String?

    static func find(user: String, session: String, _ configuration: GatewayConfiguration, at now: Moment) -> AccountDiagnosis {
        let withoutAccount = UserTier(user: user, status: .noAccount, version: -1)
        guard let id = UUID(parsing: user), holdsAccounts(configuration) else {
            return AccountDiagnosis(status: withoutAccount, revoked: [], account: "there is none, the token's own tier counts", session: nil)
        }
        do throws(AccountCommandFault) {
            return try OfflineAccounts.ask(configuration, at: now) { accounts in
                try await AccountDiagnosis(of: id, user, session: UUID(parsing: session), accounts, configuration)
            }
        } catch {
            let status = TierStatus.unavailable(until: now.wall.seconds + 1)
            return AccountDiagnosis(
                status: UserTier(user: user, status: status, version: -1), revoked: [], account: error.message, session: nil)
        }
    }

    /// Without the file of the embedded database there are none; it is not created for the question.
    private static func holdsAccounts(_ configuration: GatewayConfiguration) -> Bool {
        do {
            guard case .sqlite(let path) = try StoreLocation(configuration) else { return true }
            _ = try FileBytes.stamp(path)
            return true
        } catch {
            return false
        }
    }

    private init(status: UserTier, revoked: [RevokedSession], account: String, session: String?) {
        self.status = status
        self.revoked = revoked
        self.account = account
        self.session = session
    }

    private init(
        of user: UUID, _ name: String, session: UUID?, _ accounts: OfflineAccounts, _ configuration: GatewayConfiguration
    ) async throws {
        let ended = try await accounts.directory.endedSessions().first { $0.id == session }
        revoked = ended.map { [RevokedSession($0)] } ?? []
        if let account = try await accounts.directory.account(user) {
            status = TierScale(configuration).status(of: name, account.entitlement, .lookedUp, at: accounts.now)
            let answer = AccountView(account, accounts)
            self.account = "\(answer.name), tier \(answer.tierText), as the store has it now"
        } else {
            status = UserTier(user: name, status: .noAccount, version: -1)
            account = "there is none, the token's own tier counts"
        }
        guard let session else {
            self.session = nil
            return
        }
        if let ended {
            self.session = "ended at \(ISO8601.text(ended.endedAt)): \(ended.reason.rawValue)"
        } else if let found = try await accounts.directory.sessions(of: user).first(where: { $0.id == session }) {
            self.session = "stands, of contract \(found.contract.name), last refreshed at \(ISO8601.text(found.lastUsedAt))"
        } else {
            self.session = "not in use any more, though it was not ended"
        }
    }
}
