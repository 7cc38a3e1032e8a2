import Gate
import Testing
import Wire
import Workbench

/// The configurations of docs/forward-auth.md against the table of fields: a proxy that is not told of one passes on the client's.
@Suite struct ForwardAuthPageTests {
    private let page: String

    init() throws { page = try packageFile("docs/forward-auth.md") }

    /// The lines of the only block in `language` with this word, without indentation.
    private func block(_ language: String, with word: String) throws -> [Substring] {
        let blocks = page.split(separator: "```\(language)\n").dropFirst().compactMap { $0.split(separator: "\n```").first }.filter {
            $0.contains(word)
        }
        #expect(blocks.count == 1, "\(language) with \(word)")
        return try #require(blocks.first).split(separator: "\n").map { $0.drop { $0 == " " || $0 == "\t" } }
    }

    @Test(arguments: IdentityHeaders.passage.map { "\($0)" } + ["X-Api-Key"])
    func everyProxySetsOrRemovesTheField(_ name: String) throws {
        let isIdentity = IdentityHeader.allCases.contains { "\($0.name)" == name }
        #expect(!isIdentity || page.contains("`\(name)`"), "the text")
        #expect(try block("nginx", with: "auth_request").contains { $0.hasPrefix("proxy_set_header \(name) ") }, "nginx")
        #expect(try block("yaml", with: "forwardAuth").contains("- \(name)"), "Traefik")
        let caddy = try block("caddy", with: "forward_auth")
        #expect(caddy.contains { $0.hasPrefix("copy_headers ") && $0.split(separator: " ").contains(name[...]) }, "Caddy")
        // Credentials are never in an answer, and Envoy is told to remove them.
        guard isIdentity else { return }
        let removed = caddy.compactMap { $0.hasPrefix("request_header -") ? $0.dropFirst("request_header -".count) : nil }
        #expect(removed.contains { $0 == name || $0.hasSuffix("*") && name.hasPrefix($0.dropLast()) }, "Caddy")
        let envoy = try block("yaml", with: "ext_authz")
        let allowed = envoy.drop { $0 != "allowed_upstream_headers:" }.prefix { $0 != "allowed_client_headers:" }
        let isAllowed = allowed.contains { line in
            line == "- { exact: \(name.lowercased()) }"
                || line.hasPrefix("- { prefix: ") && name.lowercased().hasPrefix(line.dropFirst(12).dropLast(2))
        }
        #expect(isAllowed, "Envoy")
    }

    /// Envoy shows the check nothing else.
    @Test(arguments: ["x-api-key", "x-app-version", "x-internal-key"])
    func envoyShowsTheFieldToTheCheck(_ name: String) throws {
        let shown = try block("yaml", with: "ext_authz").drop { $0 != "allowed_headers:" }.prefix { $0 != "http_service:" }
        #expect(shown.contains("- { exact: \(name) }"))
    }
}
