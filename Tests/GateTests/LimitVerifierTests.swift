@testable import Limits
import Testing
import Wire

@testable import Gate

/// Check of logged grants against burst + rate × T in every window.
@Suite struct LimitVerifierTests {
    private let minute = LimitRate(count: 60, windowSeconds: 60, burst: 10)!

    private func subject(_ rate: LimitRate, _ caller: UInt64 = 1) -> LimitVerifier.Subject {
        LimitVerifier.Subject(key: LimitKey(high: caller, low: caller), rate: rate)
    }

    private func proof(_ rate: LimitRate, at times: [UInt64]) -> LimitVerifier {
        var proof = LimitVerifier()
        for time in times { proof.add(subject(rate), at: time) }
        return proof
    }

    @Test func `a burst and then the rate keep the bound, to the microsecond`() {
        let times = Array(repeating: UInt64(1_000), count: 10) + (1...50).map { 1_000 + $0 * 1_000_000 }
        #expect(proof(minute, at: times).violations().isEmpty)
        // One microsecond earlier, the first after the burst is one too many.
        let early = Array(repeating: UInt64(1_000), count: 10) + [1_000_999]
        #expect(
            proof(minute, at: early).violations() == [
                .init(subject: subject(minute), from: 1_000, to: 1_000_999, admitted: 11, bound: 10)
            ])
    }

    @Test func `the order of the lines does not matter`() {
        let times: [UInt64] = Array(repeating: 5_000_000, count: 6) + Array(repeating: 4_999_000, count: 6)
        let found = proof(minute, at: times).violations()
        #expect(found == [.init(subject: subject(minute), from: 4_999_000, to: 5_000_000, admitted: 12, bound: 10)])
        #expect(found == proof(minute, at: times.reversed()).violations())
    }

    @Test func `callers and limits are judged apart, and the worst window comes first`() {
        var proof = LimitVerifier()
        let second = LimitRate(count: 1, windowSeconds: 1)!
        for caller in UInt64(1)...3 {
            for _ in 0..<(10 + 2 * caller) { proof.add(subject(minute, caller), at: 7) }
            proof.add(subject(second, caller), at: 7)
        }
        #expect(proof.grantCount == 45)
        #expect(proof.subjectCount == 6)
        #expect(proof.violations().map { $0.subject.key.high } == [3, 2, 1])
        #expect(proof.violations().map(\.admitted) == [16, 14, 12])
    }

    @Test func `a window begins anew once the burst is full again`() {
        // Ten at once, a pause that refills five, fifteen at once: five too many, and the pause is part of the window.
        let times = Array(repeating: UInt64(0), count: 10) + Array(repeating: UInt64(5_000_000), count: 10)
        #expect(
            proof(minute, at: times).violations() == [
                .init(subject: subject(minute), from: 0, to: 5_000_000, admitted: 20, bound: 15)
            ])
        let rested = Array(repeating: UInt64(0), count: 10) + Array(repeating: UInt64(10_000_000), count: 10)
        #expect(proof(minute, at: rested).violations().isEmpty)
    }

    @Test func `the largest numbers of a setting do not overflow`() {
        let most = LimitRate(count: .max, windowSeconds: 86_400, burst: 1_000)!
        let times = Array(repeating: UInt64(Int64.max), count: 1_001)
        #expect(proof(most, at: times).violations().map(\.bound) == [1_000])
    }

    @Test func `the verdict is that of looking at every window`() throws {
        var random = SplitMix64(seed: 11)
        var broken = 0
        for _ in 0..<3_000 {
            let (count, window, burst) = (
                1 + UInt32(random.next() % 9), [UInt32(1), 60][Int(random.next() % 2)], 1 + UInt32(random.next() % 6)
            )
            let rate = try #require(LimitRate(count: count, windowSeconds: window, burst: burst))
            var now: UInt64 = 1_000_000
            let times = (0..<24).map { _ in
                now += random.next() % (2 * rate.interval)
                return now
            }
            let isKept = keepsItsBound(times, burst: burst, count: count, windowSeconds: window)
            #expect(proof(rate, at: times).violations().isEmpty == isKept)
            broken += isKept ? 0 : 1
        }
        #expect((300...2_700).contains(broken))
    }

    @Test(arguments: 0..<20)
    func `grants of the algorithm pass, and one more is reported`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rates: [(UInt32, UInt32, UInt32)] = [(5, 1, 5), (7, 60, 3), (600, 60, 20), (1_000, 1, 1)]
        for (count, window, burst) in rates {
            let rate = try #require(LimitRate(count: count, windowSeconds: window, burst: burst))
            var (now, tat): (UInt64, UInt64) = (1_700_000_000_000_000, 0)
            var times: [UInt64] = []
            var refused: [UInt64] = []
            for _ in 0..<2_000 {
                now += random.next() % (2 * rate.interval)
                let outcome = GCRA.take(
                    now: now, tat: tat, interval: rate.interval, tolerance: rate.tolerance, want: 1)
                tat = outcome.tat
                if outcome.granted == 1 { times.append(now) } else { refused.append(now) }
            }
            #expect(proof(rate, at: times).violations().isEmpty)
            // Intervals are rounded up by less than a microsecond each, which cannot hide a whole grant.
            guard let extra = refused.last else { continue }
            let more = times + Array(repeating: extra, count: 2)
            #expect(proof(rate, at: more).violations().count == 1)
        }
    }
}
