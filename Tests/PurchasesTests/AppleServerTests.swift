import Accounts
import Credentials
import Fetch
import Testing
import Wire

@testable import Purchases

private typealias World = AppleWorld

@Suite struct AppleServerTests {
    private static let key = try! SigningKey.generate(.ES256)
    private static let api = try! plan("KEY1", "issuer-1")

    private static func plan(_ keyID: String, _ issuerID: String, url: String? = nil) throws -> AppleServerPlan {
        let pem = try key.pem()
        return try AppleServerPlan(pem: pem.rawBytes, keyID: keyID, issuerID: issuerID, url: url)
    }

    private func purchase(_ original: String = "100", until: WallTime? = World.now, _ environment: StoreEnvironment = .sandbox) -> Purchase
    {
        let status = PurchaseStatus(
            .active, product: "gold", until: until, renews: true, transactions: [], periodStart: World.now, at: World.now)
        return Purchase(
            id: alice, key: PurchaseKey(.apple, environment, original), account: nil, status: status, state: .active, until: until,
            product: nil, tier: nil, createdAt: World.now, updatedAt: World.now)
    }

    private func answer(_ items: String) -> String { #"{"data":[{"lastTransactions":[]},{"lastTransactions":[\#(items)]}]}"# }

    private func item(_ status: Int, original: String = "100", _ changes: [String: String?] = [:]) -> String {
        let transaction = World.transaction(changes)
        return
            #"{"originalTransactionId":"\#(original)","status":\#(status),"signedTransactionInfo":"\#(transaction)","signedRenewalInfo":"\#(World.renewal())"}"#
    }

    private func newest(
        _ purchase: Purchase, _ store: ScriptedStore, _ plan: ApplePlan = World.plan(api: api)
    ) async throws(StorefrontFault)
        -> [PurchaseEffect]?
    { try await World.storefront(plan, store).newest(purchase, now: World.now) }

    @Test func theStoreTellsTheNewestState() async throws {
        let states: [(Int, [String])] = [
            (1, ["100 active gold until 1700001000 renews [101]", "101 back"]),
            (2, ["100 expired gold until 1700001000 renews [101]", "101 back"]),
            (3, ["100 retry gold until 1700001000 renews [101]", "101 back"]),
            (4, ["100 grace gold until 1700001000 renews [101]", "101 back"]),
        ]
        for (status, expected) in states {
            let store = ScriptedStore([
                Self.path: answer(item(status) + "," + item(1, original: "200", ["originalTransactionId": "\"200\""]))
            ])
            #expect(shown(try await newest(purchase(), store) ?? []) == expected)
        }
        let revoked = ScriptedStore([Self.path: answer(item(5, ["revocationDate": World.at(-5)]))])
        #expect(shown(try await newest(purchase(), revoked) ?? []) == ["100 active gold until 1700001000 renews [101]", "101 refunded"])
        let once = World.transaction(["expiresDate": nil, "type": "\"Non-Consumable\""])
        let single = ScriptedStore(["/inApps/v1/transactions/100": #"{"signedTransactionInfo":"\#(once)"}"#])
        #expect(shown(try await newest(purchase(until: nil), single) ?? []) == ["100 active gold until ever [101]", "101 back"])
    }

    private static let path = "/inApps/v1/subscriptions/100"

    @Test func eachAppIsAskedForWithATokenOfItsOwn() async throws {
        let store = ScriptedStore([:])
        #expect(try await newest(purchase(), store) == [])
        let strict = ScriptedStore { _, _ in EndedTransfer(status: 400) }
        #expect(try await World.storefront(World.plan(api: Self.api), strict).probe(now: World.now))
        let production = purchase("100", until: World.now, .production)
        #expect(try await newest(production, store) == nil)
        #expect(try await newest(purchase("1/../2"), store) == [])
        #expect(try await newest(purchase(), store, World.plan()) == nil)
        #expect(store.asked.map(\.url) == Array(repeating: "https://api.storekit-sandbox.apple.com" + Self.path, count: 2))
        for (transfer, bundle) in zip(store.asked, ["test.app", "test.other"]) {
            let token = Array(transfer.fields[0].dropFirst("Authorization: Bearer ".count).utf8)
            let header = String(decoding: Base64URL.decode(Array(token.prefix { $0 != 0x2E }).rawBytes) ?? [], as: UTF8.self)
            #expect(header == #"{"alg":"ES256","typ":"JWT","kid":"KEY1"}"#)
            let claims = UnverifiedClaims(token.rawBytes, userClaim: "bid")
            #expect(claims?.user == bundle && claims?.issuer == "issuer-1" && claims?.audiences == ["appstoreconnect-v1"])
        }
        let other = ScriptedStore(["/a/inApps/v1/subscriptions/100": answer(item(1))])
        let mocked = try Self.plan("K", "i", url: "https://mock.test/a")
        #expect(try await newest(purchase(), other, World.plan(api: mocked))?.count == 2)
    }

    @Test func aFailureIsNotAnAnswer() async {
        let retry = "\((World.now.seconds + 120) * 1_000)"
        let cases: [(EndedTransfer, String)] = [
            (EndedTransfer(status: 429, retryAfter: retry), "unavailable 3600: the answer has the status 429"),
            (EndedTransfer(status: 429, retryAfter: "7"), "unavailable 7: the answer has the status 429"),
            (EndedTransfer(status: 503), "unavailable 5: the answer has the status 503"),
            (EndedTransfer(failure: "timeout"), "unavailable 5: timeout"),
            (EndedTransfer(status: 401), "unavailable 60: the App Store refuses the API key, check api-key-file, key-id and issuer-id"),
            (EndedTransfer(status: 403), "unavailable 60: the API answers with the status 403"),
            (.ok("[]"), "unavailable 60: the API answers with the status 200"),
            (.ok(answer(item(1, ["bundleId": "\"foreign.app\""]))), "foreign: bundle"),
            (.ok(answer(#"{"originalTransactionId":"100","status":1}"#)), "malformed: answer"),
            (.ok(answer(item(1, ["environment": "\"Production\""]))), "environment"),
        ]
        for (ended, expected) in cases {
            let store = ScriptedStore { _, _ in ended }
            #expect(await fault { () async throws(StorefrontFault) in try await newest(purchase(), store) } == expected)
        }
    }
}
