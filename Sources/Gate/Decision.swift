package import Credentials
package import HTTP
package import Wire

/// Verdict of Admission.
package enum Verdict: Equatable, Sendable {
    /// Forward to the upstream with this index.
    case forward(upstream: Int)
    /// Answer at an endpoint of the gateway.
    case local(UInt16)
    /// Look up the user's tier (`Admission.tokenUser`), then decide again. Nothing was charged.
    case lookUp
    /// Refresh the expired token (`Admission.refreshOrder`), then decide again with the result. Nothing was charged.
    case refresh
    /// Answer at once with this status, the fields of `answerEdits` and no content.
    case answer(status: UInt16)
    case refuse(Refusal)
}

/// Side effects of a decision, which the caller of `admit` carries out once.
package struct DecisionEffects: Equatable, Sendable {
    /// Set when this worker sees an own token for the first time, which confirms its delivery, or for the first time in half a minute: its
    /// session is in use.
    package internal(set) var deliveredToken: TokenDelivery?
    /// The API key of the request, when this worker sees it for the first time in half a minute.
    package internal(set) var usedKey: UUID?
    /// Index in the policy's trust of the issuer whose keys should be fetched: the token's key is unknown, or there are
    /// none. After the fetch the request may be decided again; nothing was charged.
    package internal(set) var keysWanted: Int?
    /// With `.lookUp`: not the user's tier is asked for but the account of the subject (`Admission.asksSubject`).
    var asksSubject = false
    /// With `.lookUp`: the tier of the account is asked for that an outside identity stands for.
    var asksAccount = false

    package init() {}
}

/// Source of a token's verdict.
package enum TokenSource: UInt8, CaseIterable, Sendable {
    /// No token, or it was not checked.
    case none
    /// Token cache.
    case hit
    /// Verified by signature and claims.
    case miss
}

/// The use of a token of the gateway's own, which proves that it reached its client.
package struct TokenDelivery: Equatable, Sendable {
    /// `sid`.
    package let session: String
    /// `jti`; empty if it has none, and for a token that was seen before.
    package let token: String

    package init(session: String, token: String) {
        self.session = session
        self.token = token
    }
}

