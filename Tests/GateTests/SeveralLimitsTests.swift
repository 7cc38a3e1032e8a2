import Credentials
@testable import Limits
import Synchronization
import HTTP
import Testing
import Wire

@testable import Gate

@Suite struct SeveralLimitsTests {
    private func limited(_ limits: String..., auth: AuthMode = .optional) throws -> RouteRule {
        var rule = rule("feed", "/f/*", auth: auth)
        rule.limits = try limits.map { try LimitPolicy(parsing: $0, tiers: .standard) }
        return rule
    }

    @Test func eachLimitHasItsItemAndTheTightestTheOtherFields() throws {
        let harness = try AdmissionHarness([try limited("2/s", "600/h+burst=3", "1000/m+by=address")])
        let first = harness.get("/f/x")
        #expect(
            first.limitLines == [
                #"RateLimit-Policy: "feed";q=2;w=1, "feed.2";q=600;w=3600, "feed.3";q=1000;w=60"#,
                #"RateLimit: "feed";r=1;t=1, "feed.2";r=2;t=6, "feed.3";r=999;t=1"#,
                "X-RateLimit-Limit: 2", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 1",
            ])
        #expect(first.limit.index == 0 && first.limit.rate?.count == 2 && first.limit.source == .process)
        _ = harness.get("/f/x")
        harness.advance(milliseconds: 1_000)
        // By now the second lets fewer pass than the first.
        let third = harness.get("/f/x")
        #expect(third.limit.index == 1 && third.limit.rate?.count == 600)
        #expect(third.limitLines.contains("X-RateLimit-Limit: 600"))
        #expect(third.limitLines.contains("X-RateLimit-Remaining: 0"))
        let refused = harness.get("/f/x")
        #expect(refused.status == 429)
        #expect(refused.headers == ["Retry-After: 5"])
        #expect(refused.limitLines.contains(#"RateLimit: "feed";r=1;t=1, "feed.2";r=0;t=17, "feed.3";r=999;t=1"#))
    }

    @Test func ofSeveralRefusalsTheLongestWaitIsReported() throws {
        let harness = try AdmissionHarness([try limited("1/s", "1/h", "1/m")])
        #expect(harness.get("/f/x").status == 0)
        let refused = harness.get("/f/x")
        #expect(refused.headers == ["Retry-After: 3600"])
        #expect(refused.limit.index == 1)
    }

    /// A refusal costs the caller nothing in any of them.
    @Test func aRefusalByOneLimitIsCountedByNone() throws {
        let harness = try AdmissionHarness([try limited("1/s", "5/h")])
        var passed = 0
        for _ in 0..<5 {
            passed += (0..<20).filter { _ in harness.get("/f/x").status == 0 }.count
            harness.advance(milliseconds: 1_000)
        }
        #expect(passed == 5)
        #expect(harness.get("/f/x").limit.index == 1)
    }

    @Test func eachLimitCountsItsSubject() throws {
        let harness = try AdmissionHarness([try limited("2/h", "5/h+by=address")])
        let passing = { (user: String) in (0..<4).filter { _ in harness.get("/f/x", token: AdmissionHarness.token(user)).status == 0 }.count
        }
        #expect(passing("a") == 2)
        #expect(passing("b") == 2)
        #expect(passing("c") == 1)
        let elsewhere = (0..<4).filter { _ in harness.get("/f/x", token: AdmissionHarness.token("c"), from: "192.0.2.9").status == 0 }
        #expect(elsewhere.count == 1)
    }

    @Test func twoLimitsOfOneRateAreTwoCounts() throws {
        let harness = try AdmissionHarness([try limited("3/h", "3/h")])
        #expect((0..<5).map { _ in harness.get("/f/x").status } == [0, 0, 0, 429, 429])
    }

    @Test func aTierMayCountByAnotherSubject() throws {
        let harness = try AdmissionHarness([try limited("anonymous:1/h+by=address,free:2/h,premium:3/h+by=header:X-Device")])
        let premium = AdmissionHarness.token("p", tier: "premium")
        #expect((0..<2).map { _ in harness.get("/f/x").status } == [0, 429])
        #expect((0..<4).map { _ in harness.get("/f/x", token: premium, "X-Device: a").status } == [0, 0, 0, 429])
        #expect(harness.get("/f/x", token: premium, "X-Device: b").status == 0)
        #expect((0..<3).map { _ in harness.get("/f/x", token: AdmissionHarness.token("f")).status } == [0, 0, 429])
    }

    /// Keys that several gateways must share, and keys that must differ.
    @Test func gatewaysWithOneSecretUseTheSameKeysAndDifferentThingsDifferentOnes() throws {
        let secret = Array("between gateways".utf8)
        let keys = { (limits: String) in
            let limiter = SharedLimiter(capacity: 8, hash: KeyedHash(derivedFrom: secret.rawBytes))
            let policy = try Policy(rules: [try limited(limits)], trust: AdmissionHarness.trust())
            return AdmissionHarness(policy, limiter: limiter).keys("/f/x", "X-One: 192.0.2.7")
        }
        #expect(try keys("60/m") == keys("60/m"))
        #expect(try keys("60/m").count == 1)
        let different = [
            "60/m", "60/m+by=address", "60/m+by=session", "60/m+by=header:X-One", "60/m+by=header:X-Two", "60/m+burst=5", "61/m",
            "60/m+lease", "1/s",
        ]
        #expect(Set(try different.flatMap(keys)).count == different.count)
        let limiter = SharedLimiter(capacity: 8)
        let policy = try Policy(rules: [try limited("60/m", "60/m")], trust: AdmissionHarness.trust())
        #expect(Set(AdmissionHarness(policy, limiter: limiter).keys("/f/x")).count == 2)
    }

    @Test func theExplanationListsEachLimit() throws {
        let harness = try AdmissionHarness([try limited("1/m", "10/h+by=address")])
        #expect(
            harness.get("/f/x").explanation.steps.filter { $0.name == "limit" }.map(\.text) == [
                "1/m by user: 0 left", "10/h by address: 9 left",
            ])
        #expect(
            harness.get("/f/x").explanation.steps.filter { $0.name == "limit" }.map(\.text) == [
                "1/m by user: 0 left, again in 60 s", "10/h by address: 9 left",
            ])
    }

    @Test func moreThanFourAreRefused() throws {
        #expect(throws: RouteFault.tooManyLimits("feed")) { try AdmissionHarness([try limited("1/s", "1/m", "1/h", "1/d", "2/d")]) }
        #expect(try AdmissionHarness([try limited("1/s", "1/m", "1/h", "1/d")]).get("/f/x").status == 0)
    }

    /// An answer that comes when the decision has long been used for others, and after a reload.
    @Test func anAnswerCanWaitByItself() throws {
        let harness = try AdmissionHarness([try limited("2/s", "600/h+burst=3")])
        let pending = try #require(harness.pending("/f/x"))
        harness.admission.adopt(try Policy(rules: [rule("other", "/o/*", auth: .none)], trust: AdmissionHarness.trust()))
        _ = harness.get("/o/x")
        var counts = LimitVerdict()
        counts.becomes(granted: false, .redis, count: 2)
        counts[0] = LimitReading(remaining: 1, reset: 500_000, retryAfter: 0)
        counts[1] = LimitReading(remaining: 0, reset: 18_000_000, retryAfter: 5_000_001)
        var edits = FieldEdits()
        let outcome = pending.settle(&counts, into: &edits)
        #expect(outcome.refusal == .rateLimited(retryAfterSeconds: 6))
        #expect(outcome.source == .redis && outcome.index == 1)
        let text = edits.http1.text
        #expect(text.contains(#"RateLimit: "feed";r=1;t=1, "feed.2";r=0;t=18"#))
        #expect(text.hasSuffix("X-RateLimit-Limit: 600\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 18\r\n"))
    }

    /// A limit that was not read is not reported; one that refuses always is.
    @Test func unreadCountsAreNotReported() throws {
        let harness = try AdmissionHarness([try limited("2/s", "600/h", "9/d")])
        let pending = try #require(harness.pending("/f/x"))
        var counts = LimitVerdict()
        counts.becomes(granted: false, .denyCache, count: 3)
        counts[1] = LimitReading(remaining: 0, reset: 18_000_000, retryAfter: 2_000_000)
        var edits = FieldEdits()
        #expect(pending.settle(&counts, into: &edits).index == 1)
        let text = edits.http1.text
        #expect(text.contains("\r\nRateLimit: \"feed.2\";r=0;t=18\r\n"))
        #expect(text.contains(#"RateLimit-Policy: "feed";q=2;w=1, "feed.2";q=600;w=3600, "feed.3";q=9;w=86400"#))
    }
}

