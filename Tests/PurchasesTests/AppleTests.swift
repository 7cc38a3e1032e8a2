import Accounts
import Credentials
import Testing
import Wire
import Workbench

@testable import Purchases

private typealias World = AppleWorld

@Suite struct AppleTests {
    private func notify(_ payload: String, _ plan: ApplePlan = World.plan()) async throws(StorefrontFault) -> StoreEvent {
        try await World.storefront(plan).notification(World.body(payload), now: World.now) { _ in nil }
    }

    private func prove(
        _ changes: [String: String?], _ plan: ApplePlan = World.plan(), now: WallTime = World.now
    ) async throws(StorefrontFault) -> ProvenPurchase {
        try await World.storefront(plan).prove(.apple(transaction: World.transaction(changes)), now: now)
    }

    @Test func aTransactionProvesItsPurchase() async throws {
        let token = "\"\(alice.text)\""
        let cases: [([String: String?], [String])] = [
            ([:], ["100 active gold until 1700001000 renews [101]"]),
            (["appAccountToken": token], ["100 active gold until 1700001000 renews [101]", "100 of alice"]),
            (["appAccountToken": "\"a user\""], ["100 active gold until 1700001000 renews [101]"]),
            (["expiresDate": World.at(0)], ["100 expired gold until 1700000000 [101]"]),
            (["expiresDate": nil, "type": "\"Non-Consumable\""], ["100 active gold until ever [101]"]),
            (["revocationDate": World.at(-20)], ["100 active gold until 1700001000 renews [101]", "101 refunded"]),
            (
                ["revocationDate": World.at(-20), "inAppOwnershipType": "\"FAMILY_SHARED\""],
                ["100 active gold until 1700001000 renews [101]", "101 revoked"]
            ),
            (["isUpgraded": "true"], ["100 active gold until 1700001000 renews [101]", "101 superseded"]),
            (["bundleId": "\"test.other\""], ["100 active gold until 1700001000 renews [101]"]),
        ]
        for (changes, expected) in cases {
            let proven = try await prove(changes)
            #expect(proven.key == PurchaseKey(.apple, .sandbox, "100") && shown(proven.effects) == expected)
        }
    }

