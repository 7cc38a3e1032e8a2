import Accounts
import Credentials
import MemoryStore
import Storage
import Synchronization
import Threads
import Wire

/// A clock that moves only when a test advances it or a service pauses.
final class TestClock: Sendable {
    private let microseconds = Mutex<Int64>(1_700_000_000_000_000)

    var now: WallTime { WallTime(microseconds: microseconds.withLock { $0 }) }

    func advance(seconds: Int64) { microseconds.withLock { $0 += seconds * 1_000_000 } }

    var accountClock: AccountClock {
        AccountClock(
            now: { [self] in
                Moment(monotonic: MonotonicTime(nanoseconds: UInt64(now.microseconds) * 1_000), wall: now)
            }, pause: { [self] milliseconds in microseconds.withLock { $0 += Int64(milliseconds) * 1_000 } })
    }
}

/// Records messages and notices.
final class Recorder: NoticeCourier {
    private let store: MemoryStore
    private let messages = Mutex<[Message]>([])
    private let notes = Mutex<[AccountNotice]>([])
    private let settled = Mutex<Set<UUID>>([])

    init(_ store: MemoryStore) { self.store = store }

    func send(_ message: Message, for address: IPAddress?) { messages.withLock { $0.append(message) } }
    func settle(_ notice: UUID) { settled.withLock { _ = $0.insert(notice) } }
    var settledNotices: Set<UUID> { settled.withLock { $0 } }
    func forget(_ forgotten: Set<UUID>) { settled.withLock { $0.subtract(forgotten) } }
    func note(_ notice: AccountNotice) { notes.withLock { $0.append(notice) } }

    var sent: [Message] { messages.withLock { $0 } }
    /// Every session that the change log tells of.
    var ended: [EndedSession] { get async { await store.endings } }
    var notices: [AccountNotice] { notes.withLock { $0 } }

    /// The code that was sent last.
    var code: String {
        guard case .code(let code, _, _)? = sent.last?.content else { return "none was sent" }
        return code
    }

    /// The reset token that was sent last.
    var resetToken: String {
        guard case .passwordReset(let token, _)? = sent.last?.content else { return "none was sent" }
        return token
    }
}

/// Providers with keys of the test.
final class TestProviders: ProviderKeys {
    let key: SigningKey
    private let known = Mutex<[Provider: IDTokenRules]>([:])
    private let fetches = Mutex(0)
    /// The rules after the next refetch.
    private let next = Mutex<IDTokenRules?>(nil)

    init() {
        do { key = try SigningKey.generate(.ES256) } catch { fatalError(error.message) }
    }

    func rules(for provider: Provider) -> IDTokenRules? { known.withLock { $0[provider] } }
    var offered: [Provider] { known.withLock { Array($0.keys) } }

    func refetch(_ provider: Provider) async {
        fetches.withLock { $0 += 1 }
        if let rules = next.withLock({ $0 }) { known.withLock { $0[provider] = rules } }
    }

    var refetches: Int { fetches.withLock { $0 } }

    func offer(_ provider: Provider, keys: KeySet?) { known.withLock { $0[provider] = Self.rules(provider, keys) } }
    func bringNext(_ provider: Provider, keys: KeySet) { next.withLock { $0 = Self.rules(provider, keys) } }

    private static func rules(_ provider: Provider, _ keys: KeySet?) -> IDTokenRules {
        IDTokenRules(
            provider: provider.rawValue, issuers: ["https://\(provider.rawValue).test"], clientIDs: ["app"], keys: keys,
            unnamedNonce: .refused)
    }

    /// An ID token as the provider would issue it.
    func token(
        _ provider: Provider, subject: String, email: String? = nil, isVerified: Bool = true, at now: WallTime,
        authenticatedAt: WallTime? = nil, key: SigningKey? = nil
    ) throws -> String {
        var claims = TokenClaims(
            issuer: "https://\(provider.rawValue).test", audience: "app", subject: subject, issuedAt: now.seconds,
            expiresAt: now.seconds + 600)
        claims.email = email
        claims.authenticatedAt = authenticatedAt?.seconds
        _ = claims.add("email_verified", .boolean(isVerified))
        return try (key ?? self.key).issue(claims)
    }
}

/// The account services over a store in memory.
struct AccountsFixture {
    let store = MemoryStore()
    let clock = TestClock()
    let recorder: Recorder
    let limiter = StrictLimiter()
    let providers = TestProviders()
    let caller = Caller(address: IPAddress(parsing: "192.0.2.7"), device: "App/1.0")
    let mint: TokenMint
    let context: AccountContext
    let work: PasswordWork
    private let signingKey: SigningKey
    static let secret = [UInt8](repeating: 9, count: 32)

