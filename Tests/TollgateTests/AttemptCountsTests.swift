import Accounts
import Gate
@testable import Limits
import Synchronization
import Testing
import Wire

@testable import tollgate

/// The counts of attempts, as a running gateway keeps them, under five hundred at once.
@Suite struct AttemptCountsTests {
    private static let rates = AttemptRates(
        openings: AttemptRate(count: 300, windowSeconds: 3_600, burst: 100),
        sms: AttemptRate(count: 200, windowSeconds: 3_600, burst: 40))
    private static let now = MonotonicTime(nanoseconds: 1_000_000_000_000)

    /// A simulated Redis that several gateways share and that loses replies.
    private final class PretendRedis: Sendable {
        private struct State {
            var tats: [LimitKey: UInt64] = [:]
            var asked = 0
        }

        private let state = Mutex(State())
        /// Every nth reply is lost after Redis has counted; 1 for all, 0 for none.
        private let losesEach: Int
        static let time: UInt64 = 1_800_000_000_000_000

        init(losesEach: Int = 0) { self.losesEach = losesEach }

        func take(_ items: [LimitCharge.Item]) async -> GCRAReply? {
            await Task.yield()
            return state.withLock { state in
                var reply = GCRAReply()
                reply.at = Self.time
                let outcomes = items.map { item in
                    GCRA.take(
                        now: Self.time, tat: state.tats[item.key] ?? 0, interval: item.rate.interval,
                        tolerance: item.rate.tolerance, want: 1)
                }
                reply.granted = outcomes.allSatisfy { $0.granted == 1 } ? 1 : 0
                for (index, item) in items.enumerated() {
                    if reply.granted == 1 { state.tats[item.key] = outcomes[index].tat }
                    reply.tats[index] = max(Self.time, state.tats[item.key] ?? 0)
                }
                state.asked += 1
                return losesEach > 0 && state.asked % losesEach == 0 ? nil : reply
            }
        }

        func refund(_ items: [LimitCharge.Item], _ chargedAt: UInt64) {
            state.withLock { state in
                for item in items {
                    let credit = GCRA.credit(interval: item.rate.interval, chargedAt: chargedAt, now: Self.time)
                    state.tats[item.key] = GCRA.refund(now: Self.time, tat: state.tats[item.key] ?? 0, credit: credit)
                }
            }
        }

        /// Whether all that was charged has been given back.
        var isEmpty: Bool { state.withLock { $0.tats.values.allSatisfy { $0 <= Self.time } } }
    }

    private func gateway(
        _ redis: PretendRedis? = nil, table: SharedLimiter = SharedLimiter(hash: KeyedHash(first: 1, second: 2))
    ) -> AttemptCounts {
        guard let redis else { return AttemptCounts(Self.rates, table: table, clock: { Self.now }) }
        return AttemptCounts(
            Self.rates, table: table, clock: { Self.now }, take: { await redis.take($0) }, refund: { redis.refund($0, $1) })
    }

