package import Gate
package import HTTP
import Wire

/// The metadata of a protected resource (RFC 9728), by which clients find the authorization server that gives out its tokens.
package struct ResourceMetadata: Sendable {
    private let url: String
    private let servers: [String]
    private let scopes: [String]
    private let proofs: [ProofMode]

    /// `proofs`: those of the routes below it.
    package init(url: String, servers: [String], scopes: [String], proofs: [ProofMode]) {
        self.url = url
        self.servers = servers
        self.scopes = scopes
        self.proofs = proofs
    }

    package var response: LocalResponse {
        var out = ByteBuffer(capacity: 512)
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("resource", url)
            json.array("authorization_servers", servers) { $0.string($1) }
            if !scopes.isEmpty { json.array("scopes_supported", scopes) { $0.string($1) } }
            json.array("bearer_methods_supported", ["header"]) { $0.string($1) }
            if proofs.contains(where: { $0 != .off }) { ServerMetadata.writeProofAlgorithms(to: &json) }
            if !proofs.isEmpty, proofs.allSatisfy({ $0 == .required }) { json.field("dpop_bound_access_tokens_required", true) }
            json.endObject()
        }
        return LocalResponse(
            status: 200, contentType: "application/json", body: out.readable.array, fields: [ServerMetadata.caching])
    }
}