    @Test func otherTransactionsProveNothing() async {
        let cases: [([String: String?], String)] = [
            (["bundleId": "\"foreign.app\""], "foreign: bundle"), (["bundleId": nil], "foreign: bundle"),
            (["environment": "\"Production\""], "environment"), (["environment": "\"Xcode\""], "environment"),
            (["environment": "\"LocalTesting\""], "environment"), (["environment": nil], "environment"),
            (["originalTransactionId": nil], "malformed: transaction"), (["transactionId": "1"], "malformed: transaction"),
            (["productId": "\"\""], "malformed: transaction"), (["purchaseDate": "1.5"], "malformed: transaction"),
            // An end that cannot be read is not a purchase without end.
            (["expiresDate": "\"soon\""], "malformed: transaction"), (["expiresDate": nil], "malformed: transaction"),
            (["expiresDate": "9e40", "type": "\"Non-Consumable\""], "malformed: transaction"),
            (["signedDate": World.at(301)], "not authentic: future"), (["signedDate": World.at(-90_000)], "not authentic: untrusted"),
        ]
        for (changes, expected) in cases {
            #expect(await fault { () async throws(StorefrontFault) in try await prove(changes) } == expected, "\(changes)")
        }
        let real = ApplePlan(bundleIDs: ["test.app"], environments: [.sandbox])
        #expect(await fault { () async throws(StorefrontFault) in try await prove([:], real) } == "not authentic: root")
        let store = World.storefront()
        for evidence in [PurchaseEvidence.apple(transaction: "a.b"), .stripe(session: "cs_1")] {
            #expect(
                await fault { () async throws(StorefrontFault) in try await store.prove(evidence, now: World.now) }.hasPrefix("malformed"))
        }
    }

    private static let effects: [AppleNotification.Effect: [String]] = [
        .active: ["100 active gold until 1700001000 renews [101]"], .grace: ["100 grace gold until 1700005000 renews [101]"],
        .retry: ["100 retry gold until 1700001000 renews [101]"], .expired: ["100 expired gold until 1700001000 renews [101]"],
        .stated: ["100 retry gold until 1700001000 renews [101]"],
        .refunded: ["100 active gold until 1700001000 renews [101]", "101 refunded"],
        .revoked: ["100 active gold until 1700001000 renews [101]", "101 revoked"],
        .reversed: ["100 retry gold until 1700001000 renews [101]", "101 back"], .none: [],
    ]

    @Test func everyTypeHasItsEffect() async throws {
        let renewal = World.renewal(["gracePeriodExpiresDate": World.at(5_000)])
        for row in AppleNotification.table {
            for subtype in row.subtypes {
                let payload = World.notification(row.type, subtype.isEmpty ? nil : subtype, renewal: renewal, status: 3)
                let event = try await notify(payload)
                #expect(event.type == (subtype.isEmpty ? row.type : "\(row.type)/\(subtype)") && event.id == "n1")
                #expect(event.environment == .sandbox && event.at == WallTime(seconds: World.now.seconds - 8))
                #expect(shown(event.effects) == Self.effects[row.effect], "\(event.type)")
            }
        }
        let types: [(String, String?, AppleNotification.Effect)] = [
            ("NEW_TYPE", nil, .none), ("DID_RENEW", "NEW", .active), ("DID_FAIL_TO_RENEW", "NEW", .retry), ("", nil, .none),
            ("did_renew", nil, .none), ("REFUND", "REFUND", .refunded),
        ]
        for (type, subtype, effect) in types { #expect(AppleNotification.effect(of: type, subtype) == effect) }
        #expect(try await notify(World.notification("NEW_TYPE", "X")).type == "NEW_TYPE/X")
    }

    @Test func theStateIsAsTheStoreStatesIt() async throws {
        let over = World.transaction(["expiresDate": World.at(-60)])
        let cases: [(Int?, [String: String?], String)] = [
            (1, [:], "active"), (2, [:], "expired"), (3, [:], "retry"), (4, ["gracePeriodExpiresDate": World.at(50)], "grace"),
            (5, [:], "expired"), (9, [:], "expired"), (nil, [:], "expired"), (nil, ["isInBillingRetryPeriod": "true"], "retry"),
            (nil, ["gracePeriodExpiresDate": World.at(50)], "grace"), (nil, ["gracePeriodExpiresDate": World.at(-20)], "expired"),
        ]
        for (status, renewal, expected) in cases {
            let event = try await notify(
                World.notification("DID_CHANGE_RENEWAL_STATUS", transaction: over, renewal: World.renewal(renewal), status: status))
            #expect(kinds(event.effects) == [expected])
        }
        let off = try await notify(
            World.notification("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewal: World.renewal(["autoRenewStatus": "0"])))
        #expect(shown(off.effects) == ["100 active gold until 1700001000 [101]"])
        let named = try await notify(World.notification("DID_RENEW", renewal: World.renewal(["appAccountToken": "\"\(bob.text)\""])))
        #expect(shown(named.effects) == ["100 active gold until 1700001000 renews [101]", "100 of bob"])
    }

    /// Transactions of one purchase may name several accounts, and are signed anew at any time.
    @Test func theAccountCountsFromItsTransactionOn() async throws {
        let owner = try await prove(["appAccountToken": "\"\(alice.text)\""]).effects.last
        let (bought, signed) = (WallTime(seconds: World.now.seconds - 100), WallTime(seconds: World.now.seconds - 10))
        #expect(owner == .owner(PurchaseKey(.apple, .sandbox, "100"), alice, at: bought, told: signed))
    }

    /// An app sends the transaction that it has, signed anew: it must not take back the grace that the store told of before.
    @Test func aClaimIsOlderThanWhatTheStoreSaidOfThePeriod() async throws {
        let over = ["expiresDate": World.at(-60), "signedDate": World.at(-1)]
        let claim = try await prove(over).effects
        let renewal = World.renewal(["gracePeriodExpiresDate": World.at(5_000), "signedDate": World.at(-50)])
        let grace = try await notify(
            World.notification(
                "DID_FAIL_TO_RENEW", "GRACE_PERIOD", transaction: World.transaction(["signedDate": World.at(-50)]), renewal: renewal))
        guard case .status(_, let claimed)? = claim.first, case .status(_, let told)? = grace.effects.first else {
            Issue.record("no status")
            return
        }
        #expect(claimed.periodStart == told.periodStart && claimed.at < told.at)
        #expect(claimed.paidUntil == claimed.until && told.paidUntil == WallTime(seconds: World.now.seconds + 1_000), "for `grace=`")
        #expect(told.at == WallTime(seconds: World.now.seconds - 50) && told.state == .grace)
    }

    @Test func onlyNotificationsOfTheAppAreTaken() async {
        let production = World.plan([.production, .sandbox], appID: 77)
        let foreign: [(String, ApplePlan, String)] = [
            (World.notification("TEST", data: ["bundleId": "\"foreign.app\""]), World.plan(), "foreign: bundle"),
            (World.notification("TEST", changes: ["data": nil]), World.plan(), "foreign: bundle"),
            (World.notification("TEST", data: ["environment": "\"Production\""]), World.plan(), "environment"),
            (World.notification("TEST", data: ["environment": "\"Xcode\""]), production, "environment"),
            (World.notification("TEST", data: ["environment": "\"Production\"", "appAppleId": "78"]), production, "foreign: app-apple-id"),
            (World.notification("TEST", data: ["environment": "\"Production\"", "appAppleId": nil]), production, "foreign: app-apple-id"),
            (World.notification("TEST", data: ["environment": "\"Production\""]), production, ""),
            (World.notification("TEST", data: ["appAppleId": "78"]), production, ""),
            (World.notification("TEST", changes: ["notificationUUID": nil]), World.plan(), "malformed: notification"),
            (World.notification("TEST", changes: ["notificationType": "1"]), World.plan(), "malformed: notification"),
            (World.notification("TEST", changes: ["signedDate": World.at(301)]), World.plan(), "not authentic: future"),
            (
                World.notification("DID_RENEW", transaction: World.transaction(["bundleId": "\"foreign.app\""])), World.plan(),
                "foreign: bundle"
            ),
            (
                World.notification("DID_RENEW", transaction: World.transaction(["environment": "\"Production\""])), production,
                "malformed: transaction"
            ),
            (
                World.notification("DID_RENEW", renewal: World.renewal(["originalTransactionId": "\"200\""])), World.plan(),
                "malformed: renewal"
            ),
            (World.notification("DID_RENEW", transaction: World.transaction() + "."), World.plan(), "malformed: jws"),
            (World.notification("DID_RENEW", transaction: nil), World.plan(), ""),
            (Self.about("summary", #"{"bundleId":"test.app","environment":"Sandbox"}"#), World.plan(), ""),
            (Self.about("appData", #"{"bundleId":"test.app","environment":"Sandbox"}"#), World.plan(), ""),
            (Self.about("externalPurchaseToken", #"{"bundleId":"test.app","externalPurchaseId":"SANDBOX_1"}"#), World.plan(), ""),
            (Self.about("externalPurchaseToken", #"{"bundleId":"test.app","externalPurchaseId":"1"}"#), World.plan(), "environment"),
        ]
        for (payload, plan, expected) in foreign {
            #expect(
                await fault { () async throws(StorefrontFault) in try await notify(payload, plan) } == expected, "\(payload.prefix(300))")
        }
        for body in ["", "{}", "[]", #"{"signedPayload":1}"#, #"{"signedPayload":"a.b.c"}"#] {
            let store = World.storefront()
            #expect(
                await fault { () async throws(StorefrontFault) in
                    try await store.notification(Array(body.utf8), now: World.now) { _ in nil }
                }.hasPrefix("malformed"))
        }
    }

    private static func about(_ name: String, _ value: String) -> String {
        World.notification("RENEWAL_EXTENSION", changes: ["data": nil, name: value])
    }

    @Test func aKeptNotificationIsReadAgainWithoutItsSignature() async throws {
        let body = World.body(World.notification("DID_RENEW", transaction: World.transaction()))
        let later = WallTime(seconds: World.now.seconds + 40 * 365 * 86_400)
        let event = try await World.storefront().notification(body, now: World.now) { _ in nil }
        #expect(try await World.storefront().replay(body, now: later) == event)
        let real = AppleStorefront(ApplePlan(bundleIDs: ["test.app"], environments: [.sandbox]), ScriptedStore([:]).requests)
        #expect(try await real.replay(body, now: later) == event)
        let production = World.storefront(World.plan([.production]))
        #expect(await fault { () async throws(StorefrontFault) in try await production.replay(body, now: later) } == "environment")
    }

    /// The page for people has the rows of the code.
    @Test func thePageHasTheTable() throws {
        let rows = AppleNotification.table.map { row in
            let subtypes = row.subtypes.filter { !$0.isEmpty }.map { "`\($0)`" }
            let names = (row.subtypes.contains("") ? ["none"] : []) + subtypes
            return "| `\(row.type)` | \(names.joined(separator: ", ")) | \(row.effect.rawValue) |"
        }
        let page = try packageFile("docs/purchases-apple.md").split(separator: "\n").filter { $0.hasPrefix("| `") }
        #expect(page.map(String.init) == rows)
    }

    @Test func testPurchasesAreReadAsRealOnes() async throws {
        let end = WallTime(seconds: World.now.seconds + 500)
        let test = { (until: WallTime?, isRefunded: Bool) in
            AppleTestPurchase(
                account: alice, product: "gold", bundle: "test.app", appAppleID: nil, environment: .sandbox, expiresAt: until,
                isRefunded: isRefunded, now: World.now)
        }
        let store = World.storefront()
        let bought = try await store.prove(.apple(transaction: try test(end, false).transaction(World.signer)), now: World.now)
        #expect(kinds(bought.effects) == ["active", "owner"] && bought.key.original.count == 16)
        let back = try await store.prove(.apple(transaction: try test(nil, true).transaction(World.signer)), now: World.now)
        #expect(kinds(back.effects) == ["active", "owner", "ended: refunded"] && back.key == bought.key)
        for row in AppleNotification.table {
            for subtype in row.subtypes {
                let type = subtype.isEmpty ? row.type : "\(row.type)/\(subtype)"
                let body = try test(end, false).notification(type, id: bob, World.signer)
                let event = try await store.notification(Array(body.utf8), now: World.now) { _ in nil }
                #expect(event.type == type && event.id == bob.text && event.effects.isEmpty == (row.effect == .none))
                if case .status(let key, let status)? = event.effects.first {
                    #expect(key == bought.key && status.until == (row.effect == .expired || row.effect == .retry ? World.now : end))
                }
            }
        }
    }

    @Test func damagedPayloadsNeverTrap() async {
        var random = SplitMix64(seed: 11)
        let words = ["null", "1", "-1", "1e99", "\"\"", "{}", "[]", "true", "\"\\u0000\"", "9223372036854775807", "\"x\""]
        let store = World.storefront()
        var read = 0
        for _ in 0..<700 {
            var payload = World.notification("DID_RENEW", transaction: "T", renewal: "R", changes: ["subtype": "\"X\""])
            let inner = ["T", "R"].map { _ in
                var changes: [String: String?] = [:]
                let names = World.transactionMembers.keys.sorted() + ["gracePeriodExpiresDate", "revocationDate", "autoRenewStatus"]
                for _ in 0..<(random.next() % 3) {
                    changes[names[Int(random.next() % UInt64(names.count))]] = words[Int(random.next() % UInt64(words.count))]
                }
                return changes
            }
            payload = payload.replacing("\"T\"", with: "\"\(World.transaction(inner[0]))\"").replacing(
                "\"R\"", with: "\"\(World.renewal(inner[1]))\"")
            let damaged = World.body(payload)
            let fault = await fault { () async throws(StorefrontFault) in try await store.notification(damaged, now: World.now) { _ in nil }
            }
            if fault.isEmpty { read += 1 }
        }
        #expect(read > 100 && read < 650)
    }
}
