import Credentials
import HTTP
import Wire

/// API keys, on routes that take them (`auth=key`).
extension Admission {
    /// The field for keys. Routes that take keys never forward it, whatever is in it.
    static let keyField: StaticString = "X-Api-Key"

    /// Identifies the caller by a key in `X-Api-Key` or in place of the bearer token. A key beside a token is refused: the one who reads the
    /// request next might heed the other. nil if the request brings no key, and may bring a token; false if it is refused.
    mutating func identifyByKey(
        _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ now: WallTime, _ decision: inout Decision
    ) -> Bool? {
        // Without a place among the issuers the policy knows no keys.
        guard gate.takesKeys else { return gate.auth == .key ? refuse(.unauthorized(.key), .key, &decision) : nil }
        // The proxy that asks would pass it on; it removes the field's own name alone.
        if decision.check != nil, hasKeyLookAlike(head.fields, bytes) {
            decision.refuse(.badRequest(.description(.lookAlike)))
            return false
        }
        let (bearer, offered) = (head.authorizationCount == 1 ? bearerToken(head, bytes) : nil, decision.handshake?.token)
        guard bearer == nil || offered == nil else {
            return refuse(.badRequest(.severalAuthorizations), .severalAuthorizations, &decision)
        }
        let token = bearer ?? offered
        switch Self.soleField(Self.keyField, head.fields, bytes) {
        case .repeated: return refuse(.badRequest(.repeatedField), .severalAuthorizations, &decision)
        case .sole where token != nil: return refuse(.badRequest(.keyBesideToken), .severalAuthorizations, &decision)
        case .sole(let value): return identify(by: bytes[value], gate, now, &decision)
        case .missing: break
        }
        guard let token else {
            guard gate.auth == .key else { return nil }
            return refuse(.unauthorized(.keyMissing), .missing, &decision)
        }
        return gate.auth == .key || APIKeyText.isMeant(bytes[token]) ? identify(by: bytes[token], gate, now, &decision) : nil
    }

    func bearerToken(_ head: borrowing RequestHead, _ bytes: RawSpan) -> Slice? {
        let value = head.authorization
        return Bearer.tokenStart(bytes[value]).map { Slice(start: Int(value.start) + $0, count: Int(value.count) - $0) }
    }

    /// The field that is called `name` in any spelling.
    static func soleField(_ name: StaticString, _ fields: borrowing FieldTable, _ bytes: RawSpan) -> CompiledLimits.CountedField {
        var found = CompiledLimits.CountedField.missing
        for index in 0..<fields.count where FoldedName.matches(bytes[fields[index].name], name.rawBytes) {
            guard case .missing = found else { return .repeated }
            found = .sole(fields[index].value)
        }
        return found
    }

    /// Whether a field has another spelling of the key field's name.
    private func hasKeyLookAlike(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> Bool {
        let own = Self.keyField.rawBytes
        for index in 0..<fields.count {
            let name = bytes[fields[index].name]
            if FoldedName.matches(name, own), !FoldedName.isSpelling(name, of: own) { return true }
        }
        return false
    }

    private func refuse(_ refusal: Refusal, _ reason: AuthReason, _ decision: inout Decision) -> Bool {
        decision.refuse(refusal, .refused, reason)
        return false
    }

    private mutating func identify(
        by text: RawSpan, _ gate: RouteGate, _ now: WallTime, _ decision: inout Decision
    ) -> Bool? {
        let key: KnownAPIKey
        switch keys.find(text, at: now.seconds) {
        case .wrong: return refuse(.unauthorized(.key), .key, &decision)
        case .ended: return refuse(.unauthorized(.key), .keyEnded, &decision)
        case .unknown:
            let refusal = Refusal.unavailable(.accounts, retryAfterSeconds: Self.accountsRetrySeconds)
            decision.refuse(refusal, .unavailable, .accountsUnavailable)
            return false
        case .key(let found, let isNoted):
            key = found
            if isNoted { decision.effects.usedKey = found.id }
        }
        decision.forwardsAuthorization = false
        decision.identity = Identity(key, issuer: policy.keyIssuer, policy.tiers, hash, edits: &decision.identityLines)
        decision.tier = decision.identity?.tier
        decision.tierOrigin = .claim(decision.identity?.tierClaim ?? .unknown)
        decision.ownRate = key.rate
        // No token has such a serial, and no other key this one.
        decision.tokenSerial = key.id.low | 1 << 63
        guard key.routes.isEmpty || key.routes.contains(policy.rules[decision.routeIndex].name) else {
            return refuse(.forbidden(.key), .keyRoute, &decision)
        }
        decision.auth = .accepted
        return true
    }

    /// Takes the place of the keys that were known.
    package mutating func adopt(_ table: APIKeyTable) { keys.adopt(table) }

    /// Adds the limit of the caller's key to the charge.
    func chargeKey(_ decision: inout Decision) {
        guard let rate = decision.ownRate, let user = decision.identity?.user else { return }
        decision.charge.append(LimitCharge.Item(key: user.combined(with: limits.ownKey), rate: rate, subject: .user, tag: user.tag))
    }
}

extension Identity {
    /// The identity of an API key. A tier that the gateway does not have is the lowest.
    init(_ key: KnownAPIKey, issuer: Int, _ tiers: TierList, _ hash: KeyedHash, edits: inout FieldEdits) {
        let rank = tiers.rank(of: key.tier)
        outside = nil
        fields = IdentityFields(key: key.id, into: &edits)
        isEmailProven = false
        email = nil
        issuerIndex = Int32(issuer)
        keySerial = 0
        expiresAt = key.expiresAt
        issuedAt = 0
        signedInAt = nil
        algorithm = nil
        tier = rank ?? .lowest
        tierClaim = rank == nil ? .unknown : .known
        isOwn = false
        contract = nil
        isBound = false
        hasActor = false
        mayHaveAccount = false
        claims = 0
        scopes = 0
        audiences = .max
        user = LimitSubject.apiKey(key.id, hash)
        session = user
        ownSession = nil
        apiKey = key.id
    }
}

extension IdentityFields {
    /// Those of an API key.
    init(key: UUID, into edits: inout FieldEdits) {
        edits.removeAll()
        replaceUser(key, in: &edits)
        _ = write(.tokenIssuer, ("key" as StaticString).rawBytes, into: &edits)
    }
}

extension Explanation {
    /// The standing of the key's own limit; nil for a caller without one.
    static func keyLimit(_ note: borrowing DecisionRecord, _ rule: RouteRule) -> String? {
        guard let rate = note.ownRate else { return nil }
        return limit(note, "\(rate.text) of the key itself", rule.limits.count)
    }
}
