import Credentials
package import HTTP
import Wire

/// The documents by which clients find the gateway's keys and endpoints: `/.well-known/openid-configuration` (OpenID Connect
/// Discovery) and `/.well-known/oauth-authorization-server` (RFC 8414). They name only what is there: apps sign in by the contracts,
/// so there is no authorization endpoint, and the token endpoint refreshes and does nothing else. Two members say so, for left out
/// they would mean something else (RFC 8414 §2): `response_types_supported`, which must be there, has the registered type by which
/// nothing is issued, and `grant_types_supported` stands for authorization codes and implicit grants unless it is there. A member
/// without elements must be left out (§3.2).
package struct ServerMetadata: Sendable {
    private let issuer: String
    /// `TOLLGATE_PUBLIC_URL` without a slash at its end.
    private let base: String
    /// Of the keys that sign and verify own tokens.
    private let algorithms: [String]

    package init(issuer: String, publicURL: String, algorithms: [String]) {
        self.issuer = issuer
        base = publicURL.hasSuffix("/") ? String(publicURL.dropLast()) : publicURL
        self.algorithms = algorithms
    }

    /// The algorithms of proofs of device keys (RFC 9449 §5.1, RFC 9728 §2).
    static func writeProofAlgorithms(to json: inout JSONWriter) {
        let algorithms = DeviceProof.algorithmNames.description.split(separator: " ").map(String.init)
        json.array("dpop_signing_alg_values_supported", algorithms) { $0.string($1) }
    }

    package static let jwksPath = "/.well-known/jwks.json"
    package static let tokenPath = "/oauth/token"
    package static let revocationPath = "/oauth/revoke"
    package static let introspectionPath = "/oauth/introspect"
    /// How long clients may keep keys and documents: the next signing key is published before it signs.
    package static let caching = (name: "Cache-Control", value: "public, max-age=300")

    /// The document; with `isOpenID` the members that OpenID Connect adds. An endpoint that a route has replaced, or that no mounted contract needs, is left out.
    package func response(isOpenID: Bool, refreshes: Bool, revokes: Bool, introspects: Bool) -> LocalResponse {
        var out = ByteBuffer(capacity: 1_024)
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("issuer", issuer)
            json.field("jwks_uri", base + Self.jwksPath)
            json.array("response_types_supported", ["none"]) { $0.string($1) }
            json.array("grant_types_supported", ["refresh_token"]) { $0.string($1) }
            if refreshes {
                json.field("token_endpoint", base + Self.tokenPath)
                json.array("token_endpoint_auth_methods_supported", ["none"]) { $0.string($1) }
                Self.writeProofAlgorithms(to: &json)
            }
            if revokes {
                json.field("revocation_endpoint", base + Self.revocationPath)
                json.array("revocation_endpoint_auth_methods_supported", ["none"]) { $0.string($1) }
            }
            if introspects {
                json.field("introspection_endpoint", base + Self.introspectionPath)
                json.array("introspection_endpoint_auth_methods_supported", ["client_secret_basic"]) { $0.string($1) }
            }
            if isOpenID {
                json.array("subject_types_supported", ["public"]) { $0.string($1) }
                if !algorithms.isEmpty { json.array("id_token_signing_alg_values_supported", algorithms) { $0.string($1) } }
            }
            json.endObject()
        }
        return LocalResponse(
            status: 200, contentType: "application/json", body: out.readable.array, fields: [Self.caching])
    }
}
