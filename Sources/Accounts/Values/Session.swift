package import Credentials
package import Wire

/// One sign-in of one app. Access tokens name it as `sid`; refresh tokens extend it.
package struct Session: Sendable, Equatable {
    package let id: UUID
    package let user: UUID
    package let contract: ContractID
    /// The app's `User-Agent`, up to 256 bytes.
    package let device: String?
    /// The device's name as the app sends it (`X-Device-Name`), up to 64 characters.
    package var deviceName: String?
    /// The client's address at the sign-in, or at the last refresh that named one.
    package var address: IPAddress?
    /// The key that a refresh must prove; nil while it is bound to none.
    package var deviceKey: KeyThumbprint?
    /// The counter of its first pair that was bound, if a refresh did so; nil if all were, and without a key.
    package var boundCounter: UInt64?
    package let createdAt: WallTime
    /// When its user signed in; nil if that is not known.
    package var signedInAt: WallTime?
    /// When its user proved the second factor last; nil if that was never, or counts no more.
    package var factorAt: WallTime?
    /// When it was opened or last refreshed, or its user signed in again.
    package var lastUsedAt: WallTime
    /// When a gateway last saw its access token, to the minute; nil if none did, or it was before `lastUsedAt`.
    package var seenAt: WallTime?
    /// Whether it was just opened on a device that its account was never on, and is not the account's first. Not stored.
    package var isNewDevice = false
    /// End of the session unless it is refreshed before.
    package var idleDeadline: WallTime
    /// End of the session whatever its use; nil if there is none.
    package let maxDeadline: WallTime?
    /// The counter of the current refresh token, 1 for the first.
    package var counter: UInt64
    /// Whether delivery of the current pair is confirmed.
    package var isConfirmed: Bool
    /// When the counter was last incremented.
    package var rotatedAt: WallTime
    /// Number of increments since `stepsSince`, to detect clients that refresh in a loop.
    package var stepsSince: WallTime
    package var steps: Int64

    /// A new session.
    package init(_ new: NewSession, user: UUID, now: WallTime) {
        id = new.id
        self.user = user
        contract = new.contract
        device = new.device
        deviceName = new.deviceName
        address = new.address
        deviceKey = new.deviceKey
        createdAt = now
        switch new.signIn {
        case .opening: signedInAt = now
        case .at(let time): signedInAt = min(time, now)
        case .unknown: signedInAt = nil
        }
        factorAt = new.factorAt.map { min($0, now) }
        lastUsedAt = now
        idleDeadline = now.advanced(seconds: new.idleSeconds)
        maxDeadline = new.contract.sessionPolicy.refresh == .rotating ? nil : idleDeadline
        counter = 1
        isConfirmed = false
        rotatedAt = now
        stepsSince = now
        steps = 0
    }

    /// A session from the store.
    package init(
        id: UUID, user: UUID, contract: ContractID, device: String?, address: IPAddress?, createdAt: WallTime, lastUsedAt: WallTime,
        idleDeadline: WallTime, maxDeadline: WallTime?, counter: UInt64, isConfirmed: Bool, rotatedAt: WallTime,
        stepsSince: WallTime, steps: Int64, signedInAt: WallTime?
    ) {
        self.id = id
        self.user = user
        self.contract = contract
        self.device = device
        self.address = address
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.idleDeadline = idleDeadline
        self.maxDeadline = maxDeadline
        self.counter = counter
        self.isConfirmed = isConfirmed
        self.rotatedAt = rotatedAt
        self.stepsSince = stepsSince
        self.steps = steps
        self.signedInAt = signedInAt
    }

    /// From then on it cannot be refreshed.
    package var deadline: WallTime { min(idleDeadline, maxDeadline ?? idleDeadline) }
}

/// A session to be opened, before its account is known.
package struct NewSession: Sendable, Equatable {
    package let id: UUID
    package let contract: ContractID
    package let device: String?
    package var deviceName: String?
    /// The client's address; nil for the operator.
    package let address: IPAddress?
    /// `SessionPolicy.idleSeconds` in force.
    package let idleSeconds: Int64
    /// `SessionPolicy.accessSeconds` in force.
    package var accessSeconds: Int64
    package var signIn = SignInTime.opening
    /// When its user proved two factors at once, as by a passkey that verifies its user; nil for a sign-in by one.
    package var factorAt: WallTime?
    package var deviceKey: KeyThumbprint?
    /// The sessions that its account may have with it.
    package var bound = SessionBound.none
    /// The language of its user, which the account keeps; nil if the client names none that mails are written in.
    package var language: String?

    package init(id: UUID, contract: ContractID, device: String?, address: IPAddress? = nil, idleSeconds: Int64? = nil) {
        self.id = id
        self.contract = contract
        self.device = device
        self.address = address
        self.idleSeconds = idleSeconds ?? contract.sessionPolicy.idleSeconds
        accessSeconds = contract.sessionPolicy.accessSeconds
    }
}

/// When the user of a new session signed in.
package enum SignInTime: Sendable, Equatable {
    /// As it is opened.
    case opening
    /// Before, elsewhere. A time in the future counts as the opening.
    case at(WallTime)
    /// Not known: it continues a session of an outside issuer, for example.
    case unknown
}

/// Why a session ended. Stored and sent to other gateways: the texts never change.
package enum EndReason: String, CaseIterable, Sendable {
    case signOut = "sign-out"
    /// The operator ended it, or a newer one of its account took its place (`SessionBound`).
    case revoked
    /// A spent refresh token came back after its successor was delivered: it was stolen.
    case refreshReuse = "refresh-reuse"
    case passwordChanged = "password-changed"
    case identityUnlinked = "identity-unlinked"
    /// The owner of the account's unproven email proved it, without a session of the account.
    case accountTaken = "account-taken"
    case accountDeleted = "account-deleted"
    case accountBanned = "account-banned"
    /// Its account was merged into another one.
    case accountMerged = "account-merged"
}

/// An ended session, whose access tokens are refused although they have not expired; or an outside access token that was signed
/// out, under the id that `OutsideToken` gives it.
package struct EndedSession: Sendable, Hashable {
    package let id: UUID
    package let user: UUID
    package let endedAt: WallTime
    package let reason: EndReason
    /// When the last of its tokens has expired by every clock; nil if that is not known.
    package let expiresAt: WallTime?

    package init(id: UUID, user: UUID, endedAt: WallTime, reason: EndReason, expiresAt: WallTime? = nil) {
        self.id = id
        self.user = user
        self.endedAt = endedAt
        self.reason = reason
        self.expiresAt = expiresAt
    }

    /// A session of ours; nil for a contract of a later release.
    package init(id: UUID, of contract: ContractID?, user: UUID, endedAt: WallTime, reason: EndReason) {
        self.init(id: id, user: user, endedAt: endedAt, reason: reason, expiresAt: endedAt.advanced(seconds: Self.life(of: contract)))
    }

    /// How long a token of ours may outlive its session, in seconds: as long as its contract lets it live, and ten minutes for clock skew.
    package static func life(of contract: ContractID?) -> Int64 {
        (contract?.sessionPolicy.accessSeconds ?? SessionPolicy.maxAccessSeconds) + 600
    }
}
