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
                "TOLLGATE_ROUTE_R=\"/* upstream=u cors=https://App.test,https://*.test:8443 cors-credentials=on cors-headers=X-A,x_b cors-expose=X-C cors-max-age=1h\"")["r"])
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

    private static let bad: [(String, String)] = [
        ("cors=app.test", #""cors=app.test" is no origin, write one like https://app.example.org"#),
        ("cors=https://app.test/", #""cors=https://app.test/" has a path or a slash at its end, which no origin has, write one like https://app.example.org"#),
        ("cors=null", #""cors=null" is the origin of every sandboxed frame and local file, so it cannot be allowed, remove it"#),
        ("cors=https://a.test,", #""cors=https://a.test," has an origin at fault: "" is no origin, write one like https://app.example.org"#),
        ("cors=https://a.test,b.test", #""cors=https://a.test,b.test" has an origin at fault: "b.test" is no origin, write one like https://app.example.org"#),
        ("cors=https://a.test,*", #""cors=https://a.test,*" has an origin at fault: "*" is every origin, keep it alone or remove it"#),
        ("cors=https://a.test,off", #""cors=https://a.test,off" names origins beside off, keep one of them"#),
        ("cors=https://a.test cors-credentials=yes", #""cors-credentials=yes" is not known, write off or on"#),
        ("cors=https://a.test cors-headers=*", #""cors-headers=*" is no list of field names, write names like X-Device,X-App-Version"#),
        ("cors=https://a.test cors-expose=X-A,,X-B", #""cors-expose=X-A,,X-B" is no list of field names, write names like X-Device,X-App-Version"#),
        ("cors=https://a.test cors-max-age=2d", #""cors-max-age=2d" is out of range, write a duration from 0ms to 1d"#),
        ("cors=* cors-credentials=on", "has cors-credentials=on with cors=*: pages of every origin would act as the user, name the origins in cors="),
        ("cors-credentials=on", "has cors-credentials= and no origins for it, add cors=https://app.example.org or set TOLLGATE_CORS"),
        ("cors=off cors-max-age=5m", "has cors-max-age= and no origins for it, add cors=https://app.example.org or set TOLLGATE_CORS"),
    ]

    @Test(arguments: bad) func anInvalidPolicyIsAFaultOfItsLine(_ options: String, _ message: String) {
        let found = faults("\(Self.upstream)\nTOLLGATE_ROUTE_R=\"/* upstream=u \(options)\"")
        #expect(found == ["a.env:2: TOLLGATE_ROUTE_R: \(message)"])
    }

    @Test func theCommonOriginsAreCheckedWithTheirRoutes() {
        let route = "\(Self.upstream)\nTOLLGATE_ROUTE_R=\"/* upstream=u cors-credentials=on\"\n"
        #expect(
            faults(route + "TOLLGATE_CORS=*")
                == ["a.env:2: TOLLGATE_ROUTE_R: has cors-credentials=on with TOLLGATE_CORS=*: pages of every origin would act as the user, name the origins in cors="])
        #expect(faults("\(Self.upstream)\nTOLLGATE_CORS=app.test").first == "a.env:2: TOLLGATE_CORS: \"app.test\" is no origin, write one like https://app.example.org")
    }

    @Test func checkShowsThePolicyOfEachRoute() throws {
        let text = "\(Self.upstream)\nTOLLGATE_ROUTE_R=\"/* upstream=u cors=https://a.test cors-credentials=on cors-headers=X-A cors-max-age=1h\"\nTOLLGATE_CORS=https://b.test\nTOLLGATE_CONTRACTS=apple@/"
        let loaded = load(text)
        let table = CheckCommand.run(loaded, json: false).output
        #expect(table.contains("cors=https://a.test cors-credentials=on cors-headers=X-A cors-max-age=1h"))
        #expect(table.contains("cors=https://b.test"))
        let json = CheckCommand.run(loaded, json: true).output
        #expect(json.contains(#""cors":{"origins":"https://a.test","credentials":true,"headers":["X-A"],"expose":[],"max_age_s":3600}"#))
    }
}
