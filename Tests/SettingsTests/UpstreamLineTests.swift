import Proxy
import Testing
import Wire

@testable import Settings
@testable import tollgate

@Suite struct UpstreamLineTests {
    private func parse(_ value: String) -> (UpstreamDeclaration, [String]) {
        let (upstream, findings) = UpstreamLine.parse(EnvEntry(name: "U", value: value, origin: .environment), name: "u")
        return (upstream, findings.faults.map(\.message))
    }

    @Test func anUpstreamIsItsAddressesAndTheDefaults() {
        let (upstream, faults) = parse("http://127.0.0.1:9001 https://API.Example.org unix:/run/app.sock http://[::1]")
        #expect(faults == [])
        #expect(upstream.bases.map(\.endpoint) == [.host("127.0.0.1", port: 9001), .host("api.example.org", port: 443), .unix(path: "/run/app.sock"), .host("::1", port: 80)])
        #expect(upstream.bases.map(\.isTLS) == [false, true, false, false])
        #expect(upstream.bases.map(\.hostField) == ["127.0.0.1:9001", "api.example.org", "localhost", "[::1]"])
        #expect(upstream.bases.map(\.pathPrefix) == ["", "", "", ""])
        #expect(upstream.balance == .least)
        #expect(upstream.health == nil)
        #expect(upstream.timeoutMilliseconds == 30_000)
        #expect(upstream.connectTimeoutMilliseconds == 2_000)
        #expect(upstream.retries == 1)
        #expect(upstream.maxConnections == nil)
        #expect(!upstream.sendsOwnHost)
        #expect(!upstream.speaksHTTP2)
        #expect(upstream.limits == UpstreamLimits())
    }

    @Test func everyOptionOfEjectionsAndBoundsIsRead() {
        let (upstream, faults) = parse(
            "http://h eject-failures=3 eject-after=1s eject-max=50% eject-success=90% eject-latency=3x panic=30% slow-start=1m max-requests=100 max-pending=10 retry-budget=5% retry-min=0")
        #expect(faults == [])
        var limits = UpstreamLimits()
        limits.ejectFailures = 3
        limits.ejectAfterMilliseconds = 1_000
        limits.ejectMax = 50
        limits.ejectSuccess = 90
        limits.ejectLatency = .factor(3)
        limits.panic = 30
        limits.slowStartMilliseconds = 60_000
        limits.maxRequests = 100
        limits.maxPending = 10
        limits.retryPercent = 5
        limits.retryMin = 0
        #expect(upstream.limits == limits)
        #expect(parse("http://h eject-latency=250ms").0.limits.ejectLatency == .milliseconds(250))
        let (off, offFaults) = parse("http://h eject-failures=off eject-success=off eject-latency=off eject-max=0% panic=0% retry-budget=0%")
        #expect(offFaults == [])
        #expect(off.limits.ejectFailures == nil && off.limits.ejectSuccess == nil && off.limits.ejectLatency == nil)
        #expect(off.limits.ejectMax == 0 && off.limits.panic == 0 && off.limits.retryPercent == 0)
    }

    @Test func theWorkersGetTheOptions() {
        let (upstream, _) = parse(
            "http://h eject-failures=3 eject-after=1s eject-max=50% eject-success=off eject-latency=3x panic=30% slow-start=1m max-requests=100 max-pending=10 retry-budget=5% retry-min=0")
        let settings = UpstreamSettings(upstream)
        var rules = OutlierRules()
        rules.failures = 3
        rules.interval = 1_000
        rules.mostEjected = 50
        rules.leastSuccess = nil
        rules.latency = .factor(3)
        rules.panic = 30
        rules.slowStart = 60_000
        #expect(settings.outliers == rules)
        #expect([settings.maxRequests, settings.maxPending, settings.retryPercent, settings.leastRetries] == [100, 10, 5, 0])
        let defaults = UpstreamSettings(parse("http://h").0)
        #expect(defaults.outliers == OutlierRules() && defaults.maxRequests == .max && defaults.maxPending == .max)
        #expect(defaults.retryPercent == 20 && defaults.leastRetries == 3)
    }

    @Test func everyOptionIsRead() {
        let (upstream, faults) = parse("https://h:1 balance=round health=/up?x=1 timeout=500ms connect-timeout=1s retries=0 max-connections=5 http2=on host=upstream paths=exact tls-ca=ca.pem")
        #expect(faults == [])
        #expect(upstream.balance == .round)
        #expect(upstream.health == .path("/up?x=1"))
        #expect(upstream.timeoutMilliseconds == 500)
        #expect(upstream.connectTimeoutMilliseconds == 1_000)
        #expect(upstream.retries == 0)
        #expect(upstream.maxConnections == 5)
        #expect(upstream.speaksHTTP2)
        #expect(upstream.sendsOwnHost)
        #expect(upstream.pathsAreExact && !parse("http://h").0.pathsAreExact)
        #expect(upstream.authorityFile == "ca.pem")
    }

