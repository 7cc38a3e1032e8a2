package import Credentials
package import Wire

/// The dependencies of every account service: store, clock, random bytes and the log.
package struct AccountContext: Sendable {
    package let store: any AccountStore
    package let clock: AccountClock
    package let storeClock = StoreClock()
    package let random: RandomBytes
    /// Called on any thread; must not block.
    package let notice: @Sendable (AccountNotice) -> Void
    /// The lifetimes of new sessions.
    package var policies = SessionPolicies()
    package var sessionBound = SessionBound.none
    package var signUpHook: SignUpHook?
    /// The languages in which mails are written, as tags in lower case.
    package var languages: Set<String> = []
    /// `TOLLGATE_NOTICES`.
    package var notices: Set<NoticeTopic> = []
    package var contactAge: Int64?
    /// Those that the mounted contracts and `TOLLGATE_PASSKEY` offer.
    package var ways = SignInWays(passwords: true, emails: true, phones: true)
    /// Whether accounts may have a second factor (`TOLLGATE_FACTOR`).
    package var offersFactor = false
    /// Where tasks run that call the store; nil: on the threads of all tasks.
    package let executor: (any TaskExecutor)?

    package init(
        store: any AccountStore, clock: AccountClock, executor: (any TaskExecutor)? = nil,
        random: @escaping RandomBytes = SecureRandom.bytes, notice: @escaping @Sendable (AccountNotice) -> Void
    ) {
        self.store = store
        self.clock = clock
        self.executor = executor
        self.random = random
        self.notice = notice
    }
}

/// The clocks, and how a task sleeps.
package struct AccountClock: Sendable {
    package let now: @Sendable () -> Moment
    /// Suspends the calling task for this many milliseconds.
    package let pause: @Sendable (_ milliseconds: UInt64) async -> Void

    package init(
        now: @escaping @Sendable () -> Moment, pause: @escaping @Sendable (_ milliseconds: UInt64) async -> Void
    ) {
        self.now = now
        self.pause = pause
    }
}

/// The client behind a call.
package struct Caller: Sendable {
    /// The client's address, as trusted proxies report it.
    package let address: IPAddress?
    /// Its `User-Agent`.
    package let device: String?
    /// Its `X-Device-Name`.
    package var deviceName: String?
    /// Its `Accept-Language`.
    package var languages: String?
    /// The key of its device, of which the request had a valid proof.
    package var deviceKey: KeyThumbprint?
    /// Whether the request had a proof that could not be judged, for want of a nonce or of room.
    package var hasUnjudgedProof = false

    package init(address: IPAddress?, device: String?, deviceName: String? = nil, languages: String? = nil) {
        self.address = address
        self.device = device
        self.deviceName = deviceName
        self.languages = languages
    }
}

/// The session that a request's access token names.
package struct CallerSession: Sendable, Equatable {
    package let user: UUID
    package let session: UUID

    package init(user: UUID, session: UUID) {
        self.user = user
        self.session = session
    }
}

extension AccountContext {
    /// Removes expired sessions, codes, reset tokens and announcements of merges from the store; `stride` as in `OperatorRecords.sweep`.
    package func sweep(stride: Int64) async throws(AccountFailure) {
        for merge in try await ask(await store.sweep(now: clock.now().wall, stride: stride)) {
            notice(.mergeUntaken(from: merge.from, into: merge.into))
        }
    }

    /// The time by which the rows of the store are judged and stamped. Tokens bear the gateway's own, by which it checks them.
    package var storeTime: WallTime { storeClock.time(at: clock.now()) }

    /// Microseconds by which the gateway's clock is ahead of the store's; 0 where they are the same, or that one was not read yet.
    var storeSkew: Int64 { storeClock.skew(at: clock.now()) ?? 0 }

    func audit(_ caller: Caller) -> AuditContext {
        var audit = AuditContext(now: storeTime, address: caller.address)
        audit.notices = notices
        if let contactAge { audit.contactAge = contactAge }
        return audit
    }

    func audit(by actor: AuditActor) -> AuditContext { AuditContext(now: storeTime, address: nil, actor: actor) }

    /// A UUID that sorts by creation time.
    func newID(_ now: WallTime) -> UUID {
        let bytes = random(16)
        return UUID(at: now, random: (bytes.rawBytes.load64(0), bytes.rawBytes.load64(8)))
    }

