import TestThreads
import Testing

/// Providers of ID tokens beside Apple and Google.
@Suite(.ownThread) struct ProviderEndToEndTests {
    @Test func anyProviderSignsInByTheNameOfItsLine() throws {
        let key = try IssuerKey(.es256, kid: "k1")
        let keys = try keySet(key)
        let server = try Upstream { _, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(keys.utf8.count)\r\n\r\n\(keys)")
        }
        let line = "client-ids=app jwks=\(server.url)/keys"
        let gateway = try Gateway(
            """
            \(Gateway.contracts)
            TOLLGATE_PROVIDER_KEYCLOAK="\(line) issuer=https://id.test,https://id.test/old email=trusted nonce=required"
            TOLLGATE_PROVIDER_KAKAO="\(line)"
            """)
        func signIn(_ provider: String, _ issuer: String, email: String, nonce: String? = nil) throws -> Message {
            let claims =
                #"{"iss":"\#(issuer)","aud":"app","sub":"7","email":"\#(email)","email_verified":true,"nonce":"n","iat":\#(unixNow),"exp":\#(unixNow + 600)}"#
            let nonce = nonce.map { #","nonce":"\#($0)""# } ?? ""
            let body = #"{"provider":"\#(provider)","idToken":"\#(try key.token(claims))"\#(nonce)}"#
            return try gateway.send("POST /whateat/api/v1/auth/signin", body)
        }
        try eventually("the keys are there") {
            try signIn("keycloak", "https://id.test", email: "ada@example.org", nonce: "n").status == 200
        }
        let user = try JSON(try signIn("keycloak", "https://id.test/old", email: "ada@example.org", nonce: "n").text)["user"]
        #expect(user["email"].text == "ada@example.org")
        #expect(try signIn("keycloak", "https://id.test", email: "ada@example.org").status == 401)
        #expect(try signIn("keycloak", "https://kauth.kakao.com", email: "ada@example.org", nonce: "n").status == 401)
        try eventually("the keys are there") {
            try signIn("kakao", "https://kauth.kakao.com", email: "ada@example.org", nonce: "n").status == 200
        }
        let other = try JSON(try signIn("kakao", "https://kauth.kakao.com", email: "ada@example.org", nonce: "n").text)["user"]
        #expect(other["email"].isNull && other["id"].text != user["id"].text)
        #expect(try signIn("line", "https://access.line.me", email: "a@b").text.contains(#"\"keycloak\""#))
        let shown = try JSON(gateway.command(["user", "show", "ada@example.org", "--json"]).output)
        #expect(shown["identities"].array.map { [$0["provider"].text, $0["subject"].text] } == [["keycloak", "7"]])
    }
}
