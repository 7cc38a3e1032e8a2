import Accounts
import MemoryStore
import Synchronization
import Testing
import Wire

/// Claims and notifications, over stores of apps that believe what they are sent.
@Suite struct PurchaseTests {
    private let office: AccountsFixture
    private let apple = TrustingStorefront(.apple)
    private let stripe = TrustingStorefront(.stripe)
    private let reports = Reports()
    private static let order = TierOrder(["free", "premium"])
    private let ada: UUID
    private let bob: UUID

    private final class Reports: Sendable {
        private let all = Mutex<[PurchaseReport]>([])
        func add(_ report: PurchaseReport) { all.withLock { $0.append(report) } }
        /// But those of fences.
        var taken: [PurchaseReport] {
            all.withLock { all in
                defer { all = [] }
                return all.filter { if case .fence = $0 { false } else { true } }
            }
        }
    }

    init() async throws {
        office = try AccountsFixture()
        ada = try await office.signUp("ada@x.org").account.id
        bob = try await office.signUp("bob@x.org").account.id
    }

    private func purchases(
        _ lines: [String] = ["monthly"], transfers: Bool = false, fence: @escaping @Sendable () async -> Bool = { true }
    ) -> Purchases {
        let products = lines.map {
            ProductLine(name: "\($0)-line", tier: "premium", products: [.apple: [$0], .stripe: [$0]], graceSeconds: nil)
        }
        return Purchases(
            context: office.context, mint: office.mint, stores: Stores([apple, stripe], Products(products)),
            transfers: transfers,
            limiter: office.limiter, fence: fence, report: { [reports] in reports.add($0) })
    }

    private func claim(_ text: String, by account: UUID, _ purchases: Purchases) async -> String {
        do throws(AccountError<PurchaseRefusal>) {
            let claimed = try await purchases.claim(.apple(transaction: text), by: account, caller: office.caller)
            let tier = claimed.account.entitlement.tier(at: office.clock.now, Self.order) ?? "free"
            return "\(claimed.purchase.state) \(tier) \(claimed.isEverywhere)"
        } catch {
            return "\(error)"
        }
    }

    private func refused(_ refusal: PurchaseRefusal) -> String { "\(AccountError<PurchaseRefusal>.refused(refusal))" }

    @Test func aClaimHasOneAnswerHoweverOftenItIsMade() async {
        let (strict, open) = (purchases(), purchases(transfers: true) { false })
        let cases: [(text: String, account: UUID, by: Purchases, answer: String, report: PurchaseReport)] = [
            ("o-1 monthly active 60", ada, strict, "active premium true", .claim(.apple, .bound)),
            ("o-1 monthly active 60", ada, strict, "active premium true", .claim(.apple, .bound)),
            ("o-1 monthly active 60", bob, strict, refused(.ofOtherAccount), .claim(.apple, .otherAccount)),
            ("o-1 monthly active 60", bob, open, "active premium false", .claim(.apple, .bound)),
            ("o-1 monthly expired", bob, strict, "expired free true", .claim(.apple, .bound)),
            ("o-2 yearly active 60", ada, strict, refused(.productUnknown("yearly")), .claim(.apple, .unknownProduct, reason: "yearly")),
            (
                "forged", ada, strict, refused(.store(.notAuthentic(reason: "signature"))),
                .claim(.apple, .invalid, reason: "signature")
            ),
            ("sandbox", ada, strict, refused(.store(.environmentRefused)), .claim(.apple, .environment, reason: "environment")),
            (
                "away", ada, strict, refused(.store(.unavailable(reason: "timeout", retryAfterSeconds: 7))),
                .claim(.apple, .unavailable, reason: "timeout")
            ),
        ]
        for (text, account, by, answer, report) in cases {
            // The later word of a store counts.
            office.clock.advance(seconds: 1)
            #expect(await claim(text, by: account, by) == answer && reports.taken == [report], "\(text)")
        }
        office.store.fail([.unavailable("away")])
        #expect(await claim("o-1 monthly active 60", by: ada, strict).contains("unavailable"))
    }

    /// Also where no word of the store has come.
    @Test func aPurchaseThatHasEndedIsReadAsExpired() async throws {
        _ = await claim("o-1 monthly active 60", by: ada, purchases())
        let administration = PurchaseAdministration(context: office.context, stores: { .none }, actor: .operator)
        for (seconds, state) in [(Int64(0), PurchaseState.active), (59, .active), (1, .expired)] {
            office.clock.advance(seconds: seconds)
            let held = try #require(try await purchases().held(by: ada)?.purchases.first)
            let shown = try await administration.purchase(held.id)
            #expect(held.state == state && shown == held)
            for asked in PurchaseState.allCases {
                #expect(try await administration.purchases(of: nil, asked) == (asked == state ? [held] : []), "\(seconds) \(asked)")
            }
        }
    }

