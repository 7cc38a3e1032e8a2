package import Credentials
package import HTTP
import Wire

/// What becomes of a request.
package enum Verdict: Equatable, Sendable {
    /// To the upstream of this number.
    case forward(upstream: Int)
    /// To an endpoint of the gateway itself.
    case local(UInt16)
    /// The user's tier must be learned first (`Decision.userID`); then the request is to be decided anew. Nothing was
    /// charged.
    case lookUp
    /// The token has expired and is to be refreshed first (`Admission.refreshOrder`); then the request is to be decided anew,
    /// with what came of it. Nothing was charged.
    case refresh
    case refuse(Refusal)
}

/// What a decision causes besides its verdict; whoever asked for the decision carries it out once.
package struct DecisionEffects: Equatable, Sendable {
    /// A token of the gateway's own was used that no earlier request on this worker had: its delivery is confirmed.
    package internal(set) var deliveredToken: TokenDelivery?
    /// The issuer whose keys should be fetched, by its index in the policy's trust: the token named a key that is not among
    /// them, or there never were any. The decision may be asked for again when they have come: nothing was charged.
    package internal(set) var keysWanted: Int?

    package init() {}
}

/// How the token was judged.
package enum TokenSource: UInt8, CaseIterable, Sendable {
    /// There was none, or it was not looked at.
    case none
    /// Remembered from an earlier request.
    case hit
    /// Verified, or refused, by its signature and claims.
    case miss
}

/// That a token of a session of the gateway's own came by: who issued it then knows that it has arrived.
package struct TokenDelivery: Equatable, Sendable {
    /// `sid`.
    package let session: String
    /// `jti`; empty if it has none.
    package let token: String

    package init(session: String, token: String) {
        self.session = session
        self.token = token
    }
}