    func newSession(_ contract: ContractID, _ caller: Caller?, _ now: WallTime) -> NewSession {
        var session = NewSession(
            id: newID(now), contract: contract, device: caller?.device.flatMap(PlainText.label), address: caller?.address,
            idleSeconds: policies[contract].idleSeconds)
        session.accessSeconds = policies[contract].accessSeconds
        session.bound = sessionBound
        session.deviceKey = policies[contract].deviceKey == .off ? nil : caller?.deviceKey
        session.deviceName = caller?.deviceName.flatMap(PlainText.deviceName)
        session.language = caller?.languages.flatMap { PreferredLanguages($0).best(of: languages) }
        return session
    }
}

// MARK: - failures

extension AccountContext {
    /// Calls the store. Its faults are logged, and thrown as failures.
    func ask<Value: Sendable>(
        _ question: @autoclosure () async throws(StoreFault) -> Value
    ) async throws(AccountFailure) -> Value {
        do throws(StoreFault) {
            return try await question()
        } catch {
            throw failure(error)
        }
    }

    /// Calls the store, and again for up to `milliseconds` while it is unavailable.
    func ask<Value: Sendable>(
        retryingFor milliseconds: UInt64, _ question: @autoclosure () async throws(StoreFault) -> Value
    ) async throws(AccountFailure) -> Value {
        let deadline = clock.now().monotonic.advanced(milliseconds: milliseconds)
        var pause: UInt64 = 50
        while true {
            do throws(StoreFault) {
                return try await question()
            } catch {
                let next = clock.now().monotonic.advanced(milliseconds: pause)
                guard case .unavailable = error, next < deadline else { throw failure(error) }
            }
            await clock.pause(pause)
            pause *= 2
        }
    }

    /// Calls the store for what it may refuse.
    func settle<Value: Sendable, Refusal>(
        _ question: @autoclosure () async throws(StoreFault) -> Result<Value, Refusal>
    ) async throws(AccountError<Refusal>) -> Value {
        try await AccountError<Refusal>.failing(try await ask(try await question())).mapError { AccountError.refused($0) }.get()
    }

    private func failure(_ fault: StoreFault) -> AccountFailure {
        switch fault {
        case .unavailable(let reason):
            notice(.storeAway(reason))
            return .unavailable(retryAfterSeconds: 1)
        // The store is there.
        case .busy: return .unavailable(retryAfterSeconds: 1)
        case .failed(let reason):
            notice(.storeFailed(reason))
            return .broken
        case .banned(let ban): return .banned(ban)
        }
    }

    /// The value of `body`. Throws `refusal` if it is nil, and a failure of `body` as `failed`.
    func value<Value: Sendable, Refusal>(
        orRefuse refusal: Refusal, _ body: () async throws(AccountFailure) -> Value?
    ) async throws(AccountError<Refusal>) -> Value {
        guard let value = try await AccountError<Refusal>.failing(try await body()) else { throw .refused(refusal) }
        return value
    }

    /// The store's answer. Throws `refusal` if it is nil.
    func ask<Value: Sendable, Refusal>(
        orRefuse refusal: Refusal, _ question: @autoclosure () async throws(StoreFault) -> Value?
    ) async throws(AccountError<Refusal>) -> Value {
        try await value(orRefuse: refusal) { () throws(AccountFailure) in try await ask(try await question()) }
    }

    /// Signs a token; slowly, away from the store's threads, where others would wait. A fault of the key is logged, and thrown as `broken`.
    func signing<Value>(by mint: TokenMint, _ token: @autoclosure () throws(KeyFault) -> Value) async throws(AccountFailure) -> Value {
        do throws(KeyFault) {
            let threads: (any TaskExecutor)? = mint.signsSlowly ? globalConcurrentExecutor : nil
            return try await withTaskExecutorPreference(threads) { () async throws(KeyFault) in try token() }
        } catch {
            notice(.cannotSign(error.message))
            throw .broken
        }
    }

    /// The account of `signIn` with the tokens of its session. A missing session is a bug of the store.
    func granted(_ signIn: SignIn, _ mint: TokenMint) async throws(AccountFailure) -> Sessions.Granted {
        guard let session = signIn.session else {
            notice(.storeFailed("a session that was asked for is missing"))
            throw .broken
        }
        let tokens = try await signing(by: mint, try mint.pair(session, signIn.account, now: clock.now().wall, storeSkew: storeSkew))
        return .init(account: signIn.account, grant: SessionGrant(session: session, tokens: tokens))
    }
}
