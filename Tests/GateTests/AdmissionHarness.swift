import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// A copy of a decision that can be compared and kept.
struct Judged: Equatable {
    var verdict: Verdict
    /// 0 if it passes.
    var status: UInt16
    var code: String
    var route: String
    var dialect: Dialect
    /// nil if the upstream gets the path as it was sent.
    var path: String?
    var identity: [String]
    var auth: AuthOutcome
    var reason: AuthReason
    var source: TokenSource
    var userID: String
    var sessionID: String
    var tier: Tier?
    var tierOrigin: TierOrigin
    var forwardsAuthorization: Bool
    var client: ClientAddress
    var caller: Int
    var shadowed: ShadowSet
    var limit: LimitOutcome
    var cors: OriginClass
    /// All fields of the answer that the decision adds, in order.
    var answerLines: [String]
    var limitLines: [String]
    var refreshLines: [String]
    var refreshRole: RefreshRole
    /// The refresh order of a decision `.refresh`.
    var order: RefreshOrder?
    var issuerToRefetch: Int
    /// `WWW-Authenticate`, `Retry-After` and `Allow` of the refusal.
    var headers: [String]
    var explanation: Explanation

    init(_ decision: borrowing Decision, _ head: borrowing RequestHead, _ bytes: RawSpan, _ policy: Policy, at now: WallTime) {
        let refusal = decision.refusal
        var edits = FieldEdits()
        refusal?.addFields(policy, route: decision.routeIndex, in: decision.dialect, to: &edits)
        verdict = decision.verdict
        status = refusal?.status ?? 0
        code = refusal.map { "\($0.code.text)" } ?? ""
        route = decision.routeIndex < 0 ? "" : policy.rules[decision.routeIndex].name
        dialect = decision.dialect
        path = decision.pathIsVerbatim ? nil : decision.path.text
        identity = Self.lines(decision.requestEdits.http1)
        auth = decision.auth
        reason = decision.authReason
        source = decision.tokenSource
        userID = decision.userID.text
        sessionID = decision.sessionID.text
        tier = decision.tier
        tierOrigin = decision.tierOrigin
        forwardsAuthorization = decision.forwardsAuthorization
        client = decision.client
        caller = decision.internalCaller
        shadowed = decision.shadowed
        limit = decision.limit
        cors = decision.cors
        answerLines = Self.lines(decision.answerEdits.http1)
        limitLines = answerLines.filter { $0.contains("RateLimit") }
        refreshLines = answerLines.filter { !$0.contains("RateLimit") }
        refreshRole = decision.refreshRole
        issuerToRefetch = decision.effects.keysWanted ?? -1
        headers = Self.lines(edits.http1)
        var note = DecisionRecord()
        note.record(decision, head, bytes, policyVersion: policy.version, at: now)
        explanation = Explanation(note, policy: policy)
    }

    private static func lines(_ bytes: RawSpan) -> [String] {
        bytes.text.split(separator: "\r\n", omittingEmptySubsequences: true).map(String.init)
    }

    func hasIdentity(_ line: String) -> Bool { identity.contains(line) }
}

/// An Admission that decides requests given as text.
final class AdmissionHarness {
    static let now = Moment(monotonic: MonotonicTime(nanoseconds: 1_000_000_000_000), wall: WallTime(seconds: 1_800_000_000))
    static let issuer = "https://issuer.test"

    var admission: Admission
    private let limiter: SharedLimiter
    var now = AdmissionHarness.now
    /// Whether requests come over HTTP/2.
    var isHTTP2 = false
    private var head = RequestHead()
    private var decision = Decision()

    init(_ policy: Policy, limiter: SharedLimiter = SharedLimiter(capacity: 1_024), cacheCapacity: Int = 1_024) {
        self.limiter = limiter
        admission = Admission(policy: policy, limiter: limiter, cacheCapacity: cacheCapacity)
    }

