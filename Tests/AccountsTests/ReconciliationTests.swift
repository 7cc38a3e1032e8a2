import MemoryStore
import Synchronization
import Testing
import Wire

@testable import Accounts

/// Stores are asked for what they may have failed to say.
@Suite struct ReconciliationTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    @Test func aPurchaseIsDueByItsEndAndItsState() {
        let end = Self.now
        let cases: [(PurchaseState, renews: Bool, asked: Int64?, at: Int64, isDue: Bool)] = [
            (.active, true, nil, -601, false), (.active, true, nil, -600, true), (.active, true, -600, -1, false),
            (.active, true, -600, 0, true), (.active, true, 0, 1, false), (.expired, true, nil, 60, true),
            (.expired, true, 0, 3_599, false), (.expired, true, 0, 3_600, true), (.paused, true, nil, 3 * 86_400 - 1, true),
            (.active, true, nil, 3 * 86_400, false), (.active, false, nil, 60, false), (.refunded, true, nil, 60, false),
            (.revoked, true, nil, 60, false), (.superseded, true, nil, 60, false), (.grace, true, nil, -86_400, true),
            (.grace, false, -86_400, -82_801, false), (.retry, false, -86_400, -82_800, true),
            (.retry, true, 4 * 86_400 - 3_600, 4 * 86_400 - 1, false), (.retry, true, 4 * 86_400 - 3_600, 5 * 86_400 - 1, true),
            (.grace, true, nil, 60 * 86_400 - 1, true), (.retry, true, nil, 60 * 86_400, false),
        ]
        for (state, renews, asked, at, isDue) in cases {
            let sample = Purchase.sample(1, .apple, state, until: end, renews: renews, at: Self.now)
            // An id whose moments are at full hours.
            let purchase = Purchase(
                id: UUID(high: 0, low: 0), key: sample.key, account: nil, status: sample.status, state: state, until: end, product: nil,
                tier: nil, createdAt: Self.now, updatedAt: Self.now)
            let found = ReconciliationRule.isDue(
                purchase, asked: asked.map { end.advanced(seconds: $0) }, at: end.advanced(seconds: at))
            #expect(found == isDue, "\(state) \(renews) \(asked ?? 0) \(at)")
        }
    }

    @Test func purchasesWithOneEndAreSpread() {
        let end = Self.now
        let purchases = (0..<1_000).map { Purchase.sample($0 * 97, until: end, at: Self.now.advanced(seconds: -30 * 86_400)) }
        for seconds in stride(from: Int64(-600), to: 0, by: 30) {
            let time = end.advanced(seconds: seconds)
            let fresh = purchases.count {
                ReconciliationRule.isDue($0, asked: nil, at: time)
                    && !ReconciliationRule.isDue($0, asked: nil, at: time.advanced(seconds: -30))
            }
            #expect(fresh <= 200, "\(fresh) at \(seconds)")
        }
        #expect(purchases.allSatisfy { ReconciliationRule.isDue($0, asked: nil, at: end.advanced(seconds: -300)) })
    }

    // MARK: passes

    private struct Bench {
        let fixture: AccountsFixture
        let records: ScriptedPurchases
        let reports = Reports()
        let reconciliation: Reconciliation

        final class Reports: Sendable {
            let all = Mutex<[PurchaseReport]>([])
        }

        init(_ storefronts: [ScriptedStorefront], _ purchases: (WallTime) -> [Purchase]) throws {
            fixture = try AccountsFixture()
            records = ScriptedPurchases(purchases(fixture.clock.now))
            let reports = reports
            reconciliation = Reconciliation(
                context: fixture.context, records: records, stores: { Stores(storefronts, .none) },
                report: { report in reports.all.withLock { $0.append(report) } })
        }
    }

    @Test func whatIsDueIsAskedForOnceAndApplied() async throws {
        let apple = ScriptedStorefront(.apple) { purchase in
            var status = purchase.status
            status.state = .active
            status.until = status.until?.advanced(seconds: 30 * 86_400)
            return .success([.status(purchase.key, status)])
        }
        let bench = try Bench([apple]) { now in
            [
                .sample(1, .apple, .expired, until: now.advanced(seconds: -7_200), at: now.advanced(seconds: -86_400)),
                .sample(2, .apple, until: now.advanced(seconds: 86_400), at: now.advanced(seconds: -86_400)),
                .sample(3, .stripe, .grace, until: now.advanced(seconds: 86_400), at: now.advanced(seconds: -86_400)),
            ]
        }
        let first = bench.records.content.purchases[0].id
        await bench.reconciliation.pass()
        await bench.reconciliation.pass()
        #expect(apple.asked == [first] && apple.committed == [first] && bench.records.content.actors == [.store])
        #expect(bench.records.content.purchases[0].state == .active)
        #expect(bench.reports.all.withLock { $0.contains(.reconciled(.apple, asked: 1, failed: 0)) })
    }

    @Test func nothingIsAskedWithoutTheLease() async throws {
        let apple = ScriptedStorefront(.apple)
        let bench = try Bench([apple]) { now in [.sample(1, .apple, .grace, until: nil, at: now)] }
        bench.records.content.isHeldElsewhere = true
        await bench.reconciliation.pass()
        #expect(apple.asked.isEmpty)
        bench.records.content.isHeldElsewhere = false
        bench.records.content.fault = .unavailable("away")
        await bench.reconciliation.pass()
        #expect(apple.asked.isEmpty)
        bench.records.content.fault = nil
        await bench.reconciliation.pass()
        #expect(apple.asked.count == 1)
    }

    @Test func aStoreThatIsAwayIsAskedOnceAPassAndOthersGoOn() async throws {
        let apple = ScriptedStorefront(.apple) { _ in .failure(.unavailable(reason: "timeout", retryAfterSeconds: 30)) }
        let (stripe, revenueCat) = (ScriptedStorefront(.stripe), ScriptedStorefront(.revenuecat) { _ in .success(nil) })
        let bench = try Bench([apple, stripe, revenueCat]) { now in
            (1...3).flatMap { number in
                [PurchaseSource.apple, .stripe, .revenuecat].map { source in
                    .sample(number * 4 + UInt64(source.rawValue.utf8.count), source, .grace, until: nil, at: now)
                }
            }
        }
        await bench.reconciliation.pass()
        await bench.reconciliation.pass()
        #expect(apple.asked.count == 2 && stripe.asked.count == 3 && revenueCat.asked.count == 2)
        let reports = bench.reports.all.withLock { $0 }
        #expect(reports.contains(.reconciled(.apple, asked: 1, failed: 1, reason: "timeout")))
        #expect(reports.contains(.reconciled(.stripe, asked: 3, failed: 0)))
    }

    /// The lease outlasts a pass, however slow a store is, and the acknowledgements have their time.
    @Test func aPassOfASlowStoreEndsBeforeItsLease() async throws {
        let clock = Mutex<TestClock?>(nil)
        let google = ScriptedStorefront(.google) { purchase in
            clock.withLock { $0 }?.advance(seconds: 8)
            return .success([.status(purchase.key, purchase.status)])
        }
        let bench = try Bench([google]) { now in
            (1...40).map { .sample($0, .google, $0 > 20 ? .active : .grace, until: nil, at: now.advanced(seconds: -7_200)) }
        }
        clock.withLock { $0 = bench.fixture.clock }
        let begin = bench.fixture.clock.now
        await bench.reconciliation.pass()
        let asked = Set(google.asked), active = bench.records.content.purchases.filter { $0.state == .active }.map(\.id)
        #expect(google.asked.count == 16 && asked.intersection(active).count == 8)
        #expect(bench.fixture.clock.now < begin.advanced(seconds: 150))
    }

    @Test func aPurchaseOfGoogleIsAcknowledgedIfNothingElseDid() async throws {
        let google = ScriptedStorefront(.google) { purchase in .success([.status(purchase.key, purchase.status)]) }
        let bench = try Bench([google]) { now in
            let end = now.advanced(seconds: 30 * 86_400)
            return [
                .sample(1, .google, until: end, at: now.advanced(seconds: -4 * 86_400)),
                .sample(2, .google, until: end, at: now.advanced(seconds: -86_400)),
                .sample(3, .apple, until: end, at: now.advanced(seconds: -3_600)),
                .sample(4, .google, until: end, at: now.advanced(seconds: -700)),
                .sample(5, .google, until: end, at: now.advanced(seconds: -1)),
            ]
        }
        let ids = bench.records.content.purchases.map(\.id)
        await bench.reconciliation.pass()
        await bench.reconciliation.pass()
        #expect(google.committed == [ids[1], ids[3]])
        bench.fixture.clock.advance(seconds: 700)
        await bench.reconciliation.pass()
        #expect(google.committed == [ids[1], ids[3], ids[4]])
    }

    @Test func aPassThatIsCancelledAsksAndChangesNothingMore() async throws {
        let apple = ScriptedStorefront(.apple) { purchase in
            withUnsafeCurrentTask { unsafe $0?.cancel() }
            return .success([.status(purchase.key, purchase.status)])
        }
        let bench = try Bench([apple]) { now in (1...5).map { .sample($0, .apple, .grace, until: nil, at: now) } }
        let reconciliation = bench.reconciliation
        // Awaited at once: only a task can be cancelled.
        await Task { await reconciliation.pass() }.value
        #expect(apple.asked.count == 1 && bench.records.content.actors.isEmpty)
        #expect(bench.reports.all.withLock { $0 } == [.newestEvents([:])])
    }
}

