import Accounts
import Credentials
import Testing
import Wire

/// Purchases, as tests make them. Times are in seconds behind `start`.
enum Sold {
    static let products = Products([
        ProductLine(
            name: "pro", tier: "premium",
            products: [.apple: ["app.pro"], .google: ["g.pro"], .stripe: ["price_pro"], .revenuecat: ["rc.pro"]], graceSeconds: nil),
        ProductLine(name: "kind", tier: "premium", products: [.apple: ["app.kind"], .stripe: ["price_kind"]], graceSeconds: 50),
    ])

    static func status(
        _ state: PurchaseState = .active, _ product: String = "app.pro", until: Int64? = 100, paid: [String] = ["t1"], from: Int64 = 0,
        at time: Int64 = 1, paidFrom: Int64? = nil, renews: Bool = true
    ) -> PurchaseStatus {
        PurchaseStatus(
            state, product: product, until: until.map { at($0).now }, renews: renews, transactions: paid, periodStart: at(from).now,
            at: at(time).now, paidFrom: paidFrom.map { at($0).now })
    }

    static func event(_ id: String, _ effects: [PurchaseEffect], _ source: PurchaseSource = .apple, at time: Int64 = 1) -> StoreEvent {
        StoreEvent(source, id: id, type: "T", environment: .production, at: at(time).now, effects: effects)
    }
}

extension AccountStore {
    @discardableResult func hear(
        _ id: String, _ effects: [PurchaseEffect], _ source: PurchaseSource = .apple, _ products: Products = Sold.products,
        at seconds: Int64 = 2
    ) async throws -> RecordedEvent {
        try await record(Sold.event(id, effects, source), body: Array("body of \(id)".utf8), digest: [1], products, at(seconds))
    }

    func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: WireID, transfers: Bool = false, at seconds: Int64 = 2
    ) async throws -> ClaimOutcome { try await claim(key, effects, by: account, transfers: transfers, Sold.products, at(seconds)) }
}

private let key = PurchaseKey(.apple, .production, "t1")

