import Telemetry
import Testing

@testable import Settings
@testable import tollgate

/// The bounds on load that settings and descriptors allow.
@Suite struct LoadLimitsTests {
    private func limits(_ descriptors: Int?, workers: Int = 2, connections: Int = 100_000, requests: Int = 20_000) -> LoadLimits {
        var settings = Configuration()
        (settings.maxConnections, settings.maxRequests) = (connections, requests)
        (settings.maxLocalRequests, settings.maxBuffers) = (1_000, 1 << 30)
        return LoadLimits(settings, workers: workers, descriptors: descriptors)
    }

    @Test func withDescriptorsEnoughTheSettingsHold() {
        for descriptors in [nil, 1_048_576] {
            let limits = limits(descriptors)
            #expect(limits.connections == 100_000 && limits.requests == 20_000 && !limits.isShortOfDescriptors)
            #expect(limits.pipesOfWorker == 256)
        }
    }

    @Test(arguments: [256, 1_024, 4_096, 20_000], [1, 2, 16])
    func fewDescriptorsAreEnoughForAllThatMayBeOpen(_ descriptors: Int, _ workers: Int) {
        let limits = limits(descriptors, workers: workers)
        #expect(limits.isShortOfDescriptors)
        let open = 2 * limits.connections + 2 * limits.pipesOfWorker * workers + 64 + 16 * workers
        #expect(open <= descriptors || limits.connections == 64)
        #expect(limits.requests <= limits.connections)
    }

    @Test func aTinyProcessStillServes() {
        #expect(limits(60, workers: 1).connections == 64)
        #expect(limits(60, workers: 1, connections: 4).connections == 4)
    }

    @Test func theMetricsHaveThoseInForce() {
        #expect(limits(1_024, workers: 1).byReason[.connections] == limits(1_024, workers: 1).connections)
    }
}
