import Credentials
import Gate
import Proxy
import Settings
import Telemetry
import Testing
import Wire
import Workbench

@testable import Issuers
@testable import tollgate

@Suite struct PolicyBuilderTests {
    private let now = WallTime(seconds: 1_800_000_000)

    private func policy(_ text: String, _ change: (inout IssuerKeys) -> Void = { _ in }) throws -> Policy {
        let configuration = try #require(load(text).configuration)
        var keys = IssuerKeys(own: try SigningKeyRing.generate(.ES256, now: now))
        change(&keys)
        return try PolicyBuilder.policy(configuration, keys: keys, networks: [:], version: 7, now: now)
    }

    @Test func theOwnKeysArePublishedBesideTheRoutes() throws {
        let policy = try policy("TOLLGATE_CONTRACTS=apple@/a\n" + oneRoute)
        #expect(policy.version == 7)
        // There is nothing to refresh.
        #expect(
            policy.rules.map(\.name) == ["r", "apple-register", "apple-login", "own-keys"] + Self.ownBehindKeys.filter { $0 != "own-token" }
        )
        for endpoint in LocalEndpoint.allCases where Self.standing.contains(endpoint) && endpoint != .token {
            let rule = try #require(policy.rules.first { $0.name == endpoint.name })
            #expect(rule.target == .local(endpoint.rawValue) && rule.path == endpoint.path)
            #expect(rule.auth == (endpoint == .introspection ? .internal : .none))
        }
    }

    /// Those that no setting asks for.
    private static let standing = LocalEndpoint.allCases.filter { $0.rawValue < LocalEndpoint.console.rawValue }
    private static let ownBehindKeys = ["own-openid", "own-metadata", "own-token", "own-revocation", "own-introspection"]

    @Test func theConsoleIsOnTheMainListenersWhereTheOperatorAsksForIt() throws {
        let asked = "TOLLGATE_CONTRACTS=\nTOLLGATE_CONSOLE_ON_MAIN=true\n" + oneRoute
        #expect(try policy(asked).rules.map(\.name).suffix(3) == ["own-console", "own-admin-api", "own-admin"])
        let rules = try policy(asked).rules.suffix(3)
        #expect(rules.map(\.path) == ["/console/", "/admin/api/", "/admin"] && rules.map(\.encodedSlashPasses) == [false, true, false])
        for text in ["TOLLGATE_CONTRACTS=\n" + oneRoute, "TOLLGATE_CONTRACTS=\nTOLLGATE_CONSOLE_ON_MAIN=false\n" + oneRoute] {
            #expect(try !policy(text).rules.contains { $0.name == "own-console" || $0.name == "own-admin-api" })
        }
        let replaced = try policy(asked + "TOLLGATE_ROUTE_K=\"/console/* upstream=u auth=none\"").rules.map(\.name)
        #expect(replaced.contains("own-admin-api") && !replaced.contains("own-console"))
        #expect(!replaced.contains("own-admin"), "there is no console to lead to")
        for (path, leads) in [
            ("/admin", false), ("/admin/*", false), ("/admin/users/*", false), ("/admins/*", true), ("h.test/admin/*", true),
        ] {
            let names = try policy(asked + "TOLLGATE_ROUTE_K=\"\(path) upstream=u auth=none\"").rules.map(\.name)
            #expect(names.contains("own-admin") == leads && names.contains("own-admin-api"), "\(path)")
        }
        let warnings = load(asked + "TOLLGATE_ROUTE_K=\"/admin/* upstream=u\"").findings.warnings.map(\.text)
        #expect(warnings.contains { $0.contains("TOLLGATE_ROUTE_K") && $0.contains("/admin/api never reaches upstream=u") })
    }

    @Test func aRouteThatTakesTheirPlaceKeepsIt() throws {
        let policy = try policy(
            "TOLLGATE_CONTRACTS=\n" + oneRoute + "TOLLGATE_ROUTE_K=\"GET,HEAD /.well-known/jwks.json upstream=u auth=none\"")
        #expect(policy.rules.map(\.name) == ["r", "k"] + Self.ownBehindKeys.filter { $0 != "own-token" })
    }

    /// Patterns of a route, and the endpoint that gives way to it.
    @Test(
        arguments: [
            ("/oauth/token", "own-token"), ("/oauth/revoke", "own-revocation"), ("POST /oauth/introspect", "own-introspection"),
            ("GET,PUT /.well-known/./openid-configuration", "own-openid"),
            ("GET /oauth/revoke", nil), ("/oauth/*", nil), ("h.test/oauth/revoke", nil),
        ] as [(String, String?)])
    func aRouteWithThePathOfAnEndpointReplacesIt(_ pattern: String, _ replaced: String?) throws {
        let text = "TOLLGATE_CONTRACTS=password@/a\n" + oneRoute + "TOLLGATE_ROUTE_K=\"\(pattern) upstream=u auth=none\""
        let expected = Self.standing.map(\.name).filter { $0 != replaced }
        #expect(try policy(text).rules.map(\.name).filter { $0.hasPrefix("own-") } == expected)
    }

    @Test func aRouteThatSharesItsFirstSegmentWithAnEndpointIsTold() {
        let warnings = load("TOLLGATE_CONTRACTS=password@/a\n" + oneRoute + "TOLLGATE_ROUTE_K=\"/oauth/* upstream=u\"").findings.warnings
            .map(\.text)
        #expect(
            warnings.contains {
                $0.contains("TOLLGATE_ROUTE_K") && $0.contains("/oauth/token /oauth/revoke /oauth/introspect never reach upstream=u")
            })
        #expect(!warnings.contains { $0.contains("TOLLGATE_ROUTE_R:") && $0.contains("/oauth/") })
    }

    @Test func identitiesAreSignedByTheActiveKeyUnlessItIsASecret() throws {
        #expect(try policy(oneRoute).identitySigner != nil)
        #expect(try policy(oneRoute) { $0.own = nil }.identitySigner == nil)
        let secret = try SigningKeyRing.generate(.HS256, now: now)
        #expect(try policy(oneRoute) { $0.own = secret }.identitySigner == nil)
    }

    @Test func theAccountPageStandsBehindTheContracts() throws {
        let policy = try policy("TOLLGATE_CONTRACTS=password@/a\n" + oneRoute)
        #expect(
            policy.rules.map(\.name) == [
                "r", "password-register", "password-login", "password-refresh", "password-me", "web-account", "web-sessions",
                "web-end-session", "web-sign-out", "web-sign-out-everywhere", "web-page", "own-keys",
            ] + Self.ownBehindKeys)
    }

    @Test(arguments: [
        "/* upstream=u", "GET,HEAD /web/* upstream=u", "/web/api/account upstream=u", "/.well-known/openid-configuration upstream=u",
    ])
    func metricsNameEveryRuleOfThePolicy(_ route: String) throws {
        let text = "TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\nTOLLGATE_ROUTE_R=\"\(route)\"\nTOLLGATE_CONTRACTS=password@/a"
        let configuration = try #require(load(text).configuration)
        let rules = try PolicyBuilder.rules(configuration)
        var (declared, expected) = (MetricLabels(WorkerTelemetry.words), MetricLabels(WorkerTelemetry.words))
        declared.declare(configuration)
        expected.declare(
            routes: rules.map(\.name), upstreams: ["u"], tiers: configuration.settings.tiers.names, issuers: [TrustDeclaration.ownName])
        #expect(declared == expected)
    }

    @Test func outsideIssuersComeFirstAndOwnTokensLast() throws {
        let document = jwksOfA
        let keys = try KeySet(jwks: document.rawBytes)
        let text = "TOLLGATE_TRUST_A=\"issuer=x audience=any jwks=http://i\"\nTOLLGATE_TRUST_B=\"audience=b jwks=http://j\"\n" + oneRoute
        let trust = try policy(text) { $0.outside["b"] = keys }.trust
        #expect(trust.issuers.map(\.name) == ["a", "b", "tollgate"])
        #expect(trust.issuers.map(\.issuer) == ["x", nil, "http://localhost:8000"])
        #expect(trust.issuers.map(\.audiences) == [[], ["b"], ["tollgate"]])
        #expect(trust.issuers.map(\.isOwn) == [false, false, true])
        #expect(trust.issuers.map { $0.keys != nil } == [false, true, true])
        #expect(trust.issuers.last?.algorithms == AlgorithmSet(.ES256))
    }

    @Test func claimsOfAllRoutesAreAskedOfTheTrustOnce() throws {
        let text = oneRoute + "TOLLGATE_ROUTE_S=\"/s upstream=u claims=a=1,b=2\"\nTOLLGATE_ROUTE_T=\"/t upstream=u claims=b=2\""
        let trust = try policy(text).trust
        #expect(trust.requirements == [ClaimRequirement(name: "a", value: "1"), ClaimRequirement(name: "b", value: "2")])
        #expect(trust.clockSkewSeconds == 30)
    }
}
