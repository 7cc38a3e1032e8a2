import Testing
import Wire

@testable import Telemetry

/// The times in which a gateway sheds load, as its log, metrics and readiness have them.
@Suite struct OverloadTests {
    private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (100 + seconds) * 1_000_000_000) }

    private func shed(_ overload: inout Overload, _ reason: OverloadReason, at now: MonotonicTime) -> Bool {
        overload.shed(reason, at: now)
    }

    private func ended(_ overload: inout Overload, _ now: MonotonicTime) -> [Overload.Ended] { overload.ended(by: now) }

    @Test func aPeriodBeginsOnceAndEndsAfterAQuietTime() {
        var overload = Overload()
        #expect(shed(&overload, .requests, at: at(0)))
        for second in 1...20 { #expect(!shed(&overload, .requests, at: at(UInt64(second)))) }
        #expect(ended(&overload, at(24)) == [])
        #expect(overload.reasons == [.requests])
        #expect(ended(&overload, at(25)) == [.init(reason: .requests, milliseconds: 20_000)])
        #expect(ended(&overload, at(26)) == [])
        #expect(overload.reasons == [])
        #expect(shed(&overload, .requests, at: at(30)), "the next one is a period of its own")
    }

    @Test func eachBoundHasItsOwn() {
        var overload = Overload()
        #expect(shed(&overload, .local, at: at(0)))
        #expect(shed(&overload, .connections, at: at(3)))
        #expect(overload.reasons == [.connections, .local])
        #expect(ended(&overload, at(6)).map(\.reason) == [.local])
        #expect(overload.reasons == [.connections])
    }

    @Test func theMetricsHaveBothStatesAndTheBounds() {
        var process = sampleProcess
        process.overload.limits = [.requests: 20_000]
        _ = process.overload.shed(.requests, at: at(0))
        let samples = samples([], process)
        #expect(samples.contains(#"tollgate_overload_active{reason="requests"} 1"#))
        #expect(samples.contains(#"tollgate_overload_active{reason="local"} 0"#))
        #expect(samples.contains(#"tollgate_overload_limit{reason="requests"} 20000"#))
    }
}
