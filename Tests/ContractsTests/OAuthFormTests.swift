import Gate
import HTTP
import Testing
import Wire

@testable import Contracts

/// The forms of `/oauth/token`, `/oauth/revoke` and `/oauth/introspect`, and the documents about the gateway.
@Suite struct OAuthFormTests {
    private func form(_ body: String, type: String? = "application/x-www-form-urlencoded") throws(Failure) -> OAuthForm {
        let fields = type.map { [(name: "Content-Type", value: $0)] } ?? []
        return try OAuthForm(
            LocalRequest(
                method: "POST", target: "/oauth/revoke?token=url", path: "/oauth/revoke", query: "?token=url", fields: fields,
                body: Array(body.utf8), client: IPAddress(high: 0, low: 1), requestID: "1"))
    }

    @Test(arguments: [
        ("token=abc", "abc"), ("token=abc&token_type_hint=refresh_token", "abc"), ("token_type_hint=what&token=abc", "abc"),
        ("token=a%2Bb%20c+d", "a+b c d"), ("%74oken=x", "x"), ("&&token=x&", "x"), ("token=a=b", "a=b"),
    ])
    func theTokenIsRead(_ body: String, _ token: String) throws {
        #expect(try form(body).required("token") == token)
    }

    @Test(arguments: ["", "token=", "token", "tok=x", "token=a&token=b", "token=%", "token=%zz", #"{"token":"x"}"#])
    func otherFormsAreRefused(_ body: String) {
        #expect(throws: Failure.self) { try form(body).required("token") }
    }

    @Test(
        arguments: [
            (nil, true), ("application/x-www-form-urlencoded; charset=UTF-8", true), ("Application/X-WWW-Form-URLEncoded", true),
            ("application/json", false), ("multipart/form-data", false), ("", false),
        ] as [(String?, Bool)])
    func theContentMustBeAForm(_ type: String?, _ isTaken: Bool) {
        let token = try? form("token=x", type: type).required("token")  // A refusal is what the row may expect.
        #expect((token != nil) == isTaken)
    }

    @Test func aRefusalHasTheFormOfOAuth() {
        let response = OAuthForm.fault("No.").response(in: .oauth, requestID: "1")
        #expect(response.status == 400 && response.body.rawBytes.text == #"{"error":"invalid_request","error_description":"No."}"#)
    }

    @Test func theDocumentsNameWhatIsThere() {
        let metadata = ServerMetadata(issuer: "https://id.test", publicURL: "https://gate.test/", algorithms: ["ES256", "RS256"])
        let plain = metadata.response(isOpenID: false, refreshes: true, revokes: true, introspects: true)
        let common =
            #"{"issuer":"https://id.test","jwks_uri":"https://gate.test/.well-known/jwks.json","response_types_supported":["none"],"#
            + #""grant_types_supported":["refresh_token"]"#
        let token =
            #","token_endpoint":"https://gate.test/oauth/token","token_endpoint_auth_methods_supported":["none"],"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519","RS256","PS256"]"#
        let revocation = #","revocation_endpoint":"https://gate.test/oauth/revoke","revocation_endpoint_auth_methods_supported":["none"]"#
        let introspection =
            #","introspection_endpoint":"https://gate.test/oauth/introspect","introspection_endpoint_auth_methods_supported":["client_secret_basic"]"#
        #expect(plain.body.rawBytes.text == common + token + revocation + introspection + "}")
        let openID = metadata.response(isOpenID: true, refreshes: false, revokes: false, introspects: false).body.rawBytes.text
        #expect(openID == common + #","subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","RS256"]}"#)
        #expect(plain.fields.contains { $0.name == "Cache-Control" && $0.value == "public, max-age=300" })
    }

    @Test func aResourceSaysWhetherItTakesProofsAndWhetherAllItsTokensAreBound() {
        let algorithms = #","dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519","RS256","PS256"]"#
        let rows: [(proofs: [ProofMode], says: String)] = [
            ([.off, .off], ""), ([.off, .bound], algorithms), ([.required, .bound], algorithms),
            ([.required, .required], algorithms + #","dpop_bound_access_tokens_required":true"#), ([], ""),
        ]
        for row in rows {
            let metadata = ResourceMetadata(url: "https://gate.test/mcp", servers: ["https://a.test"], scopes: [], proofs: row.proofs)
            let text =
                #"{"resource":"https://gate.test/mcp","authorization_servers":["https://a.test"],"bearer_methods_supported":["header"]"#
            #expect(metadata.response.body.rawBytes.text == text + row.says + "}", "\(row.proofs)")
        }
    }
}
