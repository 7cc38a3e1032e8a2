import Credentials
package import HTTP
import Wire

extension Refusal {
    /// Adds the refusal's fields: `WWW-Authenticate` on 401 and 403 (RFC 6750, 3; RFC 9470, 3), `Retry-After` on 429 and 503, `Allow` on
    /// 405, `Sec-WebSocket-Version` on 426; in `.grpc` also its status. Rate limit fields are in the decision. `route` is its index in the
    /// policy; -1 for none.
    package func addFields(_ policy: Policy, route: Int = -1, in dialect: Dialect, to edits: inout FieldEdits) {
        // No token helps where the address or the app is refused.
        if code.status == 401 || code.status == 403, code != .addressDenied, code != .attestationRequired {
            addChallenge(policy, route, to: &edits)
        }
        if case .methodNotAllowed(let allowed) = self {
            var methods = ByteBuffer()
            policy.table.writeAllow(allowed, into: &methods)
            edits.add("Allow", methods.readable)
        }
        // RFC 6455 §4.4.
        if self == .upgradeRequired { edits.add("Sec-WebSocket-Version", "13") }
        if dialect == .grpc { return addGRPCStatus(policy.message(of: self), to: &edits) }
        if let seconds = retryAfterSeconds {
            edits.add("Retry-After", decimal: Int(seconds))
        }
    }

    /// The authentication class that `acr_values` names where a second factor is demanded.
    package static var factorClass: StaticString { "urn:tollgate:acr:factor" }

    /// How old the sign-in or the proof of a factor may be, in seconds; nil if that is not the reason.
    private var authenticationAge: UInt32? {
        if case .unauthorized(.signInTooOld(let maxAge)) = self { return maxAge }
        if case .unauthorized(.noFactor(let maxAge)) = self { return maxAge }
        return nil
    }

    private typealias Challenge = (error: StaticString, description: StaticString)

    /// `error` and `error_description`; nil for the realm alone, as for a client that sent no credentials (RFC 6750, 3.1).
    private var challenge: Challenge? {
        if case .unauthorized(let why) = self { return Self.challenge(why) }
        if case .forbidden(let why) = self { return Self.challenge(why) }
        return self == .premiumRequired ? ("insufficient_scope", "The caller's tier is too low") : nil
    }

    private static func challenge(_ why: Unauthorized) -> Challenge? {
        switch why {
        case .missing, .caller, .keyMissing: nil
        case .signInTooOld: ("insufficient_user_authentication", "A more recent sign-in is required")
        case .noFactor: ("insufficient_user_authentication", "A second factor is required")
        case .token(let fault): ("invalid_token", fault.errorDescription)
        case .key: ("invalid_token", "A valid API key is required")
        case .revoked: ("invalid_token", "The token's session has ended")
        case .proof(let fault): (fault.errorCode, fault.errorDescription)
        }
    }

    private static func challenge(_ why: Forbidden) -> Challenge? {
        switch why {
        case .claims: ("insufficient_scope", "The token lacks a required claim")
        case .attributes: ("insufficient_scope", "The account lacks a required attribute")
        case .scope: ("insufficient_scope", "The caller lacks a required scope")
        case .key: ("insufficient_scope", "The API key is not for this route")
        case .actor: ("insufficient_scope", "The token has an actor")
        case .caller, .origin, .preflight: nil
        }
    }

    private func addChallenge(_ policy: Policy, _ route: Int, to edits: inout FieldEdits) {
        edits.begin("WWW-Authenticate")
        let isOfProof = if case .unauthorized(.proof) = self { true } else { false }
        edits.append(isOfProof ? "DPoP realm=\"" : "Bearer realm=\"")
        let realm = policy.realmText
        edits.append(realm.rawBytes)
        if let challenge {
            edits.append("\", error=\"")
            edits.append(challenge.error)
            edits.append("\", error_description=\"")
            edits.append(challenge.description)
        }
        if case .unauthorized(.noFactor) = self {
            edits.append("\", acr_values=\"")
            edits.append(Self.factorClass)
        }
        if isOfProof {
            edits.append("\", algs=\"")
            edits.append(DeviceProof.algorithmNames)
        }
        if let maxAge = authenticationAge {
            edits.append("\", max_age=\"")
            edits.append(decimal: UInt64(maxAge))
        }
        if self == .forbidden(.scope), route >= 0 {
            edits.append("\", scope=\"")
            policy.rules[route].scopes.joined(separator: " ").withRawBytes { edits.append($0) }
        }
        if route >= 0, let resource = policy.rules[route].resource {
            edits.append("\", resource_metadata=\"")
            resource.metadataURL.withRawBytes { edits.append($0) }
        }
        edits.append("\"")
        if self == .unauthorized(.caller) {
            edits.append(", Basic realm=\"")
            edits.append(realm.rawBytes)
            edits.append("\"")
        }
        edits.end()
    }
}

extension Policy {
    /// The inside of a quoted-string: escapes quotes and backslashes (RFC 9110, 5.6.4), and omits what a header cannot carry.
    package static func quoted(_ text: String) -> [UInt8] {
        var out: [UInt8] = []
        for byte in text.utf8 where byte >= 0x20 && byte != 0x7F {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { out.append(UInt8(ascii: "\\")) }
            out.append(byte)
        }
        return out
    }
}
