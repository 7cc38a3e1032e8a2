internal import Accounts
internal import Admin
internal import Cluster
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Proxy
internal import Settings
internal import Storage
internal import Synchronization
internal import Threads
internal import Transport
internal import Wire

/// The accounts of a running gateway, from the start of their store to its end, and the contracts in force over them.
final class AccountsRuntime: Part, Sendable {
    /// How long the start waits for the store, in milliseconds.
    private static let startMilliseconds: Int32 = 5_000

    private let assembly: AccountsAssembly
    let cluster: ClusterMember
    let confirmations: TokenConfirmations
    let merges: MergeConfirmations
    let uses: SessionUses
    let keyUses: APIKeyUses
    private let reconciliation: Reconciliation
    private let leavingRounds: LeavingRounds
    private let delivery: EventDelivery
    /// Replaced by a reload.
    private let contracts: Mutex<MountedContracts>
    /// Whether the store was opened: a gateway without accounts leaves it alone until a reload mounts some.
    private let isStarted = Mutex(false)
    private let noticeRounds = Rounds()
    let apps: AppBoard
    /// The adoptions of product lines that were begun: only the newest goes on.
    private let productAdoptions = Atomic<UInt64>(0)
    /// Before a store that is away is asked again, in milliseconds.
    private static let adoptionPause: UInt64 = 5_000

    /// Opens no database yet. Throws for a refresh secret that cannot be read.
    init(_ assembly: AccountsAssembly, _ configuration: GatewayConfiguration, apps: AppBoard) throws {
        self.assembly = assembly
        self.apps = apps
        cluster = assembly.cluster
        let contracts = try assembly.contracts(configuration)
        confirmations = TokenConfirmations(sessions: contracts.sessions)
        uses = SessionUses(sessions: contracts.sessions)
        keyUses = APIKeyUses(keys: AccountDirectory(context: assembly.context).apiKeys)
        let (health, context) = (assembly.health, assembly.context)
        merges = MergeConfirmations { from, account in
            // A failure has been logged: the next request of the user announces the merge again.
            do throws(AccountFailure) { try await context.mergeDone(from: from, to: account) } catch { return }
        }
        reconciliation = Reconciliation(context: assembly.context, stores: assembly.stores) { health.report($0) }
        leavingRounds = LeavingRounds(context: assembly.context) { [desk = assembly.appleDesk] in desk.inForce }
        delivery = EventDelivery(context: assembly.context) { health.report($0) }
        delivery.adopt(assembly.webhooks.subscribers(configuration.settings))
        self.contracts = Mutex(contracts)
        assembly.purchaseStores.adopt(contracts.stores)
        assembly.appleDesk.adopt(contracts.apple)
    }

    /// Opens the store and reads the ended sessions, once the configuration uses it. Blocks for 10 s at most. Throws if the store
    /// refuses; if it does not answer in time, the gateway starts degraded and the poller retries.
    func start(_ configuration: GatewayConfiguration) throws {
        guard configuration.settings.usesStore, !isStarted.withLock({ $0 }) else { return }
        let (store, cluster) = (assembly.store, cluster)
        let opening = try blocking(atMost: Self.startMilliseconds) { () async -> Result<Void, StoreFault> in
            do throws(StoreFault) { return .success(try await store.prepare()) } catch { return .failure(error) }
        }
        if case .failure(.failed(let reason))? = opening {
            throw StartFault(description: "the accounts cannot be opened: \(reason)")
        }
        try cluster.start()
        reconciliation.start()
        leavingRounds.start()
        delivery.start()
        startNotices()
        isStarted.withLock { $0 = true }
        adoptProducts()
        if case .success? = opening {
            // Twice the patience of a write: a long list of ended sessions may take its time.
            let isRead = try blocking { await cluster.applied() ? true : await cluster.applied() }
            if isRead == true { return }
        }
        guard case .failure(.unavailable(let reason))? = opening else {
            return assembly.health.storeUnavailable("the store did not answer at the start")
        }
        assembly.health.storeUnavailable(reason)
    }

    private struct StartFault: Error, CustomStringConvertible {
        let description: String
    }

    // MARK: live switches

    var switches: SwitchBoard { assembly.switches }

    /// Sets a live switch at every gateway of the store, or removes it with nil; `after` as in `SwitchRecords.set`.
    func set(
        _ name: String, to value: String?, until: WallTime? = nil, after version: Int64? = nil
    ) async throws(AccountFailure) -> SwitchOutcome {
        guard isStarted.withLock({ $0 }) else {
            return switches.setOwn(name, to: value, until: until, after: version, at: EventLoop.now().wall)
                ? .everywhere : .superseded
        }
        let directory = AccountDirectory(context: assembly.context)
        guard try await directory.set(name, to: value, until: until, after: version) != nil else { return .superseded }
        return await cluster.everywhere() ? .everywhere : .stored
    }

