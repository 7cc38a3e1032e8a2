import Accounts
import Contracts
import Credentials
import Foundation
import Gate
import HTTP
@testable import Limits
import MemoryStore
import Storage
import Stories
import Synchronization
import Threads
import Wire

/// The contracts behind a gate, over a store in memory, with a clock of the test.
final class ContractWorld: StoryWorld {
    private static let issuer = "https://gate.test"
    /// Those of `/oauth` that it has, by their numbers among the local endpoints.
    private static let oauthPaths = [ServerMetadata.tokenPath, ServerMetadata.revocationPath]
    private static let secret = [UInt8](repeating: 7, count: 32)
    private static let client = Peer(address: IPAddress(v4: 0xC000_0207))

    private let clock = StillClock()
    private let post = Post()
    private let providers = PretendProviders()
    private let oldIssuer = PretendIssuer()
    private let store = MemoryStore()
    private(set) var services: ContractServices
    private let context: AccountContext
    private let administration: Administration
    private let directory: AccountDirectory
    private let oauth: OAuthEndpoints
    /// How far the change log has been read.
    private var mark = ChangeMark(value: 0)
    private let key: SigningKey
    /// Every mounted endpoint.
    let endpoints: [MountedEndpoint]
    private let counts = SharedLimiter(capacity: 64)
    private var admission: Admission
    private var head = RequestHead()
    private var decision = Decision()

    /// Of apps: each believes what it is sent.
    private static let stores = Stores(
        PurchaseSource.allCases.map(TrustingStorefront.init),
        Products([
            ProductLine(
                name: "monthly", tier: "premium", products: [.apple: ["monthly"], .google: ["monthly"], .stripe: ["monthly"]],
                graceSeconds: nil)
        ]))

