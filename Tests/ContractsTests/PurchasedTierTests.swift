import Accounts
import MemoryStore
import Storage
import Stories
import Testing
import Wire

/// The tier of a purchase, where contracts answer it.
@Suite struct PurchasedTierTests {
    @Test func aPurchaseIsASubscriptionUntilItsEnd() async throws {
        let store = MemoryStore()
        let world = try ContractWorld(accounts: store)
        let registered = try await world.ask(
            "POST", "/api/v1/auth/register", [], Array(#"{"email":"ada@example.com","password":"securepassword123"}"#.utf8))
        let access = registered.member("access")
        let ada = try #require(try await store.account(email: EmailAddress("ada@example.com"))?.id)
        func ask(_ path: String) async throws -> String {
            try await world.ask("GET", path, ["Authorization: Bearer \(access)"], []).text
        }
        let now = WallTime(seconds: Int64(world.now))
        let (key, end) = (PurchaseKey(.stripe, .production, "s"), now.advanced(seconds: 3_600))
        let status = PurchaseStatus(
            .active, product: "p", until: end, renews: true, transactions: [], periodStart: now, at: now)
        let lines = Products([ProductLine(name: "pro", tier: "premium", products: [.stripe: ["p"]], graceSeconds: nil)])
        _ = try await store.claim(key, [.status(key, status)], by: ada, transfers: false, lines, AuditContext(now: now, address: nil))
        #expect(try await ask("/api/v1/auth/me").hasSuffix(#""is_premium":true,"has_active_subscription":true}"#))
        let until = ISO8601.text(end)
        let grants = #""grants":[{"source":"stripe","tier":"premium","until":"\#(until)"}]}"#
        #expect(try await ask("/web/api/account").hasSuffix(#""tier":"premium","is_premium":true,"tier_until":"\#(until)",\#(grants)"#))
        try await world.wait(seconds: 3_600)
        #expect(try await ask("/api/v1/auth/me").hasSuffix(#""is_premium":false,"has_active_subscription":false}"#))
        #expect(try await ask("/web/api/account").contains(#""tier":"free","is_premium":false,"grants""#))
    }
}

extension StoryAnswer {
    fileprivate var text: String { body.rawBytes.text }

    /// The first text of this name.
    fileprivate func member(_ name: String) -> String {
        text.firstRange(of: "\"\(name)\":\"").map { String(text[$0.upperBound...].prefix { $0 != "\"" }) } ?? ""
    }
}
