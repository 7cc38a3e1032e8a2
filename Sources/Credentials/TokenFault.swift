/// Why a token is not accepted. All but `keysUnavailable` are the caller's fault: a token never causes a server error.
package enum TokenFault: Error, Equatable, Sendable {
    /// More than 16 KiB, or a header of more than 4 KiB.
    case tooLarge
    /// Not three parts of canonical base64url with a JSON object in each of the first two.
    case malformed
    /// A member twice in the header, or twice among the top-level claims.
    case duplicateMember
    /// `alg` is missing, `none`, or no algorithm known here.
    case unsupportedAlgorithm
    /// The header asks for an extension (`crit`, or `b64` other than true), and none is supported.
    case criticalExtension
    /// No trusted issuer has this `iss`.
    case wrongIssuer
    /// The issuer, or the key that `kid` names, does not sign with this algorithm.
    case algorithmNotAllowed
    /// The issuer's keys could never be had. Our inability, not the caller's: 503.
    case keysUnavailable(issuer: Int)
    /// None of the issuer's keys has this `kid` (or fits, without one): a refetch may help.
    case unknownKey(issuer: Int)
    case badSignature
    /// The signature holds, but `exp` has passed.
    case expired
    /// The signature holds, but `nbf` is yet to come.
    case notYetValid
    /// The signature holds, but there is no usable `exp`.
    case noExpiry
    /// The signature holds, but no `aud` is one of the issuer's audiences.
    case wrongAudience
    /// The signature holds, but exp − iat is above the issuer's bound, or unknown.
    case lifetimeTooLong
    /// The signature holds, but the token says that it is a refresh or an ID token.
    case notAnAccessToken
    /// The signature holds, but the user claim is missing, empty, no string, or over 256 bytes.
    case noSubject
    /// The signature holds, but a claim that becomes a header holds what a header must not.
    case unsafeClaim
    /// The signature holds, but `nbf` is no date, or where a refresh or an ID token is asked for it is another.
    case badClaim
}

extension TokenFault {
    /// A stable identifier for logs and metrics.
    package var reason: StaticString {
        switch self {
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

    /// The `error_description` of `WWW-Authenticate` (RFC 6750 §3): ASCII without quotes or backslashes.
    package var errorDescription: StaticString {
        switch self {
        case .tooLarge: "The token is too large"
        case .malformed: "The token is malformed"
        case .duplicateMember: "The token has a duplicate member"
        case .unsupportedAlgorithm: "The token's algorithm is not supported"
        case .criticalExtension: "The token requires an extension that is not supported"
        case .wrongIssuer: "The token's issuer is not trusted"
        case .algorithmNotAllowed: "The token's algorithm is not allowed for its issuer"
        case .keysUnavailable: "The issuer's keys are not available"
        case .unknownKey: "The token's key is not known"
        case .badSignature: "The token's signature does not hold"
        case .expired: "The token expired"
        case .notYetValid: "The token is not valid yet"
        case .noExpiry: "The token has no expiry"
        case .wrongAudience: "The token is for another audience"
        case .lifetimeTooLong: "The token's lifetime is too long"
        case .notAnAccessToken: "The token is not an access token"
        case .noSubject: "The token names no user"
        case .unsafeClaim: "A claim of the token holds characters that are not allowed"
        case .badClaim: "A claim of the token has the wrong type"
        }
    }

    package var isExpired: Bool { self == .expired }

    /// The issuer whose keys could never be had.
    package var issuerWithoutKeys: Int? {
        if case .keysUnavailable(let issuer) = self { issuer } else { nil }
    }

    /// The issuer whose key set should be fetched again.
    package var issuerOfUnknownKey: Int? {
        if case .unknownKey(let issuer) = self { issuer } else { nil }
    }
}
