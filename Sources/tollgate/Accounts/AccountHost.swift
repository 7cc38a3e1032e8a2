internal import Accounts
internal import Admin
internal import CLinux
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Settings
internal import Storage
internal import Synchronization
internal import Transport
internal import Wire

/// The accounts of a running gateway: their store, the threads that hash passwords, and the contracts over them.
final class AccountHost: Sendable {
    /// Passwords that may wait to be hashed.
    private static let queuedPasswords = 512
    /// How long a start waits for the store.
    private static let patience: Int32 = 5_000

    private let control: ControlState
    private let store: SQLStore
    private let work: PasswordWork
    private let context: AccountContext
    private let courier: any Courier
    private let limiter: AttemptCounts
    private let keys: ProviderKeyRing
    private let memory: AccountMemory
    private let lookUps: UserLookUps
    private let sightings: TokenSightings
    private let directory: AccountDirectory
    private let changes: ChangeWatch
    /// Once the accounts were opened.
    private let bus = Mutex<ChangeBus?>(nil)
    private let sweep: AccountSweep
    private let router: Mutex<Router>
    private let sessions: Mutex<Sessions>
    /// Whether the store was opened: a gateway without accounts leaves it alone until they are mounted.
    private let isStarted = Mutex(false)

    init(
        _ configuration: GatewayConfiguration, control: ControlState, feed: KeySetRefresher, table: SharedLimiter, courier: any Courier
    ) throws {
        self.control = control
        self.courier = courier
        limiter = AttemptCounts(configuration, table: table, control: control)
        keys = ProviderKeyRing(control: control, feed: feed)
        let secret = try RefreshSecret.open(IssuersPlan(configuration))
        let touched = TouchedAccounts()
        let opened = try StoreLocation(configuration).open(start: WorkerThread.start, onChange: { touched.note($0) })
        guard let store = opened else { throw SystemFault("start a thread") }
        self.store = store
        // One core is left to requests: two threads on two cores tripled the 99th percentile of proxying, one does not.
        let threads = max(1, (configuration.workers ?? coreCount) - 1)
        guard let work = PasswordWork(threads: threads, queue: Self.queuedPasswords, start: Self.quietThread) else {
            throw SystemFault("start a thread")
        }
        self.work = work
        memory = AccountMemory(store: store)
        context = AccountContext(
            store: store, events: WorkerNews(control: control),
            clock: AccountClock(now: { EventLoop.now() }, pause: pause), notice: { control.tell($0) })
        directory = AccountDirectory(context: context)
        lookUps = UserLookUps(directory: directory, control: control)
        sweep = AccountSweep(context: context)
        let shared = SharedKeys(IssuersPlan(configuration))
        changes = try ChangeWatch(directory: directory, control: control, memory: memory, lookUps: lookUps) {
            guard let shared else { return }
            Self.readKeys(shared, store, feed, control)
        }
        let services = try Self.services(configuration, context, work, courier, self.limiter, keys, secret, memory, control)
        sightings = TokenSightings(sessions: services.sessions)
        sessions = Mutex(services.sessions)
        router = Mutex(Self.router(configuration, services, control))
        touched.follow { [memory, changes, weak self] accounts in
            for account in accounts { memory.forget(account) }
            changes.look()
            self?.bus.withLock { $0 }?.tell()
        }
    }

    /// Reads the keys again that gateways share.
    private static func readKeys(_ shared: SharedKeys, _ store: SQLStore, _ feed: KeySetRefresher, _ control: ControlState) {
        // Unstructured, because the watch has more to read: it ends with the store's answer.
        Task {
            do {
                if let ring = try await shared.ring(in: store) { feed.adopt(ring) }
            } catch {
                control.log.error("the shared signing keys cannot be read, those held stay in use", ("error", "\(error)"))
            }
        }
    }

    /// Opens the store and reads what ended before, once there are accounts; waits for it, but not for ever.
    func start(_ configuration: GatewayConfiguration) throws {
        guard configuration.hasAccounts, !isStarted.withLock({ $0 }) else { return }
        let (store, changes) = (store, changes)
        let outcome = try blocking(atMost: Self.patience) { () async -> Result<Bool, StoreFault> in
            do throws(StoreFault) {
                try await store.prepare()
                return .success(await changes.readAll())
            } catch {
                return .failure(error)
            }
        }
        switch outcome {
        case .success(true)?: break
        // Wrong for good: better told now than at the first sign-in.
        case .failure(.failed(let reason))?: throw StartFault(description: "the accounts cannot be opened: \(reason)")
        case .success(false)?, .failure(.unavailable)?, nil:
            control.accountsAway("the store did not answer at the start")
        }
        try changes.start()
        let started = try ChangeBus(configuration, try StoreLocation(configuration), control: control, watch: changes)
        bus.withLock { $0 = started }
        sweep.start()
        isStarted.withLock { $0 = true }
    }

    private struct StartFault: Error, CustomStringConvertible {
        let description: String
    }

    // MARK: service

    func answer(_ endpoint: UInt16, _ request: LocalRequest) async -> LocalResponse {
        await router.withLock { $0 }.answer(endpoint, request)
    }

    func lookUp(_ user: String) { lookUps.lookUp(user) }

    func saw(_ sighting: TokenDelivery) { sightings.saw(sighting) }

