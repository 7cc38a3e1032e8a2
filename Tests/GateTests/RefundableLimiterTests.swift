@testable import Limits
import Testing
import Wire

@testable import Gate

/// Attempts that are charged when they are admitted, step by step and under load.
@Suite struct RefundableLimiterTests {
    private func item(_ number: UInt64, _ rate: String) throws -> LimitCharge.Item {
        LimitCharge.Item(key: LimitKey(number), rate: try #require(LimitRate(parsing: rate)))
    }

    private let now = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func limiter() -> RefundableLimiter { RefundableLimiter(SharedLimiter(capacity: 4_096)) }

    private func admitted(_ verdict: RefundableLimiter.Verdict) -> RefundableLimiter.Charge? {
        if case .admitted(let charge) = verdict { charge } else { nil }
    }

    @Test func surplusAttemptsAreRefusedBeforeAnyIsJudged() throws {
        let (limiter, item) = (limiter(), try item(1, "180/h+burst=30"))
        let verdicts = (0..<500).map { _ in limiter.charge([item], now: now) }
        #expect(verdicts.prefix(30).allSatisfy { admitted($0) != nil })
        #expect(verdicts.dropFirst(30).allSatisfy { $0 == .refused([20_000_000]) })
    }

    @Test func aRefusalByOneCountChargesNone() throws {
        let (limiter, narrow, wide) = (limiter(), try item(1, "1/h"), try item(2, "1000/h"))
        #expect(admitted(limiter.charge([wide, narrow], now: now)) != nil)
        for _ in 0..<5_000 { #expect(limiter.charge([wide, narrow], now: now) == .refused([0, 3_600_000_000])) }
        let rest = (0..<1_000).prefix { _ in admitted(limiter.charge([wide], now: now)) != nil }
        #expect(rest.count == 999)
    }

    @Test func aRefusalByRedisIsRefundedLocally() throws {
        let (limiter, item) = (limiter(), try item(1, "180/h+burst=30"))
        var refusal = GCRAReply()
        refusal.at = 1_800_000_000_000_000
        refusal.tats[0] = refusal.at + 600_000_000
        for _ in 0..<500 {
            let charge = try #require(admitted(limiter.charge([item], now: now)))
            #expect(limiter.settle(charge, refusal, now: now) == .refused([20_000_000]))
        }
    }

    @Test func withoutRedisTheLocalCountDecides() throws {
        let (limiter, item) = (limiter(), try item(1, "180/h+burst=30"))
        let passed = (0..<500).filter { _ in
            guard let charge = admitted(limiter.charge([item], now: now)) else { return false }
            return admitted(limiter.settle(charge, nil, now: now))?.sharedAt == nil
        }
        #expect(passed.count == 30)
    }

    @Test func anImmediateRefundCancelsTheCharge() throws {
        let (limiter, items) = (limiter(), [try item(1, "180/h+burst=30"), try item(2, "1800/h+burst=150")])
        for _ in 0..<2_000 { limiter.refund(try #require(admitted(limiter.charge(items, now: now))), now: now) }
        #expect((0..<200).prefix { _ in admitted(limiter.charge([items[1]], now: now)) != nil }.count == 150)
        #expect((0..<200).prefix { _ in admitted(limiter.charge([items[0]], now: now)) != nil }.count == 30)
    }
}

/// Any interleaving of attempts at two gateways that share a Redis, whose answers come late or never.
///
/// No window has more wrong attempts than burst + rate × T: by the clock of Redis
/// those that it counted, over both gateways, and by the own clock those of each gateway.
@Suite struct AttemptModelTests {
    /// An attempt on its way.
    private struct Attempt {
        enum Stage {
            /// Charged here, and not yet at Redis.
            case asking
            /// Redis replied; the gateway has not received it.
            case answered(GCRAReply)
            case admitted
        }

        let gateway: Int
        var charge: RefundableLimiter.Charge
        var stage: Stage
    }

    private struct Model {
        static let offset: UInt64 = 1_800_000_000_000_000
        let gateways = [RefundableLimiter(SharedLimiter(capacity: 4_096)), RefundableLimiter(SharedLimiter(capacity: 4_096))]
        var redis = SimulatedRedis()
        var random: SplitMix64
        var now: UInt64 = 1_000_000
        var attempts: [Attempt] = []
        /// Refunded by a gateway, not yet by Redis.
        var givenBack: [RefundableLimiter.Charge] = []
        /// The wrong ones, by count: of each gateway, and of Redis.
        var own: [[LimitKey: [UInt64]]] = [[:], [:]]
        var shared: [LimitKey: [UInt64]] = [:]
        var refused = 0
        var right = 0

        var time: MonotonicTime { MonotonicTime(nanoseconds: now * 1_000) }
        var redisTime: UInt64 { Model.offset + now }

        mutating func pass(_ most: UInt64) { now += random.next() % most }

        mutating func begin(_ items: [LimitCharge.Item]) {
            let gateway = Int(random.next() % 2)
            switch gateways[gateway].charge(items, now: time) {
            case .admitted(let charge): attempts.append(Attempt(gateway: gateway, charge: charge, stage: .asking))
            case .refused: refused += 1
            }
        }

        /// Advances a random attempt.
        mutating func step(losing lost: UInt64) {
            guard !attempts.isEmpty else { return }
            let index = Int(random.next() % UInt64(attempts.count))
            let attempt = attempts[index]
            switch attempt.stage {
            case .asking:
                if random.next() % 100 < lost { return settle(index, nil) }
                attempts[index].stage = .answered(redis.take(LimitCharge(attempt.charge.items), want: 1, now: redisTime))
            case .answered(let reply): settle(index, random.next() % 100 < lost ? nil : reply)
            case .admitted: judge(index)
            }
        }

        private mutating func settle(_ index: Int, _ reply: GCRAReply?) {
            switch gateways[attempts[index].gateway].settle(attempts[index].charge, reply, now: time) {
            case .admitted(let charge):
                attempts[index].charge = charge
                attempts[index].stage = .admitted
            case .refused:
                attempts.remove(at: index)
                refused += 1
            }
        }

        private mutating func judge(_ index: Int) {
            let attempt = attempts.remove(at: index)
            let charge = attempt.charge
            if random.next() % 2 == 0 {
                for item in charge.items {
                    own[attempt.gateway][item.key, default: []].append(charge.at.nanoseconds / 1_000)
                    if let sharedAt = charge.sharedAt { shared[item.key, default: []].append(sharedAt) }
                }
            } else {
                // Right, or failed for another reason; some are refunded only on part of their counts.
                right += 1
                let kept = charge.items.count > 1 && random.next() % 4 == 0 ? 1 : 0
                let back = RefundableLimiter.Charge(Array(charge.items.dropFirst(kept)), at: charge.at, sharedAt: charge.sharedAt)
                gateways[attempt.gateway].refund(back, now: time)
                if back.sharedAt != nil { givenBack.append(back) }
            }
        }

        /// A refund reaches Redis, or is lost.
        mutating func hear(losing lost: UInt64) {
            guard !givenBack.isEmpty else { return }
            let charge = givenBack.remove(at: Int(random.next() % UInt64(givenBack.count)))
            guard let sharedAt = charge.sharedAt, random.next() % 100 >= lost else { return }
            redis.refund(charge.items, chargedAt: sharedAt, now: redisTime)
        }
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func wrongAttemptsKeepTheirBound(_ seed: UInt64) throws {
        let rates = try ["180/h+burst=30", "60/m+burst=7", "10/s", "1800/h+burst=15"].map { try #require(LimitRate(parsing: $0)) }
        let items = rates.enumerated().map { index, rate in
            LimitCharge.Item(key: LimitKey(UInt64(index)), rate: rate)
        }
        var model = Model(random: SplitMix64(seed: seed))
        let lost: UInt64 = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 20 : 90
        for _ in 0..<20_000 {
            model.pass(model.random.next() % 50 == 0 ? 5_000_000 : 20_000)
            switch model.random.next() % 4 {
            case 0:
                let first = Int(model.random.next() % 4)
                let count = 1 + Int(model.random.next() % 3)
                model.begin((0..<count).map { items[(first + $0) % 4] })
            case 1: model.hear(losing: lost)
            default: model.step(losing: lost)
            }
        }
        #expect(model.refused > 500 && model.right > 200)
        var wrong = 0
        for item in items {
            let rate = item.rate
            func keeps(_ times: [UInt64]?) -> Bool {
                keepsItsBound(times ?? [], burst: rate.burst, count: rate.count, windowSeconds: rate.windowSeconds)
            }
            #expect(keeps(model.shared[item.key]), "over all gateways: \(rate.text)")
            for own in model.own { #expect(keeps(own[item.key]), "of one gateway: \(rate.text)") }
            wrong += model.own.map { $0[item.key]?.count ?? 0 }.reduce(0, +)
        }
        #expect(wrong > 200)
    }
}