    /// Has the other gateways of the store remove these responses; returns once they have, or after a second.
    func announce(_ selector: CacheSelector) async throws(AccountFailure) {
        guard isStarted.withLock({ $0 }) else { return }
        let until = assembly.context.storeTime.advanced(seconds: CachePurges.keptSeconds)
        _ = try await set(CachePurges.newName(), to: String(decoding: selector.purge, as: UTF8.self), until: until)
    }

    // MARK: apps

    /// Adds the counts of apps to the store's, if there is one.
    func collectApps(at now: WallTime) async {
        guard isStarted.withLock({ $0 }) else { return await apps.collect(at: now, nil) }
        let directory = AccountDirectory(context: assembly.context)
        await apps.collect(at: now) { uses throws(AccountFailure) in try await directory.add(uses) }
    }

    /// The census of a week, with the counts of this gateway that the store does not have yet.
    func appUses(at now: WallTime) async throws(AccountFailure) -> [AppUse] {
        await collectApps(at: now)
        guard isStarted.withLock({ $0 }) else { return apps.uses }
        let stored = try await AccountDirectory(context: assembly.context).appUses(since: AppBoard.oldest(now))
        return stored + apps.uses
    }

    // MARK: service

    /// For tasks of this client that call the store.
    func executor(for client: IPAddress) -> any TaskExecutor { assembly.store.executor(for: client.limitPrefix) }

    func answer(_ endpoint: CatalogueEndpoint, _ request: LocalRequest) async -> LocalResponse {
        await endpoint.answer(request, contracts.withLock { $0 }.services)
    }

    /// `POST /oauth/token`.
    func token(_ request: LocalRequest) async -> LocalResponse { await contracts.withLock { $0 }.oauth.token(request) }

    /// `POST /oauth/revoke`.
    func revoke(_ request: LocalRequest) async -> LocalResponse { await contracts.withLock { $0 }.oauth.revoke(request) }

    /// `POST /oauth/introspect`.
    func introspect(_ request: LocalRequest) async -> LocalResponse { await contracts.withLock { $0 }.oauth.introspect(request) }

    /// Refreshes an expired token of an own session.
    func refresh(_ order: RefreshOrder) async -> TokenRefreshOutcome {
        guard let user = UUID(parsing: order.user), let session = UUID(parsing: order.session) else { return .refused }
        let sessions = contracts.withLock { $0 }.sessions
        do throws(AccountError<RefreshTokenRefusal>) {
            let caller = CallerSession(user: user, session: session)
            let granted = try await sessions.refresh(
                order.token.rawBytes.text, of: caller, caller: Caller(address: nil, device: nil))
            return .refreshed(RefreshedTokens(granted.grant))
        } catch {
            return TokenRefreshOutcome(error)
        }
    }

    /// `exp` of the newest access token of a session; nil if it has ended, or the store does not answer.
    func newestExpiry(of session: UUID) async -> Int64? {
        let sessions = contracts.withLock { $0 }.sessions
        do throws(AccountFailure) { return try await sessions.newestExpiry(of: session) } catch { return nil }
    }

    /// How long requests wait for news that this process may have missed, in milliseconds; then they are decided about as while the store
    /// is away.
    private static let catchUpMilliseconds: UInt64 = 1_000

    /// Reads what this process may have missed and calls `done` after it was posted to the workers, and once more when the time is over.
    func catchUp(_ news: MissedNews, _ done: @escaping @Sendable () -> Void) {
        guard isStarted.withLock({ $0 }) else { return done() }
        // The loop was busy, and not stopped: the change log was read meanwhile.
        if news == .changes, cluster.isCaughtUp(within: Self.catchUpMilliseconds) { return done() }
        // Unstructured, because the caller is an event loop: it ends when the time is over.
        Task {
            await pause(milliseconds: Self.catchUpMilliseconds)
            done()
        }
        switch news {
        case .changes:
            // Likewise: it ends with the reading, which has a time-out longer than the one above. Without readings it is over at once.
            Task {
                _ = await cluster.applied()
                done()
            }
        case .ownKeys: if let readings = assembly.keyReadings { readings.read(then: done) } else { done() }
        }
    }

