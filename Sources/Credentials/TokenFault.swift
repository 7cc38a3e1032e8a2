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

    /// The index of the issuer whose keys have never been fetched; nil for other faults.
    package var issuerWithoutKeys: Int? {
        if case .keysUnavailable(let issuer) = self { issuer } else { nil }
    }

    /// The index of the issuer whose key set should be fetched again; nil for other faults.
    package var issuerOfUnknownKey: Int? {
        if case .unknownKey(let issuer) = self { issuer } else { nil }
    }
}
