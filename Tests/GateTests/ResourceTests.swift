import Credentials
import Testing
import Wire

@testable import Gate

/// Protected resources: below their paths count tokens for them alone, and these nowhere else.
@Suite struct ResourceTests {
    private static let resource = ProtectedResource(
        url: "https://gate.test/mcp", metadataURL: "https://gate.test/.well-known/oauth-protected-resource/mcp")

    private static func policy() throws -> Policy {
        func issuer(_ name: String, _ audiences: [String]) -> TrustedIssuer {
            TrustedIssuer(
                name: name, issuer: "https://\(name).test", audiences: audiences, algorithms: .hmac,
                keys: KeySet([AdmissionHarness.key.verificationKey]))
        }
        var rules = [
            rule("mcp", "/mcp/*"), rule("read", "/mcp/read/*"), rule("plain", "/plain/*"), rule("may", "/mcp/may/*", auth: .optional),
        ]
        for index in [0, 1, 3] { rules[index].resource = resource }
        rules[1].scopes = ["mcp:read"]
        let trust = Trust(
            issuers: [issuer("a", ["api"]), issuer("b", ["api"]), issuer("any", [])], scopes: RouteRule.scopes(of: rules),
            resources: [ResourceAudience(url: resource.url, issuers: ["a", "any"])])
        return try Policy(rules: rules, trust: trust)
    }

    private static func token(_ issuer: String, _ audience: String) -> String {
        let now = AdmissionHarness.now.wall.seconds
        var claims = TokenClaims(issuer: "https://\(issuer).test", audience: audience, subject: "u", issuedAt: now, expiresAt: now + 60)
        _ = claims.add("scope", .string("x"))
        do { return try AdmissionHarness.key.issue(claims) } catch { preconditionFailure("\(error)") }
    }

    @Test(
        arguments: [
            ("/mcp/x", "a", "https://gate.test/mcp", AuthReason.none), ("/mcp/may/x", "a", "https://gate.test/mcp", .none),
            ("/plain/x", "a", "https://gate.test/mcp", .wrongAudience), ("/mcp/x", "a", "api", .wrongAudience),
            ("/plain/x", "a", "api", .none),
            ("/mcp/x", "b", "https://gate.test/mcp", .wrongAudience), ("/mcp/x", "b", "api", .wrongAudience),
            ("/plain/x", "b", "api", .none),
            ("/mcp/x", "any", "https://gate.test/mcp", .none), ("/mcp/x", "any", "else", .wrongAudience),
            ("/plain/x", "any", "else", .none),
            ("/mcp/x", "a", "https://gate.test/mcp/", .wrongAudience), ("/mcp/may/x", "a", "api", .wrongAudience),
            ("/mcp/read/x", "a", "https://gate.test/mcp", .scope),
        ] as [(String, String, String, AuthReason)])
    func aTokenCountsWhereItIsFor(_ path: String, _ issuer: String, _ audience: String, _ reason: AuthReason) throws {
        let harness = AdmissionHarness(try Self.policy())
        // The second time from the cache of tokens.
        for _ in 0..<2 {
            let judged = harness.get(path, token: Self.token(issuer, audience))
            #expect(judged.reason == reason && (reason == .none) == (judged.status == 0))
        }
    }

    @Test func refusalsNameTheMetadata() throws {
        let harness = AdmissionHarness(try Self.policy())
        let metadata = #"resource_metadata="https://gate.test/.well-known/oauth-protected-resource/mcp""#
        #expect(harness.get("/mcp/x").headers == [#"WWW-Authenticate: Bearer realm="tollgate", \#(metadata)"#])
        let refused = harness.get("/mcp/read/x", token: Self.token("a", "https://gate.test/mcp"))
        #expect(refused.status == 403 && refused.headers[0].hasSuffix(#", scope="mcp:read", \#(metadata)"#))
        #expect(harness.get("/plain/x").headers == [#"WWW-Authenticate: Bearer realm="tollgate""#])
    }
}
