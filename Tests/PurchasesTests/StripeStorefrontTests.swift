import Accounts
import Fetch
import Testing
import Wire

@testable import Purchases

private typealias Samples = StripeSamples

private func plan(_ environments: Set<StoreEnvironment> = [.production], key: String? = "sk_test") -> StripePlan {
    StripePlan(
        secrets: [Array("whsec_new".utf8), Array("whsec_old".utf8), []], apiKey: key, apiURL: "https://stripe.test",
        environments: environments)
}

@Suite struct StripeStorefrontTests {
    private static let path = "/v1/checkout/sessions/cs_1?expand%5B%5D=line_items"
    private static let claim = path + "&expand%5B%5D=subscription&expand%5B%5D=payment_intent.latest_charge"

    private func prove(
        _ session: String?, _ plan: StripePlan = plan(), id: String = "cs_1"
    ) async -> Result<ProvenPurchase, StorefrontFault> {
        let store = ScriptedStore(session.map { [Self.claim: $0] } ?? [:])
        do throws(StorefrontFault) {
            return .success(try await StripeStorefront(plan, store.requests).prove(.stripe(session: id), now: WallTime(seconds: 1_000)))
        } catch {
            return .failure(error)
        }
    }

    @Test func aSessionProvesASubscription() async throws {
        let proven = try await prove(Samples.session(subscription: Samples.subscription("active"))).get()
        #expect(proven.key == PurchaseKey(.stripe, .production, "sub_1"))
        #expect(shown(proven.effects) == ["sub_1 of alice", "sub_1 active price_1 until 1900 renews [in_1]"])
        let ended = try await prove(Samples.session(account: nil, subscription: Samples.subscription("canceled"))).get()
        #expect(shown(ended.effects) == ["sub_1 expired price_1 until 1000 [in_1]"])
    }

    @Test func aSessionProvesAPaymentThatWasMadeOnce() async throws {
        let proven = try await prove(Samples.session("payment", more: Samples.lineItems)).get()
        #expect(proven.key.original == "pi_1" && shown(proven.effects) == ["pi_1 of alice", "pi_1 active price_2 until ever [pi_1 cs_1]"])
        let refunded = #"{"id":"pi_1","latest_charge":{"id":"ch_1","refunded":true}}"#
        let back = try await prove(Samples.session("payment", account: nil, intent: refunded, more: Samples.lineItems)).get()
        #expect(shown(back.effects) == ["pi_1 active price_2 until ever [pi_1 cs_1]", "pi_1 refunded"])
        let free = try await prove(
            Samples.session("payment", payment: "no_payment_required", account: nil, intent: "null", more: Samples.lineItems)
        ).get()
        #expect(shown(free.effects) == ["cs_1 active price_2 until ever [cs_1]"])
    }

    @Test func otherSessionsProveNothing() async {
        let active = Samples.subscription("active")
        #expect(await prove(nil) == .failure(.notAuthentic(reason: "session")))
        for session in [
            Samples.session(status: "open", subscription: active), Samples.session(payment: "unpaid", subscription: active),
            Samples.session(subscription: Samples.subscription("incomplete")), Samples.session("setup"), Samples.session("payment"),
        ] { #expect(await prove(session) == .failure(.notAuthentic(reason: "unpaid")), "\(session)") }
        #expect(await prove(Samples.session(subscription: active, isLive: false)) == .failure(.environmentRefused))
        #expect(await prove(Samples.session(subscription: active), id: "in_1") == .failure(.malformed(reason: "session")))
        #expect(
            await prove(nil, plan(key: nil)) == .failure(.unavailable(reason: "no API key is configured", retryAfterSeconds: 3_600)))
    }

