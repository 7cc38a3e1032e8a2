import Credentials
package import HTTP
package import Wire

/// What is kept of a decision, to tell how it came about once the request has gone: all that `Explanation` says, and no
/// secret. Used again with its buffer, so to keep one allocates nothing in the steady state.
package struct DecisionRecord: ~Copyable {
    private let pin = AddressPin()
    /// Bytes that are kept of one text.
    private static let longestText = 1_024

    /// What became of the request at last: a refusal may come after Admission let it pass.
    package private(set) var verdict = Verdict.refuse(.notFound)
    /// The log's word for what went wrong after the decision, or with the request itself; empty for nothing.
    package private(set) var cause: StaticString = ""
    /// The version of the policy that decided.
    package private(set) var policyVersion = 0
    /// Whether anything was decided; false for what is no request.
    private(set) var isDecided = false

    private(set) var dialect = Dialect.problem
    private(set) var client = ClientAddress(address: IPAddress(high: 0, low: 0))
    private(set) var routeIndex = -1
    private(set) var internalCaller = -1
    private(set) var auth = AuthOutcome.notLooked
    private(set) var authReason = AuthReason.none
    private(set) var issuerIndex: Int32 = -1
    private(set) var algorithm: SigningAlgorithm?
    private(set) var tier: Tier?
    private(set) var tierOrigin = TierOrigin.none
    /// Seconds since 1970.
    private(set) var decidedAt: Int64 = 0
    private(set) var hasOwnSession = false
    private(set) var sessionEndedAt: Int64?
    private(set) var offersRefresh = false
    private(set) var refreshRole = RefreshRole.none
    private(set) var shadowed: ShadowSet = []
    private(set) var pathIsVerbatim = true
    private(set) var limit = LimitOutcome()
    private(set) var limitVerdict = LimitVerdict()

    private var texts = ByteBuffer()
    private var methodSlice = Slice()
    private var hostSlice = Slice()
    private var sentPathSlice = Slice()
    private var pathSlice = Slice()
    private var userSlice = Slice()

    package init() {}

    /// Notes what `policy` decided about a request.
    package mutating func take(
        _ decision: borrowing Decision, _ head: borrowing RequestHead, _ bytes: RawSpan, policyVersion: Int, at now: WallTime
    ) {
        verdict = decision.verdict
        cause = ""
        self.policyVersion = policyVersion
        isDecided = true
        dialect = decision.dialect
        client = decision.client
        routeIndex = decision.routeIndex
        internalCaller = decision.internalCaller
        auth = decision.auth
        authReason = decision.authReason
        issuerIndex = decision.identity?.issuerIndex ?? -1
        algorithm = decision.identity?.algorithm
        tier = decision.tier
        tierOrigin = decision.tierOrigin
        decidedAt = now.seconds
        hasOwnSession = decision.identity?.isOwn == true && decision.sessionID.byteCount > 0
        sessionEndedAt = decision.sessionEndedAt
        offersRefresh = decision.offersRefresh
        refreshRole = decision.refreshRole
        shadowed = decision.shadowed
        pathIsVerbatim = decision.pathIsVerbatim
        limit = decision.limit
        if limit.result != .none { limitVerdict = decision.limitVerdict }
        texts.removeAll()
        methodSlice = keep(bytes[head.methodText])
        hostSlice = keep(bytes[head.host])
        sentPathSlice = keep(bytes[head.path])
        pathSlice = keep(decision.path)
        userSlice = keep(decision.userID)
    }

    /// Notes a request that could not be read.
    package mutating func recordUnparsed(_ fault: HTTPFault, from client: IPAddress, _ policy: Policy) {
        policyVersion = policy.version
        dialect = policy.dialect
        self.client = ClientAddress(address: client)
        isDecided = false
        texts.removeAll()
        methodSlice = Slice()
        hostSlice = Slice()
        sentPathSlice = Slice()
        refused(Refusal(fault), cause: fault.text)
    }

    /// The limits have answered, later than the rest was decided.
    package mutating func limited(_ outcome: LimitOutcome, _ verdict: inout LimitVerdict) {
        limit = outcome
        limitVerdict.becomes(&verdict)
    }

    /// The request is refused after all; `cause` is the log's word for why, or empty.
    package mutating func refused(_ refusal: Refusal, cause: StaticString) {
        verdict = .refuse(refusal)
        self.cause = cause
    }

    private mutating func keep(_ text: RawSpan) -> Slice {
        let count = min(text.byteCount, Self.longestText)
        let slice = Slice(start: texts.count, count: count)
        texts.append(text.extracting(0..<count))
        return slice
    }

    package var method: String { texts.readable[methodSlice].text }
    package var host: String { texts.readable[hostSlice].text }
    /// As the client sent it, without its query.
    package var sentPath: String { texts.readable[sentPathSlice].text }
    var path: String { texts.readable[pathSlice].text }
    var userID: String { texts.readable[userSlice].text }

    var refusal: Refusal? {
        if case .refuse(let refusal) = verdict { refusal } else { nil }
    }
}
