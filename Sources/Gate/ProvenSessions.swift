package import Credentials
import Wire

/// The proofs of a worker, by session. Per worker, so that a look-up needs no lock. What is not here was not proven. Those that are older than
/// any route takes are removed, which bounds the list.
struct ProvenSessions {
    /// How old a proof may be that counts anywhere, in seconds.
    static let mostSeconds: Int64 = 30 * 86_400

    private var times = KeyTable<Int64>()

    /// When the session proved the factor, in seconds since 1970; `.min` for a proof that counts no more.
    subscript(session: LimitKey) -> Int64? { times[session] }

    /// `now` is in seconds since 1970. A proof that counts no more stays as one of long ago, until the list is full.
    mutating func note(_ session: LimitKey, at time: Int64?, now: Int64) {
        if times.isFull { times.keep { $0 > now - Self.mostSeconds } }
        if time != nil || times[session] != nil { times.set(time ?? .min, for: session) }
    }

    /// A session that has ended: its tokens are refused, so its proof is removed when the list is full.
    mutating func end(_ session: LimitKey) {
        guard times[session] != nil else { return }
        // A change of an entry grows the full table, too.
        if times.isFull { times.keep { $0 != .min } }
        times.set(.min, for: session)
    }

    mutating func removeAll() { times.removeAll() }
}

extension Admission {
    /// Takes note of proofs. `isWhole`: those are all, and no other counts. `now` is in seconds since 1970.
    package mutating func learn(_ proofs: [ProvenSession], isWhole: Bool = false, at now: Int64) {
        if isWhole { proven.removeAll() }
        var id = ByteBuffer(capacity: 36)
        for proof in proofs {
            id.removeAll()
            proof.id.write(into: &id)
            proven.note(LimitSubject.session(id.readable, issuer: ownIssuer, hash), at: proof.at?.seconds, now: now)
        }
    }

    /// Whether the session has proven a second factor as lately as the route demands, or the setting of users of this tier. Refused are also
    /// tokens without a session of ours: those of outside issuers and API keys, on routes with `factor=`.
    func hasFactor(_ gate: RouteGate, _ now: Int64, _ decision: inout Decision) -> Bool {
        guard let identity = decision.identity else { return gate.factorAge == 0 || refuseAnonymous(&decision) }
        let proof = identity.isOwn ? proven[identity.session] : nil
        decision.factorAt = proof == .min ? nil : proof
        let most = gate.factorAge == 0 ? UInt32(ProvenSessions.mostSeconds) : gate.factorAge
        if let proof {
            let (age, overflows) = now.subtractingReportingOverflow(proof)
            if !overflows, age <= Int64(most), age >= -policy.trust.clockSkewSeconds { return true }
        }
        if gate.factorAge == 0 {
            guard identity.isOwn, let least = gate.factorTier else { return true }
            guard let tier = decision.tier else { return refuseUnknownTier(&decision) }
            if tier < least { return true }
        }
        decision.refuse(.unauthorized(.noFactor(maxAge: most)), .refused, .noFactor)
        return false
    }
}
