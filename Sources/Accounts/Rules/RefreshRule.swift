package import Credentials
package import Wire

/// The effect of a refresh token on its session.
package enum RefreshVerdict: Equatable, Sendable {
    /// The counter is incremented, and the new pair is handed out.
    case rotate
    /// The successor of this token is handed out again: a concurrent refresh, or a lost response.
    case again
    /// The client refreshes in a loop: the current pair is handed out again.
    case storm
    /// The token does not rotate: a new access token is handed out.
    case keep
    /// Nothing is handed out; the session stays as it is.
    case refuse(RefreshRefusal)
    /// A token whose successor was delivered came back: it was stolen, and the session is ended (RFC 9700 §4.14.2).
    case reuse
}

/// Why a refresh token is refused.
package enum RefreshRefusal: Equatable, Sendable {
    /// There is no such session, or it has ended.
    case noSession
    case wrongContract
    /// The session can no longer be refreshed.
    case expired
    /// A counter that was never issued: the database was restored from a backup, or the secret has leaked.
    case ahead
    /// It lacks a proof of the key of the session's device.
    case unproven(DeviceProofFault)
}

/// Decides over a refresh token by the session's counter. Pure; stores apply it inside a transaction.
package struct RefreshRule: Sendable, Equatable {
    /// A client that increments the counter this often within `stormSeconds` refreshes in a loop.
    static let stormSteps: Int64 = 10
    static let stormSeconds: Int64 = 10

    /// Seconds for which a spent token still gets its successor although that was delivered.
    package let graceSeconds: Int64

    package init(graceSeconds: Int64 = 30) { self.graceSeconds = graceSeconds }

    /// `counter` is the token's, nil for one that does not rotate; `contract` is the endpoint's.
    package func verdict(
        counter: UInt64?, contract: ContractID, session: Session, now: WallTime
    ) -> RefreshVerdict {
        guard session.contract == contract else { return .refuse(.wrongContract) }
        guard now < session.deadline else { return .refuse(.expired) }
        switch (contract.sessionPolicy.refresh, counter) {
        case (.rotating, let counter?): return rotation(counter, session, now)
        case (.kept, nil): return .keep
        case (.rotating, nil), (.kept, .some), (.none, _): return .refuse(.wrongContract)
        }
    }

    private func rotation(_ counter: UInt64, _ session: Session, _ now: WallTime) -> RefreshVerdict {
        if counter > session.counter { return .refuse(.ahead) }
        if counter == session.counter { return session.isStormed(at: now) ? .storm : .rotate }
        guard counter + 1 == session.counter else { return .reuse }
        let isLate = session.rotatedAt.advanced(seconds: graceSeconds) <= now
        return session.isConfirmed && isLate ? .reuse : .again
    }
}

extension RefreshRequest {
    /// The verdict of the rule if the request proves the session's key. Otherwise it is refused and the session stays open, so that a thief
    /// cannot sign the owner out. Exception: reuse of a token from before a refresh bound the session ends it, since a thief may have bound it.
    package func verdict(on session: Session, now: WallTime) -> RefreshVerdict {
        let found = rule.verdict(counter: counter, contract: contract, session: session, now: now)
        guard session.contract == contract, now < session.deadline else { return found }
        if found == .reuse, let counter, let bound = session.boundCounter, counter < bound { return .reuse }
        if deviceKey == nil, session.deviceKey != nil || keyUse == .required { return .refuse(.unproven(.missing)) }
        if let key = session.deviceKey, key != deviceKey { return .refuse(.unproven(.otherKey)) }
        return found
    }

    /// The key of `session` after this refresh: one that is bound to none takes the key of the proof.
    package func key(of session: Session) -> KeyThumbprint? { session.deviceKey ?? (keyUse == .off ? nil : deviceKey) }
}

extension Session {
    fileprivate func isStormed(at now: WallTime) -> Bool {
        countsSteps(at: now) && steps >= RefreshRule.stormSteps
    }

    /// Whether the counted increments are recent. False if the clock was set back.
    private func countsSteps(at now: WallTime) -> Bool {
        stepsSince <= now && now < stepsSince.advanced(seconds: RefreshRule.stormSeconds)
    }

    /// Applies `.rotate`; `idleSeconds` is how long the session stays open without another refresh.
    package mutating func rotate(at now: WallTime, idleSeconds: Int64) {
        if !countsSteps(at: now) {
            stepsSince = now
            steps = 0
        }
        steps += 1
        counter += 1
        isConfirmed = false
        rotatedAt = now
        lastUsedAt = now
        idleDeadline = now.advanced(seconds: idleSeconds)
    }
}