    /// `accounts` is a store in place of the one in memory.
    init(
        mounts: String = "password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/", accounts: (any AccountStore)? = nil,
        notices: Set<NoticeTopic> = [], policies: SessionPolicies = SessionPolicies(), nonceSecret: [UInt8]? = nil
    ) throws {
        let key = try SigningKey.generate(.ES256)
        self.key = key
        let limiter = AttemptsInMemory(clock)
        // On a busy machine a password may wait for longer than a client would.
        let made = PasswordWork(
            threads: 2, queue: 100, cost: Argon2Cost(kibibytes: 8, passes: 1, lanes: 1), patience: .seconds(3_600),
            start: WorkerThread.start)
        guard let work = made else { throw StoryFault("the system gives no threads") }
        var context = AccountContext(store: accounts ?? store, clock: clock.accountClock, notice: { _ in })
        context.notices = notices
        context.offersFactor = true
        context.policies = policies
        let mint = TokenMint(
            issuer: Self.issuer, audience: "tollgate", signingKey: { key },
            refreshKeys: RefreshTokenKeys(secret: Self.secret), refreshJWTs: try RefreshJWTs(secret: Self.secret, issuer: Self.issuer))
        var table = MountTable()
        table.own = [
            OwnMount("purchases", base: "/purchases", Catalogue.purchaseEndpoints(of: Set(PurchaseSource.allCases))),
            OwnMount("account", base: "/account", Catalogue.accountEndpoints()),
        ].compactMap(\.self)
        table.mounts = try mounts.split(separator: " ").map { try Mount(parsing: String($0)) }
        endpoints = try table.endpoints + table.pages(beside: [])
        let own = TrustedIssuer(
            name: "tollgate", issuer: Self.issuer, audiences: ["tollgate"], algorithms: AlgorithmSet(.ES256),
            keys: KeySet([key.verificationKey]), isOwn: true)
        let oauthRules = Self.oauthPaths.enumerated().map { number, path in
            var rule = RouteRule(
                name: "own-\(number)", methods: ["POST"], path: path, isPrefix: false, target: .local(UInt16(number)), auth: .none)
            (rule.errors, rule.isEndpoint) = (.oauth, true)
            return rule
        }
        let policy = try Policy(
            rules: endpoints.map(\.rule) + oauthRules, trust: Trust(issuers: [oldIssuer.trusted, own]), envelopes: Catalogue.envelopes,
            hasAccounts: true)
        let sessions = Sessions(
            context: context, mint: mint,
            outside: OutsideRefresh(secret: Self.secret, limiter: limiter) { [oldIssuer] token, _, _ in oldIssuer.redeem(token) })
        let judging = TokenJudge.Sources(
            policy: { policy }, tier: { UserTier(user: $0, status: .unavailable(until: 0), version: 0) }, subject: { _ in .unavailable },
            hasEnded: { _ in nil },
            keysWanted: { _ in }, now: { [clock] in clock.now.wall })
        let judge = TokenJudge(judging, sessions: sessions)
        let proofs = DeviceProofs(
            publicURL: "https://public.test/api/", skewSeconds: 30, clock: clock.accountClock, nonceSecret: nonceSecret, limiter: limiter,
            spend: { await limiter.charge($0) })
        services = ContractServices(
            passwords: PasswordAccounts(context: context, mint: mint, work: work, limiter: limiter),
            resets: PasswordReset(context: context, mint: mint, work: work, courier: post, limiter: limiter, secret: Self.secret),
            codes: Codes(context: context, mint: mint, courier: post, limiter: limiter, secret: Self.secret),
            providers: ProviderSignIn(context: context, mint: mint, keys: providers, limiter: limiter),
            anonymous: AnonymousAccounts(context: context, mint: mint, limiter: limiter),
            sessions: sessions, accounts: AccountDirectory(context: context), page: WebPage(authBase: table.pageMount?.base ?? ""),
            tiers: .standard, mustConfirmEmail: false, clock: clock.accountClock,
            purchases: Purchases(
                context: context, mint: mint, stores: Self.stores, transfers: false, limiter: limiter,
                fence: { true }),
            life: AccountLife(
                writable: ["name", "locale"],
                own: OwnAccount(context: context, limiter: limiter, ways: Catalogue.ways(of: table.mounts.map(\.contract))),
                leaving: Leaving(context: context, rule: DeletionRule()),
                merges: Merges(sessions: sessions, limiter: limiter, order: TierOrder(["free", "premium"])),
                appleNotices: AppleNotices(
                    context: context, keys: providers, limiter: limiter, ways: SignInWays(passwords: true, emails: true, phones: true),
                    rule: DeletionRule())),
            judge: judge, proofs: proofs)
        services.life?.passkeys = Passkeys(
            RelyingParty(id: "example.org", name: "Example", origins: ["https://example.org"]), contracts: table.mounts.map(\.contract),
            context: context, mint: mint, limiter: limiter, secret: Self.secret, ways: Catalogue.ways(of: table.mounts.map(\.contract)))
        services.life?.factors = Factors(context: context, sessions: sessions, limiter: limiter, secret: Self.secret, issuer: "Example App")
        services.life?.notices = Notices(context: context, courier: post, limiter: limiter, secret: Self.secret)
        self.context = context
        administration = Administration(context: context, work: work, actor: .command)
        directory = AccountDirectory(context: context)
        oauth = OAuthEndpoints(
            sessions: sessions, revocation: TokenRevocation(sessions: sessions, limiter: limiter), judge: judge, proofs: proofs,
            refreshing: table.refreshingContracts)
        admission = Admission(policy: policy, limiter: counts, cacheCapacity: 64)
    }

    // MARK: the story's world

    var now: Int { Int(clock.now.wall.seconds) }
    let clockTolerance = 0

    func ask(_ method: String, _ target: String, _ fields: [String], _ body: [UInt8]) async throws -> StoryAnswer {
        var lines = ["\(method) \(target) HTTP/1.1", "Host: gate.test"] + fields
        if !body.isEmpty { lines.append("Content-Length: \(body.count)") }
        let bytes = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        guard head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete else { throw StoryFault("\(lines) are no request") }
        await readLog()
        decide(bytes)
        if let sighting = decision.effects.deliveredToken { await confirm(sighting) }
        if decision.verdict == .lookUp, admission.asksSubject(decision) {
            admission.learn([await known(admission.tokenUser(decision))])
            decide(bytes)
        }
        if decision.verdict == .lookUp {
            let user = decision.userID.text
            admission.learn([await status(of: user)])
            decide(bytes)
        }
        switch decision.verdict {
        case .refuse(let refusal): return answer(refusal)
        case .local(let number):
            let request = request(bytes, body)
            let response =
                switch number {
                case 0: await oauth.token(request)
                case 1: await oauth.revoke(request)
                default: await Catalogue.endpoints[Int(number - Catalogue.firstNumber)].answer(request, services)
                }
            return StoryAnswer(status: response.status, fields: response.fields, body: response.body)
        case .forward, .lookUp, .refresh, .answer: throw StoryFault("\(target) went astray")
        }
    }

