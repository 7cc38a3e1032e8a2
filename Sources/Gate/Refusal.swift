package import Credentials
package import HTTP

/// Stable code of a refusal, with its status; the same in every dialect.
package enum RefusalCode: UInt8, CaseIterable, Sendable {
    case badRequest, unauthorized, tokenExpired, tokenRevoked, forbidden, premiumRequired
    case notFound, methodNotAllowed, requestTimeout, payloadTooLarge, uriTooLong, expectationFailed, upgradeRequired, headersTooLarge
    case rateLimited, internalError, notImplemented, badGateway, unavailable, timeout, versionNotSupported
    /// With the upstream's own status.
    case upstreamError
    case maintenance, gone, appUpdateRequired
    case addressDenied
    case deviceProofRequired, deviceProofInvalid
    case attestationRequired

    package var status: UInt16 { row.status }
    package var text: StaticString { row.text }

    private var row: (status: UInt16, text: StaticString) {
        switch self {
        case .badRequest: (400, "BAD_REQUEST")
        case .unauthorized: (401, "UNAUTHORIZED")
        case .tokenExpired: (401, "TOKEN_EXPIRED")
        case .tokenRevoked: (401, "TOKEN_REVOKED")
        case .forbidden: (403, "FORBIDDEN")
        case .premiumRequired: (403, "PREMIUM_REQUIRED")
        case .notFound: (404, "NOT_FOUND")
        case .methodNotAllowed: (405, "METHOD_NOT_ALLOWED")
        case .requestTimeout: (408, "REQUEST_TIMEOUT")
        case .payloadTooLarge: (413, "PAYLOAD_TOO_LARGE")
        case .uriTooLong: (414, "URI_TOO_LONG")
        case .expectationFailed: (417, "EXPECTATION_FAILED")
        case .upgradeRequired: (426, "UPGRADE_REQUIRED")
        case .headersTooLarge: (431, "HEADERS_TOO_LARGE")
        case .rateLimited: (429, "RATE_LIMITED")
        case .internalError: (500, "INTERNAL_ERROR")
        case .notImplemented: (501, "NOT_IMPLEMENTED")
        case .badGateway: (502, "BAD_GATEWAY")
        case .unavailable: (503, "UNAVAILABLE")
        case .timeout: (504, "TIMEOUT")
        case .versionNotSupported: (505, "VERSION_NOT_SUPPORTED")
        case .upstreamError: (502, "UPSTREAM_ERROR")
        case .maintenance: (503, "MAINTENANCE")
        case .gone: (410, "GONE")
        case .appUpdateRequired: (426, "APP_UPDATE_REQUIRED")
        case .addressDenied: (403, "ADDRESS_DENIED")
        case .deviceProofRequired: (401, "DEVICE_PROOF_REQUIRED")
        case .deviceProofInvalid: (401, "DEVICE_PROOF_INVALID")
        case .attestationRequired: (403, "ATTESTATION_REQUIRED")
        }
    }
}