    /// Refreshes an expired token of a session here.
    func refresh(_ order: RefreshOrder) async -> TokenRefreshOutcome {
        guard let user = UUID(parsing: order.user), let session = UUID(parsing: order.session) else { return .refused }
        let sessions = sessions.withLock { $0 }
        do throws(AccountError<RefreshTokenRefusal>) {
            let caller = CallerSession(user: user, session: session)
            let granted = try await sessions.refresh(
                order.token.rawBytes.text, of: caller, caller: Caller(address: nil, device: nil))
            return .refreshed(RefreshedTokens(granted.grant))
        } catch {
            return TokenRefreshOutcome(error)
        }
    }

    /// Changes over to another configuration of the same store.
    func adopt(_ configuration: GatewayConfiguration) throws {
        let secret = try RefreshSecret.open(IssuersPlan(configuration))
        let services = try Self.services(configuration, context, work, courier, limiter, keys, secret, memory, control)
        try start(configuration)
        limiter.adopt(AttemptRates(configuration))
        let next = Self.router(configuration, services, control)
        router.withLock { $0 = next }
        sessions.withLock { $0 = services.sessions }
    }

    /// The configuration is in force: what was learned of users under the one before counts no longer.
    func adopted() { lookUps.forgetAll() }

    /// Finishes what was begun. Blocks.
    func stop() {
        bus.withLock { $0 }?.stop()
        changes.stop()
        sweep.stop()
        work.close()
        let store = store
        // Nothing is lost by not waiting: what the store acknowledged is on disk.
        _ = try? blocking(atMost: 5_000) { await store.close() }
    }

    var adminAPI: AdminAPI {
        let control = control
        return AdminAPI(
            token: { control.adminToken }, directory: directory, administration: Administration(context: context, work: work),
            limiter: limiter, refusals: { await control.refusals(of: $0, limit: $1) }, writeRoutes: { CheckCommand.writeRoutes(control.configuration, &$0) },
            plan: { AdminPlan(tiers: control.configuration.tiers, tierGraceSeconds: control.configuration.tierGraceSeconds) },
            now: { EventLoop.now().wall })
    }

    // MARK: parts

    private static func services(
        _ configuration: GatewayConfiguration, _ context: AccountContext, _ work: PasswordWork, _ courier: any Courier,
        _ limiter: AttemptCounts, _ keys: ProviderKeyRing, _ secret: [UInt8], _ memory: AccountMemory,
        _ control: ControlState
    ) throws(KeyFault) -> ContractServices {
        let mint = TokenMint(
            issuer: configuration.issuer, audience: configuration.audience, signingKey: { control.keys.ownRing.active },
            refreshKeys: RefreshTokenKeys(secret: secret),
            refreshJWTs: try RefreshJWTs(
                secret: secret, issuer: configuration.issuer, clockSkewSeconds: configuration.clockSkewSeconds))
        let rule = RefreshRule(graceSeconds: configuration.refreshGraceSeconds)
        return ContractServices(
            passwords: PasswordAccounts(context: context, mint: mint, work: work, limiter: limiter),
            resets: PasswordReset(context: context, mint: mint, work: work, courier: courier, limiter: limiter, secret: secret),
            codes: Codes(context: context, mint: mint, courier: courier, limiter: limiter, secret: secret),
            providers: ProviderSignIn(context: context, mint: mint, keys: keys, limiter: limiter),
            anonymous: AnonymousAccounts(context: context, mint: mint, limiter: limiter),
            sessions: Sessions(context: context, mint: mint, rule: rule), accounts: memory, tiers: configuration.tiers,
            tierGraceSeconds: configuration.tierGraceSeconds, mustConfirmEmail: configuration.mustConfirmEmail, clock: context.clock)
    }

    private static func router(
        _ configuration: GatewayConfiguration, _ services: ContractServices, _ control: ControlState
    ) -> Router {
        let page = WebPage(authBase: configuration.contracts.pageMount?.base ?? "")
        return Router(services, page: page)
    }

    /// A thread that gives way to those that serve requests: a queue of sign-ins must not slow them down.
    private static let quietThread: ThreadStart = { name, body in
        WorkerThread.start(name) {
            clinux_give_way(10, 20_000_000)
            body()
        }
    }
}

/// Tells of the accounts that this process changes, to whoever is there by then.
private final class TouchedAccounts: Sendable {
    private let follower = Mutex<ChangeNotice?>(nil)

    func follow(_ follower: @escaping ChangeNotice) { self.follower.withLock { $0 = follower } }

    func note(_ accounts: [UUID]) { follower.withLock { $0 }?(accounts) }
}

extension RefreshedTokens {
    /// A refresh token that the caller has already is not handed out again.
    init(_ grant: SessionGrant) {
        let rotates = grant.session.contract.sessionPolicy.refresh == .rotating
        self.init(
            access: Array(grant.tokens.access.utf8), refresh: rotates ? grant.tokens.refresh.map { Array($0.utf8) } : nil)
    }
}

extension TokenRefreshOutcome {
    init(_ error: AccountError<RefreshTokenRefusal>) {
        switch error {
        case .refused(.invalid), .refused(.expired): self = .refused
        case .failed(.unavailable(let seconds)), .failed(.overloaded(let seconds)):
            self = .unavailable(retryAfterSeconds: UInt32(clamping: seconds))
        case .failed(.broken), .failed(.tooManyAttempts): self = .unavailable(retryAfterSeconds: 1)
        }
    }
}
