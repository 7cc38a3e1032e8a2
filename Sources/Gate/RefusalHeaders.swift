import Credentials
package import HTTP
import Wire

extension Refusal {
    /// Adds the refusal's fields: `WWW-Authenticate` on 401 and 403 (RFC 6750, 3), `Retry-After` on 429 and 503, `Allow` on
    /// 405. Rate limit fields are in the decision.
    package func addFields(_ policy: Policy, to edits: inout FieldEdits) {
        switch self {
        case .unauthorized(let why):
            Self.addChallenge(policy, Self.challenge(why), to: &edits)
        case .forbidden(.claims):
            Self.addChallenge(policy, ("insufficient_scope", "The token lacks a required claim"), to: &edits)
        case .forbidden(.actor):
            Self.addChallenge(policy, ("insufficient_scope", "The token has an actor"), to: &edits)
        case .premiumRequired:
            Self.addChallenge(policy, ("insufficient_scope", "The caller's tier is too low"), to: &edits)
        case .forbidden(.caller):
            Self.addChallenge(policy, nil, to: &edits)
        case .methodNotAllowed(let allowed):
            var methods = ByteBuffer()
            policy.table.writeAllow(allowed, into: &methods)
            edits.add("Allow", methods.readable)
        case .badRequest, .notFound, .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed, .headersTooLarge,
            .rateLimited, .internalError, .notImplemented, .badGateway, .unavailable, .timeout, .versionNotSupported:
            break
        }
        if let seconds = retryAfterSeconds {
            edits.add("Retry-After", decimal: Int(seconds))
        }
    }

    private typealias Challenge = (error: StaticString, description: StaticString)

    /// Only the realm for a client that sent no credentials (RFC 6750, 3.1).
    private static func challenge(_ why: Unauthorized) -> Challenge? {
        switch why {
        case .missing: nil
        case .token(let fault): ("invalid_token", fault.errorDescription)
        case .revoked: ("invalid_token", "The token's session has ended")
        }
    }

    private static func addChallenge(_ policy: Policy, _ challenge: Challenge?, to edits: inout FieldEdits) {
        edits.begin("WWW-Authenticate")
        edits.append("Bearer realm=\"")
        let realm = policy.realmText
        edits.append(realm.rawBytes)
        if let challenge {
            edits.append("\", error=\"")
            edits.append(challenge.error)
            edits.append("\", error_description=\"")
            edits.append(challenge.description)
        }
        edits.append("\"")
        edits.end()
    }
}