extension SharedLimiter {
    /// `now` is in microseconds.
    fileprivate func take(_ charge: LimitCharge, at now: UInt64) -> LimitVerdict {
        var charge = charge
        var verdict = LimitVerdict()
        take(&charge, now: MonotonicTime(nanoseconds: now * 1_000), into: &verdict)
        return verdict
    }
}

/// Several counts at once in the table that workers share.
@Suite struct SeveralCountsTests {
    private let hash = KeyedHash(first: 1, second: 2)

    /// A user's and an address's count, as a pair of routes would have them.
    private func charge(_ user: UInt64, _ address: UInt64, _ rates: (LimitRate, LimitRate)) -> LimitCharge {
        var charge = LimitCharge()
        charge.append(.init(key: hash.hash128(0, user, domain: 1), rate: rates.0, subject: .user))
        charge.append(.init(key: hash.hash128(0, address, domain: 3), rate: rates.1, subject: .address))
        return charge
    }

    private let rates = (
        LimitRate(count: 10, windowSeconds: 1, burst: 5)!, LimitRate(count: 25, windowSeconds: 1, burst: 8)!
    )

    /// Beside a plain model in which every count is a number of its own.
    @Test func oneWorkerCountsLikeTheModel() {
        var random = SplitMix64(seed: 11)
        let limiter = SharedLimiter(capacity: 4_096, hash: hash)
        var tats: [LimitKey: UInt64] = [:]
        var now: UInt64 = 5_000_000
        var granted = 0
        for step in 0..<20_000 {
            now += random.next() % 30_000
            let charge = charge(random.next() % 5, 100 + random.next() % 2, rates)
            let verdict = limiter.take(charge, at: now)
            let looks = (0..<2).map { index in
                GCRA.take(
                    now: now, tat: tats[charge[index].key] ?? 0, interval: charge[index].rate.interval,
                    tolerance: charge[index].rate.tolerance, want: 1)
            }
            let passes = looks.allSatisfy { $0.granted == 1 }
            #expect((verdict.kind == .granted) == passes, "step \(step)")
            guard passes else {
                #expect((0..<2).contains { verdict[$0].remaining == 0 && verdict[$0].retryAfter > 0 })
                continue
            }
            granted += 1
            for index in 0..<2 {
                tats[charge[index].key] = looks[index].tat
                #expect(verdict[index] == LimitReading(looks[index]))
            }
        }
        #expect(granted > 1_000 && granted < 19_000)
    }

