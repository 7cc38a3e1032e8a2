import Gate
import Proxy
import Telemetry
import Testing
import Wire

@testable import tollgate

/// The conditions of upstreams' addresses, across reloads.
@Suite struct UpstreamConditionTests {
    private let now = Moment(monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: WallTime(seconds: 1_800_000_000))

    private func address(_ number: Int) -> UpstreamAddress {
        UpstreamAddress(address: SocketAddress(parsing: "10.0.0.\(number):80")!)
    }

    private func snapshot(_ name: String, _ addresses: [UpstreamAddress], isProbed: Bool = true) -> UpstreamSnapshot {
        var settings = UpstreamSettings(name: name)
        settings.health = isProbed ? .path("/up") : nil
        return UpstreamSnapshot(settings: settings, addresses: addresses)
    }

    private func names(_ conditions: UpstreamConditions) -> [String] {
        var readiness = Readiness()
        conditions.add(to: &readiness, at: now.monotonic)
        return readiness.checks.map(\.name)
    }

    /// A probe fails because the operator has stopped the upstream, and takes it out of the configuration: no probe will find it well.
    @Test func aLateReportAboutAnAddressThatIsGoneIsNotKept() {
        var conditions = UpstreamConditions()
        conditions.adopt([snapshot("a", [address(1), address(2)]), snapshot("b", [address(1)])])
        for (upstream, number) in [("a", 1), ("a", 2), ("b", 1)] { conditions.turned(upstream, address(number), isHealthy: false) }
        #expect(names(conditions) == ["upstream a 10.0.0.1:80", "upstream a 10.0.0.2:80", "upstream b 10.0.0.1:80"])
        conditions.adopt([address(2)], of: "a")
        #expect(names(conditions) == ["upstream a 10.0.0.2:80", "upstream b 10.0.0.1:80"])
        // A worker that has not heard of it yet.
        conditions.turned("a", address(1), isHealthy: false)
        conditions.left(
            "a", address(1), until: Moment(monotonic: MonotonicTime(nanoseconds: .max), wall: now.wall), "why", at: now.monotonic)
        #expect(names(conditions) == ["upstream a 10.0.0.2:80", "upstream b 10.0.0.1:80"])
        conditions.adopt([snapshot("a", [address(2)])])
        conditions.turned("b", address(1), isHealthy: false)
        #expect(names(conditions) == ["upstream a 10.0.0.2:80"])
        conditions.turned("a", address(2), isHealthy: true)
        #expect(names(conditions) == [])
    }

    @Test func aVerdictOfProbesEndsWithThem() {
        var conditions = UpstreamConditions()
        conditions.adopt([snapshot("a", [address(1)])])
        conditions.turned("a", address(1), isHealthy: false)
        conditions.adopt([snapshot("a", [address(1)], isProbed: false)])
        #expect(names(conditions) == [])
        conditions.turned("a", address(1), isHealthy: false)
        #expect(names(conditions) == [])
        let until = Moment(monotonic: MonotonicTime(nanoseconds: .max), wall: now.wall)
        conditions.left("a", address(1), until: until, "why", at: now.monotonic)
        #expect(names(conditions) == ["upstream a 10.0.0.1:80"], "an ejection needs no probes")
        conditions.returned("a", address(1))
        #expect(names(conditions) == [])
    }
}