    /// Revokes what has ended since the last call, as the gateway's poller does.
    private func readLog() async {
        // A store that is away is read once it is back.
        guard let reading = try? await directory.changes(since: mark) else { return }
        mark = reading.next
        let ended = reading.changes.compactMap { logged -> RevokedSession? in
            if case .ended(let session) = logged.change { RevokedSession(id: session.id.text, until: .max) } else { nil }
        }
        admission.revoke(ended, at: clock.now.wall.seconds)
        let proven = reading.changes.compactMap { logged -> ProvenSession? in
            if case .factor(let session) = logged.change { session } else { nil }
        }
        admission.learn(proven, at: clock.now.wall.seconds)
        if ended.count < reading.changes.count { admission.forgetUsers() }
    }

    func wait(seconds: Int) async throws {
        clock.advance(seconds: Int64(seconds))
        await LeavingRounds(context: context).round()
    }

    func message(to recipient: String) async throws -> StoryMessage? {
        switch post.take(to: recipient) {
        case .code(let code, _, _)?: .code(code)
        case .passwordReset(let token, _)?: .reset(token)
        case .notice?, nil: nil
        }
    }

    /// The token in the newest notice to a recipient.
    func wayBack(to recipient: String) -> String? {
        guard case .notice(_, let token)? = post.take(to: recipient) else { return nil }
        return token
    }

    func idToken(_ provider: String, _ claims: String) async throws -> String {
        try providers.token(provider, claims, now: clock.now.wall)
    }

    func outsideToken(_ kind: String, _ subject: String) async throws -> String {
        kind == "access" ? try oldIssuer.token(subject, now: clock.now.wall) : oldIssuer.refreshToken(subject)
    }

    func act(_ words: [String]) async throws {
        switch words.first {
        case "old": oldIssuer.isAway = words[1] == "away"
        case "import":
            var account = ImportedAccount()
            account.email = try EmailAddress(words[1])
            account.isEmailConfirmed = true
            account.createdAt = clock.now.wall
            account.identities = [IdentityKey(IdentitySource(stored: PretendIssuer.name), stored: words[2])]
            _ = try await administration.create(account)
        case "revoke": _ = try await administration.revoke(try user(words[1]))
        case "tier":
            let until = words.count > 3 ? Int64(words[3]).map { WallTime(seconds: Int64(now) + $0) } : nil
            _ = try await administration.setTier(words[2] == "free" ? nil : words[2], until: until, of: try user(words[1]))
        case "grant": try await administration.grant(ActorName(type: words[2], id: words[3]), to: try user(words[1]))
        case "ban":
            let until = words.count > 2 ? Int64(words[2]).map { WallTime(seconds: Int64(now) + $0) } : nil
            _ = try await administration.ban(try user(words[1]), until: until, reason: "fraud")
        case "unban": _ = try await administration.unban(try user(words[1]))
        case "delete": try await administration.delete(try user(words[1]))
        case "store" where words[1] == "away": store.fail(Array(repeating: .unavailable("away"), count: 1_000))
        case "store": try await comeBack()
        case "keys": providers.keysAreAway = words[1] == "away"
        case "world" where words[1] == "no-providers": providers.areOff = true
        case "world" where words[1] == "grace":
            services.life?.leaving = Leaving(context: context, rule: DeletionRule(graceSeconds: 14 * 86_400))
        case "world" where words[1] == "provider": providers.other = Provider(rawValue: words[2])
        case "world" where words[1] == "require-confirmed-email":
            services.mustConfirmEmail = true
        default: throw StoryFault("\(words) mean nothing")
        }
    }
}

// MARK: -

extension ContractWorld {
    /// A token of the gateway's own key without a session, as the command line mints them.
    func minted(_ subject: String, _ change: (inout TokenClaims) -> Void) throws -> String {
        try key.issue(claims(subject, change))
    }

