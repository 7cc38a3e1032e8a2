import Credentials
package import Gate

extension Dialect {
    package static let password = Dialect(.password)
    static let provider = Dialect(.provider)
    static let dlauth = Dialect(.dlauth)
    static let apple = Dialect(.apple)
    static let anonymous = Dialect(.anonymous)
    /// `password` at the endpoints of that contract, which use one code for every 401.
    static let passwordContract = Dialect(rawValue: 64)
    /// That of OAuth 2.0 (RFC 6749 §5.2), at the endpoints of RFC 6749, RFC 7009 and RFC 7662.
    package static let oauth = Dialect(rawValue: 65)
}

extension Catalogue {
    /// The envelope of every dialect: those of the contracts' documents, and that of OAuth.
    package static let envelopes = Envelopes([
        (.password, .nested("password", sentence: passwordSentence)),
        (
            .passwordContract,
            .nested(
                "password", code: { $0.status == 401 && !$0.isOfProof ? RefusalCode.unauthorized.text : nil }, sentence: passwordSentence,
                spell: { status, code in
                    status == 401 && !code.hasPrefix("DEVICE_PROOF") ? RefusalCode.unauthorized.text.description : code
                })
        ),
        (.apple, .nested("apple")), (.anonymous, .nested("anonymous", sentence: anonymousSentence)),
        (.provider, Envelope(name: "provider", members: [("error", .message), ("code", .code)], sentence: providerSentence)),
        (
            .dlauth,
            Envelope(
                name: "dlauth", members: [("error", .code), ("message", .message)], code: dlauthCode,
                sentence: { $0.code == .tokenExpired ? "Access token has expired" : nil }, spell: { _, code in code.lowercased() })
        ),
        (
            .oauth,
            Envelope(
                name: "oauth", members: [("error", .code), ("error_description", .message)], code: oauthCode,
                spell: { _, code in code.lowercased() })
        ),
    ])

    /// The document's code where it defines one, otherwise the gateway's in lower case.
    @Sendable private static func dlauthCode(_ refusal: Refusal) -> StaticString? {
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
        case .maintenance: "maintenance"
        case .gone: "gone"
        case .appUpdateRequired: "app_update_required"
        case .addressDenied: "address_denied"
        case .deviceProofRequired: "device_proof_required"
        case .deviceProofInvalid: "device_proof_invalid"
        case .attestationRequired: "attestation_required"
        }
    }

    /// The error code of RFC 6749 §5.2 that comes closest; those of §4.1.2.1 for what is the server's fault.
    @Sendable private static func oauthCode(_ refusal: Refusal) -> StaticString? {
        switch refusal.code {
        case .unauthorized: "invalid_client"
        case .deviceProofRequired, .deviceProofInvalid: "invalid_dpop_proof"
        case .tokenExpired, .tokenRevoked: "invalid_token"
        case .forbidden, .premiumRequired, .addressDenied, .attestationRequired: "access_denied"
        case .badRequest, .notFound, .methodNotAllowed, .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed,
            .upgradeRequired, .headersTooLarge, .gone, .appUpdateRequired, .notImplemented, .versionNotSupported:
            "invalid_request"
        case .rateLimited, .unavailable, .timeout, .maintenance: "temporarily_unavailable"
        case .internalError, .badGateway, .upstreamError: "server_error"
        }
    }

    @Sendable private static func passwordSentence(_ refusal: Refusal) -> StaticString? {
        guard case .unauthorized(let why) = refusal else { return nil }
        return switch why {
        case .missing: "Authentication credentials were not provided."
        case .token, .revoked: "Invalid or expired token"
        case .signInTooOld, .noFactor, .caller, .key, .keyMissing, .proof: nil
        }
    }

    @Sendable private static func providerSentence(_ refusal: Refusal) -> StaticString? {
        guard case .unauthorized(let why) = refusal else { return nil }
        return switch why {
        case .missing: "Missing or invalid authorization header"
        case .token(let fault): fault.isExpired ? "Access token expired" : nil
        case .revoked, .signInTooOld, .noFactor, .caller, .key, .keyMissing, .proof: nil
        }
    }

    @Sendable private static func anonymousSentence(_ refusal: Refusal) -> StaticString? {
        switch refusal.status {
        case 400: "Invalid request format"
        case 401 where refusal.isOfProof || refusal == .unauthorized(.key) || refusal == .unauthorized(.keyMissing): nil
        case 401: "Authentication required or token invalid"
        case 403: refusal.code == .forbidden ? "Permission denied" : nil
        case 500: "Server error"
        default: nil
        }
    }
}

extension Refusal {
    fileprivate var isOfProof: Bool { code == .deviceProofRequired || code == .deviceProofInvalid }
}

extension Envelope {
    fileprivate static func nested(
        _ name: String, code: @escaping @Sendable (Refusal) -> StaticString? = { _ in nil },
        sentence: @escaping @Sendable (Refusal) -> StaticString? = { _ in nil },
        spell: @escaping @Sendable (UInt16, String) -> String = { _, code in code }
    ) -> Envelope {
        Envelope(
            name: name, object: "error", members: [("code", .code), ("message", .message)], code: code, sentence: sentence, spell: spell)
    }
}
