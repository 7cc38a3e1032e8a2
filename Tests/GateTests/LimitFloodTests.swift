@testable import Limits
import Synchronization
import Testing
import Wire

@testable import Gate

/// More keys than the table has room for, ten times over, of all rates and from several threads.
@Suite struct LimitFloodTests {
    private static let capacity = 1_024
    private static let rates = ["5/s", "100/s+burst=1", "60/m", "3/m+burst=1", "100/h", "20/h+burst=500", "100/d", "1/d"]
    /// Kinds of which a client may have any number.
    private static let invented: [SubjectKind] = [.header, .attemptName, .openProof]
    private static let held: [SubjectKind] = [.user, .session, .address, .attemptAddress, .proof]

    private let hash = KeyedHash(first: 1, second: 2)
    private let limiter: SharedLimiter
    private let rates: [LimitRate]
    private let now = MonotonicTime(nanoseconds: 50_000_000_000)

    init() throws {
        limiter = SharedLimiter(capacity: Self.capacity, hash: hash)
        rates = try Self.rates.map { try #require(LimitRate(parsing: $0)) }
    }

    private func item(_ kind: SubjectKind, _ subject: UInt64, _ rate: Int) -> LimitCharge.Item {
        LimitCharge.Item(
            key: hash.hash128(UInt64(rate), subject, domain: UInt64(kind.rawValue)), rate: rates[rate], subject: kind)
    }

    /// Charges ten times as many keys of these kinds and rates as there is room for, each as often as its burst allows or once.
    private func flood(_ kinds: [SubjectKind], rates: [Int]) {
        let refused = Counter()
        runThreads(4) { thread in
            for kind in kinds {
                for number in 0..<UInt64(10 * Self.capacity) {
                    let item = item(kind, UInt64(thread) << 32 | number, rates[Int(number) % rates.count])
                    let want = number % 2 == 0 ? 1 : item.rate.burst
                    if limiter.take(item, now: now, want: want).granted != want { refused.add() }
                }
            }
        }
        #expect(refused.value == 0)
    }

    @Test func noCallerIsRefusedForOthers() {
        flood(SubjectKind.allCases, rates: Array(rates.indices))
        for kind in SubjectKind.allCases {
            for subject in 1_000_000..<1_050 + 1_000_000 as Range<UInt64> {
                let item = item(kind, subject, Int(subject) % rates.count)
                #expect(limiter.take(item, now: now, want: .max).granted == item.rate.burst)
            }
        }
    }

    /// Exhausted counts stay so while thousands of other subjects are invented.
    @Test func inventedSubjectsEvictNoOtherKind() {
        let spent = Self.held.flatMap { kind in (0..<240 as Range<UInt64>).map { item(kind, $0, Int($0) % rates.count) } }
        for item in spent { #expect(limiter.take(item, now: now, want: .max).granted == item.rate.burst) }
        #expect(limiter.evictions == 0)
        flood(Self.invented, rates: Array(rates.indices))
        #expect(limiter.evictions > 10 * Self.capacity)
        for item in spent { #expect(limiter.take(item, now: now, want: 1).granted == 0) }
    }

    /// One request a day keeps a count alive for longer than any count of a minute; it evicts none of them.
    @Test func slowLimitsEvictNoFastOnes() {
        let fast = (0..<300 as Range<UInt64>).map { item(.address, $0, $0 % 2 == 0 ? 2 : 3) }
        for item in fast { #expect(limiter.take(item, now: now, want: .max).granted == item.rate.burst) }
        flood([.address], rates: [4, 5, 6, 7])
        for item in fast { #expect(limiter.take(item, now: now, want: 1).granted == 0) }
    }

    @Test func limitsThatRecoverAlikeShareAPartition() {
        let partitions = rates.indices.map { item(.address, 1, $0).partition }
        #expect(partitions[0...3].allSatisfy { $0 == partitions[0] })
        #expect(partitions[4] == partitions[0] + 1)
        #expect(partitions[5...7].allSatisfy { $0 == partitions[0] + 2 })
        // Those of attestations share one.
        let kinds = SubjectKind.allCases.map { kind in Set([0, 4, 6].map { item(kind, 1, $0).partition }) }
        #expect(kinds.map(\.count) == SubjectKind.allCases.map { $0 == .attestation ? 1 : 3 })
        #expect(Set(kinds.joined()).count == kinds.map(\.count).reduce(0, +))
        #expect(kinds.joined().max() == LimitCharge.Item.partitions - 1)
    }
}
