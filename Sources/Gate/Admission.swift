import Credentials
package import HTTP
package import Wire

/// Decides requests: client address, route, identity, authorisation, limits. One per worker; no locks but that of `OpenSockets`,
/// and no allocation for a request whose token is cached.
///
/// The order is fixed: client address, preflight, path, route, lists of addresses, sunset, maintenance, app version, attestation, origin,
/// WebSocket handshake, `grpc-timeout`, `Authorization`, internal caller, token, proof of possession, actor, claims, tier, scopes,
/// attributes, age of the sign-in, size, limit. A refusal ends it. The limit comes last, so a request refused for another reason is not
/// charged.
package struct Admission: ~Copyable {
    private let pin = AddressPin()
    package private(set) var policy: Policy
    var limits: CompiledLimits
    /// Hashes limit keys and subjects, as `limits` does.
    let hash: KeyedHash
    let sockets: OpenSockets
    var verifier = TokenVerifier()
    private var cache: TokenCache
    private var refusedTokens: RefusedTokens
    var attestations: Attestations
    /// Fields of the expired token during a refresh; scratch.
    var expiredLines = FieldEdits()
    var revoked: RevokedSessions
    var proven = ProvenSessions()
    var tierCache: TierCache
    var accountDetails = AccountDetails(bytes: 8 << 20)
    /// By the issuer's index in the policy's trust.
    private(set) var tierKeys: [LimitKey]
    var subjects: SubjectCache
    var signedIdentities: SignedIdentities
    var keys = APIKeys()
    var proofs = DeviceProofVerifier()
    /// nil where proofs need no nonce.
    var nonces: ProofNonces?

    /// `Retry-After` when an issuer's keys have never been fetched, in seconds. Fetches are retried every 10 s.
    static let keysRetrySeconds: UInt32 = 10

    /// `hash`, `sockets` and `revoked` are those of all workers of the process, and outlive policies.
    package init(policy: Policy, hash: KeyedHash, sockets: OpenSockets, revoked: RevocationList, cacheCapacity: Int) {
        let policy = Policy(unshared: policy)
        self.policy = policy
        self.hash = hash
        self.sockets = sockets
        self.revoked = RevokedSessions(revoked)
        limits = CompiledLimits.of(policy, hash)
        cache = TokenCache(capacity: cacheCapacity, hash: .random())
        refusedTokens = RefusedTokens(hash: .random())
        attestations = Attestations(capacity: cacheCapacity)
        tierCache = TierCache(capacity: cacheCapacity)
        tierKeys = Self.tierKeys(policy, hash)
        subjects = SubjectCache(capacity: cacheCapacity)
        signedIdentities = SignedIdentities(capacity: cacheCapacity)
        nonces = policy.nonceSecret.map { ProofNonces(secret: $0) }
    }

    /// Switches to `policy`. Cached tokens survive if their key does and the rules by which they were verified are the same.
    package mutating func adopt(_ policy: Policy) {
        let policy = Policy(unshared: policy)
        let ended = policy.readsTokens(like: self.policy) ? self.policy.liveKeys.subtracting(policy.liveKeys) : nil
        attestations.adopt(ended)
        if let ended {
            cache.drop(ended)
        } else {
            cache.removeAll()
            forgetUsers()
        }
        // The details of accounts are those that the routes look at.
        if policy.attributes != self.policy.attributes { forgetUsers() }
        limits = CompiledLimits.of(policy, hash)
        tierKeys = Self.tierKeys(policy, hash)
        // The policy may bring the key that signed them.
        refusedTokens.removeAll()
        // Their routes, tiers and signing key may have changed.
        signedIdentities.removeAll()
        nonces = policy.nonceSecret.map { ProofNonces(secret: $0) }
        self.policy = policy
    }

    /// Entries of the token cache, and how many were evicted.
    package var cachedTokens: Int { cache.count }
    package var cacheEvictions: UInt64 { cache.evictions }

    /// Decides everything but the limits. If it returns true, `decision.charge` must be counted: write the verdict into
    /// `decision.limitVerdict` and call `charged`, or keep a `PendingLimit` until the verdict is there.
    ///
    /// `refresh` is the result of the refresh that an earlier decision about the request asked for. With `check` the head is that of
    /// a `DescribedRequest`, which the verdict `.forward` only lets pass. `isShedding`: refuses it, for want of room, in its dialect.
    package mutating func admit(
        _ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer, at now: Moment, refresh: RefreshAnswer? = nil,
        check: CheckEndpoint? = nil, isShedding: Bool = false, _ decision: inout Decision
    ) -> Bool {
        // A refusal in gRPC's form is a 200, which a proxy takes for leave to pass, and so do clients and logs of HTTP/1.1.
        let isGRPC = check == nil && head.isGRPC(bytes)
        let isCall = isGRPC && head.method == .post
        decision.reset(dialect: isCall && head.isHTTP2 ? .grpc : policy.dialect, corsNumber: policy.defaultCORS)
        decision.client = ClientAddress.resolve(head, bytes, peer: peer, trusted: policy.trustedProxies)
        if let check {
            decision.check = check
            decision.client = decision.client.inCheck(head.fields)
        }
        let denial = policy.addresses?.denial(of: decision.client)
        if denial == nil, answersPreflight(head, bytes, peer, &decision) {
            if let check, !check.givesAnswers { decision.refuse(.forbidden(.preflight)) }
            return false
        }
        let found = findRoute(head, bytes, &decision)
        addCORSFields(head, bytes, peer, &decision)
        guard let route = found else { return denial.map { refuse($0, &decision) } ?? false }
        let gate = policy.gates[route]
        decision.routeIndex = route
        decision.changesFields = gate.changesFields
        decision.use(isCall && gate.upstreamSpeaksHTTP2 ? .grpc : gate.dialect)
        if let denial = denial ?? (gate.hasAddressRule ? denialByRoute(route, decision.client) : nil) { return refuse(denial, &decision) }
        guard !isShedding else {
            decision.refuse(.unavailable(.overload, retryAfterSeconds: 1))
            return false
        }
        if gate.hasEdge, !isOpen(route, gate, head, bytes, peer, now.wall, &decision) { return false }
        if isGRPC, !readTimeout(head, bytes, &decision) { return false }
        decision.forwardsAuthorization = gate.forwardsAuthorization
        decision.keptFields = gate.keptFields
        decision.removesKey = gate.takesKeys
        if head.fields.contains(.upgrade), !readHandshake(gate, head, bytes, &decision) { return false }
        guard admitsOrigin(head, &decision), identify(gate, head, bytes, peer, refresh, now.wall, &decision),
            !gate.wantsProof(of: decision) || proves(gate, head, bytes, peer, now.wall, &decision), admitsActor(gate, to: &decision),
            authorise(gate, now.wall, &decision)
        else { return false }
        if case .length(let length) = head.framing, length > gate.bodyLimit {
            decision.refuse(.payloadTooLarge)
            return false
        }
        switch gate.target {
        case .upstream(let number):
            let chosen = gate.isSplit ? splitUpstream(route, number, head, bytes, &decision) : number
            decision.verdict = .forward(upstream: chosen)
            enterCache(gate, head, &decision)
            addIdentity(gate, &decision)
            if gate.looksAtAccount { addAccount(gate, now.wall.seconds, &decision) }
            let told = decision.requestEdits.http1.byteCount
            decision.cache?.told = told
            decision.editAuthorization(bytes)
            // The end of a WebSocket that is only checked is not seen.
            if decision.handshake != nil, check == nil, !chargeSocket(route, gate, head, bytes, &decision) { return false }
            if gate.signsIdentity, !signIdentity(route, gate, now.wall, &decision) { return false }
        case .local(let number):
            // Behind the proxy that asks is something else.
            guard check == nil else {
                decision.refuse(.notFound)
                return false
            }
            decision.verdict = .local(number)
        }
        return (gate.hasLimit || gate.takesKeys || !decision.singles.isEmpty) && charge(route, gate, head, bytes, &decision)
    }

    // MARK: Identity

    /// Authenticates the request as the route asks. False if it was refused or must wait.
    private mutating func identify(
        _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ refresh: RefreshAnswer?,
        _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        if head.authorizationCount > 1 {
            decision.refuse(.badRequest(.severalAuthorizations), .refused, .severalAuthorizations)
            return false
        }
        switch gate.auth {
        case .none:
            if gate.refusesActors { readActor(bytes[head.authorization], now, &decision) }
            return true
        case .internal:
            decision.internalCaller = InternalCaller.match(
                policy.internals, head, bytes, decision.client, peer.certificateNames, takesSecret: gate.target.isLocal)
            guard decision.internalCaller >= 0 else {
                // RFC 7662 §2.3 asks for 401 at the gateway's own endpoint.
                decision.refuse(gate.target.isLocal ? .unauthorized(.caller) : .forbidden(.caller), .refused, .caller)
                return false
            }
            guard admitsPage(at: decision.internalCaller, head, bytes, peer, &decision) else { return false }
        case .key, .requiredOrKey:
            if let isAccepted = identifyByKey(gate, head, bytes, now, &decision) { return isAccepted }
        case .required, .optional: break
        }
        // A proxy may drop the new tokens of a refresh, and with them the session.
        if decision.check == nil { readRefreshToken(head, bytes, peer, &decision) }
        if let token = decision.handshake?.token {
            guard head.authorizationCount == 0 else {
                decision.refuse(.badRequest(.severalAuthorizations), .refused, .severalAuthorizations)
                return false
            }
            return verify(bytes[token], gate, refresh, now, &decision)
        }
        let value = bytes[head.authorization]
        if head.authorizationCount == 1, let start = Bearer.tokenStart(value) {
            return verify(value.dropping(start), gate, refresh, now, &decision)
        }
        decision.auth = .anonymous
        // A refresh token is useless without the expired token, so the request is refused even where identity is optional.
        guard gate.auth == .required || gate.auth == .requiredOrKey || decision.offersRefresh else { return true }
        decision.refuse(.unauthorized(.missing), .refused, .missing)
        return false
    }

    private mutating func verify(
        _ token: RawSpan, _ gate: RouteGate, _ refresh: RefreshAnswer?, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        let seconds = now.seconds
        let entry = cache.lookup(token, at: seconds)
        if entry >= 0 {
            decision.tokenSource = .hit
            decision.tokenSerial = cache.serial(entry)
            decision.identity = cache.identity(entry)
            if decision.identity?.isBound == true { decision.owner = cache.owner(entry) }
            cache.append(entry, to: &decision.identityLines, key: &decision.keyBytes)
        } else {
            decision.tokenSource = .miss
            switch verifyAnew(token, gate, now, seconds, &decision) {
            case .accepted: break
            case .expired(let expired): return applyRefresh(expired, refresh, now, &decision)
            case .refused: return false
            }
        }
        guard let identity = decision.identity else { return false }
        gate.useDialect(of: identity.contract, &decision)
        guard identity.audiences & gate.audiences != 0 else { return refuse(.wrongAudience, &decision) }
        guard isLive(identity, now, &decision) else { return false }
        if entry >= 0, let session = identity.ownSession, cache.notesUse(entry, at: seconds) {
            decision.effects.deliveredToken = TokenDelivery(session: session.text, token: "")
        }
        decision.auth = .accepted
        return true
    }

    private enum Verification {
        case accepted
        /// Valid but for its age, and the caller sent a refresh token.
        case expired(VerifiedToken)
        case refused
    }

    private mutating func verifyAnew(
        _ token: RawSpan, _ gate: RouteGate, _ now: WallTime, _ seconds: Int64, _ decision: inout Decision
    ) -> Verification {
        let key = refusedTokens.key(of: token)
        if let algorithm = refusedTokens.find(key) {
            decision.verifiedAlgorithm = algorithm
            _ = refuse(.badSignature, &decision)
            return .refused
        }
        let mayRefresh = !decision.refreshToken.isEmpty
        let result = verifier.verify(token, trust: policy.trust, now: now, takesExpired: mayRefresh || gate.dialectIsOfToken)
        decision.verifiedAlgorithm = verifier.lastAlgorithm
        switch result {
        case .success(let verified) where verified.isExpired:
            gate.useDialect(of: verified.contract, &decision)
            // The caller holds no key by which a bound session could be refreshed.
            if mayRefresh, verified.owner == nil { return .expired(verified) }
            _ = refuse(.expired, &decision)
            return .refused
        case .success(let verified):
            let identity = Identity(
                verified, token, trust: policy.trust, tiers: policy.tiers, hash: hash, edits: &decision.identityLines)
            guard let identity else {
                _ = refuse(.unsafeClaim, &decision)
                return .refused
            }
            decision.identity = identity
            decision.owner = verified.owner
            if let key = verified.keyID { decision.keyBytes.append(key) }
            if identity.isOwn, verified.sessionID.byteCount > 0 {
                decision.effects.deliveredToken = TokenDelivery(session: verified.sessionID.text, token: verified.tokenID.text)
            }
            decision.tokenSerial = cache.insert(
                token, identity, key: decision.keyBytes.readable, fields: decision.identityLines.http1, owner: verified.owner, at: seconds)
            return .accepted
        case .failure(let fault):
            if fault == .badSignature, let algorithm = verifier.lastAlgorithm { refusedTokens.insert(key, algorithm) }
            _ = refuse(fault, &decision)
            return .refused
        }
    }

    /// Refuses the token: 401, or 503 if the issuer's keys have never been fetched. Returns false.
    func refuse(_ fault: TokenFault, _ decision: inout Decision) -> Bool {
        decision.removeIdentity()
        if let issuer = fault.issuerWithoutKeys {
            decision.effects.keysWanted = issuer
            let refusal = Refusal.unavailable(.keys, retryAfterSeconds: Self.keysRetrySeconds)
            decision.refuse(refusal, .unavailable, .keysUnavailable)
        } else {
            if let issuer = fault.issuerOfUnknownKey { decision.effects.keysWanted = issuer }
            decision.refuse(.unauthorized(.token(fault)), .refused, AuthReason(fault))
        }
        return false
    }

    /// Identifies the sender of a request that needs no bearer, if its bearer is a valid token of an actor. Ignores any
    /// other bearer, because clients also send expired ones. The token is not cached: the next request with it would hit the
    /// cache, and its delivery would never be confirmed.
    private mutating func readActor(_ value: RawSpan, _ now: WallTime, _ decision: inout Decision) {
        guard let start = Bearer.tokenStart(value) else { return }
        let token = value.dropping(start)
        let entry = cache.lookup(token, at: now.seconds)
        if entry >= 0 {
            decision.identity = cache.identity(entry)
            cache.append(entry, to: &decision.identityLines, key: &decision.keyBytes)
        } else if case .success(let verified) = verifier.verify(token, trust: policy.trust, now: now), verified.isOwn,
            verified.hasActor
        {
            decision.identity = Identity(
                verified, token, trust: policy.trust, tiers: policy.tiers, hash: hash, edits: &decision.identityLines)
        }
        guard let identity = decision.identity, identity.isOwn, identity.hasActor, !revoked.contains(identity.session) else {
            decision.removeIdentity()
            return
        }
    }

    /// False if the target is the gateway's own endpoint and the token names an actor: actors may only use routes.
    private func admitsActor(_ gate: RouteGate, to decision: inout Decision) -> Bool {
        guard gate.refusesActors, let identity = decision.identity, identity.isOwn || identity.outside != nil, identity.hasActor
        else { return true }
        decision.refuse(.forbidden(.actor), .refused, .actor)
        return false
    }

    /// Whether the caller meets the route's claims, tier and scopes, and has signed in and proven a factor lately enough. Anonymous callers
    /// get 401, because a token may help.
    private mutating func authorise(_ gate: RouteGate, _ now: WallTime, _ decision: inout Decision) -> Bool {
        if gate.claims != 0 {
            guard let identity = decision.identity else { return refuseAnonymous(&decision) }
            // The account has given up the email that the token claims.
            guard identity.claims & gate.claims == gate.claims, !(gate.claimsEmail && decision.hidesEmail) else {
                decision.refuse(.forbidden(.claims), .refused, .claims)
                return false
            }
        }
        if let tier = gate.tier, !holds(tier, gate, &decision) { return false }
        guard settleUnknownTier(gate, &decision) else { return false }
        if gate.scopes != 0, !holdsScopes(gate, &decision) { return false }
        if gate.looksAtAccount, !readAccount(gate, now, &decision) { return false }
        guard gate.stepsUp else { return true }
        return hasSignedInLately(gate.maxAge, now.seconds, &decision) && hasFactor(gate, now.seconds, &decision)
    }

    // MARK: Limit

    /// Fills `decision.charge`. Returns false if nothing is counted, and refuses the request if a field that a limit counts by is repeated: the
    /// upstream may read another of them than was counted.
    private func charge(
        _ route: Int, _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        decision.isLimitShadowed = gate.shadow.contains(.limit) && decision.singles.isEmpty
        // Limits in shadow mode would let a request pass whose proof or attestation is not counted.
        let hasRow = gate.hasLimit && (decision.singles.isEmpty || !gate.shadow.contains(.limit))
        decision.limitRow = hasRow ? limits.row(route, decision.tier) : CompiledLimits.noRow
        let row = limits.rows[decision.limitRow]
        for line in row.first..<row.first + row.count {
            let line = limits.lines[line]
            guard let (kind, subject) = subject(line, head, bytes, &decision) else {
                decision.charge.removeAll()
                decision.refuse(.badRequest(.repeatedField))
                return false
            }
            decision.charge.append(
                LimitCharge.Item(key: subject.combined(with: line.key), rate: line.rate, subject: kind, tag: subject.tag))
        }
        chargeKey(&decision)
        if !decision.singles.isEmpty { chargeSingleUses(&decision) }
        return decision.charge.count > 0
    }

    /// The subject of `line`. nil if its field is repeated, unless the limit is in shadow mode.
    func subject(
        _ line: CompiledLimits.Line, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> (SubjectKind, LimitKey)? {
        switch line.subject {
        case .user: if let identity = decision.identity { return (.user, identity.user) }
        case .session: if let identity = decision.identity { return (.session, identity.session) }
        case .header:
            decision.passesTrailers = false
            switch limits.countedField(line, head.fields, bytes) {
            case .missing: break
            case .sole(let value):
                if !value.isEmpty { return (.header, LimitSubject.header(bytes[value], hash)) }
            case .repeated:
                guard decision.isLimitShadowed else { return nil }
                decision.shadowed.insert(.limit)
            }
        case .address: break
        }
        return (.address, LimitSubject.address(decision.client.address, hash))
    }
}
