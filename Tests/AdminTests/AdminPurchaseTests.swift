import Accounts
import Credentials
import MemoryStore
import Synchronization
import Testing
import Wire

@testable import Admin

/// Purchases and store events in the admin API, request by request.
@Suite struct AdminPurchaseTests {
    private static let now = WallTime(seconds: 1_800_000_000)
    private static let unknown = UUID(random: (9, 9)).text

    private static func event(
        _ number: UInt64, _ source: PurchaseSource, _ verdict: StoreEvent.Verdict, of purchase: UUID
    ) -> KeptStoreEvent {
        KeptStoreEvent(
            id: UUID(at: now, random: (1, number << 2)), event: "e\(number)", source: source, type: "REFUND", environment: .production,
            at: now, receivedAt: now, verdict: verdict, digest: [0xFF], body: Array("a secret body".utf8), purchases: [purchase])
    }

    @Test func purchasesAreListedByAccountAndState() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1)
        let (first, second) = (
            Purchase.sample(1, of: ada, until: Self.now, at: Self.now), Purchase.sample(2, .google, .refunded, until: nil, at: Self.now)
        )
        bench.purchases.content.purchases = [first, second]
        let all = await bench.ask("GET purchases").text
        #expect(
            all.hasPrefix(
                #"{"purchases":[{"id":"\#(first.id.text)","account":"\#(ada.text)","source":"apple","environment":"production","original_id":"original-1","product":"premium","store_product":"com.example.premium","tier":"premium","state":"active","until":"2027-01-15T08:00:00.000Z","renews":true,"transactions":["t1"],"#
            ) && all.contains(#"{"id":"\#(second.id.text)","source":"google""#))
        let selections = [
            ("account=ada%40example.org", [first]), ("account=\(ada.text)", [first]), ("state=refunded", [second]),
            ("after=\(first.id.text)", [second]), ("limit=1", [first]), ("account=\(ada.text)&state=refunded", []),
        ]
        for (query, expected) in selections {
            let text = await bench.ask("GET purchases?\(query)").text
            #expect([first, second].filter { text.contains($0.id.text) } == expected, "\(query)")
        }
        let bad = [("account=bob", 404), ("state=x", 400), ("after=x", 400), ("limit=0", 400), ("user=x", 400)]
        for (query, status) in bad { #expect(await bench.ask("GET purchases?\(query)").status == status, "\(query)") }
        #expect(await bench.ask("GET purchases?state=x").text.contains("active, grace, retry"))
    }

    @Test func storeEventsAreListedWithoutTheirBodies() async throws {
        let bench = try AdminBench()
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let events = [
            Self.event(1, .apple, .applied, of: purchase.id),
            Self.event(2, .stripe, .unknownProduct, of: Self.event(9, .apple, .kept, of: purchase.id).id),
        ]
        (bench.purchases.content.purchases, bench.purchases.content.events) = ([purchase], events)
        let all = await bench.ask("GET store-events").text
        #expect(all.hasPrefix(#"{"events":[{"id":"\#(events[1].id.text)","source":"stripe","event":"e2","type":"REFUND","#))
        #expect(all.contains(#""verdict":"unknown-product","digest":"_w","purchases":[""#) && !all.contains("secret"))
        for (query, expected) in [("source=apple", 0), ("verdict=unknown-product", 1), ("before=\(events[1].id.text)", 0)] {
            let text = await bench.ask("GET store-events?\(query)").text
            #expect(text.contains(events[expected].id.text) && !text.contains(events[1 - expected].id.text), "\(query)")
        }
        for query in ["source=amazon", "verdict=x", "before=x"] {
            #expect(await bench.ask("GET store-events?\(query)").status == 400, "\(query)")
        }
        let details = await bench.ask("GET purchases/\(purchase.id.text)").text
        #expect(details.contains(#""events":[{"id":"\#(events[0].id.text)""#) && !details.contains(events[1].id.text))
    }

    @Test func aPurchaseIsSynchronisedInTheNameOfTheCaller() async throws {
        let apple = ScriptedStorefront(.apple) { purchase in
            var status = purchase.status
            status.state = .expired
            return .success([.status(purchase.key, status)])
        }
        let bench = try AdminBench(storefronts: [apple])
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let kept = Self.event(1, .apple, .applied, of: purchase.id)
        (bench.purchases.content.purchases, bench.purchases.content.events) = ([purchase], [kept])
        bench.now.scoped.withLock {
            $0 = [ScopedToken(name: "support", bytes: Array("a-token-of-support".utf8), scopes: [.tier])]
        }
        let answer = await bench.ask("POST purchases/\(purchase.id.text)/sync", "", [("Authorization", "Bearer a-token-of-support")])
        #expect(answer.status == 200 && answer.text.contains(#""state":"expired""#))
        #expect(bench.purchases.content.actors == [.adminAPI(token: "support")])
        #expect(await bench.ask("GET purchases/\(purchase.id.text)/sync").status == 405)
    }

    @Test func aRefusalSaysWhatIsMissing() async throws {
        let faults: [PurchaseSource: ScriptedStorefront.Answer] = [
            .google: .success(nil), .stripe: .failure(.unavailable(reason: "timeout", retryAfterSeconds: 7)),
            .revenuecat: .failure(.malformed(reason: "json")),
        ]
        let bench = try AdminBench(storefronts: faults.map { source, answer in ScriptedStorefront(source) { _ in answer } })
        let purchases = PurchaseSource.allCases.enumerated().map { Purchase.sample(UInt64($0), $1, until: nil, at: Self.now) }
        let kept = Self.event(1, .revenuecat, .applied, of: purchases[0].id)
        (bench.purchases.content.purchases, bench.purchases.content.events) = (purchases, [kept])
        let cases: [(PurchaseSource, Int, String)] = [
            (.apple, 409, "TOLLGATE_PURCHASES_APPLE is not set"), (.google, 409, "TOLLGATE_PURCHASES_GOOGLE has no key"),
            (.stripe, 503, "stripe does not answer: timeout"), (.revenuecat, 502, "revenuecat said what cannot be used: json"),
        ]
        for ((source, status, text), purchase) in zip(cases, purchases) {
            let answer = await bench.ask("POST purchases/\(purchase.id.text)/sync")
            #expect(answer.status == status && answer.text.contains(text), "\(source) \(answer.text)")
            #expect(answer["Retry-After"] == (status == 503 ? "7" : nil))
        }
        #expect(await bench.ask("POST store-events/\(kept.id.text)/replay").status == 502)
        for path in [
            "GET purchases/x", "GET purchases/\(Self.unknown)", "POST purchases/\(Self.unknown)/sync", "POST store-events/x/replay",
        ] {
            #expect(await bench.ask(path).status == 404, "\(path)")
        }
        bench.purchases.content.fault = .unavailable("away")
        #expect(await bench.ask("GET purchases").status == 503)
    }

    @Test func aKeptEventIsAppliedAgain() async throws {
        let purchase = Purchase.sample(1, until: Self.now, at: Self.now)
        let event = StoreEvent(
            .apple, id: "e1", type: "REFUND", environment: .production, at: Self.now, effects: [.status(purchase.key, purchase.status)])
        let bench = try AdminBench(storefronts: [ScriptedStorefront(.apple, event: .success(event))])
        let kept = Self.event(1, .apple, .unknownProduct, of: purchase.id)
        (bench.purchases.content.purchases, bench.purchases.content.events) = ([purchase], [kept])
        let text = await bench.ask("POST store-events/\(kept.id.text)/replay").text
        #expect(text.hasPrefix(#"{"event":{"id":"\#(kept.id.text)""#) && text.contains(#""purchases":[{"id":"\#(purchase.id.text)""#))
    }
}
