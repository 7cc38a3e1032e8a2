import Accounts
import Credentials
import Purchases
import Wire

/// Apple as a test plays it: a root, and transactions, renewals and notifications with any members. Times are seconds from `now` on.
enum AppleWorld {
    static let now = WallTime(seconds: 1_700_000_000)
    static let authority = try! StoreTestAuthority.make(now: now)
    static let signer = try! authority.signer(now: now)
    static let signatures = try! StoreSignatures(roots: Array(authority.pem.utf8).rawBytes)

    static func plan(_ environments: Set<StoreEnvironment> = [.sandbox], appID: Int64? = nil, api: AppleServerPlan? = nil) -> ApplePlan {
        ApplePlan(
            bundleIDs: ["test.app", "test.other"], environments: environments, appAppleID: appID, signatures: signatures, api: api)
    }

    static func storefront(_ plan: ApplePlan = plan(), _ store: ScriptedStore = ScriptedStore([:])) -> AppleStorefront {
        AppleStorefront(plan, store.requests)
    }

    static func at(_ seconds: Int64) -> String { "\((now.seconds + seconds) * 1_000)" }

    /// JSON values by name, in the order of the names; `changes` replace them, and remove those that are nil.
    static func json(_ members: [String: String], _ changes: [String: String?]) -> String {
        let all = members.merging(changes.compactMapValues { $0 }) { $1 }.filter { changes[$0.key] != .some(nil) }
        return "{" + all.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    }

    static func sign(_ json: String) -> String { try! signer.sign(Array(json.utf8).rawBytes) }

    static let transactionMembers = [
        "originalTransactionId": "\"100\"", "transactionId": "\"101\"", "productId": "\"gold\"", "bundleId": "\"test.app\"",
        "environment": "\"Sandbox\"", "type": "\"Auto-Renewable Subscription\"", "inAppOwnershipType": "\"PURCHASED\"",
        "purchaseDate": at(-100), "expiresDate": at(1_000), "signedDate": at(-10),
    ]

    static func transaction(_ changes: [String: String?] = [:]) -> String { sign(json(transactionMembers, changes)) }

    static func renewal(_ changes: [String: String?] = [:]) -> String {
        sign(
            json(
                [
                    "originalTransactionId": "\"100\"", "environment": "\"Sandbox\"", "autoRenewStatus": "1",
                    "isInBillingRetryPeriod": "false", "signedDate": at(-9),
                ], changes))
    }

    /// The members of a notification's payload.
    static func notification(
        _ type: String, _ subtype: String? = nil, transaction: String? = transaction(), renewal: String? = renewal(), status: Int? = 1,
        data: [String: String?] = [:], changes: [String: String?] = [:]
    ) -> String {
        let about = json(
            ["bundleId": "\"test.app\"", "environment": "\"Sandbox\"", "appAppleId": "77"],
            [
                "signedTransactionInfo": transaction.map { "\"\($0)\"" }, "signedRenewalInfo": renewal.map { "\"\($0)\"" },
                "status": status.map { "\($0)" },
            ].merging(data) { $1 })
        return json(
            [
                "notificationType": "\"\(type)\"", "notificationUUID": "\"n1\"", "version": "\"2.0\"", "data": about, "signedDate": at(-8),
            ], ["subtype": subtype.map { "\"\($0)\"" }].merging(changes) { $1 })
    }

    /// The body with a signed payload.
    static func body(_ payload: String) -> [UInt8] { Array("{\"signedPayload\":\"\(sign(payload))\"}".utf8) }
}