    /// How many of these attempts pass that come at once, over these gateways in turn.
    private func passing(
        _ gateways: [AttemptCounts], of attempts: Int = 500, _ bucket: @escaping @Sendable (Int) -> [AttemptBucket]
    ) async -> Int {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<attempts {
                group.addTask {
                    guard case .admitted = await gateways[number % gateways.count].charge(bucket(number)) else { return false }
                    return true
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
    }

    /// Over all gateways; while Redis is away at each, or not at all: then a proof that no gateway could judge is none that was used.
    @Test func aProofOfADeviceKeyCountsOnce() async {
        let (redis, away) = (PretendRedis(), PretendRedis(losesEach: 1))
        let gateways = [gateway(redis), gateway(redis), gateway(away), gateway(away), gateway()]
        let spends: [(gateway: Int, proof: Int, onlyShared: Bool)] = [
            (0, 7, true), (1, 7, true), (0, 7, true), (1, 8, false), (2, 9, false), (2, 9, false), (3, 9, true), (3, 9, true),
            (3, 9, false), (3, 9, true), (4, 9, false), (4, 9, false),
        ]
        var seen: [Bool?] = []
        for spend in spends {
            let use = [AttemptBucket(.deviceProofs, "\(spend.proof)")]
            switch await gateways[spend.gateway].spend(use, onlyShared: spend.onlyShared) {
            case .admitted: seen.append(true)
            case .refused: seen.append(false)
            case nil: seen.append(nil)
            }
        }
        #expect(seen == [true, false, false, true, true, false, nil, nil, true, false, true, false])
    }

    @Test(arguments: AttemptBucket.Kind.allCases)
    func ofManyAtOnceTheBurstPasses(_ kind: AttemptBucket.Kind) async {
        let burst = Int(Self.rates[kind].burst)
        let attempts = burst + 400
        let bucket = AttemptBucket(kind, "somebody")
        #expect(await passing([gateway()], of: attempts) { _ in [bucket] } == burst)
        let redis = PretendRedis()
        #expect(await passing([gateway(redis)], of: attempts) { _ in [bucket] } == burst)
        let shared = PretendRedis()
        #expect(await passing([gateway(shared), gateway(shared), gateway(shared)], of: attempts) { _ in [bucket] } == burst)
        // Without an answer each gateway goes by its own count.
        #expect(await passing([gateway(PretendRedis(losesEach: 1))], of: attempts) { _ in [bucket] } == burst)
        let broken = PretendRedis(losesEach: 3)
        let passed = await passing([gateway(broken), gateway(broken)], of: attempts) { _ in [bucket] }
        #expect((burst...2 * burst).contains(passed))
    }

    @Test func theStrictestOfSeveralBucketsDecidesAndTheOthersAreChargedNoMore() async {
        let redis = PretendRedis()
        let gateways = [gateway(redis), gateway(redis)]
        let passed = await passing(gateways) { [AttemptBucket(.addressFailures, "a"), AttemptBucket(.accountFailures, "b\($0 % 2)")] }
        #expect(passed == 60)
        #expect(await passing(gateways) { _ in [AttemptBucket(.addressFailures, "a")] } == 90)
    }

    @Test(arguments: [0, 3])
    func refundedAttemptsAreNotCounted(_ losesEach: Int) async throws {
        let redis = PretendRedis(losesEach: losesEach)
        let gateways = [gateway(redis), gateway(redis)]
        let buckets = [AttemptBucket(.addressFailures, "a"), AttemptBucket(.accountFailures, "b")]
        var admitted = 0
        for number in 0..<1_000 {
            let gateway = gateways[number % 2]
            guard case .admitted(let charges) = await gateway.charge(buckets) else { continue }
            admitted += 1
            gateway.refund(charges)
        }
        // An attempt whose reply was lost stays charged in Redis, and only there.
        #expect(losesEach == 0 ? admitted == 1_000 && redis.isEmpty : admitted > 30 && !redis.isEmpty)
        #expect(await passing([gateways[0]]) { _ in [AttemptBucket(.accountFailures, "c")] } == 30)
    }

    @Test func aRefusalHasItsBucketAndRetryAfter() async {
        final class Heard: Sendable { let all = Mutex<[AttemptRefusal]>([]) }
        let heard = Heard()
        let counts = AttemptCounts(
            Self.rates, table: SharedLimiter(), clock: { Self.now }, refused: { refusal, _ in heard.all.withLock { $0.append(refusal) } })
        let buckets = [AttemptBucket(.recipientMessages, "a"), AttemptBucket(.addressMessages, "b"), .smsBudget]
        for _ in 0..<6 { _ = await counts.charge(buckets) }
        let expected = [AttemptRefusal(.recipientMessages, retryAfterSeconds: 300)]
        #expect(await counts.charge(buckets) == .refused(expected))
        #expect(heard.all.withLock { $0 } == expected)
    }

    @Test func anotherRateBeginsACountOfItsOwnAndOldChargesGoBackWhereTheyCameFrom() async throws {
        let counts = gateway()
        guard case .admitted(let charges) = await counts.charge([.smsBudget]) else { throw Missing() }
        var rates = Self.rates
        rates.sms = AttemptRate(count: 5, windowSeconds: 86_400, burst: 5)
        counts.adopt(rates)
        #expect(await passing([counts]) { _ in [.smsBudget] } == 5)
        counts.refund(charges)
        #expect(await passing([counts]) { _ in [.smsBudget] } == 0)
        counts.adopt(Self.rates)
        #expect(await passing([counts]) { _ in [.smsBudget] } == 40)
    }

    private struct Missing: Error {}
}