/// The operator has a store asked, and events read again.
@Suite struct PurchaseAdministrationTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    private func administration(_ records: ScriptedPurchases, _ storefronts: [ScriptedStorefront]) throws -> PurchaseAdministration {
        PurchaseAdministration(
            context: try AccountsFixture().context, records: records, stores: { Stores(storefronts, .none) }, actor: .console)
    }

    @Test func aPurchaseIsSynchronised() async throws {
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let records = ScriptedPurchases([purchase])
        let storefront = ScriptedStorefront(.apple) { purchase in
            var status = purchase.status
            status.state = .refunded
            return .success([.status(purchase.key, status)])
        }
        let found = try await administration(records, [storefront]).sync(purchase.id)
        #expect(found.state == .refunded && records.content.actors == [.console] && storefront.committed == [purchase.id])
        // An answer without a word about it leaves it as it is.
        #expect(try await administration(records, [ScriptedStorefront(.apple)]).sync(purchase.id).state == .refunded)
    }

    @Test func aRefusalNamesItsReason() async throws {
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let records = ScriptedPurchases([purchase])
        let away = StorefrontFault.unavailable(reason: "timeout", retryAfterSeconds: 5)
        let cases: [(UUID, [ScriptedStorefront], InquiryRefusal)] = [
            (UUID(high: 1, low: 1), [ScriptedStorefront(.apple)], .noSuchPurchase), (purchase.id, [], .noLine(.apple)),
            (purchase.id, [ScriptedStorefront(.apple) { _ in .success(nil) }], .noKey(.apple)),
            (purchase.id, [ScriptedStorefront(.apple) { _ in .failure(away) }], .store(.apple, away)),
        ]
        for (id, storefronts, refusal) in cases {
            #expect(await fault { try await administration(records, storefronts).sync(id) } == refusal, "\(refusal)")
        }
        #expect(records.content.actors.isEmpty)
    }

    private static func kept(_ purchase: Purchase, body: [UInt8]) -> KeptStoreEvent {
        KeptStoreEvent(
            id: UUID(at: now, random: (1, 1)), event: "e1", source: .apple, type: "REFUND", environment: .production, at: now,
            receivedAt: now, verdict: .applied, digest: [1], body: body, purchases: [purchase.id])
    }

    @Test func aKeptEventIsReadAgain() async throws {
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let kept = Self.kept(purchase, body: Array("{}".utf8))
        let records = ScriptedPurchases([purchase], events: [kept])
        var status = purchase.status
        status.state = .expired
        let event = StoreEvent(
            .apple, id: "e1", type: "EXPIRED", environment: .production, at: Self.now, effects: [.status(purchase.key, status)])
        let replayed = try await administration(records, [ScriptedStorefront(.apple, event: .success(event))]).replay(kept.id)
        #expect(replayed.event == kept && replayed.purchases.map(\.state) == [.expired])
        let broken = try administration(records, [ScriptedStorefront(.apple)])
        #expect(await fault { try await broken.replay(kept.id) } == InquiryRefusal.store(.apple, .malformed(reason: "json")))
        #expect(await fault { try await broken.replay(purchase.id) } == InquiryRefusal.noSuchEvent)
        records.content.events = [Self.kept(purchase, body: [])]
        #expect(await fault { try await broken.replay(kept.id) } == InquiryRefusal.noBody)
    }
}