    convenience init(
        _ rules: [RouteRule], tiers: TierList = .standard, trust: Trust? = nil, proxies: [String] = [],
        internals: [InternalCaller] = []
    ) throws {
        let policy = try Policy(
            tiers: tiers, rules: rules, trust: trust ?? Self.trust(requirements: RouteRule.requirements(of: rules)),
            trustedProxies: proxies.compactMap { CIDR(parsing: $0) }, internals: internals)
        self.init(policy)
    }

    /// Decides `request`; lines may end in LF alone, and the blank line is added.
    func ask(
        _ request: String, from: String = "192.0.2.7", isTLS: Bool = false, certificate names: [String] = [],
        refresh: RefreshAnswer? = nil
    ) -> Judged {
        let peer = Peer(address: IPAddress(parsing: from) ?? IPAddress(high: 0, low: 1), isTLS: isTLS, certificateNames: names)
        let bytes = Array((request.replacing("\n", with: "\r\n") + "\r\n\r\n").utf8)
        let outcome = head.parse(bytes.rawBytes, limits: HeadLimits())
        precondition(outcome == .complete, "\(outcome) for \(request)")
        head.isHTTP2 = isHTTP2
        admission.decide(head, bytes.rawBytes, peer: peer, at: now, refresh: refresh, limiter: limiter, &decision)
        var judged = Judged(decision, head, bytes.rawBytes, admission.policy, at: now.wall)
        if decision.verdict == .refresh { judged.order = admission.refreshOrder(decision, bytes.rawBytes) }
        return judged
    }

    /// Decides `request` and records it.
    func record(_ request: String, in note: inout DecisionRecord) {
        let bytes = Array((request.replacing("\n", with: "\r\n") + "\r\n\r\n").utf8)
        precondition(head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete)
        admission.decide(head, bytes.rawBytes, peer: Peer(address: IPAddress(high: 0, low: 1)), at: now, limiter: limiter, &decision)
        note.record(decision, head, bytes.rawBytes, policyVersion: admission.policy.version, at: now.wall)
    }

    /// Like `get`, with `answer` as the verdict of the charge.
    func get(_ path: String, answer: LimitVerdict) -> Judged {
        let bytes = Self.request(path)
        if admit(bytes) {
            decision.limitVerdict = answer
            admission.charged(&decision)
        }
        return Judged(decision, head, bytes.rawBytes, admission.policy, at: now.wall)
    }

    /// The pending limit of a request; nil if nothing is charged.
    func pending(_ path: String) -> PendingLimit? {
        admit(Self.request(path)) ? admission.pendingLimit(&decision) : nil
    }

    /// Keys that a request is charged to.
    func keys(_ path: String, _ more: String = "") -> [LimitKey] {
        guard admit(Self.request(path, more)) else { return [] }
        return (0..<decision.charge.count).map { decision.charge[$0].key }
    }

    private func admit(_ bytes: [UInt8]) -> Bool {
        let outcome = head.parse(bytes.rawBytes, limits: HeadLimits())
        precondition(outcome == .complete)
        return admission.admit(head, bytes.rawBytes, peer: Peer(address: IPAddress(high: 0, low: 1)), at: now, &decision)
    }

    private static func request(_ path: String, _ more: String = "") -> [UInt8] {
        Array("GET \(path) HTTP/1.1\r\nHost: gate.test\r\n\(more.isEmpty ? "" : more + "\r\n")\r\n".utf8)
    }

    /// Decides raw bytes; nil if they are not a request.
    func ask(raw bytes: [UInt8], from peer: Peer) -> Judged? {
        guard head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete else { return nil }
        admission.decide(head, bytes.rawBytes, peer: peer, at: now, limiter: limiter, &decision)
        return Judged(decision, head, bytes.rawBytes, admission.policy, at: now.wall)
    }

