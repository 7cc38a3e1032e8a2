import Gate
import Testing

@testable import Settings

/// Ten thousand routes in one env file.
@Suite struct ManyRoutesTests {
    @Test func eachHasItsOwnUpstream() throws {
        let count = 10_000
        let text = (0..<count).map { "TOLLGATE_ROUTE_R\($0)=/s\($0)/* upstream=u\($0 % 500)\n" }.joined()
        let upstreams = (0..<500).reversed().map { "TOLLGATE_UPSTREAM_U\($0)=http://127.0.0.1:\(9_000 + $0)\n" }.joined()
        let loaded = load(text + upstreams)
        let settings = try #require(loaded.configuration)
        #expect(loaded.findings.warnings == [] && settings.routes.count == count)
        for (number, route) in settings.routes.enumerated() {
            #expect(route.rule.name == "r\(number)" && route.rule.target == .upstream(499 - number % 500))
        }
        #expect(settings.upstreams[0].name == "u499")
        #expect(settings.effective.count { $0.name.hasPrefix("TOLLGATE_ROUTE_") } == count)
    }

    @Test func oneFaultAmongThemIsFound() {
        let text = (0..<10_000).map { "TOLLGATE_ROUTE_R\($0)=/s\($0)/* upstream=\($0 == 7_777 ? "x" : "u")\n" }.joined()
        #expect(
            faults("TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\n" + text) == [
                "a.env:7779: TOLLGATE_ROUTE_R7777: upstream=x names no upstream, the nearest is u"
            ])
    }
}
