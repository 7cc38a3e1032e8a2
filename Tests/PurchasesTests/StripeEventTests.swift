import Accounts
import Fetch
import Testing
import Wire

@testable import Purchases

private typealias Samples = StripeSamples

private let plan = StripePlan(
    secrets: [Array("whsec_new".utf8), Array("whsec_old".utf8)], apiKey: "sk_test", apiURL: "https://stripe.test",
    environments: [.production])

@Suite struct StripeEventTests {
    private func effects(_ body: [UInt8], _ store: ScriptedStore = ScriptedStore([:])) async throws -> [PurchaseEffect] {
        try await StripeStorefront(plan, store.requests).replay(body, now: WallTime(seconds: 1_000)).effects
    }

    private func status(_ object: String, at: Int = 1_000, _ type: String = "customer.subscription.updated") async throws -> PurchaseStatus?
    {
        for case .status(_, let status) in try await effects(Samples.event(type, object, at: at)) { return status }
        return nil
    }

    @Test(arguments: [true, false]) func aSubscriptionIsReadInBothGenerationsOfTheAPI(isNew: Bool) async throws {
        let cases: [(String, String, String?)] = [
            ("active", "", "active price_1 until 1900 renews [in_1]"),
            ("trialing", "", "active price_1 until 1900 renews [in_1]"),
            ("active", #","cancel_at_period_end":true,"cancel_at":1900"#, "active price_1 until 1900 [in_1]"),
            ("active", #","cancel_at":1500"#, "active price_1 until 1500 [in_1]"),
            ("active", #","cancel_at":9500"#, "active price_1 until 1900 [in_1]"),
            ("past_due", "", "retry price_1 until 900 renews [in_1]"),
            ("canceled", #","ended_at":950"#, "expired price_1 until 950 [in_1]"),
            ("canceled", "", "expired price_1 until 1000 [in_1]"),
            ("unpaid", "", "expired price_1 until 900 [in_1]"),
            ("incomplete_expired", "", "expired price_1 until 900 [in_1]"),
            ("a word of tomorrow", "", "expired price_1 until 900 [in_1]"),
            ("paused", "", "paused price_1 until 900 [in_1]"),
            ("incomplete", "", nil),
        ]
        for (word, more, expected) in cases {
            let object = Samples.subscription(word, isNew: isNew, more: more)
            let found = try await effects(Samples.event("customer.subscription.updated", object))
            #expect(shown(found) == [expected.map { "sub_1 " + $0 }].compactMap { $0 }, "\(word)\(more)")
        }
        let late = try await status(Samples.subscription("past_due", isNew: isNew))
        let paid = try await status(Samples.subscription("active", isNew: isNew))
        #expect(late?.paidUntil == WallTime(seconds: 900) && paid?.paidUntil == WallTime(seconds: 1_900))
        #expect(late?.paidFrom == WallTime(seconds: 900) && paid?.paidFrom == late?.paidFrom)
        let named = try await effects(
            Samples.event("customer.subscription.created", Samples.subscription("active", isNew: isNew, account: bob)))
        #expect(shown(named) == ["sub_1 of bob", "sub_1 active price_1 until 1900 renews [in_1]"])
    }

    /// Stripe's times have whole seconds. Within one the words come in this order; between seconds the time alone counts.
    @Test func ofTwoStatusesInOneSecondTheOneNearerToTheEndIsLater() async throws {
        var times: [WallTime] = []
        for word in ["trialing", "active", "past_due", "paused", "unpaid", "canceled"] {
            times.append(try #require(try await status(Samples.subscription(word))).at)
        }
        times.append(try #require(try await status(Samples.subscription("trialing"), at: 1_001)).at)
        #expect(times == times.sorted() && Set(times).count == times.count)
        #expect(times.allSatisfy { $0.seconds == 1_000 || $0 == times.last })
        #expect(
            try await status(Samples.subscription("active", start: 5))?.periodStart == status(Samples.subscription("active"))?.periodStart)
    }

    @Test(arguments: [true, false]) func aPaidInvoiceCountsBeforeAllThatItsPeriodsSubscriptionSays(isNew: Bool) async throws {
        let found = try await effects(Samples.event("invoice.paid", Samples.invoice(isNew: isNew), at: 5_000))
        #expect(shown(found) == ["sub_1 active price_1 until 1900 renews [\(isNew ? "in_1" : "in_1 ch_1 pi_1")]"])
        let canceled = try await status(Samples.subscription("canceled", isNew: isNew), at: 900)
        guard case .status(_, let paid)? = found.first else { return }
        #expect(try #require(canceled).at > paid.at && paid.paidUntil == WallTime(seconds: 1_900))
        #expect(canceled?.paidFrom == paid.paidFrom, "payments of one period")
        // Parts of a period after a change, and invoices that a person wrote.
        for reason in ["subscription_update", "manual"] {
            #expect(try await effects(Samples.event("invoice.paid", Samples.invoice(isNew: isNew, reason: reason))) == [])
        }
        #expect(try await effects(Samples.event("invoice.payment_failed", Samples.invoice(isNew: isNew))) == [])
    }

    @Test func aSessionNamesTheOwner() async throws {
        func owner(_ session: String) async throws -> [String] {
            shown(try await effects(Samples.event("checkout.session.completed", session)))
        }
        #expect(try await owner(Samples.session()) == ["sub_1 of alice"])
        #expect(try await owner(Samples.session(account: nil)) == [])
        #expect(try await owner(Samples.session(account: "cart 7")) == [])
        let metadata = Samples.session(account: nil).replacing("\"metadata\":{}", with: "\"metadata\":{\"account_id\":\"\(bob.text)\"}")
        #expect(try await owner(metadata) == ["sub_1 of bob"])
        #expect(try await owner(Samples.session("setup")) == [])
    }

    @Test func aPaymentByCheckoutIsReadWithItsLineItems() async throws {
        let path = "/v1/checkout/sessions/cs_1?expand%5B%5D=line_items"
        let store = ScriptedStore([path: Samples.session("payment", more: Samples.lineItems)])
        for type in ["checkout.session.completed", "checkout.session.async_payment_succeeded"] {
            let found = try await effects(Samples.event(type, Samples.session("payment")), store)
            #expect(shown(found) == ["pi_1 of alice", "pi_1 active price_2 until ever [pi_1 cs_1]"])
        }
        #expect(store.paths == [path, path])
        // A bank transfer that is on its way: its own event comes later.
        let unpaid = try await effects(Samples.event("checkout.session.completed", Samples.session("payment", payment: "unpaid")), store)
        #expect(shown(unpaid) == ["pi_1 of alice"] && store.asked.count == 2)
    }

    @Test func refundsAndDisputesEndThePaymentUnderAllItsNames() async throws {
        let path = "/v1/invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=pi_1"
        let store = ScriptedStore([path: #"{"object":"list","data":[{"id":"inpay_1","invoice":"in_1"}]}"#])
        let cases: [(String, String, String?)] = [
            ("charge.refunded", Samples.charge(), "refunded"), ("charge.refunded", Samples.charge(invoice: nil), "refunded"),
            ("charge.refunded", Samples.charge(refunded: false), nil),
            ("charge.dispute.created", Samples.dispute("needs_response"), "revoked"),
            ("charge.dispute.created", Samples.dispute("warning_needs_response"), nil),
            ("charge.dispute.funds_withdrawn", Samples.dispute("needs_response"), "revoked"),
            ("charge.dispute.closed", Samples.dispute("won"), "back"), ("charge.dispute.closed", Samples.dispute("lost"), "revoked"),
            ("charge.dispute.closed", Samples.dispute("warning_closed"), "back"),
            ("charge.dispute.closed", Samples.dispute("prevented"), nil),
            ("charge.dispute.funds_reinstated", Samples.dispute("won"), "back"),
            ("refund.failed", #"{"id":"re_1","charge":"ch_1","payment_intent":"pi_1"}"#, "back"),
        ]
        for (type, object, word) in cases {
            let found = try await effects(Samples.event(type, object), store)
            #expect(shown(found) == (word.map { word in ["ch_1", "pi_1", "in_1"].map { "\($0) \(word)" } } ?? []), "\(type) \(object)")
        }
        // Only of those that take effect, and that do not name the invoice.
        #expect(store.asked.count == 8 && Set(store.paths) == [path])
        #expect(store.asked[0].fields == ["Authorization: Bearer sk_test", "Stripe-Version: 2025-03-31.basil"])
    }

    @Test func eventsAreOfAConfiguredEnvironmentAndWhole() async throws {
        let store = StripeStorefront(plan, ScriptedStore([:]).requests)
        func fault(_ body: [UInt8]) async -> String {
            await PurchasesTests.fault { () async throws(StorefrontFault) in try await store.replay(body, now: WallTime(seconds: 0)) }
        }
        #expect(await fault(Samples.event("customer.subscription.updated", Samples.subscription("active"), isLive: false)) == "environment")
        for body in [[], Array("{}".utf8)] { #expect(await fault(body) == "malformed: event") }
        #expect(await fault(Samples.event("customer.subscription.deleted", "{}")) == "malformed: object")
        #expect(await fault(Samples.event("customer.subscription.deleted", #"{"id":"sub_1"}"#)) == "malformed: subscription")
        let kept = try await store.replay(Samples.event("product.updated", "{}"), now: WallTime(seconds: 0))
        #expect(
            kept
                == StoreEvent(
                    .stripe, id: "evt_1", type: "product.updated", environment: .production, at: WallTime(seconds: 1_000), effects: []))
    }
}
