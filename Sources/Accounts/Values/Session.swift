package import Wire

/// One sign-in of one app: what access tokens name as `sid`, and what refresh tokens prolong.
package struct Session: Sendable, Equatable {
    package let id: UUID
    package let user: UUID
    package let contract: ContractID
    /// What the app calls itself (its `User-Agent`), up to 256 bytes.
    package let device: String?
    package let createdAt: WallTime
    /// When it was opened or last refreshed.
    package var lastUsedAt: WallTime
    /// Not refreshed from then on, unless a refresh before puts it off.
    package var idleDeadline: WallTime
    /// Not refreshed from then on, whatever happens; nil for a session that may live on and on.
    package let maxDeadline: WallTime?
    /// The number of the refresh token that is current, 1 for the first.
    package var counter: UInt64
    /// Whether the current pair is known to have reached the client.
    package var isConfirmed: Bool
    /// When the counter took its last step.
    package var rotatedAt: WallTime
    /// Since when steps are counted, and how many there were.
    package var stepsSince: WallTime
    package var steps: Int64

    /// A session as it begins.
    package init(_ new: NewSession, user: UUID, now: WallTime) {
        let policy = new.contract.sessionPolicy
        id = new.id
        self.user = user
        contract = new.contract
        device = new.device
        createdAt = now
        lastUsedAt = now
        idleDeadline = now.advanced(seconds: policy.idleSeconds)
        maxDeadline = policy.refresh == .rotating ? nil : idleDeadline
        counter = 1
        isConfirmed = false
        rotatedAt = now
        stepsSince = now
        steps = 0
    }

    /// A session as it was stored.
    package init(
        id: UUID, user: UUID, contract: ContractID, device: String?, createdAt: WallTime, lastUsedAt: WallTime,
        idleDeadline: WallTime, maxDeadline: WallTime?, counter: UInt64, isConfirmed: Bool, rotatedAt: WallTime,
        stepsSince: WallTime, steps: Int64
    ) {
        self.id = id
        self.user = user
        self.contract = contract
        self.device = device
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.idleDeadline = idleDeadline
        self.maxDeadline = maxDeadline
        self.counter = counter
        self.isConfirmed = isConfirmed
        self.rotatedAt = rotatedAt
        self.stepsSince = stepsSince
        self.steps = steps
    }

    /// When it can no longer be refreshed.
    package var deadline: WallTime { min(idleDeadline, maxDeadline ?? idleDeadline) }
}

/// What is known of a session before it is known whose it becomes.
package struct NewSession: Sendable, Equatable {
    package let id: UUID
    package let contract: ContractID
    package let device: String?

    package init(id: UUID, contract: ContractID, device: String?) {
        self.id = id
        self.contract = contract
        self.device = device
    }
}

/// Why a session ended. Stored and told to other gateways: the texts never change.
package enum EndReason: String, CaseIterable, Sendable {
    case signOut = "sign-out"
    /// The operator ended it.
    case revoked
    /// A refresh token came that had been spent long before: somebody else has the chain.
    case refreshReuse = "refresh-reuse"
    case passwordChanged = "password-changed"
    /// Somebody proved, without a session of the account, to own the email that it was opened with.
    case accountTaken = "account-taken"
    case accountDeleted = "account-deleted"
}

/// A session whose access tokens are refused although they have not expired.
package struct EndedSession: Sendable, Hashable {
    package let id: UUID
    package let user: UUID
    package let endedAt: WallTime
    package let reason: EndReason

    package init(id: UUID, user: UUID, endedAt: WallTime, reason: EndReason) {
        self.id = id
        self.user = user
        self.endedAt = endedAt
        self.reason = reason
    }
}
