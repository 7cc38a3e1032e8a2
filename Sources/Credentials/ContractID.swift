/// A client contract. Its numbers and names are stored and written into tokens, so they never change.
package enum ContractID: UInt8, CaseIterable, Sendable {
    case password = 2
    case provider = 1
    case dlauth = 4
    case apple = 3
    case anonymous = 5

    /// Its name in settings, logs and messages.
    package var name: String {
        switch self {
        case .provider: "provider"
        case .password: "password"
        case .apple: "apple"
        case .dlauth: "dlauth"
        case .anonymous: "anonymous"
        }
    }

    /// The lifetimes that its document gives for sessions and tokens. `SessionPolicies` has those in force.
    package var sessionPolicy: SessionPolicy {
        switch self {
        case .provider: SessionPolicy(accessSeconds: 3_600, idleSeconds: 30 * 86_400, refresh: .rotating)
        case .password: SessionPolicy(accessSeconds: 7 * 86_400, idleSeconds: 30 * 86_400, refresh: .kept)
        case .apple: SessionPolicy(accessSeconds: 7 * 86_400, idleSeconds: 7 * 86_400, refresh: .none)
        case .dlauth: SessionPolicy(accessSeconds: 3_600, idleSeconds: 30 * 86_400, refresh: .rotating)
        case .anonymous: SessionPolicy(accessSeconds: 900, idleSeconds: 7 * 86_400, refresh: .rotating)
        }
    }
}

/// Whether sessions of a contract are bound to keys of devices (`TOLLGATE_DEVICE_KEY_<CONTRACT>`).
package enum DeviceKeyUse: String, CaseIterable, Sendable {
    /// A proof binds the session; without one it stays as it is.
    case offered
    /// Proofs bind no session. One that is bound stays bound.
    case off
    /// No session is opened or refreshed without a proof.
    case required
}

/// Lifetimes of a session and its tokens, in seconds.
package struct SessionPolicy: Sendable, Equatable {
    /// The kind of refresh token.
    package enum Refresh: Sendable {
        /// An opaque token that is replaced at each use; each use extends the session by `idleSeconds`.
        case rotating
        /// A JWT that stays the same; the session ends `idleSeconds` after sign-in, whatever the use.
        case kept
        /// None: the session ends with its only access token.
        case none
    }

    package var accessSeconds: Int64
    package var idleSeconds: Int64
    package let refresh: Refresh
    package var deviceKey = DeviceKeyUse.offered

    /// The longest lifetime of any access token. Sessions that ended longer ago can be forgotten.
    package static let maxAccessSeconds = ContractID.allCases.map(\.sessionPolicy.accessSeconds).max() ?? 0
}
