package import Wire

/// A counter of attempts: its kind and the account, address or recipient that it counts.
package struct AttemptBucket: Sendable, Hashable {
    /// Each kind has its own buckets and its own rate.
    package enum Kind: String, CaseIterable, Sendable {
        /// Wrong passwords and codes for one account, known or not.
        case accountFailures = "account-failures"
        /// The same from newcomers, while `accountFailures` is full (see `Guesses`).
        case accountNewcomers = "account-newcomers"
        /// Wrong guesses at one account from one address; when full, the address is no newcomer to that account.
        case newcomerFailures = "newcomer-failures"
        /// Guesses at one account from one address from which it was signed in before.
        case familiarFailures = "familiar-failures"
        /// Wrong passwords, codes and reset tokens, and refused ID tokens and notifications of Apple, from one address.
        case addressFailures = "address-failures"
        /// Refresh tokens of outside issuers from one address that no issuer judged.
        case addressUnjudged = "address-unjudged"
        /// Tokens sent to be revoked from one address that were none.
        case addressRevocations = "address-revocations"
        /// Claims of purchases and notifications of stores from one address that were not authentic.
        case addressPurchases = "address-purchases"
        /// Claims of purchases by one account that changed nothing. Each asks its store, and has the store's purchases locked.
        case accountPurchases = "account-purchases"
        /// Merges of guests into one account.
        case accountMerges = "account-merges"
        /// Changes of attributes and identities of one account by its user, and exports. Each change stays in the audit log, and an export
        /// reads all of that.
        case accountChanges = "account-changes"
        /// Codes and reset tokens sent to one recipient.
        case recipientMessages = "recipient-messages"
        /// Codes and reset tokens requested from one address.
        case addressMessages = "address-messages"
        /// All messages by SMS.
        case smsBudget = "sms-budget"
        /// Sign-ins of one identity by ID token, and of one account by passkeys. Nothing slows them down as hashing does those by
        /// password, and one token opens as many sessions as its holder likes.
        case identitySignIns = "identity-sign-ins"
        /// Accounts created from one address, over all contracts.
        case addressOpenings = "address-openings"
        /// Password changes of one account by its own sessions. Each drops the codes and reset tokens sent to its email.
        case passwordChanges = "password-changes"
        /// Wrong codes of the second factor from one session, and of authenticator apps for one account: a thief of a session leaves some
        /// to the owner's.
        case sessionFactors = "session-factors"
        case accountFactors = "account-factors"
        /// Wrong admin tokens from one address.
        case adminFailures = "admin-failures"
        /// Proofs of device keys from one address that did not hold.
        case addressProofs = "address-proofs"
        /// Uses of one proof of a device key.
        case deviceProofs = "device-proofs"
        /// Proofs from one address that held, and beyond them those of one session or user: many of them would drive other proofs out of the
        /// table of those that were used.
        case addressUsedProofs = "address-used-proofs"
        case holderUsedProofs = "holder-used-proofs"
    }

    package let kind: Kind
    /// The key of the account's name or of the recipient, or the address (IPv6 by its /64). Personal data: hash it before it
    /// is stored.
    package let subject: String

    package init(_ kind: Kind, _ subject: String) {
        self.kind = kind
        self.subject = subject
    }

    /// Sign-ins by the passkeys of an account, of which its user may make many.
    package init(signInBy passkey: Passkey) { self.init(.identitySignIns, "passkeys of \(passkey.user.text)") }

    package init(_ kind: Kind, _ address: IPAddress) { self.init(kind, address.limitPrefix.text) }

    /// A bucket for guesses at the account of this name from one address.
    init(_ kind: Kind, _ address: IPAddress, at name: String) { self.init(kind, "\(address.limitPrefix.text) \(name)") }

    package static let smsBudget = AttemptBucket(.smsBudget, "")
}

/// A rate of attempts: `burst` at once, refilled by `count` in each window.
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