/// Everything that Admission decided about one request, and what the driver, the log and `explain` need of it. One
/// value is reused for every request of a worker: `decide` overwrites it, and its memory stays.
package struct Decision: ~Copyable {
    private let pin = AddressPin()
    package internal(set) var verdict = Verdict.refuse(.notFound)
    /// Index of the rule; -1 if none took the request.
    package internal(set) var routeIndex = -1
    /// How a refusal is to look.
    package internal(set) var dialect = Dialect.problem
    package internal(set) var client = ClientAddress(address: IPAddress(high: 0, low: 0))

    /// Whether the upstream gets the path as the client sent it; otherwise `path`.
    package internal(set) var pathIsVerbatim = true
    var pathBytes = ByteBuffer(capacity: 256)
    /// Scratch: a path without its parameters.
    var bareBytes = ByteBuffer()

    package internal(set) var auth = AuthOutcome.notLooked
    package internal(set) var authReason = AuthReason.none
    package internal(set) var tokenSource = TokenSource.none
    /// Whether the client's `Authorization` goes on to the upstream.
    package internal(set) var forwardsAuthorization = false
    /// Whether the upstream is told of emails that are not proven too.
    var forwardsEmail = false
    /// Fields that the route lets through although they are removed by default.
    package internal(set) var keptFields: KeptFields = []
    /// Whether the trailers of the request go on to the upstream. Not where a limit reads a field: one of its name among them
    /// would be a second one to an upstream that merges trailers with the head.
    package internal(set) var passesTrailers = true
    /// The caller, once a token was accepted.
    package internal(set) var identity: Identity?
    /// The tier that counts; nil if nobody is known, or the accounts cannot be asked.
    package internal(set) var tier: Tier?
    /// Who says so, and since when.
    package internal(set) var tierOrigin = TierOrigin.none
    /// Of a session that has ended, when it did, in seconds since 1970; nil if that is not known.
    package internal(set) var sessionEndedAt: Int64?
    /// What the decision causes besides its verdict.
    package internal(set) var effects = DecisionEffects()
    /// Fields for the upstream: who calls, and what of the client's own fields goes no further.
    package internal(set) var requestEdits = FieldEdits()
    /// Fields for the client, whatever the answer: new tokens, limits.
    package internal(set) var answerEdits = FieldEdits()
    /// `kid` of the key that verified the token.
    var keyBytes = ByteBuffer()
    /// The algorithm that a token named which had to be verified.
    package internal(set) var verifiedAlgorithm: SigningAlgorithm?
    /// The internal caller that was matched, by index; -1 for none.
    package internal(set) var internalCaller = -1
    /// Whether an internal caller sent a refresh token along, and where in the head it stands; empty if it is unusable.
    package internal(set) var offersRefresh = false
    var refreshToken = Slice()
    /// Whose refresh the identity comes from.
    package internal(set) var refreshRole = RefreshRole.none
    /// The tokens that take the place of what the caller sent.
    package internal(set) var refreshed: RefreshedTokens?

    /// What would have been refused but for `shadow=`.
    package internal(set) var shadowed: ShadowSet = []
    package internal(set) var limit = LimitOutcome()
    /// What `admit` wants to be counted; empty if nothing is to be.
    package var charge = LimitCharge()
    /// What the count answered; means something once `Admission.charged` has taken it.
    package var limitVerdict = LimitVerdict()
    /// The limits' row in the sheet, and whether they only watch.
    var limitRow = 0
    var isLimitShadowed = false

    /// The names by which `removes` judges.
    @usableFromInline let reserved = ReservedNames.shared

    package init() {}

    mutating func reset(dialect: Dialect) {
        verdict = .refuse(.notFound)
        routeIndex = -1
        self.dialect = dialect
        pathIsVerbatim = true
        pathBytes.removeAll()
        auth = .notLooked
        authReason = .none
        tokenSource = .none
        forwardsAuthorization = false
        forwardsEmail = false
        keptFields = []
        passesTrailers = true
        identity = nil
        tier = nil
        tierOrigin = .none
        sessionEndedAt = nil
        effects = DecisionEffects()
        requestEdits.removeAll()
        answerEdits.removeAll()
        keyBytes.removeAll()
        verifiedAlgorithm = nil
        internalCaller = -1
        offersRefresh = false
        refreshToken = Slice()
        refreshRole = .none
        refreshed = nil
        shadowed = []
        limit = LimitOutcome()
        charge.removeAll()
    }

    /// The path for the upstream, where it is not verbatim: canonical, and without what the route strips.
    package var path: RawSpan { @_lifetime(borrow self) get { pathBytes.readable } }

    /// Empty if unknown.
    package var userID: RawSpan { @_lifetime(borrow self) get { requestEdits[identity?.userID ?? Slice()] } }
    /// Empty if unknown.
    package var sessionID: RawSpan { @_lifetime(borrow self) get { requestEdits[identity?.sessionID ?? Slice()] } }
    /// `kid` of the key that verified the token; empty if it has none.
    package var keyID: RawSpan { @_lifetime(borrow self) get { keyBytes.readable } }

    /// Whether a client's field of this name, which is no known `FieldName`, is kept from the upstream.
    @inlinable @inline(__always)
    package func removes(_ name: RawSpan) -> Bool { reserved.mayHold(name) && reserved.holds(name, except: keptFields) }

    package var refusal: Refusal? {
        if case .refuse(let refusal) = verdict { refusal } else { nil }
    }

    /// Forgets whom the token named.
    mutating func removeIdentity() {
        identity = nil
        requestEdits.removeAll()
        keyBytes.removeAll()
    }

    mutating func refuse(_ refusal: Refusal) { verdict = .refuse(refusal) }

    mutating func refuse(_ refusal: Refusal, _ outcome: AuthOutcome, _ reason: AuthReason) {
        verdict = .refuse(refusal)
        auth = outcome
        authReason = reason
    }
}

extension Admission {
    /// What the route of `decision` sets for carrying its request, where it sets anything.
    package func bodyLimit(_ decision: borrowing Decision) -> UInt64 { policy.gates[decision.routeIndex].bodyLimit }
    package func timeoutMilliseconds(_ decision: borrowing Decision) -> UInt64? {
        policy.gates[decision.routeIndex].timeoutMilliseconds
    }
    /// The filters of the answer, where the route has any.
    package func filter(_ decision: borrowing Decision) -> FilterPlan? { policy.filters[decision.routeIndex] }
    package func retries(_ decision: borrowing Decision) -> Int? { policy.gates[decision.routeIndex].retries }
}
