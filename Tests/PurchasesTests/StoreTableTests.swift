import Accounts
import Fetch
import Testing
import Wire
import Workbench

@testable import Purchases

/// The tables of the documentation say what the code does.
@Suite struct StoreTableTests {
    /// The rows of a page whose first cell is code: that cell and the second one.
    private func rows(_ page: String) throws -> [(name: String, effects: Set<String>)] {
        try packageFile("docs/\(page)").split(separator: "\n").filter { $0.hasPrefix("| `") }.map { line in
            let cells = line.split(separator: "|").map { $0.trimmed }
            let effects = cells[1] == "none" ? [] : cells[1].split(separator: ",").map { $0.trimmed }
            return (cells[0].filter { $0 != "`" }, Set(effects))
        }
    }

    @Test func stripesTableIsTheCodes() async throws {
        let path = "/v1/checkout/sessions/cs_1?expand%5B%5D=line_items"
        let store = ScriptedStore { transfer, _ in
            .ok(transfer.url.hasSuffix(path) ? StripeSamples.session("payment", more: StripeSamples.lineItems) : "{}")
        }
        let plan = StripePlan(secrets: [], apiKey: "sk", apiURL: "https://stripe.test", environments: [.production])
        let rows = try rows("purchases-stripe.md")
        for (name, effects) in rows {
            let isType = name.contains(".")
            let body =
                isType
                ? StripeSamples.sample(name) : StripeSamples.event("customer.subscription.updated", StripeSamples.subscription(name))
            let event = try await StripeStorefront(plan, store.requests).replay(body, now: .beginning)
            #expect(kinds(event.effects) == effects, "\(name)")
        }
        #expect(Set(rows.map(\.name).filter { $0.contains(".") }) == Set(StripeEventType.allCases.map(\.rawValue)))
    }

    @Test func revenueCatsTableIsTheCodes() async throws {
        let store = RevenueCatStorefront(RevenueCatPlan(authorization: [], environments: [.production]))
        let rows = try rows("purchases-revenuecat.md")
        for (name, effects) in rows {
            let event = try await store.replay(RevenueCatSamples.sample(name), now: .beginning)
            #expect(kinds(event.effects) == effects, "\(name)")
        }
        #expect(Set(rows.map(\.name)).isSuperset(of: RevenueCatEventType.allCases.map(\.rawValue)))
    }

    @Test func googlesTableIsTheCodes() async throws {
        let store = GoogleWorld.store([
            GoogleWorld.subscriptionPath: GoogleWorld.subscription("ACTIVE"), GoogleWorld.productPath: GoogleWorld.product(),
        ])
        let front = GoogleStorefront(try GoogleWorld.plan(), store.requests) { _ in }
        var samples = ["TEST": #""testNotification":{}"#]
        for (number, name) in GoogleNotification.subscriptionTypes { samples["SUBSCRIPTION_" + name] = GoogleWorld.changed(Int(number)) }
        for (number, name) in GoogleNotification.productTypes { samples["ONE_TIME_PRODUCT_" + name] = GoogleWorld.bought(Int(number)) }
        samples["VOIDED_PURCHASE"] = GoogleWorld.voided(refund: 1)
        samples["VOIDED_PURCHASE/PARTIAL"] = GoogleWorld.voided(refund: 2)
        let rows = try rows("purchases-google.md")
        for (name, effects) in rows {
            if let sample = samples.removeValue(forKey: name) {
                let event = try await front.replay(GoogleWorld.push(sample), now: .beginning)
                #expect(kinds(event.effects) == effects && event.type == name, "\(name)")
            } else {
                let payload = try #require(GoogleWorld.subscription(name).withRawBytes { JSONTree($0) })
                #expect(kinds(try GooglePurchase(subscription: payload, "tok", at: .beginning).effects) == effects, "\(name)")
            }
        }
        #expect(samples.isEmpty)
    }
}

extension StringProtocol {
    fileprivate var trimmed: String { String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
}
