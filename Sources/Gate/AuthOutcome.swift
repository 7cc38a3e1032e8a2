package import Credentials

/// Result of authentication, with its word for logs and metrics.
package enum AuthOutcome: UInt8, CaseIterable, Sendable {
    /// Not checked: `auth=none`, or refused earlier.
    case notLooked
    /// No credentials, and none were required.
    case anonymous
    case accepted
    case refused
    /// Could not be checked, for lack of keys.
    case unavailable

    package var text: StaticString {
        switch self {
        case .notLooked: "none"
        case .anonymous: "anonymous"
        case .accepted: "accepted"
        case .refused: "refused"
        case .unavailable: "unavailable"
        }
    }
}

/// Reason of that result, from a closed set that can be a metric label.
package enum AuthReason: UInt8, CaseIterable, Sendable {
    case none, missing, severalAuthorizations, revoked, caller, actor, claims, tier, accountsUnavailable, refreshMismatch,
        refreshUnavailable
    case signInTooOld, noFactor
    case foreignOrigin
    case banned, closed, attributes, scope
    case key, keyEnded, keyRoute
    /// Of an accepted token: with a proof of the key that it is bound to.
    case proven
    case proofMissing, proofInvalid, proofNonce, proofReplayed, unbound
    /// Of an attestation that counts once.
    case used
    case tooLarge, malformed, duplicateMember, unsupportedAlgorithm, criticalExtension, wrongIssuer, algorithmNotAllowed
    case keysUnavailable, unknownKey, badSignature, expired, notYetValid, noExpiry, wrongAudience, lifetimeTooLong
    case notAnAccessToken, noSubject, unsafeClaim, badClaim

    package init(_ fault: TokenFault) {
        switch fault {
        case .tooLarge: self = .tooLarge
        case .malformed: self = .malformed
        case .duplicateMember: self = .duplicateMember
        case .unsupportedAlgorithm: self = .unsupportedAlgorithm
        case .criticalExtension: self = .criticalExtension
        case .wrongIssuer: self = .wrongIssuer
        case .algorithmNotAllowed: self = .algorithmNotAllowed
        case .keysUnavailable: self = .keysUnavailable
        case .unknownKey: self = .unknownKey
        case .badSignature: self = .badSignature
        case .expired: self = .expired
        case .notYetValid: self = .notYetValid
        case .noExpiry: self = .noExpiry
        case .wrongAudience: self = .wrongAudience
        case .lifetimeTooLong: self = .lifetimeTooLong
        case .notAnAccessToken: self = .notAnAccessToken
        case .noSubject: self = .noSubject
        case .unsafeClaim: self = .unsafeClaim
        case .badClaim: self = .badClaim
        }
    }

    package var text: StaticString {
        switch self {
        case .none: "ok"
        case .missing: "missing"
        case .severalAuthorizations: "several_authorizations"
        case .revoked: "revoked"
        case .caller: "not_internal"
        case .actor: "actor"
        case .claims: "claims"
        case .tier: "tier"
        case .accountsUnavailable: "accounts_unavailable"
        case .refreshMismatch: "refresh_mismatch"
        case .refreshUnavailable: "refresh_unavailable"
        case .signInTooOld: "sign_in_too_old"
        case .noFactor: "no_factor"
        case .foreignOrigin: "foreign_origin"
        case .banned: "banned"
        case .closed: "closed"
        case .attributes: "attributes"
        case .scope: "scope"
        case .key: "bad_key"
        case .keyEnded: "key_ended"
        case .keyRoute: "key_route"
        case .proven: "proven"
        case .proofMissing: "proof_missing"
        case .proofInvalid: "proof_invalid"
        case .proofNonce: "proof_nonce"
        case .proofReplayed: "proof_replayed"
        case .unbound: "unbound"
        case .used: "used"
        case .tooLarge: "too_large"
        case .malformed: "malformed"
        case .duplicateMember: "duplicate_member"
        case .unsupportedAlgorithm: "unsupported_algorithm"
        case .criticalExtension: "critical_extension"
        case .wrongIssuer: "wrong_issuer"
        case .algorithmNotAllowed: "algorithm_not_allowed"
        case .keysUnavailable: "keys_unavailable"
        case .unknownKey: "unknown_key"
        case .badSignature: "bad_signature"
        case .expired: "expired"
        case .notYetValid: "not_yet_valid"
        case .noExpiry: "no_expiry"
        case .wrongAudience: "wrong_audience"
        case .lifetimeTooLong: "lifetime_too_long"
        case .notAnAccessToken: "not_an_access_token"
        case .noSubject: "no_subject"
        case .unsafeClaim: "unsafe_claim"
        case .badClaim: "bad_claim"
        }
    }
}