/// A refusal, with what its answer needs. `Envelope` writes it.
package enum Refusal: Equatable, Sendable {
    package enum BadRequest: Equatable, Sendable {
        case path(PathFault)
        /// More than one `Authorization` field.
        case severalAuthorizations
        /// A field that a limit counts by, or the field of an API key, is repeated.
        case repeatedField
        /// The request brings an API key and a token.
        case keyBesideToken
        /// `grpc-timeout` is malformed or repeated.
        case grpcTimeout
        /// The opening handshake of a WebSocket is malformed, or has content.
        case handshake
        /// A check does not describe one request.
        case description(DescriptionFault)
        case http(HTTPFault.Reason)
    }

    package enum Unauthorized: Equatable, Sendable {
        /// No bearer token was sent.
        case missing
        case token(TokenFault)
        /// The token's session has ended.
        case revoked
        /// The user signed in longer ago than the route allows, in seconds, or the token does not say when (RFC 9470).
        case signInTooOld(maxAge: UInt32)
        /// The session has not proven a second factor within so many seconds (RFC 9470).
        case noFactor(maxAge: UInt32)
        /// The gateway's own endpoint is for internal callers, and this is none.
        case caller
        /// There is no such API key, or it has ended.
        case key
        /// Possession of a device key is not proven.
        case proof(DeviceProofFault)
        /// No API key was sent, where nothing else is taken.
        case keyMissing
    }

    package enum Forbidden: Equatable, Sendable {
        /// The token lacks a claim that the route requires.
        case claims
        /// The account lacks an attribute that the route requires.
        case attributes
        /// The token, or the tier of an own user, lacks a scope that the route requires.
        case scope
        /// The API key is for other routes.
        case key
        /// The route is for internal callers, and this is none.
        case caller
        /// The token has an actor, and the target is an endpoint of the gateway.
        case actor
        /// A page of a foreign origin sent credentials with a method that is not safe.
        case origin
        /// A proxy has a CORS preflight checked, and could not give its client the gateway's answer.
        case preflight
    }

    package enum Address: Equatable, Sendable {
        /// `deny-from=` or `TOLLGATE_DENY_FROM` names it.
        case denied
        /// `allow-from=` does not name it.
        case notAllowed
        /// A list holds, and the fields of proxies do not say for certain which address it is.
        case uncertain
    }

    package enum Unavailable: Equatable, Sendable {
        /// The issuer's keys have never been fetched.
        case keys
        /// The keys of the attestation's issuer have never been fetched.
        case attestationKeys
        /// The gateway's key cannot sign an identity for the upstream.
        case identityKey
        /// The accounts cannot be read.
        case accounts
        /// The expired token cannot be refreshed now.
        case refresh
        /// Redis does not answer, and the failure mode is `closed`.
        case limits
        /// The upstream has no usable address.
        case upstream
        case overload
    }

    case badRequest(BadRequest)
    case unauthorized(Unauthorized)
    case forbidden(Forbidden)
    case premiumRequired
    case notFound
    case methodNotAllowed(MethodSet)
    case requestTimeout
    case payloadTooLarge
    case uriTooLong
    case expectationFailed
    /// The WebSocket has another version than 13.
    case upgradeRequired
    case headersTooLarge
    case rateLimited(retryAfterSeconds: UInt32)
    case internalError
    case notImplemented
    case badGateway
    case unavailable(Unavailable, retryAfterSeconds: UInt32)
    case timeout
    case versionNotSupported
    /// An error of the upstream, with its status of 400 or above, whose content may not pass.
    case upstreamError(status: UInt16)
    /// The route is in maintenance, by this one of those that are set for it.
    case maintenance(route: Int32, number: UInt8, retryAfterSeconds: UInt32)
    /// The route is past its sunset.
    case gone
    /// The version of the app is below the floor of this gate of the policy, or missing where it is required.
    case appUpdateRequired(gate: UInt8, isVersionMissing: Bool = false)
    /// Requests of the client's address are not taken.
    case addressDenied(Address)
    /// The attestation of the app that the route asks for is missing, does not hold, or was used before.
    case attestationRequired(wasUsed: Bool = false)

    /// The refusal of a request that is not valid HTTP, or of an upstream's invalid answer.
    package init(_ fault: HTTPFault) {
        switch fault.status {
        case 408: self = .requestTimeout
        case 413: self = .payloadTooLarge
        case 414: self = .uriTooLong
        case 417: self = .expectationFailed
        case 431: self = .headersTooLarge
        case 501: self = .notImplemented
        case 502: self = .badGateway
        case 505: self = .versionNotSupported
        default: self = .badRequest(.http(fault.reason))
        }
    }

    package var code: RefusalCode {
        switch self {
        case .badRequest: .badRequest
        case .unauthorized(.missing), .unauthorized(.signInTooOld), .unauthorized(.noFactor), .unauthorized(.caller), .unauthorized(.key),
            .unauthorized(.keyMissing):
            .unauthorized
        case .unauthorized(.token(let fault)): fault.isExpired ? .tokenExpired : .unauthorized
        case .unauthorized(.revoked): .tokenRevoked
        case .unauthorized(.proof(let fault)): fault.remedy.row.code
        case .forbidden: .forbidden
        case .premiumRequired: .premiumRequired
        case .notFound: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .requestTimeout: .requestTimeout
        case .payloadTooLarge: .payloadTooLarge
        case .uriTooLong: .uriTooLong
        case .expectationFailed: .expectationFailed
        case .upgradeRequired: .upgradeRequired
        case .headersTooLarge: .headersTooLarge
        case .rateLimited: .rateLimited
        case .internalError: .internalError
        case .notImplemented: .notImplemented
        case .badGateway: .badGateway
        case .unavailable: .unavailable
        case .timeout: .timeout
        case .versionNotSupported: .versionNotSupported
        case .upstreamError: .upstreamError
        case .maintenance: .maintenance
        case .gone: .gone
        case .appUpdateRequired: .appUpdateRequired
        case .addressDenied: .addressDenied
        case .attestationRequired: .attestationRequired
        }
    }

    package var status: UInt16 {
        if case .upstreamError(let status) = self { return status }
        return code.status
    }

    /// Value of `Retry-After`, in seconds; nil without one.
    package var retryAfterSeconds: UInt32? {
        if case .rateLimited(let seconds) = self { return max(1, seconds) }
        if case .unavailable(_, let seconds) = self { return max(1, seconds) }
        if case .maintenance(_, _, let seconds) = self { return max(1, seconds) }
        return nil
    }
}
