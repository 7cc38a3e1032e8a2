import Credentials
package import HTTP
package import Wire

/// A client by its address (IPv6 by /64), and a hash of its user's id; nil without a user.
package struct ClientMark: Equatable, Sendable {
    let address: IPAddress
    let user: UInt64?

    package init(address: IPAddress, user: UInt64? = nil) {
        self.address = address
        self.user = user
    }

    /// Whether the two may be one client: by its address or its user.
    package func mayBe(_ other: ClientMark) -> Bool { address == other.address || user != nil && user == other.user }
}

/// Record of a decision, kept to explain a refusal later: what `Explanation` needs, without secrets. Reused with its buffer,
/// so that recording allocates nothing in the steady state.
package struct DecisionRecord: ~Copyable {
    private let pin = AddressPin()
    /// Maximum bytes kept of one text.
    private static let maxText = 1_024

    // Every request under way has one of these, so the fields stand in the order that leaves no gaps.

    /// The log's word for a failure after the decision, or of the request itself; empty for none.
    package private(set) var cause: StaticString = ""
    /// False for a request that could not be parsed.
    private(set) var isDecided = false
    private(set) var dialect = Dialect.problem
    private(set) var auth = AuthOutcome.notLooked
    private(set) var authReason = AuthReason.none
    /// Version of the deciding policy.
    package private(set) var policyVersion = 0
    private(set) var client = ClientAddress(address: IPAddress(high: 0, low: 0))
    private(set) var algorithm: SigningAlgorithm?
    private(set) var tier: Tier?
    private(set) var tierOrigin = TierOrigin.none
    /// Final verdict; a request may be refused after Admission let it pass.
    package private(set) var verdict = Verdict.refuse(.notFound)
    private(set) var hasOwnSession = false
    private(set) var offersRefresh = false
    private(set) var refreshRole = RefreshRole.none
    private(set) var cors = OriginClass.off
    private(set) var shadowed: ShadowSet = []
    package private(set) var splitSide = SplitSide.none
    private(set) var pathIsVerbatim = true
    /// Seconds since 1970.
    private(set) var decidedAt: Int64 = 0
    /// `Identity.signedInAt`.
    private(set) var signedInAt: Int64?
    /// Of the limits, the outcome and the tightest; how they stood if they have answered.
    private(set) var limitResult = LimitOutcome.Result.none
    private(set) var tightestLimit: UInt8 = 0
    /// The limit of the caller's API key, behind those of the route.
    private(set) var ownRate: LimitRate?
    private(set) var sessionEndedAt: Int64?
    /// `Decision.factorAt`.
    private(set) var factorAt: Int64?
    private(set) var hidesEmail = false
    /// `Decision.appGate`.
    private(set) var appGate: UInt8?
    /// `Decision.attestation`.
    private(set) var attestation: AuthReason?
    private(set) var routeIndex: Int32 = -1
    private(set) var internalCaller: Int32 = -1
    private(set) var issuerIndex: Int32 = -1
    /// Index in `Policy.cors`; -1 for none.
    private(set) var corsNumber: Int32 = -1
    private(set) var limits = InlineArray<4, LimitState>(repeating: LimitState())

    /// The texts, one behind the other in the order of `Text`, and the end of each.
    private var texts = ByteBuffer()
    private var ends = InlineArray<8, UInt16>(repeating: 0)

    private enum Text: Int {
        case method, host, sentPath, path, origin, subject, user, app
    }

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
        routeIndex = Int32(truncatingIfNeeded: decision.routeIndex)
        internalCaller = Int32(truncatingIfNeeded: decision.internalCaller)
        auth = decision.auth
        authReason = decision.authReason
        tier = decision.tier
        tierOrigin = decision.tierOrigin
        decidedAt = now.seconds
        sessionEndedAt = decision.sessionEndedAt
        factorAt = decision.factorAt
        hidesEmail = decision.hidesEmail
        ownRate = decision.ownRate
        offersRefresh = decision.offersRefresh
        refreshRole = decision.refreshRole
        cors = decision.cors
        corsNumber = Int32(truncatingIfNeeded: decision.corsNumber)
        shadowed = decision.shadowed
        splitSide = decision.splitSide
        appGate = decision.appGate
        attestation = decision.attestation
        pathIsVerbatim = decision.pathIsVerbatim
        limited(decision.limit, decision.limitVerdict)
        texts.removeAll()
        keep(bytes[head.methodText], as: .method)
        keep(bytes[head.host], as: .host)
        keep(bytes[head.path], as: .sentPath)
        keep(decision.pathBytes.isEmpty ? RawSpan() : decision.path, as: .path)
        if let index = head.fields.first(.origin) {
            keep(bytes[head.fields[index].value], as: .origin)
        } else {
            keep(RawSpan(), as: .origin)
        }
        keep(decision.subjectBytes.isEmpty ? RawSpan() : decision.subjectBytes.readable, as: .subject)
        keep(decision.identity == nil ? RawSpan() : decision.userID, as: .user)
        keep(decision.appGate == nil || decision.appVersion == nil ? RawSpan() : bytes[decision.appField], as: .app)
        recordIdentity(decision)
    }

    private mutating func recordIdentity(_ decision: borrowing Decision) {
        guard decision.identity != nil else {
            issuerIndex = -1
            algorithm = nil
            hasOwnSession = false
            signedInAt = nil
            return
        }
        issuerIndex = decision.identity!.issuerIndex
        algorithm = decision.identity!.algorithm
        let hasSession = decision.sessionID.byteCount > 0
        hasOwnSession = hasSession && decision.identity!.isOwn
        signedInAt = decision.identity!.signedInAt
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

    /// Records the outcome of the limits, which may be decided later than the rest.
    package mutating func limited(_ outcome: LimitOutcome, _ verdict: borrowing LimitVerdict) {
        limitResult = outcome.result
        if outcome.spent == .attestation { attestation = .used }
        guard outcome.result != .none else { return }
        tightestLimit = UInt8(outcome.index)
        for index in 0..<verdict.count { limits[index] = LimitState(verdict[index]) }
    }

    /// Changes the verdict to a refusal; `cause` is the log's word, or empty.
    package mutating func refused(_ refusal: Refusal, cause: StaticString) {
        verdict = .refuse(refusal)
        self.cause = cause
    }

    /// Keeps a text behind those before it.
    @inline(__always)
    private mutating func keep(_ text: RawSpan, as name: Text) {
        if !text.isEmpty { texts.append(text.extracting(first: min(text.byteCount, Self.maxText))) }
        ends[name.rawValue] = UInt16(texts.count)
    }

    private subscript(name: Text) -> RawSpan {
        @_lifetime(borrow self) get {
            let start = name == .method ? 0 : Int(ends[name.rawValue - 1])
            return texts.readable.extracting(start..<Int(ends[name.rawValue]))
        }
    }

    /// A hash of the user's id, or of the address that limits count by.
    func subjectHash(isUser: Bool, _ hash: KeyedHash, domain: UInt64) -> LimitKey {
        let issuer = UInt64(isUser ? issuerIndex + 1 : 0) << 48
        if isUser { return hash.hash128(self[.user], domain: domain ^ issuer) }
        return hash.hash128(client.address.limitPrefix.high, client.address.limitPrefix.low, domain: domain)
    }

    /// The client's address, and its user: to tell whether two requests are two clients'.
    package var clientMark: ClientMark {
        let user = self[.user].isEmpty ? nil : KeyedHash(first: 0, second: 0).hash64(self[.user])
        return ClientMark(address: client.address.limitPrefix, user: user)
    }

    package var method: String { self[.method].text }
    package var host: String { self[.host].text }
    /// As the client sent it, without its query.
    package var sentPath: String { self[.sentPath].text }
    var path: String { self[.path].text }
    /// As the client sent it; empty without one.
    var origin: String { self[.origin].text }
    var userID: String { self[.user].text }
    /// The version of the app as sent; empty without one.
    var appVersion: String { self[.app].text }
    /// The subject of the token, where an account stands in for it; else empty.
    var subject: String { self[.subject].text }

    /// The name of the route under `policy`, which decided.
    package func route(_ policy: Policy) -> String? { routeIndex >= 0 ? policy.rules[Int(routeIndex)].name : nil }
    /// The route's index in `policy`; -1 without one, and under another policy than the one that decided.
    package func routeIndex(_ policy: Policy) -> Int { policyVersion == policy.version ? Int(routeIndex) : -1 }
    /// The user whose token was accepted.
    package var user: String? { self[.user].isEmpty ? nil : userID }

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

/// How one limit of a route stood for a request.
struct LimitState {
    /// Requests that would be admitted.
    private(set) var remaining: UInt32 = 0
    /// Seconds until one more is admitted, rounded up; 0 if `remaining` is not 0.
    private(set) var retryAfterSeconds: UInt32 = 0

    init() {}

    init(_ reading: LimitReading) {
        remaining = reading.remaining
        if reading.retryAfter > 0 { retryAfterSeconds = LimitOutcome.seconds(reading.retryAfter) }
    }
}
