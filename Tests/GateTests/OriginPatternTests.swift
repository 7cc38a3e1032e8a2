import Testing
import Wire

@testable import Gate

@Suite struct OriginPatternTests {
    private static let long = String(repeating: "a.", count: 100) + "example.org"

    @Test(arguments: [
        ("https://app.example.org", "https://app.example.org"), ("HTTPS://App.Example.ORG", "https://app.example.org"),
        ("http://localhost:5173", "http://localhost:5173"), ("https://app.example.org:80", "https://app.example.org:80"),
        ("https://*.example.org", "https://*.example.org"), ("https://*.example.org:8443", "https://*.example.org:8443"),
        ("capacitor://localhost", "capacitor://localhost"), ("http://[::1]:3000", "http://[::1]:3000"),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"), ("http://10.0.2.2:8080", "http://10.0.2.2:8080"),
    ])
    func anOriginIsReadAsBrowsersWriteIt(_ text: String, _ written: String) throws {
        #expect(try OriginPattern(parsing: text).text == written)
    }

    @Test(arguments: [
        ("app.example.org", "is no origin, write one like https://app.example.org"),
        ("//app.example.org", "is no origin, write one like https://app.example.org"),
        ("9https://app.example.org", "is no origin, write one like https://app.example.org"),
        ("", "is no origin, write one like https://app.example.org"),
        ("null", "is the origin of every sandboxed frame and local file, so it cannot be allowed, remove it"),
        ("Null", "is the origin of every sandboxed frame and local file, so it cannot be allowed, remove it"),
        ("https://app.example.org/", "has a path or a slash at its end, which no origin has, write one like https://app.example.org"),
        ("https://app.example.org?x", "has a path or a slash at its end, which no origin has, write one like https://app.example.org"),
        ("https://app.example.org:443", "names the port that browsers leave out, write it without :443"),
        ("http://app.example.org:80", "names the port that browsers leave out, write it without :80"),
        ("https://*", "has a * where none can be, write https://*.example.org for any subdomain"),
        ("https://a.*.example.org", "has a * where none can be, write https://*.example.org for any subdomain"),
        ("https://app*.example.org", "has a * where none can be, write https://*.example.org for any subdomain"),
        ("https://*.*.example.org", "has a * where none can be, write https://*.example.org for any subdomain"),
        ("*://app.example.org", "is no origin, write one like https://app.example.org"),
        ("https://*.[::1]", "has a * before an address, which has no subdomains"),
        ("https://user@app.example.org", "carries a user or a password, remove the part before the @"),
        ("https://", "has no usable host, write a name or an address, like http://127.0.0.1:9001"),
        ("https://bücher.example", "has no usable host, write a name or an address, like http://127.0.0.1:9001"),
        ("https://app.example.org.", "has a host that no browser sends, write one like https://app.example.org"),
        ("https://app..example.org", "has a host that no browser sends, write one like https://app.example.org"),
        ("https://*..example.org", "has a host that no browser sends, write one like https://app.example.org"),
        ("https://app.example.org:0", "has no usable port, write one from 1 to 65535"),
        ("https://app.example.org:65536", "has no usable port, write one from 1 to 65535"),
    ])
    func anythingElseIsRefusedWithItsRemedy(_ text: String, _ message: String) {
        do {
            Issue.record("\(try OriginPattern(parsing: text).text) was read")
        } catch {
            #expect(error.message == message)
        }
    }

    private func matches(_ pattern: String, _ origin: String) throws -> Bool {
        let pattern = try OriginPattern(parsing: pattern)
        return origin.withRawBytes { pattern.matches($0) }
    }

    @Test(arguments: [
        "https://app.example.org", "https://a.b.example.org", "https://a-b_c.example.org", "https://1.example.org", "https://\(long)",
    ])
    func aSubdomainAtAnyDepthMatches(_ origin: String) throws {
        #expect(try matches("https://*.example.org", origin))
    }

    @Test(arguments: [
        "https://example.org", "https://.example.org", "https://..example.org", "https://a..example.org", "https://.a.example.org",
        "http://app.example.org", "https://app.example.org:8443", "https://app.example.org.", "https://app.example.org.evil.test",
        "https://evilexample.org", "https://evil.test/.example.org", "https://evil.test?.example.org", "https://evil.test#.example.org",
        "https://evil.test\\.example.org", "https://user@.example.org", "https://user:x@a.example.org", "https://evil.test:1.example.org",
        "HTTPS://app.example.org", "https://APP.example.org", "https://app.Example.org", "https://app.example.org/",
        " https://app.example.org",
        "https://app.example.org,https://evil.test", "https://evil.test https://app.example.org", "https:// .example.org",
        "https://%61.example.org", "https://bücher.example.org", "null", "", "*", "https://*.example.org", "https://app.example.or",
        "wss://app.example.org",
    ])
    func nothingElseMatchesItsPattern(_ origin: String) throws {
        #expect(try !matches("https://*.example.org", origin))
    }

    @Test(arguments: [
        ("https://app.example.org", "https://app.example.org", true), ("https://app.example.org", "http://app.example.org", false),
        ("https://app.example.org", "https://app.example.org:443", false), ("https://app.example.org", "https://xapp.example.org", false),
        ("https://app.example.org", "https://app.example.orgx", false), ("https://app.example.org", "https://app.example.org:8443", false),
        ("http://localhost:5173", "http://localhost:5173", true), ("http://localhost:5173", "http://localhost:5174", false),
        ("http://localhost:5173", "http://localhost", false), ("http://[::1]:3000", "http://[::1]:3000", true),
        ("https://*.example.org:8443", "https://a.example.org:8443", true), ("https://*.example.org:8443", "https://a.example.org", false),
        ("capacitor://localhost", "capacitor://localhost", true), ("capacitor://localhost", "http://localhost", false),
    ])
    func schemeHostAndPortAreComparedExactly(_ pattern: String, _ origin: String, _ isSame: Bool) throws {
        #expect(try matches(pattern, origin) == isSame)
    }

    @Test(arguments: [
        ("https://gate.example.org", "https://gate.example.org"), ("https://Gate.example.org:443/base?x", "https://gate.example.org"),
        ("http://localhost:8000", "http://localhost:8000"), ("http://gate:80/", "http://gate"), ("http://[::1]:8000", "http://[::1]:8000"),
        ("gate", nil),
    ])
    func aURLHasAnOrigin(_ url: String, _ origin: String?) { #expect(OriginPattern.origin(ofURL: url) == origin) }

    @Test func severalOriginsAreOneListAndEveryOriginStandsAlone() throws {
        #expect(try CORSOrigins(["https://a.test", "https://*.b.test", "HTTPS://A.test"]).text == "https://a.test,https://*.b.test")
        #expect(try CORSOrigins(["*"]) == .any)
        #expect(throws: CORSOrigins.Fault.self) { try CORSOrigins(["https://a.test", "*"]) }
        #expect(throws: CORSOrigins.Fault.self) { try CORSOrigins(["https://a.test", "null"]) }
    }
}
