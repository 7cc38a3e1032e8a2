import Accounts
import Testing
import Wire

@testable import Purchases

/// A store's story of one purchase, told in any order and any number of times, ends in the state that its last event says.
@Suite struct StoreStoryTests {
    /// The newest status, by the registers' order.
    private func last(_ effects: [PurchaseEffect]) -> PurchaseStatus? {
        var newest: PurchaseStatus?
        for case .status(_, let status) in effects {
            guard let known = newest else {
                newest = status
                continue
            }
            if (known.periodStart, known.at) < (status.periodStart, status.at) { newest = status }
        }
        return newest
    }

    private func check(
        _ seed: UInt64, _ read: ([UInt8]) async throws -> [PurchaseEffect], _ story: (inout Damage) -> [[UInt8]]
    ) async throws {
        var random = Damage(seed: seed)
        for _ in 0..<150 {
            let events = story(&random)
            let expected = last(try await read(events[events.count - 1]))
            var told = events + (0..<random.below(6)).map { _ in events[random.below(events.count)] }
            for index in told.indices { told.swapAt(index, random.below(told.count)) }
            var effects: [PurchaseEffect] = []
            for event in told { effects += try await read(event) }
            if expected == nil || last(effects) != expected { Issue.record("\(told.map { $0.rawBytes.text })") }
        }
    }

    /// Each period begins, is paid or not, and changes; several things happen in one second, in the order in which Stripe does them.
    @Test func storiesOfStripe() async throws {
        let plan = StripePlan(secrets: [], apiKey: nil, apiURL: "", environments: [.production])
        let store = StripeStorefront(plan, ScriptedStore([:]).requests)
        try await check(21, { try await store.replay($0, now: .beginning).effects }) { random in
            var (events, time) = ([[UInt8]](), 1_000)
            func tell(_ word: String, _ start: Int, _ type: String = "updated", more: String = "") {
                let object = StripeSamples.subscription(word, isNew: time % 2 == 0, start: start, end: start + 100, more: more)
                events.append(StripeSamples.event("customer.subscription.\(type)", object, at: time, id: "evt_\(events.count)"))
            }
            for period in 0...random.below(4) {
                let start = 1_000 + 100 * period
                time = start
                tell(period == 0 ? "trialing" : "active", start, period == 0 ? "created" : "updated")
                if random.below(2) == 0 {
                    events.append(StripeSamples.event("invoice.paid", StripeSamples.invoice(start: start), at: time + 50))
                }
                if random.below(2) == 0 {
                    time += random.below(2)
                    tell("past_due", start)
                    time += 1 + random.below(5)
                    tell("active", start)
                }
                time += random.below(3)
                if random.below(3) == 0 { tell("paused", start, "paused") } else if random.below(2) == 0 { tell("unpaid", start) }
            }
            time += random.below(2)
            tell("canceled", 1_000, "deleted")
            // It ends anywhere, but not with an invoice, which speaks of its period's begin.
            var told = Array(events.prefix(1 + random.below(events.count)))
            while told.count > 1, String(decoding: told[told.count - 1], as: UTF8.self).contains("invoice.paid") { told.removeLast() }
            return told
        }
    }

    @Test func storiesOfRevenueCat() async throws {
        let store = RevenueCatStorefront(RevenueCatPlan(authorization: [], environments: [.production]))
        try await check(22, { try await store.replay($0, now: .beginning).effects }) { random in
            var events = [RevenueCatSamples.event("TEMPORARY_ENTITLEMENT_GRANT", at: 2_000, start: 2_000)]
            for period in 0...random.below(4) {
                let start = 1_000 + 100 * period
                events.append(
                    RevenueCatSamples.event(period == 0 ? "INITIAL_PURCHASE" : "RENEWAL", at: start + 1, start: start, end: start + 100))
                // A cancellation may be reported after the next period has begun.
                let late = start + 2 + random.below(200)
                for type in ["CANCELLATION", "UNCANCELLATION", "BILLING_ISSUE"] where random.below(2) == 0 {
                    events.append(RevenueCatSamples.event(type, at: late, start: start, end: start + 100))
                }
            }
            events.append(RevenueCatSamples.event("EXPIRATION", at: 3_000, start: 5_000, end: 5_100))
            return events
        }
    }
}
