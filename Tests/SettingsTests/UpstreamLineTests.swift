import Testing
import Wire

@testable import Settings

@Suite struct UpstreamLineTests {
    private func parse(_ value: String) -> (UpstreamDeclaration, [String]) {
        let upstream = load("TOLLGATE_UPSTREAM_U=\"\(value)\"\n")
        return (upstream.partial.upstreams[0], upstream.findings.faults.map(\.message))
    }

    @Test func theAddressesAreRead() {
        let (upstream, faults) = parse("http://127.0.0.1:9001 https://API.Example.org unix:/run/app.sock http://[::1]")
        #expect(faults == [])
        #expect(
            upstream.bases.map(\.endpoint) == [
                .host("127.0.0.1", port: 9001), .host("api.example.org", port: 443), .unix(path: "/run/app.sock"), .host("::1", port: 80),
            ])
        #expect(upstream.bases.map(\.isTLS) == [false, true, false, false])
        #expect(upstream.bases.map(\.hostField) == ["127.0.0.1:9001", "api.example.org", "localhost", "[::1]"])
        #expect(upstream.bases.map(\.pathPrefix) == ["", "", "", ""])
    }

    /// A reset mail may link to an app.
    @Test func aLinkIsOfTheWebOrOfAnApp() {
        func reads(_ text: String) -> Bool {
            do throws(ParseError) { return try TypedText.linkURL(text) == text } catch { return false }
        }
        for text in ["https://h/reset?token=", "http://h", "myapp://reset?token=", "com.example.app+x://r", "myapp://"] {
            #expect(reads(text), "\(text)")
        }
        for text in [
            "reset", "javascript://x", "JavaScript://x", "data://x", "://x", "1app://x", "my app://x", "HTTPS://u:p@h", "https://u:p@h",
            "myapp:reset", "myapp://a b", "ftp://h",
        ] {
            #expect(!reads(text), "\(text)")
        }
    }

    @Test func eachAddressHasABasePathOfItsOwn() {
        let (upstream, faults) = parse("http://a/base/ http://b http://a/other host=upstream")
        #expect(faults == [])
        #expect(upstream.bases.map(\.pathPrefix) == ["/base", "", "/other"])
        #expect(upstream.bases.map(\.hostField) == ["a", "b", "a"])
    }

    @Test func aServiceIsANameInDNS() {
        let (upstream, faults) = parse("srv+http://_HTTP._tcp.api.example.org srv+https://api.service.consul/v1/")
        #expect(faults == [])
        #expect(upstream.bases.map(\.endpoint) == [.service("_http._tcp.api.example.org"), .service("api.service.consul")])
        #expect(upstream.bases.map(\.hostField) == ["api.example.org", "api.service.consul"])
        #expect(upstream.bases.map(\.isTLS) == [false, true])
        #expect(upstream.bases.map(\.pathPrefix) == ["", "/v1"])
    }
}
