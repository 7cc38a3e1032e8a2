import Credentials

/// Messages of each dialect: those of its contract where it defines one, otherwise the gateway's.
extension Dialect {
    /// The message for a person.
    package func sentence(for refusal: Refusal) -> StaticString {
        switch self {
        case .password, .passwordContract: Self.passwordSentence(refusal) ?? Self.sentence(refusal)
        case .provider: Self.providerSentence(refusal) ?? Self.sentence(refusal)
        case .dlauth: Self.dlauthSentence(refusal) ?? Self.sentence(refusal)
        case .anonymous: Self.anonymousSentence(refusal) ?? Self.sentence(refusal)
        case .apple, .problem, .oauth, .grpc: Self.sentence(refusal)
        }
    }

    /// The `dlauth` contract's code where it defines one, otherwise the gateway's in lower case.
    static func dlauthCode(_ refusal: Refusal) -> StaticString {
        switch refusal.code {
        case .badRequest: "validation_error"
        case .unauthorized: if case .unauthorized(.token) = refusal { "invalid_token" } else { "unauthorized" }
        case .tokenExpired: "token_expired"
        case .tokenRevoked: "token_revoked"
        case .forbidden: "forbidden"
        case .premiumRequired: "premium_required"
        case .notFound: "not_found"
        case .methodNotAllowed: "method_not_allowed"
        case .requestTimeout: "request_timeout"
        case .payloadTooLarge: "payload_too_large"
        case .uriTooLong: "uri_too_long"
        case .expectationFailed: "expectation_failed"
        case .upgradeRequired: "upgrade_required"
        case .headersTooLarge: "headers_too_large"
        case .rateLimited: "rate_limited"
        case .internalError: "internal_error"
        case .notImplemented: "not_implemented"
        case .badGateway: "bad_gateway"
        case .unavailable: "unavailable"
        case .timeout: "timeout"
        case .versionNotSupported: "version_not_supported"
        case .upstreamError: "upstream_error"
        }
    }

    /// The error code of RFC 6749 §5.2 that comes closest; those of §4.1.2.1 for what is the server's fault.
    static func oauthCode(_ refusal: Refusal) -> StaticString {
        switch refusal.code {
        case .unauthorized: "invalid_client"
        case .tokenExpired, .tokenRevoked: "invalid_token"
        case .forbidden, .premiumRequired: "access_denied"
        case .badRequest, .notFound, .methodNotAllowed, .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed,
            .upgradeRequired, .headersTooLarge, .notImplemented, .versionNotSupported:
            "invalid_request"
        case .rateLimited, .unavailable, .timeout: "temporarily_unavailable"
        case .internalError, .badGateway, .upstreamError: "server_error"
        }
    }

    private static func passwordSentence(_ refusal: Refusal) -> StaticString? {
        guard case .unauthorized(let why) = refusal else { return nil }
        return switch why {
        case .missing: "Authentication credentials were not provided."
        case .token, .revoked: "Invalid or expired token"
        case .signInTooOld, .caller: nil
        }
    }

    private static func providerSentence(_ refusal: Refusal) -> StaticString? {
        guard case .unauthorized(let why) = refusal else { return nil }
        return switch why {
        case .missing: "Missing or invalid authorization header"
        case .token(let fault): fault.isExpired ? "Access token expired" : nil
        case .revoked, .signInTooOld, .caller: nil
        }
    }

    private static func dlauthSentence(_ refusal: Refusal) -> StaticString? {
        refusal.code == .tokenExpired ? "Access token has expired" : nil
    }

    private static func anonymousSentence(_ refusal: Refusal) -> StaticString? {
        switch refusal.status {
        case 400: "Invalid request format"
        case 401: "Authentication required or token invalid"
        case 403: refusal.code == .forbidden ? "Permission denied" : nil
        case 500: "Server error"
        default: nil
        }
    }

    private static func sentence(_ refusal: Refusal) -> StaticString {
        switch refusal {
        case .badRequest(.path(let fault)): fault.message
        case .badRequest(.severalAuthorizations): "The request carries more than one Authorization field."
        case .badRequest(.repeatedField): "The request carries a field more than once that may come once."
        case .badRequest(.grpcTimeout): "The request's grpc-timeout is malformed."
        case .badRequest(.handshake): "The WebSocket handshake is malformed."
        case .badRequest(.description(let fault)): fault.message
        case .badRequest(.http): "The request is malformed."
        case .unauthorized(.missing): "An access token is required."
        case .unauthorized(.token(let fault)):
            fault.isExpired ? "The access token has expired." : "The access token is not valid."
        case .unauthorized(.revoked): "The session has ended."
        case .unauthorized(.signInTooOld): "This needs a more recent sign-in."
        case .unauthorized(.caller): "Only internal callers may do this."
        case .forbidden(.claims): "The access token does not permit this."
        case .forbidden(.actor): "A token with an actor cannot be used here."
        case .forbidden(.caller): "Only internal callers may do this."
        case .forbidden(.origin): "Pages of this origin must not do this."
        case .forbidden(.preflight): "The proxy in front must answer CORS preflights itself."
        case .premiumRequired: "This needs a higher tier."
        case .notFound: "There is nothing at this address."
        case .methodNotAllowed: "The method is not allowed here."
        case .requestTimeout: "The request took too long to arrive."
        case .payloadTooLarge: "The content of the request is too large."
        case .uriTooLong: "The address of the request is too long."
        case .expectationFailed: "The expectation of the request cannot be met."
        case .upgradeRequired: "This needs version 13 of the WebSocket protocol."
        case .headersTooLarge: "The header of the request is too large."
        case .rateLimited: "Too many requests. Try again later."
        case .internalError: "The gateway failed."
        case .notImplemented: "The request asks for what is not implemented here."
        case .badGateway: "The service behind the gateway failed."
        case .unavailable(.keys, _): "The access token cannot be checked at the moment. Try again later."
        case .unavailable(.accounts, _): "The account cannot be looked up at the moment. Try again later."
        case .unavailable(.refresh, _): "The access token cannot be refreshed at the moment. Try again later."
        case .unavailable(.limits, _), .unavailable(.upstream, _), .unavailable(.overload, _):
            "The service is not available at the moment. Try again later."
        case .timeout: "The service behind the gateway did not answer in time."
        case .versionNotSupported: "The version of HTTP is not supported."
        case .upstreamError: "The service behind the gateway answered with an error."
        }
    }
}
