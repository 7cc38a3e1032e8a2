internal import Wire

/// Limits guesses at passwords, codes, reset tokens and ID tokens.
///
/// A guess is charged when it is admitted, and refunded when it was right or could not be judged. An account has three
/// allowances for wrong guesses, tried in this order, so that an attacker locks out only the addresses that guess:
///
/// 1. All addresses together: 30 at once and 180 an hour.
/// 2. Newcomers, addresses with fewer than two wrong guesses at this account in the last hour: 2 at once and 2 an hour
///    each, 20 and 60 together.
/// 3. Familiar addresses, from which the account was signed in before: 5 at once and 10 an hour each. Only this step reads
///    the address history from the store, at most as often as the address may guess at the account.
///
/// One address that attacks an account can exhaust the first allowance alone; the owner then gets in by the second from any
/// other address. Many attacking addresses can exhaust the second too; the owner then gets in by the third from an address
/// used before. Strangers therefore get at most 50 wrong guesses at an account at once and 240 an hour, and one address at
/// most 150 and 1,800 an hour over all accounts. A wrong guess by the first allowance is marked in the second only after it
/// was judged, so one address may have 32 in flight at once.
struct Guesses: Sendable {
    /// An admitted guess.
    private struct Guess {
        let charges: [AttemptCharge]
        /// Charged as well if the guess is wrong.
        var mark: AttemptBucket?
    }

    private let context: AccountContext
    private let limiter: any AttemptLimiter

    init(context: AccountContext, limiter: any AttemptLimiter) {
        self.context = context
        self.limiter = limiter
    }

    /// Runs `guess`, which returns nil if the guess was wrong, and returns its answer. `target` is nil for a guess at no
    /// particular account. Throws if the guess may not be made, and if `guess` throws: then it was not judged.
    func judge<Value: Sendable>(
        at target: GuessTarget?, from address: IPAddress?, _ guess: () async throws(AccountFailure) -> Value?
    ) async throws(AccountFailure) -> Value? {
        do throws(AccountError<Wrong>) {
            return try await judge(at: target, from: address) { () throws(AccountError<Wrong>) in
                guard let answer = try await AccountError<Wrong>.failing(try await guess()) else { throw .refused(Wrong()) }
                return answer
            }
        } catch {
            guard case .failed(let failure) = error else { return nil }
            throw failure
        }
    }

    private struct Wrong: Equatable {}

    /// The same for a guess that throws its refusal if it was wrong.
    func judge<Value: Sendable, Refusal>(
        at target: GuessTarget? = nil, from address: IPAddress?, _ guess: () async throws(AccountError<Refusal>) -> Value
    ) async throws(AccountError<Refusal>) -> Value {
        let admitted = try await AccountError<Refusal>.failing(try await admit(target, address))
        do throws(AccountError<Refusal>) {
            let answer = try await guess()
            limiter.refund(admitted.charges)
            return answer
        } catch {
            if case .failed = error {
                limiter.refund(admitted.charges)
            } else if let mark = admitted.mark {
                await limiter.mark(mark)
            }
            throw error
        }
    }

    /// The one name by which guesses at an account count, whatever it is called: no username and no phone gives a second allowance. The
    /// address must have a guess left for the look-up.
    private func counted(_ target: GuessTarget, _ address: IPAddress?) async throws(AccountFailure) -> GuessTarget {
        if case .email = target { return target }
        let charges = try await charge(address.bucket(.addressFailures))
        defer { limiter.refund(charges) }
        return try await context.ask(await context.store.guessTarget(target))
    }

    private func admit(_ target: GuessTarget?, _ address: IPAddress?) async throws(AccountFailure) -> Guess {
        let own = address.bucket(.addressFailures)
        guard let named = target else { return Guess(charges: try await charge(own)) }
        let target = try await counted(named, address)
        let newcomer = address.map { AttemptBucket(.newcomerFailures, $0, at: target.key) }
        let refusals: [AttemptRefusal]
        switch await limiter.charge([AttemptBucket(.accountFailures, target.key)] + own) {
        case .admitted(let charges): return Guess(charges: charges, mark: newcomer)
        case .refused(let found): refusals = found
        }
        guard let address, let newcomer, !refusals.areOfTheAddress else { throw refusals.failure }

        let further: [AttemptRefusal]
        switch await limiter.charge([AttemptBucket(.accountNewcomers, target.key), newcomer] + own) {
        case .admitted(let charges): return Guess(charges: charges)
        case .refused(let found): further = found
        }
        guard !further.areOfTheAddress else { throw further.failure }
        if let guess = try await admitFamiliar(target, address, own) { return guess }
        throw .tooManyAttempts(retryAfterSeconds: min(refusals.longest, further.longest))
    }

    private func admitFamiliar(
        _ target: GuessTarget, _ address: IPAddress, _ own: [AttemptBucket]
    ) async throws(AccountFailure) -> Guess? {
        let verdict = await limiter.charge([AttemptBucket(.familiarFailures, address, at: target.key)] + own)
        guard case .admitted(let charges) = verdict else { return nil }
        let events: [AuditEvent]
        do throws(AccountFailure) {
            events = try await context.ask(await context.store.signIns(of: target, limit: AddressHistory.depth))
        } catch {
            limiter.refund(charges)
            throw error
        }
        if AddressHistory.knows(address, events) { return Guess(charges: charges) }
        // The charge of the familiar bucket stays: it bounds how often the store is asked.
        limiter.refund(charges.filter { $0.bucket.kind == .addressFailures })
        return nil
    }

    private func charge(_ buckets: [AttemptBucket]) async throws(AccountFailure) -> [AttemptCharge] {
        switch await limiter.charge(buckets) {
        case .admitted(let charges): return charges
        case .refused(let refusals): throw refusals.failure
        }
    }
}

extension [AttemptRefusal] {
    /// Whether the address has used up its guesses over all accounts.
    fileprivate var areOfTheAddress: Bool { contains { $0.kind == .addressFailures } }

    fileprivate var failure: AccountFailure { .tooManyAttempts(retryAfterSeconds: longest) }
}
