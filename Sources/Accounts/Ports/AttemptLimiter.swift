package import Wire

/// What attempts are counted by.
package struct AttemptBucket: Sendable, Hashable {
    /// Each kind has buckets and a rate of its own.
    package enum Kind: String, CaseIterable, Sendable {
        /// Wrong passwords and codes for one account, known or not.
        case accountFailures = "account-failures"
        /// The same from newcomers, while `accountFailures` is full: see `Guesses`.
        case accountNewcomers = "account-newcomers"
        /// Wrong guesses at one account from one address, after which that is no newcomer there.
        case newcomerFailures = "newcomer-failures"
        /// Guesses at one account from one address that it was signed in from before.
        case familiarFailures = "familiar-failures"
        /// Wrong passwords, codes and reset tokens, and refused ID tokens, from one address.
        case addressFailures = "address-failures"
        /// Codes and reset tokens sent to one recipient.
        case recipientMessages = "recipient-messages"
        /// The same, asked for from one address.
        case addressMessages = "address-messages"
        /// Messages by SMS, all there are.
        case smsBudget = "sms-budget"
        /// Accounts opened from one address, whatever the contract.
        case addressOpenings = "address-openings"
        /// Passwords that one account is given by its own sessions: each kills the codes and reset tokens of its email.
        case passwordChanges = "password-changes"
        /// Wrong admin tokens from one address.
        case adminFailures = "admin-failures"
    }

    package let kind: Kind
    /// The account's name or recipient's key, or the address; IPv6 by its /64. To be hashed before it is stored.
    package let subject: String

    package init(_ kind: Kind, _ subject: String) {
        self.kind = kind
        self.subject = subject
    }

    package init(_ kind: Kind, _ address: IPAddress) { self.init(kind, address.limitPrefix.text) }

    /// Of guesses at the account of this name from one address.
    init(_ kind: Kind, _ address: IPAddress, at name: String) { self.init(kind, "\(address.limitPrefix.text) \(name)") }

    package static let smsBudget = AttemptBucket(.smsBudget, "")
}

/// A rate of attempts: `burst` at once, and `count` more in each window.
package struct AttemptRate: Sendable, Hashable {
    package let count: UInt32
    package let windowSeconds: UInt32
    package let burst: UInt32

    package init(count: UInt32, windowSeconds: UInt32, burst: UInt32) {
        self.count = count
        self.windowSeconds = windowSeconds
        self.burst = burst
    }

    fileprivate init(burst: UInt32, perHour: UInt32) { self.init(count: perHour, windowSeconds: 3_600, burst: burst) }
}

/// The rates of all buckets: what the operator sets, and what stands fast.
package struct AttemptRates: Sendable, Equatable {
    package var openings: AttemptRate
    package var sms: AttemptRate

    package init(openings: AttemptRate, sms: AttemptRate) {
        self.openings = openings
        self.sms = sms
    }

    package subscript(_ kind: AttemptBucket.Kind) -> AttemptRate {
        switch kind {
        case .accountFailures: AttemptRate(burst: 30, perHour: 180)
        case .accountNewcomers: AttemptRate(burst: 20, perHour: 60)
        case .newcomerFailures: AttemptRate(burst: 2, perHour: 2)
        case .familiarFailures: AttemptRate(burst: 5, perHour: 10)
        case .addressFailures: AttemptRate(burst: 150, perHour: 1_800)
        case .recipientMessages: AttemptRate(burst: 6, perHour: 12)
        case .addressMessages: AttemptRate(burst: 100, perHour: 1_800)
        case .smsBudget: sms
        case .addressOpenings: openings
        case .passwordChanges: AttemptRate(burst: 10, perHour: 20)
        case .adminFailures: AttemptRate(burst: 20, perHour: 60)
        }
    }
}

/// One that a bucket was charged, and all that is needed to give it back exactly.
package struct AttemptCharge: Sendable, Equatable {
    package let bucket: AttemptBucket
    /// By which it was counted: the operator may have set another since.
    package let rate: AttemptRate
    package let at: MonotonicTime
    /// When it was counted together with other gateways, in microseconds by the clock of what counts for them; nil where it
    /// was counted here alone.
    package let sharedAt: UInt64?

    package init(_ bucket: AttemptBucket, _ rate: AttemptRate, at: MonotonicTime, sharedAt: UInt64?) {
        self.bucket = bucket
        self.rate = rate
        self.at = at
        self.sharedAt = sharedAt
    }
}

/// A bucket without room, and the seconds until it has some, 1 or more.
package struct AttemptRefusal: Sendable, Equatable {
    package let kind: AttemptBucket.Kind
    package let retryAfterSeconds: Int

    package init(_ kind: AttemptBucket.Kind, retryAfterSeconds: Int) {
        self.kind = kind
        self.retryAfterSeconds = retryAfterSeconds
    }
}

/// The limiter's verdict on an attempt.
package enum AttemptVerdict: Sendable, Equatable {
    /// It may be made, and was charged on every bucket.
    case admitted([AttemptCharge])
    /// It may not, and was charged on none. At least one.
    case refused([AttemptRefusal])
}

/// Counts attempts; by the same means as the limits of routes. An attempt is charged before it is made, so that of many at
/// once no more pass than of many in a row.
package protocol AttemptLimiter: Sendable {
    /// Charges one on each of these buckets, at most four, or on none.
    func charge(_ buckets: [AttemptBucket]) async -> AttemptVerdict
    /// Charges one beside an attempt that was made, if there is room.
    func mark(_ bucket: AttemptBucket) async
    /// Gives back what turned out not to count. Each charge at most once.
    func refund(_ charges: [AttemptCharge])
}

/// The charges of one attempt, held until its outcome is known.
struct Attempts: Sendable {
    private let limiter: any AttemptLimiter
    private let charges: [AttemptCharge]

    /// Throws if one of the buckets has no room.
    init(_ limiter: any AttemptLimiter, _ buckets: [AttemptBucket]) async throws(AccountError) {
        self.limiter = limiter
        switch await limiter.charge(buckets) {
        case .admitted(let charges): self.charges = charges
        case .refused(let refusals): throw .tooManyAttempts(retryAfterSeconds: refusals.longest)
        }
    }

    /// An attempt that is charged nothing.
    init(uncharged limiter: any AttemptLimiter) {
        self.limiter = limiter
        charges = []
    }

    /// Makes the attempt. If that fails for another reason than what was tried, all is given back.
    func make<Value: Sendable>(
        _ attempt: () async throws(AccountError) -> Value
    ) async throws(AccountError) -> Value {
        do throws(AccountError) {
            return try await attempt()
        } catch {
            refund()
            throw error
        }
    }

    /// Gives everything back.
    func refund() { limiter.refund(charges) }

    /// Gives back what buckets of this kind were charged.
    func refund(_ kind: AttemptBucket.Kind) { limiter.refund(charges.filter { $0.bucket.kind == kind }) }
}

extension [AttemptRefusal] {
    /// Seconds until all of these buckets have room.
    var longest: Int { map(\.retryAfterSeconds).max() ?? 1 }
}

extension IPAddress? {
    /// The bucket of this kind, if there is an address to count by.
    func bucket(_ kind: AttemptBucket.Kind) -> [AttemptBucket] { map { [AttemptBucket(kind, $0)] } ?? [] }
}