    init(
        queue: Int = 1_000, cost: Argon2Cost = Argon2Cost(kibibytes: 64, passes: 1, lanes: 1),
        policies: SessionPolicies = SessionPolicies(), notices: Set<NoticeTopic> = []
    ) throws {
        let key = try SigningKey.generate(.ES256)
        signingKey = key
        mint = TokenMint(
            issuer: "https://gate.test", audience: "tollgate", signingKey: { key },
            refreshKeys: RefreshTokenKeys(secret: Self.secret),
            refreshJWTs: try RefreshJWTs(secret: Self.secret, issuer: "https://gate.test"), policies: policies)
        let recorder = Recorder(store)
        self.recorder = recorder
        var context = AccountContext(store: store, clock: clock.accountClock, notice: { recorder.note($0) })
        context.policies = policies
        context.languages = ["en", "de"]
        context.notices = notices
        self.context = context
        // On a busy machine a password may wait for longer than a client would.
        guard let work = PasswordWork(threads: 2, queue: queue, cost: cost, patience: .seconds(3_600), start: WorkerThread.start) else {
            fatalError("the system gives no threads")
        }
        self.work = work
    }

    var sessions: Sessions { Sessions(context: context, mint: mint) }
    var passwords: PasswordAccounts { PasswordAccounts(context: context, mint: mint, work: work, limiter: limiter) }
    var codes: Codes { Codes(context: context, mint: mint, courier: recorder, limiter: limiter, secret: Self.secret) }
    var anonymous: AnonymousAccounts { AnonymousAccounts(context: context, mint: mint, limiter: limiter) }
    var administration: Administration { Administration(context: context, work: work, actor: .command) }
    var directory: AccountDirectory { AccountDirectory(context: context) }
    var provider: ProviderSignIn { ProviderSignIn(context: context, mint: mint, keys: providers, limiter: limiter) }
    var reset: PasswordReset {
        PasswordReset(context: context, mint: mint, work: work, courier: recorder, limiter: limiter, secret: Self.secret)
    }

    /// That of a gateway over the same store whose clock is so many seconds ahead, and which has read the store's.
    func skewedContext(ahead seconds: Int64) -> AccountContext {
        let right = clock.accountClock
        let wrong = AccountClock(
            now: { Moment(monotonic: right.now().monotonic, wall: right.now().wall.advanced(seconds: seconds)) }, pause: right.pause)
        let context = AccountContext(store: store, clock: wrong, notice: { _ in })
        context.storeClock.read(clock.now, from: wrong.now(), to: wrong.now())
        return context
    }

    /// Signs up with this email and `password123`.
    func signUp(_ email: String, contract: ContractID = .dlauth) async throws -> SignedIn {
        let registration = Registration(email: try EmailAddress(email), password: try Password("password123"))
        return try await passwords.signUp(registration, rules: .length, contract: contract, caller: caller)
    }

    func signIn(_ email: String, _ password: String, contract: ContractID = .dlauth) async throws -> SignedIn {
        try await passwords.signIn(
            .email(try EmailAddress(email)), try Password(password), contract: contract, caller: caller)
    }

    /// The verdict of the gateway's verifier on an access token; now, unless its clock shows another time.
    func verified(_ token: String, at now: WallTime? = nil) -> Result<VerifiedToken, TokenFault> {
        let own = TrustedIssuer(
            name: "own", issuer: "https://gate.test", audiences: ["tollgate"], algorithms: AlgorithmSet(.ES256),
            keys: KeySet([signingKey.verificationKey]), isOwn: true)
        var verifier = TokenVerifier()
        return token.withRawBytes { verifier.verify($0, trust: Trust(issuers: [own]), now: now ?? clock.now) }
    }
}

extension SignedIn {
    /// The session as its access token names it.
    var callerSession: CallerSession {
        CallerSession(user: account.id, session: grant?.session.id ?? UUID(high: 0, low: 0))
    }
}

extension Sessions.Granted {
    var callerSession: CallerSession { CallerSession(user: account.id, session: grant.session.id) }
}

/// The error of a call; nil if it succeeds.
func fault<Value>(_ body: () async throws -> Value) async -> (any Error)? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error
    }
}

/// Whether a call was refused for `reason`, or failed with it.
func == <Reason: Equatable & Sendable>(error: (any Error)?, reason: Reason) -> Bool {
    if case .refused(let found)? = error as? AccountError<Reason> { return found == reason }
    let failure = error as? AccountFailure ?? (error as? any AccountCallError)?.failure
    guard let found = failure as? Reason else { return false }
    return found == reason
}

private protocol AccountCallError { var failure: AccountFailure? { get } }

extension AccountError: AccountCallError {
    var failure: AccountFailure? {
        switch self {
        case .refused: nil
        case .failed(let failure): failure
        }
    }
}