    /// The same, signed with a foreign key.
    func forged(_ subject: String, _ change: (inout TokenClaims) -> Void) throws -> String {
        try SigningKey.generate(.ES256).issue(claims(subject, change))
    }

    private func claims(_ subject: String, _ change: (inout TokenClaims) -> Void) -> TokenClaims {
        var claims = TokenClaims(
            issuer: Self.issuer, audience: "tollgate", subject: subject, issuedAt: Int64(now), expiresAt: Int64(now) + 600)
        change(&claims)
        return claims
    }

    private func decide(_ bytes: [UInt8]) {
        admission.decide(head, bytes.rawBytes, peer: Self.client, at: clock.now, limiter: counts, &decision)
    }

    private func request(_ bytes: [UInt8], _ body: [UInt8]) -> LocalRequest {
        let span = bytes.rawBytes
        let (user, session) = (decision.userID.text, decision.sessionID.text)
        let account = decision.account
        let caller = decision.identity.map { identity in
            let outside = account.flatMap { account in
                identity.outside.map { OutsideCaller(account: account, tokenID: $0.tokenID, expiresAt: identity.expiresAt) }
            }
            return LocalCaller(
                userID: user, sessionID: session, isOwn: identity.isOwn, contract: identity.contractNumber, outside: outside)
        }
        var fields: [(name: String, value: String)] = []
        for index in 0..<head.fields.count {
            fields.append((name: span[head.fields[index].name].text, value: span[head.fields[index].value].text))
        }
        return LocalRequest(
            method: span[head.methodText].text, target: span[head.target].text, path: span[head.path].text,
            query: span[head.query].text, fields: fields, body: body, client: decision.client.address, requestID: "r-1",
            caller: caller)
    }

    private func answer(_ refusal: Refusal) -> StoryAnswer {
        var body = ByteBuffer()
        var edits = FieldEdits()
        let envelope = admission.policy.envelopes[decision.dialect]
        envelope.writeBody(refusal, requestID: RawSpan(), into: &body)
        refusal.addFields(admission.policy, in: decision.dialect, to: &edits)
        var fields = [(name: "Content-Type", value: envelope.contentType.description)]
        edits.forEach { fields.append((name: $0.text, value: $1.text)) }
        return StoryAnswer(status: Int(refusal.status), fields: fields, body: body.readable.array)
    }

    private func known(_ user: TokenUser) async -> KnownSubject {
        let status: SubjectStatus
        do throws(AccountFailure) {
            status =
                switch try await directory.subject(IdentityKey(IdentitySource(stored: user.issuer ?? ""), stored: user.id)) {
                case .account(let id): .account(id)
                case .unknown: .unknown
                case .refused: .refused
                }
        } catch {
            status = .unavailable
        }
        return KnownSubject(user: user, status: status, learnedAt: clock.now.wall.seconds)
    }

    private func status(of user: String) async -> UserTier {
        let found: Account?
        do throws(AccountFailure) {
            found = if let id = Wire.UUID(parsing: user) { try await services.accounts.account(id) } else { nil }
        } catch {
            return UserTier(user: TokenUser(user), status: .unavailable(until: clock.now.wall.seconds + 1), version: -1)
        }
        guard let account = found else { return UserTier(user: TokenUser(user), status: .noAccount, version: -1) }
        return UserTier(user: TokenUser(user), status: .tier(.lowest, until: .max), version: account.entitlement.version)
    }

    private func confirm(_ sighting: TokenDelivery) async {
        guard let session = Wire.UUID(parsing: sighting.session), let token = sighting.token.withRawBytes({ AccessTokenID(parsing: $0) })
        else { return }
        do throws(AccountFailure) {
            try await services.sessions.confirm([ConfirmedPair(session: session, counter: token.counter)])
        } catch {
            // As in the gateway: a store that is away does not fail the request.
        }
    }

    private func user(_ text: String) throws -> Wire.UUID {
        guard let id = Wire.UUID(parsing: text) else { throw StoryFault("\(text) is no user") }
        return id
    }

    /// Uses up the store's scripted failures.
    private func comeBack() async throws {
        for _ in 0..<1_001 {
            do throws(StoreFault) {
                _ = try await store.account(Wire.UUID(high: 0, low: 0))
                return
            } catch {}
        }
        throw StoryFault("the store does not come back")
    }
}