/// The rates of all buckets. Those of new accounts and SMS are settings, the others are fixed.
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
        case .addressUnjudged: AttemptRate(burst: 150, perHour: 1_800)
        case .addressRevocations: AttemptRate(burst: 150, perHour: 1_800)
        case .addressPurchases: AttemptRate(burst: 150, perHour: 1_800)
        case .addressProofs: AttemptRate(burst: 150, perHour: 1_800)
        case .accountPurchases: AttemptRate(burst: 100, perHour: 600)
        case .accountMerges: AttemptRate(burst: 20, perHour: 60)
        case .accountChanges: AttemptRate(burst: 60, perHour: 120)
        case .recipientMessages: AttemptRate(burst: 6, perHour: 12)
        case .addressMessages: AttemptRate(burst: 100, perHour: 1_800)
        case .identitySignIns: AttemptRate(burst: 1_000, perHour: 120)
        case .smsBudget: sms
        case .addressOpenings: openings
        case .passwordChanges: AttemptRate(burst: 10, perHour: 20)
        case .adminFailures: AttemptRate(burst: 20, perHour: 60)
        case .sessionFactors: AttemptRate(burst: 5, perHour: 10)
        case .accountFactors: AttemptRate(burst: 15, perHour: 30)
        // A proof counts for 60 s and may be 60 s from the future; the rest is for clocks of other gateways.
        case .deviceProofs: AttemptRate(count: 1, windowSeconds: 180, burst: 1)
        // A tenth of the table in the time that a proof counts.
        case .addressUsedProofs: AttemptRate(burst: 6_000, perHour: 360_000)
        case .holderUsedProofs: AttemptRate(burst: 10, perHour: 120)
        }
    }
}

/// One attempt charged to a bucket, with the data to refund it exactly.
package struct AttemptCharge: Sendable, Equatable {
    package let bucket: AttemptBucket
    /// The rate at the time of the charge; a reload may have changed it since.
    package let rate: AttemptRate
    package let at: MonotonicTime
    /// Redis's time of the charge in microseconds; nil if only this gateway counted it.
    package let sharedAt: UInt64?

    package init(_ bucket: AttemptBucket, _ rate: AttemptRate, at: MonotonicTime, sharedAt: UInt64?) {
        self.bucket = bucket
        self.rate = rate
        self.at = at
        self.sharedAt = sharedAt
    }
}

/// A full bucket, and the seconds until it has room, 1 or more.
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
    /// The attempt may be made, and was charged to every bucket.
    case admitted([AttemptCharge])
    /// The attempt may not be made, and was charged to no bucket. The full buckets, at least one.
    case refused([AttemptRefusal])
}

/// Limits attempts, with the algorithm of the route limits. An attempt is charged before it is made, so concurrent attempts
/// cannot exceed the limit.
package protocol AttemptLimiter: Sendable {
    /// Charges one to each of these buckets (at most four), or to none.
    func charge(_ buckets: [AttemptBucket]) async -> AttemptVerdict
    /// Charges one to a bucket after the attempt, if there is room.
    func mark(_ bucket: AttemptBucket) async
    /// Refunds charges. Each at most once.
    func refund(_ charges: [AttemptCharge])
}

/// The charges of one attempt, held until its outcome is known.
struct Attempts: Sendable {
    private let limiter: any AttemptLimiter
    private let charges: [AttemptCharge]

    /// Throws if one of the buckets has no room.
    init(_ limiter: any AttemptLimiter, _ buckets: [AttemptBucket]) async throws(AccountFailure) {
        self.limiter = limiter
        switch await limiter.charge(buckets) {
        case .admitted(let charges): self.charges = charges
        case .refused(let refusals): throw .tooManyAttempts(retryAfterSeconds: refusals.longest)
        }
    }

    /// An attempt without charges.
    init(uncharged limiter: any AttemptLimiter) {
        self.limiter = limiter
        charges = []
    }

    /// Makes the attempt. If it cannot be judged, because it throws, all charges are refunded.
    func make<Value: Sendable, Fault: Error>(_ attempt: () async throws(Fault) -> Value) async throws(Fault) -> Value {
        do throws(Fault) {
            return try await attempt()
        } catch {
            refund()
            throw error
        }
    }

    /// Refunds all charges.
    func refund() { limiter.refund(charges) }

    /// Refunds the charges of one kind.
    func refund(_ kind: AttemptBucket.Kind) { limiter.refund(charges.filter { $0.bucket.kind == kind }) }
}

extension [AttemptRefusal] {
    /// Whether one of these buckets is of this kind.
    package func contains(_ kind: AttemptBucket.Kind) -> Bool { contains { $0.kind == kind } }

    /// Seconds until all of these buckets have room.
    package var longest: Int { map(\.retryAfterSeconds).max() ?? 1 }
}

extension IPAddress? {
    /// The bucket of this kind; none without an address.
    func bucket(_ kind: AttemptBucket.Kind) -> [AttemptBucket] { map { [AttemptBucket(kind, $0)] } ?? [] }
}