/// Everything that Admission decided about one request, for the driver, the log and `explain`. Each worker reuses one value:
/// `decide` overwrites it and keeps its memory.
package struct Decision: ~Copyable {
    private let pin = AddressPin()
    package internal(set) var verdict = Verdict.refuse(.notFound)
    /// Index of the rule; -1 if none matched.
    package internal(set) var routeIndex = -1
    /// Where the request was described, if it is only checked.
    package internal(set) var check: CheckEndpoint?
    /// Error format of a refusal.
    package private(set) var dialect = Dialect.problem
    /// The time that a request of gRPC has from its arrival; nil for no limit.
    package internal(set) var grpcTimeout: GRPCTimeout?
    package internal(set) var client = ClientAddress(address: IPAddress(high: 0, low: 0))

    /// Whether the upstream gets the path as the client sent it; otherwise `path`.
    package internal(set) var pathIsVerbatim = true
    var pathBytes = ByteBuffer(capacity: 256)
    /// Whether the client has sent the path in its canonical form.
    var sentPathIsCanonical = false
    /// Scratch: another parse of the path.
    var bareBytes = ByteBuffer()

    package internal(set) var auth = AuthOutcome.notLooked
    package internal(set) var authReason = AuthReason.none
    package internal(set) var tokenSource = TokenSource.none
    /// Whether the route takes API keys, whose field no upstream gets.
    var removesKey = false
    /// Whether the upstream gets the client's `Authorization`.
    package internal(set) var forwardsAuthorization = false
    /// Set if the answer may come from the cache.
    package internal(set) var cache: CacheScope?
    /// Whether the upstream gets no email: the account has another one now than the token claims.
    package internal(set) var hidesEmail = false
    /// Fields that the route keeps although they are removed by default.
    package internal(set) var keptFields: KeptFields = []
    /// Whether request trailers are forwarded. Not where a limit counts by a field: a trailer of that name would be a second
    /// one to an upstream that merges trailers into the head.
    package internal(set) var passesTrailers = true
    /// The opening handshake of a WebSocket; nil for any other request.
    package internal(set) var handshake: WebSocketHandshake?
    /// The WebSocket to count, where the route has a maximum.
    var socket: SocketCharge?
    /// The token's serial in the token cache; 0 if it is not cached.
    var tokenSerial: UInt64 = 0
    /// The limit of the caller's API key.
    var ownRate: LimitRate?
    /// The key that the token is bound to, if `Identity.isBound`.
    var owner: KeyThumbprint?
    /// Its proof and attestation that count once, until they have been counted.
    var singles: SingleUses = []
    var proofKey = LimitKey()
    var attestationUse = LimitCharge.Item(key: LimitKey(), rate: .nothing, subject: .attestation)
    /// Whether shadow mode looks at its use.
    package internal(set) var watchesUse = false
    /// Set once a token or an API key was accepted.
    package internal(set) var identity: Identity?
    /// The lines of the identity's fields.
    var identityLines = FieldEdits()
    /// Key of the user in the tier cache; nil if the token's claim counts.
    var tierKey: LimitKey?
    /// Key of the user's account there; nil if the user has none that is looked up.
    var accountKey: LimitKey?
    /// The version of the account's details, and the number of merges that the upstream is told of; 0 where the route wants none.
    var detailSerial: UInt64 = 0
    var announcedMerges: UInt8 = 0
    /// The subject of the token, where an account stands in for it.
    var subjectBytes = ByteBuffer()
    /// The account that an outside identity stands for.
    package internal(set) var account: UUID?
    /// The effective tier; nil for an anonymous caller, or if the accounts cannot be read.
    package internal(set) var tier: Tier?
    package internal(set) var tierOrigin = TierOrigin.none
    /// When a revoked session ended, in seconds since 1970; nil if unknown.
    package internal(set) var sessionEndedAt: Int64?
    /// When the session proved the second factor, where the route looks at that, in seconds since 1970.
    var factorAt: Int64?
    package internal(set) var effects = DecisionEffects()
    /// Field changes of the request: identity fields to add, client fields to remove.
    package internal(set) var requestEdits = FieldEdits()
    /// Fields of every answer: CORS, new tokens, limits.
    package internal(set) var answerEdits = FieldEdits()
    /// Whether the route sets or removes fields: then `Admission.changeFields` is to be called once the request's id is known.
    package internal(set) var changesFields = false
    /// `kid` of the key that verified the token.
    var keyBytes = ByteBuffer()
    /// `alg` of a token that had to be verified.
    package internal(set) var verifiedAlgorithm: SigningAlgorithm?
    /// Index of the internal caller; -1 for none.
    package internal(set) var internalCaller = -1
    /// Whether an internal caller sent a refresh token.
    package internal(set) var offersRefresh = false
    /// Its position in the head; empty if it is unusable.
    var refreshToken = Slice()
    package internal(set) var refreshRole = RefreshRole.none
    /// New tokens, which replace those that the caller sent.
    package internal(set) var refreshed: RefreshedTokens?

    package internal(set) var cors = OriginClass.off
    /// The CORS policy of the answer, an index in the policy's; -1 for none.
    var corsNumber = -1

    /// The gate that is for the request's app, `VersionGate.none` for none; nil where the route asks for no version.
    package internal(set) var appGate: UInt8?
    /// With it: the version, and where the head has it; nil for none.
    package internal(set) var appVersion: AppVersion?
    var appField = Slice()
    /// How the attestation was judged, `none` for one that holds; nil where the route asks for none.
    package internal(set) var attestation: AuthReason?

    /// The side of the route's split.
    package internal(set) var splitSide = SplitSide.none
    /// Refusals that shadow mode only logged.
    package internal(set) var shadowed: ShadowSet = []
    package internal(set) var limit = LimitOutcome()
    /// The charge to count; empty for none.
    package var charge = LimitCharge()
    /// Its verdict; valid after `Admission.charged`.
    package var limitVerdict = LimitVerdict()
    /// Row of the compiled limits, and whether they are in shadow mode.
    var limitRow = 0
    var isLimitShadowed = false

    /// Names that `removes` looks up.
    @usableFromInline let reserved = ReservedNames.shared

    package init() {}

    mutating func reset(dialect: Dialect, corsNumber: Int) {
        verdict = .refuse(.notFound)
        routeIndex = -1
        check = nil
        self.dialect = dialect
        grpcTimeout = nil
        pathIsVerbatim = true
        pathBytes.removeAll()
        auth = .notLooked
        authReason = .none
        tokenSource = .none
        tokenSerial = 0
        ownRate = nil
        singles = []
        watchesUse = false
        forwardsAuthorization = false
        removesKey = false
        cache = nil
        sentPathIsCanonical = false
        hidesEmail = false
        keptFields = []
        passesTrailers = true
        handshake = nil
        socket = nil
        if identity != nil { identity = nil }
        identityLines.removeAll()
        account = nil
        tier = nil
        tierOrigin = .none
        sessionEndedAt = nil
        factorAt = nil
        effects = DecisionEffects()
        requestEdits.removeAll()
        answerEdits.removeAll()
        changesFields = false
        keyBytes.removeAll()
        tierKey = nil
        accountKey = nil
        detailSerial = 0
        announcedMerges = 0
        subjectBytes.removeAll()
        verifiedAlgorithm = nil
        internalCaller = -1
        offersRefresh = false
        refreshToken = Slice()
        refreshRole = .none
        refreshed = nil
        cors = .off
        self.corsNumber = corsNumber
        splitSide = .none
        attestation = nil
        appGate = nil
        shadowed = []
        limit = LimitOutcome()
        charge.removeAll()
        limitRow = 0
        isLimitShadowed = false
    }

    /// Sets the error format, unless the request is one of gRPC.
    mutating func use(_ dialect: Dialect) {
        if self.dialect != .grpc { self.dialect = dialect }
    }

    /// Canonical path for the upstream, without the stripped prefix; used if `pathIsVerbatim` is false.
    package var path: RawSpan { @_lifetime(borrow self) get { pathBytes.readable } }

    /// Empty if unknown.
    package var userID: RawSpan { @_lifetime(borrow self) get { value(of: .userID) } }
    /// Empty if unknown.
    package var sessionID: RawSpan { @_lifetime(borrow self) get { value(of: .sessionID) } }

    @_lifetime(borrow self)
    private func value(of header: IdentityHeader) -> RawSpan {
        identityLines.value(of: header.name, in: identity?.fields[header] ?? Slice())
    }
    /// `kid` of the key that verified the token; empty if it has none.
    package var keyID: RawSpan { @_lifetime(borrow self) get { keyBytes.readable } }

    /// Whether a client's field of this name, which is not a known `FieldName`, is removed.
    @inlinable @inline(__always)
    package func removes(_ name: RawSpan) -> Bool { reserved.mayHold(name) && reserved.holds(name, except: keptFields) }

    package var refusal: Refusal? {
        if case .refuse(let refusal) = verdict { refusal } else { nil }
    }

    /// Clears everything read from the token.
    mutating func removeIdentity() {
        identity = nil
        account = nil
        identityLines.removeAll()
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
    /// Maximum request content of the decision's route, in bytes.
    package func bodyLimit(_ decision: borrowing Decision) -> UInt64 { policy.gates[decision.routeIndex].bodyLimit }
    package func timeoutMilliseconds(_ decision: borrowing Decision) -> UInt64? {
        policy.gates[decision.routeIndex].timeoutMilliseconds
    }
    /// The filters of the answer, where the route has any.
    package func filter(_ decision: borrowing Decision) -> FilterPlan? { policy.plans[decision.routeIndex].filter }
    package func retries(_ decision: borrowing Decision) -> Int? { policy.gates[decision.routeIndex].retries }
}