    func get(
        _ path: String, token: String? = nil, _ more: String = "", from: String = "192.0.2.7", certificate names: [String] = [],
        refresh: RefreshAnswer? = nil
    ) -> Judged {
        let bearer = token.map { "\nAuthorization: Bearer \($0)" } ?? ""
        let request = "GET \(path) HTTP/1.1\nHost: gate.test\(bearer)\(more.isEmpty ? "" : "\n" + more)"
        return ask(request, from: from, certificate: names, refresh: refresh)
    }

    /// The user of the latest request.
    var user: TokenUser { admission.tokenUser(decision) }

    /// Lifetime of the latest request's answer.
    var streamLife: StreamLife? {
        var life: StreamLife?
        admission.setLife(&life, of: decision)
        return life
    }

    /// The account whose merges the latest request announces.
    var announced: LimitKey? { admission.announced(decision) }

    /// The delivery that a request with this token confirms.
    func sighting(_ path: String, _ token: String) -> TokenDelivery? {
        _ = get(path, token: token)
        return decision.effects.deliveredToken
    }

    func advance(milliseconds: UInt64) {
        now.monotonic = now.monotonic.advanced(milliseconds: milliseconds)
        now.wall.microseconds += Int64(milliseconds) * 1_000
    }
}

extension AdmissionHarness {
    static let key = makeKey("0123456789abcdef0123456789abcdef")
    static let otherKey = makeKey("fedcba9876543210fedcba9876543210")

    static func makeKey(_ secret: String) -> SigningKey {
        let bytes = Array(secret.utf8)
        do { return try SigningKey(secret: bytes.rawBytes) } catch { preconditionFailure("\(error)") }
    }

    static func trusted(_ key: SigningKey? = key, name: String = "test", issuer: String? = issuer) -> TrustedIssuer {
        TrustedIssuer(
            name: name, issuer: issuer, audiences: [], algorithms: .hmac, keys: key.map { KeySet([$0.verificationKey]) })
    }

    static func trust(_ issuers: [TrustedIssuer] = [trusted()], requirements: [ClaimRequirement] = []) -> Trust {
        Trust(issuers: issuers, clockSkewSeconds: 30, requirements: requirements)
    }

    /// A token that is good for an hour by default.
    static func token(
        _ subject: String = "user-1", tier: String? = nil, lifetime: Int64 = 3_600, issuer: String? = issuer,
        key: SigningKey = key, change: (inout TokenClaims) -> Void = { _ in }
    ) -> String {
        let seconds = now.wall.seconds
        var claims = TokenClaims(
            issuer: issuer, audience: nil, subject: subject, issuedAt: seconds - 60, expiresAt: seconds + lifetime)
        claims.tier = tier
        change(&claims)
        do { return try key.issue(claims) } catch { preconditionFailure("\(error)") }
    }
}

extension Explanation {
    func step(_ name: String) -> String? { steps.first { $0.name == name }?.text }
}

extension Policy {
    /// The same policy with other keys, after a key set was fetched.
    func replacing(trust: Trust, version: Int) throws(RouteFault) -> Policy {
        let sources = zip(self.trust.issuers, tierSources).map { ($0.name, $1) }
        return try Policy(
            version: version, tiers: tiers, rules: rules, trust: trust, trustedProxies: trustedProxies,
            internals: internals, realm: String(decoding: realmText, as: UTF8.self), upgradeURL: upgrade.first?.value, envelopes: envelopes,
            dialect: dialect,
            hasAccounts: hasAccounts,
            refreshers: refreshers, tierSources: Dictionary(sources) { first, _ in first }, identitySigner: identitySigner,
            cors: defaultCORS < 0 ? nil : self.cors[defaultCORS].rule,
            ownOrigin: String(decoding: ownOrigin, as: UTF8.self), contractBases: contractBases,
            versionGates: versionGates, appHash: appHash, denyFrom: denyFrom, nonceSecret: nonceSecret,
            publicURL: String(decoding: publicURL, as: UTF8.self))
    }
}