    /// A reset mail may link to an app.
    @Test func aLinkIsOfTheWebOrOfAnApp() {
        func reads(_ text: String) -> Bool {
            do throws(ParseError) { return try TypedText.linkURL(text) == text } catch { return false }
        }
        for text in ["https://h/reset?token=", "http://h", "myapp://reset?token=", "com.example.app+x://r", "myapp://"] { #expect(reads(text), "\(text)") }
        for text in ["reset", "javascript://x", "JavaScript://x", "data://x", "://x", "1app://x", "my app://x", "HTTPS://u:p@h", "https://u:p@h", "myapp:reset", "myapp://a b", "ftp://h"] {
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

    @Test func aServerOfGRPCIsAskedByItsOwnHealthService() {
        let (upstream, faults) = parse("http://h:1 http2=on health=grpc")
        #expect(faults == [] && upstream.health == .grpc && upstream.health?.text == "grpc")
    }

    static let bad: [(String, String)] = [
        ("", "has no address, write one like http://127.0.0.1:9001"),
        ("127.0.0.1:9001", #""127.0.0.1:9001" is no address of an upstream, write one like http://127.0.0.1:9001, https://example.org or unix:/path"#),
        ("ftp://h", #""ftp://h" is no address of an upstream, write one like http://127.0.0.1:9001, https://example.org or unix:/path"#),
        ("srv+ftp://h", #""srv+ftp://h" is no service in DNS, write one like srv+http://_http._tcp.example.org"#),
        ("srv+http://h:80", #""srv+http://h:80" has a port, but those of a service are in its SRV records: leave it out"#),
        ("srv+http://_http._tcp", #""srv+http://_http._tcp" names no domain, write one like srv+http://_http._tcp.example.org"#),
        ("srv+http:///x", #""srv+http:///x" is no host name, write one like gateway.example.org, without a port"#),
        ("http://", #""http://" has no usable host, write a name or an address, like http://127.0.0.1:9001"#),
        ("http://a_b!", #""http://a_b!" has no usable host, write a name or an address, like http://127.0.0.1:9001"#),
        ("http://h:0", #""http://h:0" has no usable port, write one from 1 to 65535"#),
        ("http://h:65536", #""http://h:65536" has no usable port, write one from 1 to 65535"#),
        ("http://h:", #""http://h:" has no usable port, write one from 1 to 65535"#),
        ("http://[::1", #""http://[::1" has an opening bracket and no closing one, write an IPv6 address like [::1]"#),
        ("http://[1.2.3.4]", #""http://[1.2.3.4]" holds no IPv6 address between its brackets, write one like [::1]"#),
        ("http://u@h", #""http://***@h" carries a user or a password, remove the part before the @"#),
        ("http://h/a/../b", #""http://h/a/../b" has a base path that is not plain, use letters, digits and -._~ between single slashes"#),
        ("http://h/a?b", #""http://h/a?***" has a base path that is not plain, use letters, digits and -._~ between single slashes"#),
        ("unix:sock", #""unix:sock" is no unix socket, write unix: and an absolute path of at most 107 bytes"#),
        ("http://h http://h", #""http://h" is given twice, keep one of them"#),
        ("http://h helth=/x", #""helth" is no option here, the nearest is health"#),
        ("http://h health=x", #""health=x" is no path, write one like /healthz"#),
        ("http://h health=grpc", "health=grpc needs HTTP/2, write http2=on beside it"),
        ("http://h health=grpc http2=off", "health=grpc needs HTTP/2, write http2=on beside it"),
        ("http://h timeout=", "timeout= has no value, write 30s or leave it out"),
        ("http://h timeout=1s timeout=2s", "timeout= is given twice, keep one of them"),
        ("http://h timeout=0s", #""timeout=0s" is out of range, write a duration from 1ms to 1d"#),
        ("http://h retries=9", #""retries=9" is out of range, write a number from 0 to 5"#),
        ("http://h balance=best", #""balance=best" is not known, write least or round"#),
        ("http://h http2=h2c", #""http2=h2c" is not known, write off or on"#),
        ("http://h eject-failures=0", #""eject-failures=0" is out of range, write a number from 1 to 1000"#),
        ("http://h eject-failures=no", #""eject-failures=no" is no whole number, write one from 1 to 1000"#),
        ("http://h eject-after=10ms", #""eject-after=10ms" is out of range, write a duration from 1s to 5m"#),
        ("http://h eject-max=10", #""eject-max=10" is no percentage, write one from 0% to 100%"#),
        ("http://h eject-max=101%", #""eject-max=101%" is out of range, write a percentage from 0% to 100%"#),
        ("http://h eject-success=0%", #""eject-success=0%" is out of range, write a percentage from 1% to 100%"#),
        ("http://h eject-latency=1x", #""eject-latency=1x" is out of range, write a factor from 2x to 100x"#),
        ("http://h eject-latency=3", #""eject-latency=3" is no bound on the time to a response, write off, a factor like 3x or a duration like 500ms"#),
        ("http://h eject-latency=1h", #""eject-latency=1h" is out of range, write a duration from 1ms to 10m"#),
        ("http://h panic=half", #""panic=half" is no percentage, write one from 0% to 100%"#),
        ("http://h slow-start=2h", #""slow-start=2h" is out of range, write a duration from 0ms to 1h"#),
        ("http://h max-requests=0", #""max-requests=0" is out of range, write a number from 1 to 1000000"#),
        ("http://h max-pending=x", #""max-pending=x" is no whole number, write one from 1 to 1000000"#),
        ("http://h retry-budget=-5%", #""retry-budget=-5%" is no percentage, write one from 0% to 100%"#),
        ("http://h retry-min=1001", #""retry-min=1001" is out of range, write a number from 0 to 1000"#),
        ("http://h tls-ca=x", "tls-ca= is for https:// addresses and there is none, remove it or write https://"),
    ]

    @Test(arguments: bad) func anInvalidUpstreamIsAFault(_ value: String, _ message: String) {
        #expect(parse(value).1 == [message])
    }
}
