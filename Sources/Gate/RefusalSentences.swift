import Credentials

extension Refusal {
    /// The gate's message for a person, where the dialect has none of its own.
    package var sentence: StaticString {
        switch self {
        case .badRequest(.path(let fault)): fault.message
        case .badRequest(.severalAuthorizations): "The request carries more than one Authorization field."
        case .badRequest(.repeatedField): "The request carries a field more than once that may come once."
        case .badRequest(.keyBesideToken): "The request carries an API key and a token, and only one of them may come."
        case .badRequest(.grpcTimeout): "The request's grpc-timeout is malformed."
        case .badRequest(.handshake): "The WebSocket handshake is malformed."
        case .badRequest(.description(let fault)): fault.message
        case .badRequest(.http): "The request is malformed."
        case .unauthorized(.missing): "An access token is required."
        case .unauthorized(.token(let fault)):
            fault.isExpired ? "The access token has expired." : "The access token is not valid."
        case .unauthorized(.revoked): "The session has ended."
        case .unauthorized(.signInTooOld): "This needs a more recent sign-in."
        case .unauthorized(.noFactor): "This needs a second factor."
        case .unauthorized(.caller): "Only internal callers may do this."
        case .unauthorized(.key): "A valid API key is required."
        case .unauthorized(.proof(let fault)): fault.remedy.row.sentence
        case .unauthorized(.keyMissing): "An API key is required."
        case .forbidden(.key): "The API key is not for this."
        case .forbidden(.claims): "The access token does not permit this."
        case .forbidden(.attributes): "The account does not permit this."
        case .forbidden(.scope): "This needs a scope that the caller does not have."
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
        case .unavailable(.identityKey, _): "The identity cannot be signed: set TOLLGATE_SIGNING_ALGORITHM to one with a key pair."
        case .unavailable(.attestationKeys, _): "The attestation of the app cannot be checked at the moment. Try again later."
        case .unavailable(.accounts, _): "The account cannot be looked up at the moment. Try again later."
        case .unavailable(.refresh, _): "The access token cannot be refreshed at the moment. Try again later."
        case .unavailable(.limits, _), .unavailable(.upstream, _), .unavailable(.overload, _):
            "The service is not available at the moment. Try again later."
        case .timeout: "The service behind the gateway did not answer in time."
        case .versionNotSupported: "The version of HTTP is not supported."
        case .upstreamError: "The service behind the gateway answered with an error."
        case .maintenance: "The service is down for maintenance. Try again later."
        case .gone: "This part of the service has been retired."
        case .appUpdateRequired(_, isVersionMissing: true): "The request must name the version of the app."
        case .appUpdateRequired: "This version of the app is too old. Install the update."
        case .addressDenied: "Requests from this address are not accepted."
        case .attestationRequired(wasUsed: true): "The attestation of the app was used before."
        case .attestationRequired: "This needs an attestation that the app is genuine."
        }
    }
}
