package import Wire

/// What a refresh token does to its session.
package enum RefreshVerdict: Equatable, Sendable {
    /// The counter takes a step, and the new pair is handed out.
    case rotate
    /// The pair that this token led to is handed out again: a parallel call, or an answer that was lost.
    case again
    /// The session is refreshed too often: the current pair is handed out again, without a step.
    case storm
    /// The token does not rotate: only an access token is handed out.
    case keep
    /// Nothing is handed out, and the session is unharmed.
    case refuse(RefreshRefusal)
    /// A token whose successor is known to have arrived: somebody else has it too, and the session dies (RFC 9700
    /// §4.14.2).
    case reuse
}

/// Why a refresh token is refused.
package enum RefreshRefusal: Equatable, Sendable {
    /// There is no such session, or no more.
    case noSession
    case wrongContract
    /// The session's time is over.
    case expired
    /// A number that was never handed out: a forgery, or the database was set back.
    case ahead
}

/// Decides over refresh tokens by the session's counter alone. Pure; each store asks it inside its transaction.
package struct RefreshRule: Sendable, Equatable {
    /// So many steps in so many seconds are a client that runs wild.
    static let stormSteps: Int64 = 10
    static let stormSeconds: Int64 = 10

    /// How long a spent token still gets its successor although that has arrived.
    package let graceSeconds: Int64

    package init(graceSeconds: Int64 = 30) { self.graceSeconds = graceSeconds }

    /// `counter` is the token's, nil for one that does not rotate; `contract` is the one it was presented under.
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

extension Session {
    fileprivate func isStormed(at now: WallTime) -> Bool {
        countsSteps(at: now) && steps >= RefreshRule.stormSteps
    }

    /// Whether the steps counted so far are recent; a clock that was set back does not make them so for ever.
    private func countsSteps(at now: WallTime) -> Bool {
        stepsSince <= now && now < stepsSince.advanced(seconds: RefreshRule.stormSeconds)
    }

    /// What `.rotate` does to the session.
    package mutating func rotate(at now: WallTime) {
        if !countsSteps(at: now) {
            stepsSince = now
            steps = 0
        }
        steps += 1
        counter += 1
        isConfirmed = false
        rotatedAt = now
        lastUsedAt = now
        idleDeadline = now.advanced(seconds: contract.sessionPolicy.idleSeconds)
    }
}
