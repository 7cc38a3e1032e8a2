/// The client contract that a session was opened under. Numbers and names are stored and stand in tokens: they never
/// change.
package enum ContractID: UInt8, CaseIterable, Sendable {
    case provider = 1
    case password = 2
    case apple = 3
    case dlauth = 4
    case anonymous = 5

    /// As settings and messages spell it.
    package var name: String {
        switch self {
        case .provider: "provider"
        case .password: "password"
        case .apple: "apple"
        case .dlauth: "dlauth"
        case .anonymous: "anonymous"
        }
    }

    /// How long what is issued under the contract lives: its document's numbers.
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

/// How long a session and its tokens live.
package struct SessionPolicy: Sendable, Equatable {
    /// What a session is refreshed with.
    package enum Refresh: Sendable {
        /// An opaque token that is replaced at each use; each use makes the session live on.
        case rotating
        /// A JWT that stays the same until the session ends, which no use puts off.
        case kept
        /// Nothing: the session ends with its one access token.
        case none
    }

    package let accessSeconds: Int64
    package let idleSeconds: Int64
    package let refresh: Refresh

    /// The longest that any access token is good for. What has ended longer ago than this need not be remembered.
    package static let longestAccessSeconds = ContractID.allCases.map(\.sessionPolicy.accessSeconds).max() ?? 0
}
