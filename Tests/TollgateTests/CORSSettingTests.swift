import Gate
import Testing

@testable import Settings
@testable import tollgate

@Suite struct CORSSettingTests {
    private static let upstream = "TOLLGATE_UPSTREAM_U=http://a"

    private func rules(_ lines: String...) throws -> [String: CORSRule] {
        let loaded = load(([Self.upstream] + lines).joined(separator: "\n"))
        #expect(loaded.findings.faults == [])
        let configuration = try #require(loaded.configuration)
        let rules = try PolicyBuilder.rules(configuration)
        return Dictionary(uniqueKeysWithValues: rules.compactMap { rule in rule.cors.map { (rule.name, $0) } })
    }

    @Test func everyKeyIsRead() throws {
        let rule = try #require(
            try rules(
                "TOLLGATE_ROUTE_R=\"/* upstream=u cors=https://App.test,https://*.test:8443 cors-credentials=on cors-headers=X-A,x_b cors-expose=X-C cors-max-age=1h\""
            )["r"])
        #expect(rule.origins.text == "https://app.test,https://*.test:8443")
        #expect(rule.allowsCredentials)
        #expect(rule.requestFields == ["X-A", "x_b"] && rule.furtherExposed == ["X-C"])
        #expect(rule.maxAgeSeconds == 3_600)
    }

    @Test func aRouteWithoutTheKeyHasTheCommonOrigins() throws {
        let rules = try rules(
            "TOLLGATE_ROUTE_PLAIN=\"/a upstream=u\"", "TOLLGATE_ROUTE_OFF=\"/b upstream=u cors=off\"",
            "TOLLGATE_ROUTE_OWN=\"/c upstream=u cors=*\"", "TOLLGATE_ROUTE_MORE=\"/d upstream=u cors-credentials=on cors-max-age=5s\"",
            "TOLLGATE_CORS=\"https://a.test https://b.test,https://c.test\"", "TOLLGATE_CONTRACTS=password@/api/v1")
        let common = try CORSOrigins(["https://a.test", "https://b.test", "https://c.test"])
        #expect(rules["plain"] == CORSRule(common))
        #expect(rules["off"] == nil)
        #expect(rules["own"] == CORSRule(.any))
        #expect(rules["more"]?.origins == common && rules["more"]?.allowsCredentials == true && rules["more"]?.maxAgeSeconds == 5)
        #expect(rules["own-keys"] == CORSRule(common))
        #expect(rules.values.filter { $0 == CORSRule(common) }.count > 8)
    }

    @Test(arguments: ["", "TOLLGATE_CORS=off", "TOLLGATE_CORS="]) func withoutOriginsThereIsNone(_ line: String) throws {
        #expect(try rules("TOLLGATE_ROUTE_R=\"/* upstream=u\"", line) == [:])
    }
}