/// Conformance of every store: purchases, and what they do to accounts.
@Suite struct PurchaseConformanceTests {
    @Test(arguments: Backend.allCases) func aNotificationIsAppliedOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x").account.id
        var reader = try await ChangeReader(store)
        let effects: [PurchaseEffect] = [.status(key, Sold.status()), .owner(key, ada, at: at(1).now)]
        let first = try await store.hear("e1", effects)
        let purchase = try #require(first.purchases.first)
        #expect(first.verdict == .applied && !first.isRepeated && first.purchases.count == 1)
        #expect(purchase.account == ada && purchase.state == .active && purchase.tier == "premium" && purchase.product == "pro")
        #expect(purchase.until == at(100).now && purchase.status == Sold.status())
        #expect(try await reader.news().contains { if case .account(ada, _) = $0 { true } else { false } })
        #expect(try await store.standing(of: ada)?.entitlement.version == 1)
        // Again, with other content.
        let again = try await store.hear("e1", [.status(key, Sold.status(.expired, at: 9))])
        #expect(again == RecordedEvent(id: first.id, verdict: .applied, isRepeated: true, purchases: [purchase]))
        // The same state in another event changes nothing.
        try await store.hear("e2", effects, at: 5)
        #expect(try await store.purchases(of: ada) == [purchase])
        #expect(try await store.standing(of: ada)?.entitlement.version == 1)
        #expect(try await store.purchase(purchase.id) == purchase)
        #expect(try await store.purchase(PurchaseKey(.apple, .sandbox, "t1")) == nil, "sandbox is apart")
        let kept = try #require(try await store.storeEvent(first.id))
        #expect(kept.event == "e1" && kept.body == Array("body of e1".utf8) && kept.digest == [1] && kept.purchases == [purchase.id])
        #expect(kept.receivedAt == at(2).now && kept.at == at(1).now && kept.type == "T" && kept.verdict == .applied)
        #expect(try await store.newestStoreEvents() == [.apple: at(5).now])
        let events = try await store.auditEvents(of: ada, before: nil, limit: 9).filter { $0.kind == .purchaseChanged }
        #expect(events.map(\.detail) == ["apple pro active until \(ISO8601.text(at(100).now)), \(purchase.id.text)"])
    }

    /// A period may have more payments than the newest status names.
    @Test(arguments: Backend.allCases) func theRefundOfAnyPaymentOfThePeriodCounts(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let key = PurchaseKey(.stripe, .production, "sub")
        func told(_ payment: String, period: Int64, at time: Int64) async throws -> PurchaseState? {
            let status = Sold.status(.active, "price_pro", paid: [payment], at: time, paidFrom: period)
            return try await store.apply([.status(key, status)], Sold.products, at(2)).first?.state
        }
        func ended(_ payment: String, _ state: PurchaseState?, at time: Int64) async throws -> PurchaseState? {
            let end = EndedTransaction(.stripe, .production, payment, state, at: at(time).now)
            return try await store.apply([.ended(end)], Sold.products, at(2)).first?.state
        }
        for (payment, period, time) in [("in_0", Int64(1), Int64(1)), ("in_2", 30, 33), ("in_1", 30, 31)] {
            #expect(try await told(payment, period: period, at: time) == .active)
        }
        #expect(try await ended("in_0", .refunded, at: 40) == .active, "of an earlier period")
        #expect(try await ended("in_1", .revoked, at: 41) == .revoked)
        #expect(try await ended("in_2", .refunded, at: 42) == .refunded)
        #expect(try await ended("in_2", nil, at: 43) == .revoked)
        #expect(try await ended("in_1", nil, at: 44) == .active)
        #expect(try await ended("pi_1", .refunded, at: 45) == nil)
        #expect(try await told("pi_1", period: 30, at: 30) == .refunded, "an older word names a payment that has ended")
        #expect(try await told("in_3", period: 60, at: 60) == .active)
    }

    /// The operator's grant and those of purchases stand beside each other, wherever a tier is read, and both are logged.
    @Test(arguments: Backend.allCases) func aPurchaseIsAGrantBesideTheOperators(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let subject = IdentityKey(IdentitySource(stored: "django"), stored: "7")
        let ada = try await store.setTier("plus", until: nil, of: subject, newUser: newID(), at(1)).id
        var reader = try await ChangeReader(store)
        let bought = try await store.hear("e", [.status(key, Sold.status()), .owner(key, ada, at: at(1).now)])
        let grant = Grant(source: "apple", key: try #require(bought.purchases.first).id.text, tier: "premium", until: at(100).now)
        let expected = Entitlement(tier: "plus", until: nil, version: 2, purchased: [grant])
        #expect(try await Set(reader.news()) == [.identity(subject), .account(ada, AccountStanding(expected))])
        #expect(try await store.account(ada)?.entitlement == expected)
        #expect(try await store.standing(of: ada)?.entitlement == expected)
        #expect(try await store.entitlement(of: subject) == expected)
        let set = try await store.setTier("gold", until: at(9).now, of: ada, at(3))
        #expect(set == Entitlement(tier: "gold", until: at(9).now, version: 3, purchased: [grant]))
        try await store.hear("refund", [.ended(EndedTransaction(.apple, .production, "t1", .refunded, at: at(2).now))])
        #expect(try await store.standing(of: ada)?.entitlement == Entitlement(tier: "gold", until: at(9).now, version: 4))
    }

    /// A purchase that an unfinished sign-up claimed is not its successor's; one that names the account stays.
    @Test(arguments: Backend.allCases) func aTakenAccountLosesTheClaimsOfItsFormerUser(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let mallory = try await store.opened("ada@x").account.id
        let named = PurchaseKey(.apple, .production, "n")
        _ = try await store.claim(key, [.status(key, Sold.status())], by: mallory)
        try await store.hear("e", [.status(named, Sold.status(paid: ["n"])), .owner(named, mallory, at: at(1).now)])
        let proof = IdentityProof(provider: .apple, subject: "s", verifiedEmail: try email("ada@x"), name: nil, nameRule: .first)
        let ada = try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(5)).account
        #expect(ada.id == mallory && ada.entitlement.purchased.count == 1)
        #expect(try await store.account(ada.id)?.entitlement == ada.entitlement)
        #expect(try await store.purchase(key)?.account == nil)
        #expect(try await store.purchase(named)?.account == ada.id)
        let bob = try await store.opened("bob@x").account.id
        guard case .bound = try await store.claim(key, [], by: bob) else { throw Fault("not bound") }
    }

    @Test(arguments: Backend.allCases) func eventsAreFoundBySourceAndVerdict(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let missing = newID()
        let events: [(String, PurchaseSource, [PurchaseEffect], StoreEvent.Verdict)] = [
            ("test", .apple, [], .kept),
            ("odd", .apple, [.status(key, Sold.status(.active, "app.other"))], .unknownProduct),
            ("of-others", .google, [.owner(PurchaseKey(.google, .production, "g"), missing, at: at(1).now)], .unknownAccount),
            ("to-nobody", .revenuecat, [.transfer(.revenuecat, .production, from: [newID()], to: missing, at: at(1).now)], .unknownAccount),
            ("refund", .stripe, [.ended(EndedTransaction(.stripe, .production, "p", .refunded, at: at(1).now))], .kept),
        ]
        for (id, source, effects, verdict) in events { #expect(try await store.hear(id, effects, source).verdict == verdict, "\(id)") }
        func found(
            _ source: PurchaseSource?, _ verdict: StoreEvent.Verdict?, _ before: WireID? = nil, _ limit: Int = 9
        ) async throws -> [String] {
            try await store.storeEvents(source, verdict, before: before, limit: limit).map(\.event)
        }
        #expect(try await Set(found(nil, nil)) == Set(events.map(\.0)))
        #expect(try await found(nil, .unknownAccount).sorted() == ["of-others", "to-nobody"])
        #expect(try await found(.google, .unknownAccount) == ["of-others"])
        #expect(try await found(.google, .kept) == [])
        let ids = try await store.storeEvents(nil, nil, before: nil, limit: 9).map(\.id)
        #expect(ids == ids.sorted(by: >))
        #expect(try await store.storeEvents(nil, nil, before: ids[1], limit: 2).map(\.id) == Array(ids[2..<4]))
        for event in try await store.storeEvents(nil, nil, before: nil, limit: 9) {
            for purchase in event.purchases { #expect(try await store.storeEvents(about: purchase, limit: 9).contains(event)) }
        }
        #expect(try await store.storeEvents(about: newID(), limit: 9) == [])
        #expect(try await store.purchase(PurchaseKey(.google, .production, "g")) == nil, "nothing is known of it but its owner")
    }

    /// Who may claim what, by who has claimed it before (`claimed`) and whom it names.
    @Test(arguments: Backend.allCases) func claimsAreRefusedWhereAPurchaseIsAnothers(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        let gone = try await store.opened("gone@x").account.id
        _ = try await store.delete(gone, at(1))
        // Ada claims; whose it is then.
        let cases: [(claimed: WireID?, named: WireID?, transfers: Bool, owner: WireID?)] = [
            (nil, nil, false, ada), (ada, nil, false, ada), (bob, nil, false, bob), (bob, nil, true, ada),
            (nil, ada, false, ada), (nil, bob, false, bob), (nil, bob, true, bob), (nil, newID(), true, nil),
            (nil, gone, false, ada), (bob, gone, false, bob), (bob, gone, true, ada), (bob, ada, false, ada), (bob, newID(), false, bob),
        ]
        for (number, rule) in cases.enumerated() {
            let key = PurchaseKey(.apple, .production, "k\(number)")
            let status = PurchaseEffect.status(key, Sold.status(paid: ["p\(number)"]))
            if let claimed = rule.claimed { _ = try await store.claim(key, [status], by: claimed) }
            let named = rule.named.map { [PurchaseEffect.owner(key, $0, at: at(1).now)] } ?? []
            let outcome = try await store.claim(key, [status] + named, by: ada, transfers: rule.transfers)
            if case .bound(let purchase, let account, _) = outcome {
                #expect(rule.owner == ada && purchase.account == ada && account.id == ada, "\(rule)")
            } else {
                #expect(rule.owner != ada && outcome == .ofOtherAccount, "\(rule)")
            }
            #expect(try await store.purchase(key)?.account == rule.owner, "\(rule)")
            for account in [ada, bob] {
                #expect(try await store.purchases(of: account).contains { $0.key == key } == (rule.owner == account), "\(rule)")
            }
        }
        #expect(try await store.claim(key, [.status(key, Sold.status())], by: gone) == .noAccount)
        #expect(try await store.purchase(key) == nil)
        // Once more by the same account, with the same transaction.
        let first = try await store.claim(key, [.status(key, Sold.status())], by: ada)
        guard case .bound(let purchase, let account, isNews: true) = first else { return #expect(Bool(false), "\(first)") }
        #expect(
            try await store.claim(key, [.status(key, Sold.status())], by: ada, at: 7) == .bound(purchase, account, isNews: false))
    }

    @Test(arguments: Backend.allCases) func aDeletedAccountLeavesItsPurchasesToBeClaimed(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        let other = PurchaseKey(.apple, .production, "c")
        let named: [PurchaseEffect] = [.status(key, Sold.status()), .owner(key, ada, at: at(1).now)]
        let event = try await store.hear("e", named)
        _ = try await store.claim(other, [.status(other, Sold.status(paid: ["c"]))], by: ada)
        #expect(try await store.purchases(of: ada).count == 2)
        _ = try await store.delete(ada, at(3))
        for key in [key, other] { #expect(try await store.purchase(key)?.account == nil) }
        let kept = try #require(try await store.storeEvent(event.id))
        #expect(kept.body == [] && kept.digest == [1], "a store may write a name or an email in it")
        // A renewal that names the deleted account binds none, and does not keep another from the purchase.
        #expect(try await store.hear("renewal", [.status(key, Sold.status(from: 50, at: 60)), named[1]]).verdict == .unknownAccount)
        guard case .bound = try await store.claim(key, named, by: bob) else { throw Fault("not bound") }
        #expect(try await store.hear("second", [.status(key, Sold.status(from: 99, at: 99)), named[1]]).verdict == .applied)
        #expect(try await store.purchase(key)?.account == bob)
    }

    @Test(arguments: Backend.allCases) func productLinesAreAdoptedInSteps(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x").account.id
        let keys = (0..<5).map { PurchaseKey(.apple, .production, "k\($0)") }
        for key in keys {
            let effects: [PurchaseEffect] = [
                .status(key, Sold.status(.active, "app.new", paid: [key.original])), .owner(key, ada, at: at(1).now),
            ]
            #expect(try await store.hear(key.original, effects).verdict == .unknownProduct)
        }
        let version = try await store.standing(of: ada)?.entitlement.version
        #expect(version == 0, "they give nothing")
        #expect(try await store.adopt(Sold.products, limit: 9, at(3)) == 0)
        let lines = Sold.products.lines + [ProductLine(name: "new", tier: "gold", products: [.apple: ["app.new"]], graceSeconds: nil)]
        var steps: [Int] = []
        while let count = try await Optional(store.adopt(Products(lines), limit: 2, at(3))), count > 0 { steps.append(count) }
        #expect(steps == [2, 2, 1])
        #expect(try await store.purchases(of: ada).map(\.tier) == Array(repeating: "gold", count: 5))
        #expect(try await store.standing(of: ada)?.entitlement.version == 3)
        // A gateway that does not have the line yet takes nothing away.
        let renewed = PurchaseEffect.status(keys[0], Sold.status(.active, "app.new", until: 900, paid: ["r"]))
        #expect(try await store.hear("renewal", [renewed]).purchases.map(\.tier) == ["gold"])
        #expect(try await store.adopt(.none, limit: 9, at(4)) == 5)
        #expect(try await store.purchases(of: ada).allSatisfy { $0.tier == nil && $0.product == nil })
    }

    @Test(arguments: Backend.allCases) func purchasesAreListedByAccountStateAndDoubt(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try await store.opened("ada@x").account.id
        let made: [(String, PurchaseState, Int64, Bool)] = [
            ("soon", .active, 110, true), ("later", .active, 900, true), ("over", .active, 105, false), ("late", .grace, 500, true),
            ("unpaid", .retry, 50, true), ("ended", .expired, 108, false),
        ]
        for (number, (name, state, until, renews)) in made.enumerated() {
            let key = PurchaseKey(.google, .production, name)
            let status = Sold.status(state, "g.pro", until: until, paid: [], renews: renews)
            let owner: [PurchaseEffect] = name == "soon" ? [.owner(key, ada, at: at(1).now)] : []
            try await store.hear(name, [.status(key, status)] + owner, .google, at: Int64(number))
        }
        func names(_ purchases: [Purchase]) -> [String] { purchases.map(\.key.original) }
        func found(_ account: WireID?, _ state: PurchaseState?, at time: Int64 = 106) async throws -> [String] {
            try await names(store.purchases(of: account, state, at: at(time).now, after: nil, limit: 9))
        }
        #expect(try await found(nil, .active) == ["soon", "later"])
        #expect(try await found(nil, .expired) == ["over", "ended"], "one has ended, and its store has said nothing")
        #expect(try await found(nil, .expired, at: 105) == ["over", "ended"])
        #expect(try await found(nil, .expired, at: 104) == ["ended"])
        #expect(try await found(nil, .grace) == ["late"])
        #expect(try await found(nil, .grace, at: 500) == [])
        #expect(try await found(nil, .retry) == ["unpaid"])
        #expect(try await found(ada, .retry) == [])
        #expect(try await found(ada, nil) == ["soon"])
        let all = try await store.purchases(of: nil, nil, at: at(1).now, after: nil, limit: 9)
        #expect(try await store.purchases(of: nil, nil, at: at(1).now, after: all[1].id, limit: 3) == Array(all[2..<5]))
        let doubts: [(sources: [PurchaseSource], after: Int64, limit: Int, found: [String])] = [
            ([.apple, .google], 49, 9, ["unpaid", "soon", "late"]), ([.google], 49, 1, ["unpaid"]), ([.google], 50, 9, ["soon", "late"]),
            ([.apple], 0, 9, []), ([], 0, 9, []),
        ]
        for doubt in doubts {
            let found = try await store.purchasesInDoubt(
                of: doubt.sources, after: at(doubt.after).now, from: at(100).now, to: at(200).now, limit: doubt.limit)
            #expect(names(found) == doubt.found, "\(doubt)")
        }
    }

    @Test(arguments: Backend.allCases) func aLeaseHasOneHolder(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        let (one, two) = (newID(), newID())
        #expect(try await store.hold("a", by: one, seconds: 100))
        #expect(try await !other.hold("a", by: two, seconds: 100))
        #expect(try await other.hold("b", by: two, seconds: 100))
        // Its holder gives it up by keeping it for no time.
        #expect(try await store.hold("a", by: one, seconds: 0))
        #expect(try await other.hold("a", by: two, seconds: 100))
        #expect(try await !store.hold("a", by: one, seconds: 100))
        await other.close()
    }

    /// A notification and a claim of one purchase at once, over two gateways, and the refund of its payment beside them.
    @Test(arguments: Backend.allCases) func twoGatewaysEndInOneState(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        for number in 0..<20 {
            let key = PurchaseKey(.google, .production, "k\(number)")
            let status = PurchaseEffect.status(key, Sold.status(.active, "g.pro", paid: ["p\(number)"]))
            let refund = PurchaseEffect.ended(EndedTransaction(.google, .production, "p\(number)", .refunded, at: at(3).now))
            async let claimed = store.claim(key, [status], by: bob)
            async let told = other.hear("e\(number)", [status, .owner(key, ada, at: at(1).now)], .google)
            async let again = store.hear("e\(number)", [status, .owner(key, ada, at: at(1).now)], .google)
            async let refunded = other.hear("r\(number)", [refund], .google)
            _ = try await (claimed, refunded)
            let (one, two) = (try await told, try await again)
            #expect(one.isRepeated != two.isRepeated && one.id == two.id)
            let purchase = try #require(try await store.purchase(key))
            #expect(purchase.account == ada && purchase.state == .refunded)
        }
        #expect(try await store.purchases(of: ada).count == 20)
        #expect(try await store.purchases(of: bob).isEmpty)
        // Purchases that pass between two accounts in both directions at once, while these are deleted.
        async let left: Void = move(store, from: ada, to: bob)
        async let right: Void = move(other, from: bob, to: ada)
        async let deleted = other.delete(bob, at(9))
        _ = try await (left, right, deleted)
        #expect(try await store.purchases(of: bob).isEmpty)
        await other.close()
    }

    private func move(_ store: any AccountStore, from giver: WireID, to taker: WireID) async throws {
        for number in 0..<10 {
            _ = try await store.apply(
                [.transfer(.google, .production, from: [giver], to: taker, at: at(Int64(20 + number)).now)], Sold.products, at(4))
        }
    }

    @Test(arguments: Backend.allCases) func storeEventsAreSweptAfterTheirTime(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (old, kept) = (try await store.hear("old", [.status(key, Sold.status())], at: 2), try await store.hear("kept", [], at: 20))
        try await store.sweep(now: WallTime(seconds: start.seconds + KeptStoreEvent.keptSeconds + 10), stride: anyStride)
        #expect(try await store.storeEvent(old.id) == nil)
        #expect(try await store.storeEvent(kept.id) != nil)
        #expect(try await store.purchase(key) != nil)
    }
}
