import Credentials
package import Wire

extension Refusal {
    /// Appends the header lines that belong to the refusal: `WWW-Authenticate` on 401 and 403 (RFC 6750 §3),
    /// `Retry-After` on 429 and 503, `Allow` on 405. The lines of the limit are in the decision.
    package func writeHeaderLines(_ policy: Policy, into out: inout ByteBuffer) {
        switch self {
        case .unauthorized(let why):
            Self.writeChallenge(policy, Self.challenge(why), into: &out)
        case .forbidden(.claims):
            Self.writeChallenge(policy, ("insufficient_scope", "The token lacks a required claim"), into: &out)
        case .forbidden(.actor):
            Self.writeChallenge(policy, ("insufficient_scope", "The token has an actor"), into: &out)
        case .premiumRequired:
            Self.writeChallenge(policy, ("insufficient_scope", "The caller's tier is too low"), into: &out)
        case .forbidden(.caller):
            Self.writeChallenge(policy, nil, into: &out)
        case .methodNotAllowed(let allowed):
            out.append("Allow: " as StaticString)
            policy.table.writeAllow(allowed, into: &out)
            out.append("\r\n" as StaticString)
        case .badRequest, .notFound, .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed, .headersTooLarge,
            .rateLimited, .internalError, .notImplemented, .badGateway, .unavailable, .timeout, .versionNotSupported:
            break
        }
        if let seconds = retryAfterSeconds {
            out.append("Retry-After: " as StaticString)
            out.append(decimal: UInt64(seconds))
            out.append("\r\n" as StaticString)
        }
    }

    private typealias Challenge = (error: StaticString, description: StaticString)

    /// Nothing beyond the realm for a client that sent no credentials (RFC 6750 §3.1).
    private static func challenge(_ why: Unauthorized) -> Challenge? {
        switch why {
        case .missing: nil
        case .token(let fault): ("invalid_token", fault.errorDescription)
        case .revoked: ("invalid_token", "The token's session has ended")
        }
    }

    private static func writeChallenge(_ policy: Policy, _ challenge: Challenge?, into out: inout ByteBuffer) {
        out.append("WWW-Authenticate: Bearer realm=\"" as StaticString)
        out.append(policy.realmText)
        if let challenge {
            out.append("\", error=\"" as StaticString)
            out.append(challenge.error)
            out.append("\", error_description=\"" as StaticString)
            out.append(challenge.description)
        }
        out.append("\"\r\n" as StaticString)
    }
}
