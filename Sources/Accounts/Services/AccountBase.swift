package import Credentials
package import Wire

/// What all of the account services stand on.
package struct AccountBase: Sendable {
    package let store: any AccountStore
    package let events: any AccountEvents
    package let clock: AccountClock
    package let random: RandomBytes
    /// Called from any thread; must not block.
    package let notice: @Sendable (AccountNotice) -> Void

    package init(
        store: any AccountStore, events: any AccountEvents, clock: AccountClock,
        random: @escaping RandomBytes = SecureRandom.bytes, notice: @escaping @Sendable (AccountNotice) -> Void
    ) {
        self.store = store
        self.events = events
        self.clock = clock
        self.random = random
        self.notice = notice
    }
}

/// The clocks, and how a task waits.
package struct AccountClock: Sendable {
    package let now: @Sendable () -> Moment
    /// Suspends the calling task for so many milliseconds.
    package let pause: @Sendable (_ milliseconds: UInt64) async -> Void

    package init(
        now: @escaping @Sendable () -> Moment, pause: @escaping @Sendable (_ milliseconds: UInt64) async -> Void
    ) {
        self.now = now
        self.pause = pause
    }
}

/// Who calls: what a contract knows of a request beside its body.
package struct Caller: Sendable {
    /// The client's, behind trusted proxies.
    package let address: IPAddress?
    /// Its `User-Agent`.
    package let device: String?

    package init(address: IPAddress?, device: String?) {
        self.address = address
        self.device = device
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

extension AccountBase {
    /// Drops from the store what is long over: sessions, codes and tokens of which nothing can come any more.
    package func sweep() async throws(AccountError) {
        try await asking { () throws(StoreFault) in try await store.sweep(now: clock.now().wall) }
    }

    func occasion(_ caller: Caller?) -> Occasion { Occasion(now: clock.now().wall, address: caller?.address) }

    /// An id that sorts by the time it was made.
    func newID(_ now: WallTime) -> UUID {
        let bytes = random(16)
        return UUID(at: now, random: (bytes.rawBytes.load64(0), bytes.rawBytes.load64(8)))
    }

    func newSession(_ contract: ContractID, _ caller: Caller?, _ now: WallTime) -> NewSession {
        NewSession(id: newID(now), contract: contract, device: caller?.device.flatMap(PlainText.label))
    }

    /// Asks the store, and turns its faults into errors that a contract can answer with.
    func asking<Value: Sendable>(
        _ question: () async throws(StoreFault) -> Value
    ) async throws(AccountError) -> Value {
        do throws(StoreFault) {
            return try await question()
        } catch {
            throw told(error)
        }
    }

    private func told(_ fault: StoreFault) -> AccountError {
        switch fault {
        case .unavailable(let reason):
            notice(.storeAway(reason))
            return .unavailable(retryAfterSeconds: 1)
        case .failed(let reason):
            notice(.storeFailed(reason))
            return .broken
        }
    }

    /// Asks the store again and again while it is away for a moment: for what must not fail without need.
    func asking<Value: Sendable>(
        patiently milliseconds: UInt64, _ question: () async throws(StoreFault) -> Value
    ) async throws(AccountError) -> Value {
        let deadline = clock.now().monotonic.advanced(milliseconds: milliseconds)
        var pause: UInt64 = 50
        while true {
            do throws(StoreFault) {
                return try await question()
            } catch {
                let next = clock.now().monotonic.advanced(milliseconds: pause)
                guard case .unavailable = error, next < deadline else { throw told(error) }
            }
            await clock.pause(pause)
            pause *= 2
        }
    }

    /// Tells the other gateways of sessions that ended.
    func tell(_ ended: [EndedSession]) async {
        if !ended.isEmpty { await events.ended(ended) }
    }
}
