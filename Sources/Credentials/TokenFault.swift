/// The reason why a token is refused. All but `keysUnavailable` are the client's fault: 401.
package enum TokenFault: Error, Equatable, Sendable {
    /// More than 16 KiB, or a header of more than 4 KiB.
    case tooLarge
    /// Not three parts of canonical base64url with a JSON object in each of the first two.
    case malformed
    /// A duplicate member in the header or among the top-level claims.
    case duplicateMember
    /// `alg` is missing, `none` or unknown.
    case unsupportedAlgorithm
    /// The header requires an extension (`crit`, or `b64` other than true); none is supported.
    case criticalExtension
    /// No trusted issuer has this `iss`.
    case wrongIssuer
    /// The issuer, or the key with this `kid`, does not allow the algorithm.
    case algorithmNotAllowed
    /// The issuer's keys have never been fetched. That is our failure, not the client's: 503.
    case keysUnavailable(issuer: Int)
    /// No key of the issuer has this `kid`, or, without a `kid`, fits. Fetching the key set again may help.
    case unknownKey(issuer: Int)
    case badSignature
    // For all cases below the signature is valid.
    /// `exp` has passed, and everything else is in order.
    case expired
    /// `nbf` is in the future.
    case notYetValid
    /// `exp` is missing or no date.
    case noExpiry
    /// No `aud` is one of the issuer's audiences.
    case wrongAudience
    /// `exp` − `iat` exceeds the issuer's maximum, or `iat` is missing.
    case lifetimeTooLong
    /// The token declares itself a refresh or an ID token, or one that a gateway signed for an upstream.
    case notAnAccessToken
    /// The user claim is missing, empty, no string, or longer than 256 bytes.
    case noSubject
    /// A claim that becomes a header contains characters that a header must not.
    case unsafeClaim
    /// `nbf` is no date, `iat` is no number, or the token is not of the expected use (refresh or ID token).
    case badClaim
}

extension TokenFault {
    /// The stable identifier in logs and metrics.
    package var reason: StaticString { row.reason }

    /// The `error_description` of `WWW-Authenticate` (RFC 6750 §3): ASCII without quotes or backslashes.
    package var errorDescription: StaticString { row.errorDescription }

    private var row: (reason: StaticString, errorDescription: StaticString) {
        switch self {
        case .tooLarge: ("too_large", "The token is too large")
        case .malformed: ("malformed", "The token is malformed")
        case .duplicateMember: ("duplicate_member", "The token has a duplicate member")
        case .unsupportedAlgorithm: ("unsupported_algorithm", "The token's algorithm is not supported")
        case .criticalExtension: ("critical_extension", "The token requires an extension that is not supported")
        case .wrongIssuer: ("wrong_issuer", "The token's issuer is not trusted")
        case .algorithmNotAllowed: ("algorithm_not_allowed", "The token's algorithm is not allowed for its issuer")
        case .keysUnavailable: ("keys_unavailable", "The issuer's keys are not available")
        case .unknownKey: ("unknown_key", "The token's key is not known")
        case .badSignature: ("bad_signature", "The token's signature does not hold")
        case .expired: ("expired", "The token expired")
        case .notYetValid: ("not_yet_valid", "The token is not valid yet")
        case .noExpiry: ("no_expiry", "The token has no expiry")
        case .wrongAudience: ("wrong_audience", "The token is for another audience")
        case .lifetimeTooLong: ("lifetime_too_long", "The token's lifetime is too long")
        case .notAnAccessToken: ("not_an_access_token", "The token is not an access token")
        case .noSubject: ("no_subject", "The token names no user")
        case .unsafeClaim: ("unsafe_claim", "A claim of the token holds characters that are not allowed")
        case .badClaim: ("bad_claim", "A claim of the token has the wrong type")
        }
    }

    package var isExpired: Bool { self == .expired }

    /// The index of the issuer whose keys have never been fetched; nil for other faults.
    package var issuerWithoutKeys: Int? {
        if case .keysUnavailable(let issuer) = self { issuer } else { nil }
    }

    /// The index of the issuer whose key set should be fetched again; nil for other faults.
    package var issuerOfUnknownKey: Int? {
        if case .unknownKey(let issuer) = self { issuer } else { nil }
    }
}