    /// The purchase of a product without a line is kept, and gives its tier once a line names it.
    @Test func aLateProductLineGivesItsTier() async throws {
        _ = await claim("o-2 yearly active 60", by: ada, purchases())
        #expect(try await purchases().adoptProducts(by: .operator) == 0)
        #expect(try await purchases(["monthly", "yearly"]).adoptProducts(by: .operator) == 1)
        let held = try #require(try await purchases().held(by: ada))
        #expect(
            held.purchases.map(\.product) == ["yearly-line"] && held.account.entitlement.tier(at: office.clock.now, Self.order) == "premium"
        )
        #expect(try await purchases().held(by: UUID(high: 1, low: 1)) == nil)
    }

    /// Only what proves to be made up counts, once it is read, and against its address alone.
    @Test func aForgerFillsTheBucketOfItsAddress() async throws {
        let (purchases, limiter, burst) = (purchases(), office.limiter, StrictLimiter.rates[.addressPurchases].burst)
        /// With a signature that is forged if the bucket is full while it is read.
        func notify(_ text: String, from address: String = "192.0.2.7") async -> String {
            let caller = Caller(address: IPAddress(parsing: address), device: nil)
            do throws(AccountError<StorefrontFault>) {
                let recorded = try await purchases.notify(.apple, Array(text.utf8), caller: caller) { _ in
                    limiter.counted(.addressPurchases) < burst ? nil : "forged"
                }
                return "\(recorded.verdict)"
            } catch {
                return "\(error)"
            }
        }
        for text in ["o-1 monthly active", "away", "sandbox"] {
            _ = await claim(text, by: ada, purchases)
            _ = await notify(text)
        }
        #expect(limiter.counted(.addressPurchases) == 0)
        for _ in 1..<burst { #expect(await notify("forged").contains("signature")) }
        #expect(await notify("TEST") == "kept")
        #expect(await claim("forged", by: ada, purchases).contains("signature"))
        #expect(await notify("TEST").contains("tooManyAttempts"))
        #expect(await claim("o-1 monthly active", by: bob, purchases).contains("tooManyAttempts"))
        #expect(!(await notify("TEST", from: "192.0.2.8")).contains("tooManyAttempts"))
    }

    /// An account claims as many purchases as it likes, and each a few times more.
    @Test func aClaimWithoutNewsCountsAgainstItsAccount() async {
        let (strict, open, burst) = (purchases(), purchases(transfers: true), StrictLimiter.rates[.accountPurchases].burst)
        for number in 0...burst { #expect(await claim("o-\(number) monthly active 60", by: ada, strict) == "active premium true") }
        office.clock.advance(seconds: 1)
        #expect(await claim("o-1 monthly grace 60", by: ada, strict) == "grace premium true")
        #expect(office.limiter.counted(.accountPurchases) == 0)
        // One that moves could move to and fro.
        #expect(await claim("o-0 monthly active 60", by: bob, open) == "active premium true")
        #expect(office.limiter.counted(.accountPurchases) == 1)
        for _ in 0...burst { #expect(await claim("o-2 monthly active 60", by: ada, strict) == "active premium true") }
        #expect(await claim("o-2 monthly active 60", by: ada, strict).contains("tooManyAttempts"))
        #expect(await claim("o-2 monthly active 60", by: bob, strict) == refused(.ofOtherAccount))
    }

    @Test func aNotificationIsKeptOnce() async throws {
        let purchases = purchases()
        func notify(_ text: String, signature: String? = nil) async -> String {
            do throws(AccountError<StorefrontFault>) {
                let recorded = try await purchases.notify(.stripe, Array(text.utf8), caller: office.caller) { _ in signature }
                return "\(recorded.verdict) \(recorded.isRepeated)"
            } catch {
                return "\(error)"
            }
        }
        _ = try await purchases.claim(.stripe(session: "s-1 monthly active 60"), by: ada, caller: office.caller)
        _ = reports.taken
        office.clock.advance(seconds: 1)
        #expect(await notify("s-1 monthly refunded") == "applied false")
        #expect(await notify("s-1 monthly refunded") == "applied true")
        #expect(await notify("TEST") == "kept false")
        #expect(await notify("TEST", signature: "forged").contains("signature"))
        #expect(await notify("foreign").contains("bundle"))
        office.store.fail([.unavailable("away")])
        #expect(await notify("s-1 monthly active").contains("unavailable"))
        #expect(
            reports.taken == [
                .event(.stripe, type: "CHANGE", .kept(.applied), lagMilliseconds: 0),
                .event(.stripe, type: "CHANGE", .repeated, lagMilliseconds: 0),
                .event(.stripe, type: "TEST", .kept(.kept), lagMilliseconds: 0),
                .refusedEvent(.stripe, .notAuthentic, reason: "signature"), .refusedEvent(.stripe, .foreign, reason: "bundle"),
                .refusedEvent(.stripe, .unavailable, reason: "accounts"),
            ])
        #expect(try await purchases.held(by: ada)?.account.entitlement.tier(at: office.clock.now, Self.order) == nil)
    }
}
