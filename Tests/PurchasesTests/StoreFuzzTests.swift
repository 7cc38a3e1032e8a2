import Accounts
import Testing
import Wire

@testable import Purchases

/// No notification and no answer of a store traps, whatever it holds, and none puts a text or a time into an effect that a database
/// could not store.
@Suite struct StoreFuzzTests {
    private static let words = [
        "null", "{}", "[]", "\"\"", "-1", "1e999", "99999999999999999999", "9223372036854775807", "253402300800", "true", "\\u0000",
        "\\ud800",
        "\"id\":", "\"at\":1,", "\"1970-01-01T00:00:00Z\"", "\"refunded\"", "\"a\":{", "}", ",", "\u{0}",
    ]

    private func isStorable(_ effects: [PurchaseEffect]) -> Bool {
        func isGood(_ text: String) -> Bool { (1...1_024).contains(text.utf8.count) && !text.utf8.contains(0) }
        func isGood(_ time: WallTime?) -> Bool { time.map { (0...253_402_300_800).contains($0.seconds) } ?? true }
        return effects.allSatisfy { effect in
            switch effect {
            case .status(let key, let status):
                isGood(key.original) && isGood(status.product) && status.transactions.allSatisfy { isGood($0) } && isGood(status.until)
                    && isGood(status.at) && isGood(status.periodStart) && isGood(status.paidUntil) && isGood(status.paidFrom)
            case .owner(let key, _, let at, let told): isGood(key.original) && isGood(at) && isGood(told)
            case .ended(let ended): isGood(ended.transaction) && isGood(ended.at)
            case .transfer(_, _, _, _, let at): isGood(at)
            }
        }
    }

    private func check(_ seed: UInt64, _ samples: [[UInt8]], _ read: ([UInt8]) async throws -> [PurchaseEffect]) async {
        var damage = Damage(seed: seed)
        var accepted = 0
        for _ in 0..<4_000 {
            let bytes = damage.damaged(samples[damage.below(samples.count)], Self.words)
            guard let effects = try? await read(bytes) else { continue }
            accepted += effects.isEmpty ? 0 : 1
            if !isStorable(effects) { Issue.record("\(bytes.rawBytes.text)") }
        }
        // The damage leaves some whole: else it would show nothing.
        #expect(accepted > 100)
    }

    @Test func damagedEventsOfStripe() async {
        let plan = StripePlan(secrets: [], apiKey: nil, apiURL: "", environments: [.production, .sandbox])
        let store = StripeStorefront(plan, ScriptedStore([:]).requests)
        let samples = StripeEventType.allCases.map { StripeSamples.sample($0.rawValue) }
        await check(1, samples) { try await store.replay($0, now: .beginning).effects }
        await check(2, [Array(StripeSamples.session("payment", more: StripeSamples.lineItems).utf8)]) { bytes in
            guard let payload = JSONTree(bytes.rawBytes) else { return [] }
            return try StripeSession(payload).effects(.production, at: WallTime(seconds: 1_000))
        }
    }

    @Test func damagedWebhooksOfRevenueCat() async {
        let store = RevenueCatStorefront(RevenueCatPlan(authorization: [], environments: [.production, .sandbox]))
        let samples = (RevenueCatEventType.allCases.map(\.rawValue) + ["BILLING_ISSUE/grace"]).map { RevenueCatSamples.sample($0) }
        await check(3, samples) { try await store.replay($0, now: .beginning).effects }
    }

    @Test func damagedAnswersAndPushesOfGoogle() async throws {
        let subscriptions = ["ACTIVE", "ON_HOLD", "EXPIRED"].map {
            Array(GoogleWorld.subscription($0, more: #","linkedPurchaseToken":"old""#).utf8)
        }
        await check(4, subscriptions) { bytes in
            guard let payload = JSONTree(bytes.rawBytes) else { return [] }
            return try GooglePurchase(subscription: payload, "tok", at: WallTime(seconds: 1_000)).effects
        }
        await check(5, [0, 1].map { Array(GoogleWorld.product(state: $0).utf8) }) { bytes in
            guard let payload = JSONTree(bytes.rawBytes) else { return [] }
            return try GooglePurchase(product: payload, "coin", "tok", at: WallTime(seconds: 1_000)).effects
        }
        let store = GoogleStorefront(try GoogleWorld.plan(), GoogleWorld.store([:]).requests) { _ in }
        let inner = [GoogleWorld.changed(4), GoogleWorld.bought(1), GoogleWorld.voided(refund: 1)]
        var damage = Damage(seed: 6)
        await check(7, [GoogleWorld.push(GoogleWorld.voided(refund: 1))]) { bytes in
            let text = damage.damaged(Array(inner[damage.below(3)].utf8), Self.words).rawBytes.text
            _ = try? await store.replay(GoogleWorld.push(text), now: .beginning)
            return try await store.replay(bytes, now: .beginning).effects
        }
    }
}
