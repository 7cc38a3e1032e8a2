import Accounts
import Fetch
import Testing
import Wire
import Workbench

@testable import Purchases

/// The stores' requests over real connections.
@Suite struct StoreTransportTests {
    @Test func answersFailuresAndDatesAreReadFromTheNetwork() async throws {
        let subscription = Array(StripeSamples.subscription("past_due").utf8)
        let server = try TinyServer([
            "/v1/subscriptions/sub_1": TinyServer.answer(subscription, fields: "Date: Thu, 01 Jan 1970 00:16:42 GMT\r\n"),
            "/v1/subscriptions/sub_2": TinyServer.answer([], status: "503 Service Unavailable"),
            "/v1/subscriptions/sub_3": TinyServer.answer([], status: "429 Too Many Requests", fields: "Retry-After: 41\r\n"),
            "/v1/subscriptions/sub_4": TinyServer.answer([UInt8](repeating: 0x20, count: 1 << 20 | 1)),
        ])
        let transfers = TransferThread(name: "stores", TransferThread.Limits(underWay: 4, queued: 16, queuedMilliseconds: 1_000))
        defer {
            transfers.stop()
            server.stop()
        }
        let plan = StripePlan(secrets: [], apiKey: "sk_test", apiURL: server.url(""), environments: [.production])
        let store = StripeStorefront(plan, StoreRequests(transfers.send, wait: { _ in }))
        func newest(_ original: String) async throws(StorefrontFault) -> [PurchaseEffect]? {
            let status = PurchaseStatus(
                .active, product: "p", until: nil, renews: false, transactions: [], periodStart: .beginning, at: .beginning)
            let purchase = Purchase(
                id: alice, key: PurchaseKey(.stripe, .production, original), account: nil, status: status, state: .active, until: nil,
                product: nil, tier: nil, createdAt: .beginning, updatedAt: .beginning)
            return try await store.newest(purchase, now: WallTime(seconds: 5))
        }
        let effects = try #require(try await newest("sub_1"))
        #expect(shown(effects) == ["sub_1 retry price_1 until 900 renews [in_1]"])
        guard case .status(_, let status)? = effects.first else { return }
        #expect(status.at.seconds == 1_002)
        #expect(
            await fault { () async throws(StorefrontFault) in try await newest("sub_2") } == "unavailable 5: the answer has the status 503")
        #expect(server.count("/v1/subscriptions/sub_2") == 3)
        #expect(
            await fault { () async throws(StorefrontFault) in try await newest("sub_3") } == "unavailable 41: the answer has the status 429"
        )
        let large = await fault { () async throws(StorefrontFault) in try await newest("sub_4") }
        #expect(large == "unavailable 5: Maximum file size exceeded")
        #expect(try await newest("sub_5") == [])
    }
}
