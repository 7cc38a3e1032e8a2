import Accounts
import Testing
import Wire

@testable import Purchases

private typealias Samples = RevenueCatSamples

@Suite struct RevenueCatTests {
    private let store = RevenueCatStorefront(RevenueCatPlan(authorization: Array("Bearer secret".utf8), environments: [.production]))

    private func read(_ body: [UInt8]) async throws -> [PurchaseEffect] { try await store.replay(body, now: .beginning).effects }

    @Test func eachTypeHasItsEffect() async throws {
        let active = "t1 active premium:monthly until 1900"
        let cases: [(String, [String])] = [
            ("INITIAL_PURCHASE", ["\(active) renews [t2]"]), ("RENEWAL", ["\(active) renews [t2]"]),
            ("UNCANCELLATION", ["\(active) renews [t2]"]),
            ("SUBSCRIPTION_EXTENDED", ["\(active) renews [t2]"]), ("TEMPORARY_ENTITLEMENT_GRANT", ["\(active) [t2]"]),
            ("NON_RENEWING_PURCHASE", ["\(active) [t2]"]),
            ("NON_RENEWING_PURCHASE/without end", ["t1 active premium:monthly until ever [t2]"]),
            ("SUBSCRIPTION_PAUSED", ["\(active) [t2]"]), ("CANCELLATION/UNSUBSCRIBE", ["\(active) [t2]"]),
            ("CANCELLATION/CUSTOMER_SUPPORT", ["t2 refunded"]), ("CANCELLATION/BILLING_ERROR", []),
            ("CANCELLATION/without end", ["t2 revoked"]),
            ("BILLING_ISSUE", ["t1 retry premium:monthly until 1900 renews [t2]"]),
            ("BILLING_ISSUE/grace", ["t1 grace premium:monthly until 2500 renews [t2]"]),
            ("EXPIRATION/UNSUBSCRIBE", ["t1 expired premium:monthly until 1900 [t2]"]),
            ("EXPIRATION/SUBSCRIPTION_PAUSED", ["t1 paused premium:monthly until 1900 [t2]"]),
            ("REFUND_REVERSED", ["t2 back", "\(active) renews [t2]"]),
        ]
        for (name, expected) in cases {
            #expect(shown(try await read(Samples.sample(name))) == ["t1 of alice"] + expected, "\(name)")
        }
        for name in ["TEST", "PRODUCT_CHANGE", "INVOICE_ISSUANCE", "SUBSCRIBER_ALIAS", "A_TYPE_OF_TOMORROW"] {
            #expect(try await read(Samples.sample(name)) == [], "\(name)")
        }
    }

    @Test func statusesAreOrderedByPeriodAndThenByTime() async throws {
        func status(_ body: [UInt8]) async throws -> PurchaseStatus? {
            for case .status(_, let status) in try await read(body) { return status }
            return nil
        }
        let renewal = try #require(try await status(Samples.event("RENEWAL", at: 1_000, start: 990)))
        #expect(renewal.periodStart == WallTime(seconds: 990) && renewal.at == WallTime(seconds: 1_000))
        #expect(try await status(Samples.event("TEMPORARY_ENTITLEMENT_GRANT", at: 9_000, start: 9_000))?.periodStart == .beginning)
    }

    @Test func theFirstIDThatIsAUUIDIsTheAccount() async throws {
        func owner(_ body: [UInt8]) async throws -> [String] { shown(try await read(body)).filter { $0.contains(" of ") } }
        let anonymous = Samples.event("RENEWAL", user: "$RCAnonymousID:1")
        #expect(try await owner(anonymous) == [])
        let alias = anonymous.rawBytes.text.replacing("[\"$RCAnonymousID:1\"]", with: "[\"$RCAnonymousID:1\",\"\(bob.text.uppercased())\"]")
        #expect(try await owner(Array(alias.utf8)) == ["t1 of bob"])
        let original = alias.replacing("_user_id\":\"$RCAnonymousID:1\",\"aliases", with: "_user_id\":\"\(alice.text)\",\"aliases")
        #expect(try await owner(Array(original.utf8)) == ["t1 of alice"])
    }

    @Test func aTransferNamesAccounts() async throws {
        let cases: [([String], [String], [String])] = [
            ([alice.text], [bob.text], ["from alice to bob"]), (["$RCAnonymousID:1", alice.text], ["x", bob.text], ["from alice to bob"]),
            ([alice.text, bob.text], [bob.text], ["from alice to bob"]), ([bob.text], [bob.text], []), (["x"], [bob.text], []),
            ([alice.text], ["x"], []), ([], [], []),
        ]
        for (from, to, expected) in cases {
            #expect(shown(try await read(Samples.transfer(from: from, to: to))) == expected, "\(from) \(to)")
        }
    }

    @Test func webhooksAreAuthenticOfAConfiguredEnvironmentAndWhole() async throws {
        func fault(_ body: [UInt8], _ authorization: String? = "Bearer secret", _ store: RevenueCatStorefront? = nil) async -> String {
            await PurchasesTests.fault { () async throws(StorefrontFault) in
                try await (store ?? self.store).notification(body, now: .beginning) { "\($0)" == "authorization" ? authorization : nil }
            }
        }
        let renewal = Samples.event("RENEWAL")
        #expect(await fault(renewal) == "")
        for wrong in [nil, "", "Bearer secre", "Bearer secret ", "bearer secret", "secret"] {
            #expect(await fault(renewal, wrong) == "not authentic: authorization")
        }
        let open = RevenueCatStorefront(RevenueCatPlan(authorization: [], environments: [.production]))
        for nothing in [nil, ""] { #expect(await fault(renewal, nothing, open) == "not authentic: authorization") }
        let cases: [([UInt8], String)] = [
            (Samples.event("RENEWAL", environment: "SANDBOX"), "environment"), (Samples.event("TEST", environment: "SANDBOX"), ""),
            (Samples.event("RENEWAL", environment: "elsewhere"), "malformed: environment"), ([], "malformed: event"),
            (Samples.event("RENEWAL", end: nil), "malformed: status"),
            (Array(#"{"event":{"id":"1","type":"RENEWAL"}}"#.utf8), "malformed: event"),
            (
                Array(#"{"event":{"id":"1","type":"RENEWAL","event_timestamp_ms":1,"environment":"PRODUCTION"}}"#.utf8),
                "malformed: transaction"
            ),
        ]
        for (body, expected) in cases { #expect(await fault(body) == expected, "\(body.rawBytes.text)") }
        let proof = await PurchasesTests.fault { () async throws(StorefrontFault) in
            try await store.prove(.stripe(session: "cs_1"), now: .beginning)
        }
        #expect(proof == "malformed: evidence")
    }
}
