internal import Accounts
internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Settings
internal import Synchronization
internal import Wire

/// The desk of Apple's tokens in force, and the thread that asks Apple.
final class AppleDeskHolder: Sendable {
    private let client = AppleTokenClient()
    private let current = Mutex<AppleDesk?>(nil)

    var inForce: AppleDesk? { current.withLock { $0 } }

    func adopt(_ desk: AppleDesk?) { current.withLock { $0 = desk } }

    /// nil without a key. Throws for a file that `check` finds fault with: it may have changed since.
    func desk(_ settings: Configuration, secret: [UInt8]) throws -> AppleDesk? {
        guard let line = settings.appleKey, let plan = try AppleKeyPlan(line) else { return nil }
        return AppleDesk(tokens: client.server(plan), vault: AppleVault(secret: secret, clients: Set(line.clientIDs)))
    }

    /// Aborts all requests and ends the thread. Blocks.
    func stop() { client.stop() }
}

extension AppleKeyPlan {
    /// nil where the line has a fault already.
    init?(_ line: AppleKeyDeclaration) throws(ParseError) {
        guard let file = line.key else { return nil }
        do throws(KeyFault) {
            try self.init(pem: file.bytes.rawBytes, keyID: line.keyID, team: line.team, url: line.url)
        } catch {
            throw ParseError("has key-file=\(file.path), which is of no use: \(error.message)")
        }
    }

    /// Reports a file that is of no use.
    static func check(_ settings: Configuration, _ findings: inout Findings) {
        guard let line = settings.appleKey else { return }
        do throws(ParseError) { _ = try AppleKeyPlan(line) } catch { findings.fault(line, error.text) }
        if settings.account == nil {
            findings.warn(line, "is set and \(Setting.account.name) is not, so no user can delete an account, set it to /account")
        }
        let apps = settings.providers.first { $0.name == .apple }?.clientIDs ?? []
        for id in line.clientIDs where !apps.contains(id) {
            let provider = Setting.provider.name + "APPLE"
            findings.warn(line, "has client-id=\(id), which is none of the client-ids= of \(provider): no code of this app is exchanged")
        }
        for id in apps where !line.clientIDs.contains(id) {
            findings.warn(line, "lacks client-id=\(id), an app of \(Setting.provider.name)APPLE: its tokens are not revoked")
        }
    }
}

extension Passkeys {
    /// nil without `TOLLGATE_PASSKEY`.
    init?(
        _ configuration: GatewayConfiguration, _ context: AccountContext, _ mint: TokenMint, limiter: any AttemptLimiter, secret: [UInt8]
    ) {
        let settings = configuration.settings
        guard let line = settings.passkey else { return nil }
        let contracts = configuration.contracts.mounts.map(\.contract)
        self.init(
            RelyingParty(id: line.rpID, name: line.rpName, origins: settings.passkeyOrigins), contracts: contracts, context: context,
            mint: mint, limiter: limiter, secret: secret, ways: context.ways)
    }
}

extension SignInWays {
    init(_ configuration: GatewayConfiguration) {
        self = Catalogue.ways(of: configuration.contracts.mounts.map(\.contract))
        passkeys = configuration.settings.passkey != nil
    }
}

extension AccountLife {
    init(
        _ account: AccountDeclaration, _ configuration: GatewayConfiguration, _ context: AccountContext, _ keys: any ProviderKeys,
        limiter: any AttemptLimiter, merges: Merges, notices: Notices?
    ) {
        let line = configuration.settings.deletion ?? .bare
        let rule = DeletionRule(graceSeconds: line.graceSeconds, recentSeconds: line.recentSeconds)
        self.init(
            writable: Set(account.writable.map(\.text)), own: OwnAccount(context: context, limiter: limiter, ways: context.ways),
            leaving: Leaving(context: context, rule: rule),
            merges: merges, appleNotices: AppleNotices(context: context, keys: keys, limiter: limiter, ways: context.ways, rule: rule))
        self.notices = notices
    }
}
