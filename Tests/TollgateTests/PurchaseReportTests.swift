import Accounts
import Settings
import Telemetry
import Testing
import Wire

@testable import tollgate

/// The reports of purchases as metrics count them.
@Suite struct PurchaseReportTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    @Test func eachReportCountsInItsSeries() {
        let cases: [(PurchaseReport, [String])] = [
            (.claim(.apple, .otherAccount), [#"purchases_total{source="apple",verdict="other-account"} 1"#]),
            (.claim(.google, .unavailable, reason: "timeout"), [#"purchases_total{source="google",verdict="unavailable"} 1"#]),
            (
                .event(.stripe, type: "invoice.paid", .kept(.unknownProduct), lagMilliseconds: 700, product: "price_1"),
                [
                    #"store_events_total{source="stripe",type="invoice.paid",verdict="unknown-product"} 1"#,
                    #"store_event_lag_seconds_bucket{le="1"} 1"#, #"store_event_newest_timestamp_seconds{source="stripe"} 1800000000"#,
                ]
            ),
            (
                .event(.apple, type: "REFUND", .repeated, lagMilliseconds: 700),
                [#"store_events_total{source="apple",type="REFUND",verdict="repeated"} 1"#, "store_event_lag_seconds_count 0"]
            ),
            (
                .refusedEvent(.google, .notAuthentic, reason: "signature"),
                [#"store_events_total{source="google",type="unread",verdict="not-authentic"} 1"#, "store_event_lag_seconds_count 0"]
            ),
            (.fence(milliseconds: 1_000, isEverywhere: false), ["purchase_fence_seconds_count 1", "purchase_fence_incomplete_total 1"]),
            (.newestEvents([.apple: Self.now]), [#"store_event_newest_timestamp_seconds{source="apple"} 1800000000"#]),
            (.reconciled(.apple, asked: 1, failed: 1, reason: "x"), ["store_event_lag_seconds_count 0"]),
        ]
        for (report, expected) in cases {
            var metrics = ProcessMetrics(build: BuildInfo(version: "1", commit: "", swift: ""))
            metrics.purchases.add(report, at: Self.now)
            let lines = Exposition.render([], metrics, at: Self.now).rawBytes.text.split(separator: "\n")
            for line in expected { #expect(lines.contains { $0 == "tollgate_" + line }, "\(report): \(line)") }
        }
    }

    /// What clients cause is logged only while it is calm, each with one question.
    @Test func linesThatClientsCauseAreHeld() throws {
        let log = try ServerLog(Configuration())
        let claims: [PurchaseReport] = [.unavailable, .unknownProduct, .invalid].map { .claim(.apple, $0, reason: "x") }
        for report in claims + [.unavailable, .notAuthentic].map({ .refusedEvent(.google, $0, reason: "x") }) {
            var asked = 0
            log.write(report) {
                asked += 1
                return false
            }
            #expect(asked == 1, "\(report)")
        }
    }

    @Test func aFaultOfAStorefrontHasItsVerdict() {
        let cases: [(StorefrontFault, PurchaseReport.ClaimVerdict, PurchaseReport.EventRefusal, String)] = [
            (.notAuthentic(reason: "chain"), .invalid, .notAuthentic, "chain"), (.malformed(reason: "json"), .invalid, .malformed, "json"),
            (.foreign(reason: "bundle"), .invalid, .foreign, "bundle"), (.environmentRefused, .environment, .environment, "environment"),
            (.unavailable(reason: "timeout", retryAfterSeconds: 1), .unavailable, .unavailable, "timeout"),
        ]
        for (fault, claim, event, reason) in cases {
            #expect(PurchaseReport.ClaimVerdict(fault) == claim && PurchaseReport.EventRefusal(fault) == event && fault.reason == reason)
        }
    }
}