    @Test func theNewestStateIsAskedFor() async throws {
        let store = ScriptedStore([
            "/v1/subscriptions/sub_1": Samples.subscription("past_due"),
            "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge": #"{"id":"pi_1","latest_charge":{"id":"ch_1","refunded":true}}"#,
        ])
        func newest(_ original: String, _ plan: StripePlan = plan()) async throws -> [String]? {
            let status = PurchaseStatus(
                .active, product: "p", until: nil, renews: false, transactions: [], periodStart: .beginning, at: .beginning)
            let purchase = Purchase(
                id: alice, key: PurchaseKey(.stripe, .production, original), account: nil, status: status, state: .active, until: nil,
                product: nil, tier: nil, createdAt: .beginning, updatedAt: .beginning)
            return try await StripeStorefront(plan, store.requests).newest(purchase, now: WallTime(seconds: 1_000)).map { shown($0) }
        }
        for (original, expected) in [
            ("sub_1", ["sub_1 retry price_1 until 900 renews [in_1]"]), ("pi_1", ["pi_1 refunded"]), ("sub_2", []), ("pi_2", []),
            ("cs_1", []),
        ] { #expect(try await newest(original) == expected, "\(original)") }
        #expect(try await newest("sub_1", plan(key: nil)) == nil)
    }

    @Test func aKeyWithoutARightCostsTheInvoiceAlone() async throws {
        let store = ScriptedStore { transfer, _ in EndedTransfer(status: transfer.url.contains("invoice_payments") ? 403 : 404) }
        let reports = Reports()
        let front = StripeStorefront(plan(), store.requests) { reports.add($0) }
        let refund = Samples.event("charge.refunded", Samples.charge(invoice: nil))
        #expect(try await shown(front.replay(refund, now: .beginning).effects) == ["ch_1 refunded", "pi_1 refunded"])
        #expect(reports.all.map { $0.contains("may not read invoices") } == [true])
        let refused = "unavailable 60: the API key has no right to read invoice_payments"
        #expect(await fault { () async throws(StorefrontFault) in try await front.probe(now: .beginning) } == refused)
        #expect(Set(store.asked.map { $0.url.split(separator: "/")[3].prefix { $0 != "?" } }).count == 4)
        // One that is no key any more is mended, and then the event comes again.
        let gone = StripeStorefront(plan(), ScriptedStore { _, _ in EndedTransfer(status: 401) }.requests)
        let status = await fault { () async throws(StorefrontFault) in try await gone.replay(refund, now: .beginning) }
        #expect(status == "unavailable 60: the API answers with the status 401")
        #expect(try await !StripeStorefront(plan(key: nil), store.requests).probe(now: .beginning))
        #expect(try await StripeStorefront(plan(), ScriptedStore([:]).requests).probe(now: .beginning))
    }

    @Test func aStoreThatFailsIsAskedAgainWhileTimeIsLeft() async throws {
        let answers: [EndedTransfer] = [
            EndedTransfer(status: 503), EndedTransfer(failure: "timed out"), .ok(Samples.subscription("active")),
        ]
        let store = ScriptedStore { _, count in answers[count] }
        let found = try await store.requests.send("https://stripe.test/", [], until: store.requests.deadline)
        #expect(found.status == 200 && store.asked.count == 3 && store.elapsed == 800)
        let slow = ScriptedStore { _, _ in EndedTransfer(status: 500) }
        #expect(
            await fault { () async throws(StorefrontFault) in try await slow.requests.send("u", [], until: slow.requests.deadline) }
                == "unavailable 5: the answer has the status 500")
        #expect(slow.asked.count == 3)
        let busy = ScriptedStore { _, _ in EndedTransfer(status: 429, retryAfter: "70") }
        #expect(
            await fault { () async throws(StorefrontFault) in try await busy.requests.send("u", [], until: busy.requests.deadline) }
                == "unavailable 70: the answer has the status 429")
        let late = ScriptedStore { _, _ in .ok("{}") }
        let deadline = late.requests.deadline
        late.pass(StoreRequests.milliseconds - 100)
        _ = try await late.requests.send("u", [], until: deadline)
        #expect(late.asked[0].totalMilliseconds == 100)
        late.pass(100)
        #expect(
            await fault { () async throws(StorefrontFault) in try await late.requests.send("u", [], until: deadline) }
                == "unavailable 5: no time is left")
        let refused = StripeStorefront(plan(), ScriptedStore { _, _ in EndedTransfer(status: 401) }.requests)
        #expect(
            await fault { () async throws(StorefrontFault) in try await refused.prove(.stripe(session: "cs_1"), now: .beginning) }
                == "unavailable 60: the API answers with the status 401")
    }
}

@Suite struct StripeSignatureTests {
    private static let body = Samples.event("customer.subscription.updated", Samples.subscription("active"))

    private func verdict(_ header: String?, _ body: [UInt8] = Self.body, now: Int64 = 1_000) async -> String {
        let store = StripeStorefront(plan(), ScriptedStore([:]).requests)
        return await fault { () async throws(StorefrontFault) in
            try await store.notification(body, now: WallTime(seconds: now)) { "\($0)" == "stripe-signature" ? header : nil }
        }
    }

    @Test func anySecretInForceSigns() async {
        let (new, old) = (
            Samples.signed(Self.body, at: 1_000, secret: "whsec_new"), Samples.signed(Self.body, at: 1_000, secret: "whsec_old")
        )
        let foreign = Samples.signed(Self.body, at: 1_000, secret: "whsec_other")
        for header in [new, old, foreign + "," + new.dropFirst(7), "v0=1," + new] { #expect(await verdict(header) == "", "\(header)") }
        let refused = [
            nil, "", foreign, Samples.signed(Self.body, at: 1_000, secret: ""), new.replacing("v1", with: "v0"), new + ",v1", new + ",t",
            new.replacing("t=1000", with: "t=1001"), "t=1001," + new, "t=," + new, new.uppercased(), String(new.dropLast()), new + "0",
        ]
        for header in refused { #expect(await verdict(header) == "not authentic: signature", "\(header ?? "none")") }
        #expect(await verdict(new, Self.body + [0x20]) == "not authentic: signature")
    }

    @Test func itsTimeIsWithinFiveMinutesOfOurs() async {
        let header = Samples.signed(Self.body, at: 1_000, secret: "whsec_new")
        for (now, expected) in [
            (699, "not authentic: expired"), (700, ""), (1_300, ""), (1_301, "not authentic: expired"),
        ] as [(Int64, String)] { #expect(await verdict(header, now: now) == expected, "\(now)") }
        let far = Samples.signed(Self.body, at: .max, secret: "whsec_new")
        #expect(await verdict(far) == "not authentic: expired")
    }
}
