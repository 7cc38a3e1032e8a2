import Accounts
package import Credentials
import Wire

/// The key for Apple's App Store Server API.
package struct AppleServerPlan: Sendable {
    package var key: SigningKey
    package var keyID: String
    package var issuerID: String
    /// In place of Apple's.
    package var url: String?

    /// `pem` is the private key of App Store Connect (`.p8`).
    package init(pem: RawSpan, keyID: String, issuerID: String, url: String? = nil) throws(KeyFault) {
        key = try SigningKey(pem: pem, algorithm: .ES256)
        self.keyID = keyID
        self.issuerID = issuerID
        self.url = url
    }
}

/// The App Store Server API.
struct AppleServer: Sendable {
    /// Apple accepts tokens of at most 20 minutes.
    private static let tokenSeconds: Int64 = 300

    let plan: AppleServerPlan
    let requests: StoreRequests

    /// What the store answers of a subscription (StatusResponse) or of what was bought once (TransactionInfoResponse); nil where the app
    /// has no such transaction.
    func status(of purchase: Purchase, in bundle: String, now: WallTime) async throws(StorefrontFault) -> JSONTree? {
        let original = purchase.key.original
        guard original.utf8.allSatisfy({ $0.isASCIIDigit || $0.isASCIILetter }) else { return nil }
        let path = purchase.status.until == nil ? "transactions" : "subscriptions"
        let host = purchase.key.environment == .production ? "api.storekit.apple.com" : "api.storekit-sandbox.apple.com"
        let token = try token(for: bundle, now: now)
        let answer = try await requests.send(
            "\(plan.url ?? "https://\(host)")/inApps/v1/\(path)/\(original)", ["Authorization: Bearer \(token)"], until: requests.deadline)
        switch answer.status {
        case 200 where answer.payload.isObject: return answer.payload
        // 400 where it finds that no id can be like this one.
        case 400, 404: return nil
        case 401:
            throw .unavailable(
                reason: "the App Store refuses the API key, check api-key-file, key-id and issuer-id", retryAfterSeconds: 60,
                isKeyRefused: true)
        case let status: throw StorefrontFault(status: status)
        }
    }

    private func token(for bundle: String, now: WallTime) throws(StorefrontFault) -> String {
        do throws(KeyFault) {
            return try plan.key.assertion(
                by: plan.issuerID, for: "appstoreconnect-v1", keyID: plan.keyID, "bid", bundle, seconds: Self.tokenSeconds, now: now)
        } catch { throw .unavailable(reason: error.message, retryAfterSeconds: 60) }
    }
}
