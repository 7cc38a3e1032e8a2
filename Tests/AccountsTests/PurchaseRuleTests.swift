import Accounts
import Testing
import Wire

/// The outcome of a purchase by its facts.
@Suite struct PurchaseRuleTests {
    private func time(_ seconds: Int64) -> WallTime { WallTime(seconds: seconds) }

    private let products = Products([
        ProductLine(name: "pro", tier: "premium", products: [.apple: ["a"], .stripe: ["a"]], graceSeconds: nil),
        ProductLine(name: "kind", tier: "premium", products: [.apple: ["k"], .stripe: ["k"]], graceSeconds: 50),
    ])

    /// The state, the end and whether a tier is given, at second 10.
    @Test func theStateFollowsFromStatusEndsAndTime() {
        typealias Ends = [(String, PurchaseState?, Int64)]
        typealias Row = (
            PurchaseSource, String, PurchaseState, until: Int64?, paidUntil: Int64?, ends: Ends, PurchaseState, end: Int64?, gives: Bool
        )
        let rows: [Row] = [
            (.apple, "a", .active, 100, nil, [], .active, 100, true),
            (.apple, "a", .active, nil, nil, [], .active, nil, true),
            // The period is over and no word has come; the tier's grace counts from its end.
            (.apple, "a", .active, 10, nil, [], .expired, 10, true),
            (.apple, "a", .grace, 30, 5, [], .grace, 30, true),
            (.apple, "k", .grace, 30, 5, [], .grace, 55, true),
            (.apple, "k", .grace, 30, nil, [], .grace, 30, true),
            (.stripe, "a", .retry, 100, 8, [], .retry, 8, true),
            (.stripe, "k", .retry, 100, 8, [], .retry, 58, true),
            (.stripe, "a", .retry, nil, nil, [], .retry, 1, true),
            (.apple, "a", .paused, 100, nil, [], .paused, 100, false),
            (.apple, "a", .expired, 100, nil, [], .expired, 100, false),
            (.apple, "a", .refunded, 100, nil, [], .refunded, 100, false),
            (.apple, "?", .active, 100, nil, [], .active, 100, false),
            // A refund of this period's payment, and one that was reversed.
            (.apple, "a", .active, 100, nil, [("t2", .refunded, 5)], .refunded, 100, false),
            (.apple, "a", .active, 100, nil, [("t2", nil, 6)], .active, 100, true),
            (.apple, "a", .active, 100, nil, [("t2", .revoked, 6), ("o", .superseded, 5)], .revoked, 100, false),
            // Of an earlier period: at Apple the first payment has the id of the purchase.
            (.apple, "a", .active, 100, nil, [("t1", .refunded, 5), ("o", .refunded, 5)], .active, 100, true),
            (.stripe, "a", .active, 100, nil, [("o", .refunded, 5)], .refunded, 100, false),
            (.apple, "a", .active, 100, nil, [("o", .superseded, 5)], .superseded, 100, false),
        ]
        for row in rows {
            let key = PurchaseKey(row.0, .production, "o")
            let status = PurchaseStatus(
                row.2, product: row.1, until: row.until.map(time), renews: true, transactions: ["t2"], periodStart: time(0), at: time(1),
                paidUntil: row.paidUntil.map(time))
            let ends = row.ends.map { EndedTransaction(row.0, .production, $0.0, $0.1, at: time($0.2)) }
            let outcome = PurchaseRule.outcome(
                of: PurchaseFacts(key), status, .none, ended: ends, products.line(key.source, status.product), at: time(10))
            #expect(outcome.state == row.6 && outcome.until == row.end.map(time) && outcome.gives == row.gives, "\(row): \(outcome)")
        }
    }

    /// The later ones count, by period and then by time; all others change nothing.
    @Test func statusesHaveOneOrder() {
        func status(_ state: PurchaseState, _ start: Int64, _ at: Int64, until: Int64? = 9) -> PurchaseStatus {
            PurchaseStatus(
                state, product: "a", until: until.map(time), renews: true, transactions: [], periodStart: time(start), at: time(at))
        }
        let order = [
            status(.active, 1, 9), status(.expired, 2, 3), status(.active, 2, 3), status(.active, 2, 3, until: 10),
            status(.expired, 2, 3, until: nil), status(.active, 2, 3, until: nil), status(.expired, 2, 4),
        ]
        for (i, first) in order.enumerated() {
            for (j, second) in order.enumerated() { #expect(PurchaseRule.counts(first, before: second) == (i > j), "\(i) \(j)") }
        }
    }

    @Test func transfersAreFollowedByTheirTimes() {
        func id(_ number: UInt64) -> Wire.UUID { Wire.UUID(high: number, low: 0) }
        func owner(_ first: UInt64, since start: Int64, _ transfers: [(from: UInt64, to: UInt64, at: Int64)]) -> Wire.UUID {
            PurchaseRule.owner(id(first), since: time(start)) { account, since in
                transfers.filter { id($0.from) == account && time($0.at) >= since }.map { (to: id($0.to), at: time($0.at)) }
                    .min { ($0.at, $0.to) < ($1.at, $1.to) }
            }
        }
        #expect(owner(1, since: 5, []) == id(1))
        #expect(owner(1, since: 5, [(1, 2, 6)]) == id(2))
        #expect(owner(1, since: 7, [(1, 2, 6)]) == id(1), "the store said so later")
        #expect(owner(1, since: 0, [(2, 3, 4), (1, 2, 3)]) == id(3))
        #expect(owner(1, since: 0, [(2, 3, 2), (1, 2, 3)]) == id(2))
        #expect(owner(1, since: 0, [(1, 2, 3), (2, 1, 4), (1, 3, 5)]) == id(3))
        #expect(owner(1, since: 0, [(1, 2, 3), (2, 1, 3)]) == id(2), "a ring ends")
    }

    @Test func grantsAreReadAsTheyWereWritten() {
        let grants = [
            Grant(source: "apple", key: "k", tier: "premium", until: time(5)), Grant(source: "stripe", key: "", tier: "gold", until: nil),
        ]
        #expect(Grant.text(grants).flatMap(Grant.grants(in:)) == grants)
        #expect(Grant.text([]) == nil && Grant.grants(in: "") == [])
        for text in ["apple", "apple\tk\tpremium", "apple\tk\tpremium\tx"] { #expect(Grant.grants(in: text) == nil) }
    }
}