    /// The commit opens the store if the next configuration is the first to use it; blocks as `start` does.
    func prepare(_ next: NextConfiguration) throws -> Commit {
        let configuration = next.configuration
        let mounted = try assembly.contracts(configuration)
        return Commit { [self] in
            try start(configuration)
        } apply: { [self] in
            assembly.limiter.adopt(AttemptRates(configuration))
            cluster.tiers.adopt(TierScale(configuration), IssuerTiers.all(configuration))
            contracts.withLock { $0 = mounted }
            assembly.purchaseStores.adopt(mounted.stores)
            assembly.appleDesk.adopt(mounted.apple)
            delivery.adopt(assembly.webhooks.subscribers(configuration.settings))
        } published: { [self] in
            // Tiers that were learned by the policy before are looked up again.
            cluster.tiers.adopt(TierScale(configuration), IssuerTiers.all(configuration))
            if isStarted.withLock({ $0 }) { adoptProducts() }
        }
    }

    /// Gives stored purchases the tiers of the product lines in force.
    private func adoptProducts() {
        guard let purchases = contracts.withLock({ $0 }).services.purchases else { return }
        let number = productAdoptions.add(1, ordering: .relaxed).newValue
        // Unstructured, because neither the start nor a reload waits for it: it ends once the store was there, or with the next reload.
        Task(executorPreference: assembly.store.executor()) { [self] in
            while productAdoptions.load(ordering: .relaxed) == number {
                do throws(AccountFailure) {
                    let adopted = try await purchases.adoptProducts(by: .store)
                    if adopted > 0 { assembly.health.log.info("product lines adopted", ("purchases", "\(adopted)")) }
                    return
                } catch {
                    await pause(milliseconds: Self.adoptionPause)
                }
            }
        }
    }

    /// Begins to send notices, until `stop`; without `TOLLGATE_NOTICES` there is nothing to do.
    private func startNotices() {
        noticeRounds.start(assembly.context.clock, on: assembly.store.executor()) { [self] _ in
            // A store that is away has been logged; the next look is soon.
            do throws(AccountFailure) { try await contracts.withLock { $0 }.notices?.sendDue() } catch {}
            return Notices.pauseMilliseconds
        }
    }

    /// How long the end waits until the others are told of it, in milliseconds.
    private static let leaveMilliseconds: Int32 = 1_000

    /// How long the end waits for Apple's answer to a request under way, in milliseconds.
    private static let appleMilliseconds: Int32 = 3_000

    /// Finishes what was begun, after the workers have ended; `sendingLast` tries the queued mails once more. Blocks for about 10 s at most,
    /// and for as long as `sendingLast` does.
    func stop(sendingLast: () -> Void) {
        productAdoptions.add(1, ordering: .relaxed)
        let cluster = cluster
        reconciliation.stop()
        leavingRounds.stop()
        noticeRounds.stop()
        cluster.stop()
        let notices = contracts.withLock { $0 }.notices
        let noticeRounds = noticeRounds
        // Otherwise they wait for it until its row is old.
        _ = try? blocking(atMost: Self.leaveMilliseconds) {
            await cluster.leave()
            await noticeRounds.ended()
        }
        sendingLast()
        // Otherwise what was sent just now would be sent again.
        _ = try? blocking(atMost: Self.leaveMilliseconds) {
            do throws(AccountFailure) { try await notices?.settle() } catch {}
        }
        assembly.tierClient.stop()
        assembly.purchaseStores.stop()
        let leavingRounds = leavingRounds
        // Otherwise Apple has taken the code of an exchange whose answer is lost.
        _ = try? blocking(atMost: Self.appleMilliseconds) { await leavingRounds.ended() }
        assembly.appleDesk.stop()
        let delivery = delivery
        delivery.cancel()
        assembly.webhooks.stop()
        // Otherwise its lease ends by itself.
        _ = try? blocking(atMost: Self.leaveMilliseconds) { await delivery.ended() }
        assembly.work.close()
        let store = assembly.store
        // Past the limit nothing is lost: what the store acknowledged is on disk.
        _ = try? blocking(atMost: 5_000) { await store.close() }
    }
}

extension RefreshedTokens {
    /// A refresh token that the caller already has is not sent again.
    init(_ grant: SessionGrant) {
        let rotates = grant.session.contract.sessionPolicy.refresh == .rotating
        self.init(
            access: Array(grant.tokens.access.utf8), refresh: rotates ? grant.tokens.refresh.map { Array($0.utf8) } : nil)
    }
}

extension TokenRefreshOutcome {
    /// Refused only where the token cannot be refreshed for certain; otherwise it may be tried again.
    init(_ error: AccountError<RefreshTokenRefusal>) {
        switch error {
        case .refused(.invalid), .refused(.expired), .refused(.unproven), .failed(.banned): self = .refused
        case .failed(.unavailable(let seconds)), .failed(.overloaded(let seconds)):
            self = .unavailable(retryAfterSeconds: UInt32(clamping: seconds))
        case .failed(.broken), .failed(.tooManyAttempts), .failed(.rejected): self = .unavailable(retryAfterSeconds: 1)
        }
    }
}
