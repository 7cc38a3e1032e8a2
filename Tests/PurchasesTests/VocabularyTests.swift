import Accounts
import Purchases
import Testing

@Suite struct VocabularyTests {
    /// They are stored.
    @Test func theWordsOfPurchasesNeverChange() {
        #expect(
            PurchaseState.allCases.map(\.rawValue) == [
                "active", "grace", "retry", "paused", "expired", "refunded", "revoked", "superseded",
            ])
        #expect(PurchaseSource.allCases.map(\.rawValue) == ["apple", "google", "stripe", "revenuecat"])
    }
}
