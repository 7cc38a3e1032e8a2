internal import Wire

/// Admits and counts guesses: at passwords, codes, reset tokens and ID tokens.
///
/// A guess is charged when it is admitted, and given back when it was right or never judged. An account has three
/// allowances for wrong ones, tried in this order, so that an attacker locks out only the addresses that guess:
///
/// 1. For everybody: 30 at once and 180 an hour.
/// 2. For newcomers, addresses with fewer than two wrong guesses at this account in the last hour: 2 at once and 2 an hour
///    for each of them, 20 and 60 for all together.
/// 3. For familiar addresses, from which the account was signed in before: 5 and 10 for each. Only this step asks the store
///    whether an address is one, and for each address and account no oftener than it may guess.
///
/// One address that attacks an account can use up the first allowance alone, and the owner is let in by the second from any
/// other; many together can use up the second, and the owner is let in by the third from where they signed in before. So
/// strangers get at most 50 wrong guesses at an account at once and 240 an hour in all, and one address at most 150 and
/// 1,800 over all accounts. A wrong guess by the first allowance is marked in the second when it has been judged: from one
/// address at once 32 may pass.
struct Guesses: Sendable {
    /// The outcome of a guess that was judged.
    enum Judgement<Value: Sendable>: Sendable {
        case right(Value)
        /// With what the caller is told.
        case wrong(AccountError)
    }

    /// An admitted guess.
    private struct Guess {
        let charges: [AttemptCharge]
        /// What a wrong guess is charged beside them.
        var mark: AttemptBucket?
    }

    private let base: AccountBase
    private let limiter: any AttemptLimiter

    init(base: AccountBase, limiter: any AttemptLimiter) {
        self.base = base
        self.limiter = limiter
    }

    /// Makes a guess at an account, nil if it is at none in particular, from an address, if that is known. Throws if it may
    /// not be made, if it was wrong, and if `guess` throws, for then it was not judged.
    func judge<Value: Sendable>(
        at target: GuessTarget?, from address: IPAddress?,
        _ guess: () async throws(AccountError) -> Judgement<Value>
    ) async throws(AccountError) -> Value {
        let admitted = try await admit(target, address)
        let judgement: Judgement<Value>
        do throws(AccountError) {
            judgement = try await guess()
        } catch {
            limiter.refund(admitted.charges)
            throw error
        }
        switch judgement {
        case .right(let value):
            limiter.refund(admitted.charges)
            return value
        case .wrong(let error):
            if let mark = admitted.mark { await limiter.mark(mark) }
            throw error
        }
    }

    private func admit(_ target: GuessTarget?, _ address: IPAddress?) async throws(AccountError) -> Guess {
        let own = address.bucket(.addressFailures)
        guard let target else { return Guess(charges: try await charge(own)) }
        let newcomer = address.map { AttemptBucket(.newcomerFailures, $0, at: target.key) }
        let refusals: [AttemptRefusal]
        switch await limiter.charge([AttemptBucket(.accountFailures, target.key)] + own) {
        case .admitted(let charges): return Guess(charges: charges, mark: newcomer)
        case .refused(let found): refusals = found
        }
        guard let address, let newcomer, !refusals.areOfTheAddress else { throw refusals.error }

        let further: [AttemptRefusal]
        switch await limiter.charge([AttemptBucket(.accountNewcomers, target.key), newcomer] + own) {
        case .admitted(let charges): return Guess(charges: charges)
        case .refused(let found): further = found
        }
        guard !further.areOfTheAddress else { throw further.error }
        if let guess = try await admitFamiliar(target, address, own) { return guess }
        throw .tooManyAttempts(retryAfterSeconds: min(refusals.longest, further.longest))
    }

    private func admitFamiliar(
        _ target: GuessTarget, _ address: IPAddress, _ own: [AttemptBucket]
    ) async throws(AccountError) -> Guess? {
        let verdict = await limiter.charge([AttemptBucket(.familiarFailures, address, at: target.key)] + own)
        guard case .admitted(let charges) = verdict else { return nil }
        let events: [AuditEvent]
        do throws(AccountError) {
            events = try await base.asking { () throws(StoreFault) in
                try await base.store.signIns(of: target, limit: AddressHistory.depth)
            }
        } catch {
            limiter.refund(charges)
            throw error
        }
        if AddressHistory.knows(address, events) { return Guess(charges: charges) }
        // Nothing was guessed, but the store was asked: that is what the other charge stays for.
        limiter.refund(charges.filter { $0.bucket.kind == .addressFailures })
        return nil
    }

    private func charge(_ buckets: [AttemptBucket]) async throws(AccountError) -> [AttemptCharge] {
        switch await limiter.charge(buckets) {
        case .admitted(let charges): return charges
        case .refused(let refusals): throw refusals.error
        }
    }
}

extension [AttemptRefusal] {
    /// Whether the address has guessed too often at whatever it was.
    fileprivate var areOfTheAddress: Bool { contains { $0.kind == .addressFailures } }

    fileprivate var error: AccountError { .tooManyAttempts(retryAfterSeconds: longest) }
}