    /// Threads that race between read and charge, in tables of every size: no window of any count admits
    /// more than its bound, and reverts lose at most the units of the threads that raced.
    @Test(arguments: [8, 64, 4_096])
    func threadsTogetherKeepEveryBound(_ capacity: Int) {
        let limiter = SharedLimiter(capacity: capacity, hash: hash)
        let clock = Atomic<UInt64>(10_000_000)
        let log = Mutex<[(user: UInt64, address: UInt64, time: UInt64)]>([])
        runThreads(4) { thread in
            var random = SplitMix64(seed: UInt64(thread) + 50)
            var mine: [(user: UInt64, address: UInt64, time: UInt64)] = []
            for _ in 0..<40_000 {
                let now = clock.wrappingAdd(random.next() % 60, ordering: .relaxed).oldValue - random.next() % 500
                let (user, address) = (random.next() % 6, 100 + random.next() % 3)
                if limiter.take(charge(user, address, rates), at: now).kind == .granted {
                    mine.append((user, address, now))
                }
            }
            log.withLock { $0 += mine }
        }
        log.withLock { log in
            for user in 0..<6 as Range<UInt64> {
                #expect(keepsItsBound(log.filter { $0.user == user }.map(\.time), burst: 5, count: 10, windowSeconds: 1))
            }
            for address in 100..<103 as Range<UInt64> {
                #expect(keepsItsBound(log.filter { $0.address == address }.map(\.time), burst: 8, count: 25, windowSeconds: 1))
            }
            #expect(log.count > 50)
        }
    }

    /// A reverted charge leaves no trace, however much time had passed for the count.
    @Test func aRevertedChargeLeavesNoTrace() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        let narrow = LimitRate(count: 1, windowSeconds: 3_600, burst: 1)!
        // The address has one grant an hour, which refuses the second request.
        #expect(limiter.take(charge(1, 100, (rates.0, narrow)), at: 10_000_000).kind == .granted)
        for second in 11..<200 as Range<UInt64> {
            #expect(limiter.take(charge(2, 100, (rates.0, narrow)), at: second * 1_000_000).kind == .refused)
        }
        let user = limiter.take(charge(2, 100, rates)[0], now: MonotonicTime(nanoseconds: 200_000_000_000), want: 9)
        #expect(user.granted == 5)
    }
}
