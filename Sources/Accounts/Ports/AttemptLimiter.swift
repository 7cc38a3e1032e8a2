package import Wire

/// What attempts are counted by.
package struct AttemptBucket: Sendable, Hashable {
    /// Each kind has buckets and a rate of its own.
    package enum Kind: String, CaseIterable, Sendable {
        /// Wrong passwords, codes and reset tokens for one account, known or not.
        case accountFailures = "account-failures"
        /// The same, and refused ID tokens, from one address.
        case addressFailures = "address-failures"
        /// Codes and reset tokens sent to one recipient.
        case recipientMessages = "recipient-messages"
        /// The same, asked for from one address.
        case addressMessages = "address-messages"
        /// Accounts opened without a proof of anything from one address.
        case addressOpenings = "address-openings"
        /// Wrong admin tokens from one address.
        case adminFailures = "admin-failures"

        /// What may pass at once, and how many more each hour.
        package var rate: (burst: UInt32, perHour: UInt32) {
            switch self {
            case .accountFailures: (30, 180)
            case .addressFailures: (150, 1_800)
            case .recipientMessages: (6, 12)
            case .addressMessages: (100, 1_800)
            case .addressOpenings: (100, 3_600)
            case .adminFailures: (20, 60)
            }
        }
    }

    package let kind: Kind
    /// The account's name or recipient's key, or the address; IPv6 by its /64. To be hashed before it is stored.
    package let subject: String

    package init(_ kind: Kind, _ subject: String) {
        self.kind = kind
        self.subject = subject
    }

    package init(_ kind: Kind, _ address: IPAddress) { self.init(kind, address.limitPrefix.text) }
}

/// Counts attempts; by the same means as the limits of routes.
package protocol AttemptLimiter: Sendable {
    /// Seconds until one more may pass, nil if it may now. Counts nothing.
    func wait(_ bucket: AttemptBucket) async -> Int?
    /// Counts one.
    func count(_ bucket: AttemptBucket) async
}

/// The buckets that one call is counted in.
struct Attempts: Sendable {
    let limiter: any AttemptLimiter
    let buckets: [AttemptBucket]

    /// For something that may fail: guesses at what guards `account` from `address`. Either may be unknown.
    init(_ limiter: any AttemptLimiter, guessesAt account: String?, from address: IPAddress?) {
        self.limiter = limiter
        buckets =
            (account.map { [AttemptBucket(.accountFailures, $0)] } ?? [])
            + (address.map { [AttemptBucket(.addressFailures, $0)] } ?? [])
    }

    /// For a message to somebody.
    init(_ limiter: any AttemptLimiter, messageTo recipient: Recipient, from address: IPAddress?) {
        self.limiter = limiter
        buckets =
            [AttemptBucket(.recipientMessages, recipient.key)]
            + (address.map { [AttemptBucket(.addressMessages, $0)] } ?? [])
    }

    /// For an account without a proof of anything.
    init(_ limiter: any AttemptLimiter, openingFrom address: IPAddress?) {
        self.limiter = limiter
        buckets = address.map { [AttemptBucket(.addressOpenings, $0)] } ?? []
    }

    /// Throws if one of the buckets has no room.
    func admit() async throws(AccountError) {
        var longest: Int?
        for bucket in buckets {
            if let wait = await limiter.wait(bucket) { longest = max(longest ?? 1, wait) }
        }
        if let longest { throw .tooManyAttempts(retryAfterSeconds: longest) }
    }

    func count() async {
        for bucket in buckets { await limiter.count(bucket) }
    }
}
