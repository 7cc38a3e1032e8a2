import Telemetry
import Testing
import Wire

@Suite struct SamplerTests {
    @Test func theNamesOfTheSpecificationDecideAsItSays() throws {
        // Sampler, share, and whether it records: a new trace, one of a caller that records, one of a caller that does not.
        let table: [(String, Double, Bool, Bool, Bool)] = [
            ("always_on", 0, true, true, true), ("always_off", 1, false, false, false), ("traceidratio", 1, true, true, true),
            ("traceidratio", 0, false, false, false), ("parentbased_always_on", 0, true, true, false),
            ("parentbased_always_off", 1, false, true, false), ("parentbased_traceidratio", 0, false, true, false),
            ("parentbased_traceidratio", 1, true, true, false),
        ]
        for (name, share, fresh, recording, silent) in table {
            let sampler = try #require(TraceSampler(name: name, share: share))
            for low: UInt64 in [1, 1 << 40, .max] {
                let decided = [nil, true, false].map { sampler.samples(traceLow: low, parent: $0) }
                #expect(decided == [fresh, recording, silent], "\(name) \(share) \(low)")
            }
        }
        #expect(TraceSampler(name: "jaeger_remote", share: 1) == nil)
        #expect(
            TraceSampler(name: "always_off", share: 1)?.isOff == true
                && TraceSampler(name: "parentbased_always_off", share: 1)?.isOff == false)
    }

    @Test func aRatioRecordsItsShareByTheTraceAlone() throws {
        var random = SplitMix64(seed: 3)
        let (tenth, half) = (TraceSampler(share: 0.1, followsParent: false), TraceSampler(share: 0.5, followsParent: false))
        var counts = (0, 0)
        for _ in 0..<20_000 {
            let low = random.next()
            let decided = (tenth.samples(traceLow: low, parent: nil), half.samples(traceLow: low, parent: nil))
            // A program that records a tenth records only what one that records half does.
            #expect(!decided.0 || decided.1)
            counts.0 += decided.0 ? 1 : 0
            counts.1 += decided.1 ? 1 : 0
        }
        #expect((1_800...2_200).contains(counts.0) && (9_700...10_300).contains(counts.1))
    }

    /// As OpenTelemetry for Go does: the last eight bytes of the trace id, halved, against the share of 2^63.
    @Test func aRatioDecidesAsOtherProgramsDo() {
        let quarter = TraceSampler(share: 0.25, followsParent: false)
        #expect(quarter.samples(traceLow: 0x3FFF_FFFF_FFFF_FFFF, parent: nil))
        #expect(!quarter.samples(traceLow: 0x4000_0000_0000_0000, parent: nil))
    }
}
