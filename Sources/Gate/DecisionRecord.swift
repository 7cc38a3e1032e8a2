import Credentials
package import HTTP
package import Wire

/// Record of a decision, kept to explain a refusal later: what `Explanation` needs, without secrets. Reused with its buffer,
/// so that recording allocates nothing in the steady state.
package struct DecisionRecord: ~Copyable {
    private let pin = AddressPin()
    /// Maximum bytes kept of one text.
    private static let longestText = 1_024

    /// Final verdict; a request may be refused after Admission let it pass.
    package private(set) var verdict = Verdict.refuse(.notFound)
    /// The log's word for a failure after the decision, or of the request itself; empty for none.
    package private(set) var cause: StaticString = ""
    /// Version of the deciding policy.
    package private(set) var policyVersion = 0
    /// False for a request that could not be parsed.
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
    /// `Identity.signedInAt`.
    private(set) var signedInAt: Int64?
    private(set) var sessionEndedAt: Int64?
    private(set) var offersRefresh = false
    private(set) var refreshRole = RefreshRole.none
    private(set) var cors = CORSStanding.off
    /// Index in `Policy.cors`; -1 for none.
    private(set) var corsNumber = -1
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
    private var originSlice = Slice()
    private var subjectSlice = Slice()

    package init() {}

    /// Records a decision.
    package mutating func record(
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
        tier = decision.tier
        tierOrigin = decision.tierOrigin
        decidedAt = now.seconds
        sessionEndedAt = decision.sessionEndedAt
        offersRefresh = decision.offersRefresh
        refreshRole = decision.refreshRole
        cors = decision.cors
        corsNumber = decision.corsNumber
        shadowed = decision.shadowed
        pathIsVerbatim = decision.pathIsVerbatim
        limit = decision.limit
        if limit.result != .none { limitVerdict = decision.limitVerdict }
        texts.removeAll()
        methodSlice = keep(bytes[head.methodText])
        hostSlice = keep(bytes[head.host])
        sentPathSlice = keep(bytes[head.path])
        pathSlice = decision.pathBytes.isEmpty ? Slice() : keep(decision.path)
        originSlice = head.fields.first(.origin).map { keep(bytes[head.fields[$0].value]) } ?? Slice()
        subjectSlice = decision.subjectBytes.isEmpty ? Slice() : keep(decision.subjectBytes.readable)
        recordIdentity(decision)
    }

    private mutating func recordIdentity(_ decision: borrowing Decision) {
        guard decision.identity != nil else {
            issuerIndex = -1
            algorithm = nil
            hasOwnSession = false
            signedInAt = nil
            userSlice = Slice()
            return
        }
        issuerIndex = decision.identity!.issuerIndex
        algorithm = decision.identity!.algorithm
        hasOwnSession = decision.identity!.isOwn && decision.sessionID.byteCount > 0
        signedInAt = decision.identity!.signedInAt
        userSlice = keep(decision.userID)
    }

    /// Records a request that could not be parsed: all of the one before is forgotten but for its buffer.
    package mutating func recordUnparsed(_ fault: HTTPFault, from client: IPAddress, _ policy: Policy) {
        var fresh = DecisionRecord()
        swap(&fresh.texts, &texts)
        self = fresh
        texts.removeAll()
        policyVersion = policy.version
        dialect = policy.dialect
        self.client = ClientAddress(address: client)
        refused(Refusal(fault), cause: fault.text)
    }

    /// Adds the outcome of limits that was decided later.
    package mutating func limited(_ outcome: LimitOutcome, _ verdict: inout LimitVerdict) {
        limit = outcome
        limitVerdict.becomes(&verdict)
    }

    /// Changes the verdict to a refusal; `cause` is the log's word, or empty.
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

    /// A hash of the user's id, or of the address that limits count by.
    func subjectHash(isUser: Bool, _ hash: KeyedHash, domain: UInt64) -> LimitKey {
        let issuer = UInt64(isUser ? issuerIndex + 1 : 0) << 48
        if isUser { return hash.hash128(texts.readable[userSlice], domain: domain ^ issuer) }
        return hash.hash128(client.address.limitPrefix.high, client.address.limitPrefix.low, domain: domain)
    }

    package var method: String { texts.readable[methodSlice].text }
    package var host: String { texts.readable[hostSlice].text }
    /// As the client sent it, without its query.
    package var sentPath: String { texts.readable[sentPathSlice].text }
    var path: String { texts.readable[pathSlice].text }
    /// As the client sent it; empty without one.
    var origin: String { texts.readable[originSlice].text }
    var userID: String { texts.readable[userSlice].text }
    /// The subject of the token, where an account stands in for it; else empty.
    var subject: String { texts.readable[subjectSlice].text }

    /// The name of the route under `policy`, which decided.
    package func route(_ policy: Policy) -> String? { routeIndex >= 0 ? policy.rules[routeIndex].name : nil }
    /// The user whose token was accepted.
    package var user: String? { userSlice.count > 0 ? userID : nil }

    /// Whether the refusal is one that the operator asks for.
    package func fits(_ query: RefusalQuery, _ policy: Policy) -> Bool {
        guard query.route == nil || query.route == route(policy), query.user == nil || query.user == user else { return false }
        guard query.status != nil || query.code != nil else { return true }
        guard let code = refusal?.code else { return false }
        return (query.status == nil || query.status == code.status) && (query.code == nil || query.code == code.text.description)
    }

    var refusal: Refusal? {
        if case .refuse(let refusal) = verdict { refusal } else { nil }
    }
}
