package import Wire

/// The second factor of an account: the secret of an authenticator app, as it is kept.
package struct KeptFactor: Sendable, Equatable {
    /// How long an enrolment waits for its first code, in seconds.
    package static let enrolmentSeconds: Int64 = 600
    /// How old the proof of a factor may be that changes the factor, in seconds.
    package static let recentSeconds: Int64 = 600
    /// How long the proof of a factor counts anywhere, in seconds: gateways forget older ones.
    package static let mostSeconds: Int64 = 30 * 86_400
    package static let backupCodes = 10

    /// Its own: another secret in its place has another one.
    package let id: UUID
    package let sealed: [UInt8]
    package let createdAt: WallTime
    /// When its first code came; nil before.
    package var confirmedAt: WallTime?
    /// The step of the last code that was taken.
    package var lastStep: Int64 = 0
    /// Those that are left.
    package var backupCodes = 0

    package init(id: UUID, sealed: [UInt8], createdAt: WallTime) {
        self.id = id
        self.sealed = sealed
        self.createdAt = createdAt
    }

    /// Whether a code of a step is taken: each once, and those before it no more. `enrols`: whether it may be the first one.
    package func takes(_ step: Int64, enrols: Bool, at now: WallTime) -> Bool {
        guard step > lastStep else { return false }
        return confirmedAt != nil || enrols && now < createdAt.advanced(seconds: Self.enrolmentSeconds)
    }
}

/// The proof that a session's user has the second factor.
package enum FactorProof: Sendable, Equatable {
    /// The code of a step, by the secret of this id.
    case code(step: Int64, of: UUID, enrols: Bool)
    /// The digest of a backup code.
    case backup([UInt8])
}

/// Why a call for the second factor is refused.
package enum FactorRefusal: Error, Equatable {
    case recency(RecencyRefusal)
    /// The account has none.
    case none
    /// The account has one already.
    case exists
    case wrongCode
}

extension Session {
    /// Whether its user has proven the second factor within the last `seconds`.
    package func hasFactor(within seconds: Int64 = KeptFactor.recentSeconds, at now: WallTime) -> Bool {
        factorAt.map { now < $0.advanced(seconds: seconds) } ?? false
    }
}
