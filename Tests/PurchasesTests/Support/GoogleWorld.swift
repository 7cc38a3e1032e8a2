import Accounts
import Fetch
import Synchronization
import Wire

@testable import Credentials
@testable import Purchases

/// Google as a test scripts it: keys, the token endpoint and the API behind one transport, and pushes that it signs.
struct GoogleWorld {
    static let serviceKey = try! SigningKey.generate(.RS256)
    static let pushKey = try! SigningKey.generate(.RS256)
    static let otherKey = try! SigningKey.generate(.RS256)
    static let audience = "https://api.test/purchases/notifications/google"
    static let pushEmail = "push@project.iam.gserviceaccount.com"

    static func jwks(_ keys: [SigningKey]) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.array("keys", keys) { json, key in _ = key.writePublicJWK(to: &json) }
        json.endObject()
        return json.finish().readable.text
    }

    static func plan(
        _ packages: [String] = ["test.app"], _ environments: Set<StoreEnvironment> = [.production], base: String = "https://google.test"
    ) throws -> GooglePlan {
        let file = try serviceFile()
        let account = try GoogleServiceAccount(file: file.rawBytes)
        return GooglePlan(
            packages: packages, environments: environments, account: account, audience: audience, pushEmail: pushEmail,
            keysURL: base + "/certs", tokenURL: base + "/token", apiURL: base)
    }

    static func serviceFile(type: String = "service_account", key: String? = nil) throws -> [UInt8] {
        let pem = try serviceKey.pem()
        let escaped = (key ?? pem.rawBytes.text).replacing("\n", with: "\\n")
        return Array(
            #"{"type":"\#(type)","client_email":"app@project.test","private_key_id":"key-1","private_key":"\#(escaped)"}"#.utf8)
    }

    static func bearer(
        _ key: SigningKey = pushKey, issuer: String = "https://accounts.google.com", audience: String = audience, email: String = pushEmail,
        isVerified: Bool = true, expires: Int64 = 1_600
    ) throws -> String {
        var claims = TokenClaims(issuer: issuer, audience: audience, subject: "1234", issuedAt: 1_000, expiresAt: expires)
        claims.email = email
        claims.isEmailVerified = isVerified
        return "Bearer " + (try key.issue(claims))
    }

    static func push(_ notification: String, package: String = "test.app", id: String = "m1") -> [UInt8] {
        let data = Array(#"{"version":"1.0","packageName":"\#(package)","eventTimeMillis":"999500",\#(notification)}"#.utf8)
        let message = Base64.encode(data.rawBytes, isPadded: true)
        return Array(#"{"message":{"data":"\#(message)","messageId":"\#(id)","attributes":{}},"subscription":"projects/p/s"}"#.utf8)
    }

    static func changed(_ number: Int, token: String = "tok") -> String {
        #""subscriptionNotification":{"version":"1.0","notificationType":\#(number),"purchaseToken":"\#(token)"}"#
    }

    static func bought(_ number: Int) -> String {
        #""oneTimeProductNotification":{"version":"1.0","notificationType":\#(number),"purchaseToken":"tok","sku":"coin"}"#
    }

    static func voided(refund: Int, order: String = #""orderId":"GPA.1..0","#) -> String {
        #""voidedPurchaseNotification":{\#(order)"purchaseToken":"tok","productType":1,"refundType":\#(refund)}"#
    }

    static func subscription(_ state: String, acknowledged: Bool = true, more: String = "") -> String {
        """
        {"kind":"androidpublisher#subscriptionPurchaseV2","startTime":"1970-01-01T00:15:00Z","subscriptionState":"SUBSCRIPTION_STATE_\(state)",
         "latestOrderId":"GPA.1..0","acknowledgementState":"ACKNOWLEDGEMENT_STATE_\(acknowledged ? "ACKNOWLEDGED" : "PENDING")"\(more),
         "lineItems":[{"productId":"extra","expiryTime":"1970-01-01T00:20:00Z"},{"productId":"pro","expiryTime":"1970-01-01T00:30:00.5Z",
         "latestSuccessfulOrderId":"GPA.1..1","autoRenewingPlan":{"autoRenewEnabled":true}}]}
        """
    }

    static func product(state: Int = 0, acknowledged: Bool = true, more: String = "") -> String {
        #"{"purchaseTimeMillis":"900000","purchaseState":\#(state),"acknowledgementState":\#(acknowledged ? 1 : 0),"orderId":"GPA.2"\#(more)}"#
    }

    static let root = "/androidpublisher/v3/applications/test.app/purchases"
    static let subscriptionPath = root + "/subscriptionsv2/tokens/tok"
    static let productPath = root + "/products/coin/tokens/tok"

    /// A store of answers by path; the token endpoint and the keys answer, too.
    static func store(_ bodies: [String: String], date: String? = nil) -> ScriptedStore {
        let keys = jwks([pushKey])
        return ScriptedStore { transfer, count in
            let path = "/" + transfer.url.split(separator: "/", maxSplits: 2)[2]
            switch path {
            case "/certs": return .ok(keys)
            case "/token": return .ok(#"{"access_token":"access-\#(count)","expires_in":3599,"token_type":"Bearer"}"#)
            case _: return bodies[path].map { .ok($0, date: date) } ?? EndedTransfer(status: 404, body: Array("{}".utf8))
            }
        }
    }

    static func purchase(
        _ token: String = "tok", until: WallTime? = WallTime(seconds: 1_800), account: UUID? = alice, tier: String? = "pro"
    ) -> Purchase {
        let status = PurchaseStatus(
            .active, product: "coin", until: until, renews: true, transactions: [], periodStart: .beginning, at: .beginning)
        return Purchase(
            id: alice, key: PurchaseKey(.google, .production, token), account: account, status: status, state: .active, until: until,
            product: "pro", tier: tier, createdAt: .beginning, updatedAt: .beginning)
    }
}

/// Reports of a storefront.
final class Reports: Sendable {
    private let texts = Mutex<[String]>([])
    var all: [String] { texts.withLock { $0 } }
    func add(_ text: String) { texts.withLock { $0.append(text) } }
}
