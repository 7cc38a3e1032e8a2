import Accounts
import Credentials
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

@testable import Admin
@testable import Gate

/// People and the audit log in the admin API, request by request.
@Suite struct AdminPeopleTests {
    private static let address = IPAddress(parsing: "192.0.2.7")

    @Test func peopleAreSearched() async throws {
        let bench = try AdminBench(issuers: [SubjectIssuer(name: "django", hasAccounts: false)])
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        _ = try await bench.open("bob@example.org", 2, from: Self.address)
        let found = await bench.ask("GET users?search=ADA%40")
        #expect(
            found.text.hasPrefix(#"{"users":[{"id":"\#(ada.text)""#) && !found.text.contains("bob")
                && found.text.hasSuffix(#""complete":true}"#))
        #expect(await bench.ask("GET users?search=\(ada.text)").text.contains("ada@example.org"))
        #expect(await bench.ask("GET users?search=nobody").text == #"{"users":[],"complete":true}"#)
        _ = await bench.ask("PUT users/django:42/tier", #"{"tier":"premium"}"#)
        #expect(await bench.ask("GET users?search=django%3A42").text.contains(#""tier":"premium""#))
        #expect(await bench.ask("GET users?search=rails%3A42").text == #"{"users":[],"complete":true}"#)
        for query in ["search=", "search=%20", "search=a%0Ab", "search=" + String(repeating: "a", count: 255), "search=%ff"] {
            #expect(await bench.ask("GET users?\(query)").status == 400, "\(query)")
        }
    }

    @Test func aSessionShowsAddressAndEnd() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        let text = await bench.ask("GET users/\(ada.text)").text
        #expect(text.contains(#""device":"phone","address":"192.0.2.7","created_at":""#) && text.contains(#""expires_at":""#))
    }

    @Test func anAccountShowsEachGrantOfItsTier() async throws {
        let bench = try AdminBench(tiers: try TierList(["free", "plus", "premium"]))
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        _ = await bench.ask("PUT users/\(ada.text)/tier", #"{"tier":"plus"}"#)
        #expect(await bench.ask("GET users/\(ada.text)").text.contains(#""grants":[{"source":"operator","tier":"plus"}]"#))
        let now = bench.now.time.withLock { $0 }
        let (key, end) = (PurchaseKey(.apple, .production, "t"), now.advanced(seconds: 3_600))
        let status = PurchaseStatus(
            .active, product: "p", until: end, renews: true, transactions: ["t"], periodStart: now, at: now)
        let lines = Products([ProductLine(name: "pro", tier: "premium", products: [.apple: ["p"]], graceSeconds: nil)])
        let claimed = try await bench.store.claim(
            key, [.status(key, status)], by: ada, transfers: false, lines, AuditContext(now: now, address: nil))
        guard case .bound(let purchase, _, _) = claimed else { throw Unbound(outcome: claimed) }
        let text = await bench.ask("GET users/\(ada.text)").text
        #expect(text.contains(#""tier":"premium","tier_until":"\#(ISO8601.text(end))","has_active_subscription":true"#), "\(text)")
        let grant = #"{"source":"apple","key":"\#(purchase.id.text)","tier":"premium","until":"\#(ISO8601.text(end))"}"#
        #expect(text.contains(#""grants":[{"source":"operator","tier":"plus"},\#(grant)]"#), "\(text)")
        #expect(await bench.ask("GET audit").text.contains(#""event":"purchase-changed","user":"\#(ada.text)""#))
    }

    @Test func theAuditLogSaysWhoDidWhat() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        _ = await bench.ask("PUT users/\(ada.text)/tier", #"{"tier":"premium"}"#)
        let text = await bench.ask("GET audit").text
        #expect(
            text.contains(
                #""event":"tier-changed","user":"\#(ada.text)","email":"ada@example.org","actor":"admin-api","detail":"premium"}"#))
        #expect(
            text.contains(
                #""event":"account-opened","user":"\#(ada.text)","email":"ada@example.org","session":"\#(UUID(random: (2, 1)).text)","actor":"user","address":"192.0.2.7","detail":"password"}"#
            ))
        #expect(await bench.ask("GET audit?user=\(ada.text)&limit=1").text.components("\"event\"") == 1)
        _ = await bench.ask("DELETE users/\(ada.text)")
        let left = await bench.ask("GET audit?user=\(ada.text)").text
        #expect(left.contains("account-deleted") && !left.contains("192.0.2.7") && !left.contains("ada@"))
        #expect(await bench.ask("GET audit?user=\(UUID(random: (9, 9)).text)").text == #"{"events":[]}"#)
        let bad = [("user=ada", 404), ("before=x", 400), ("limit=0", 400), ("limit=1001", 400), ("since=x", 400)]
        for (query, status) in bad { #expect(await bench.ask("GET audit?\(query)").status == status, "\(query)") }
        #expect(await bench.ask("DELETE audit").status == 405)
    }

    @Test func anAccountIsBannedAndItsBanLifted() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        let ban = await bench.ask("PUT users/ada%40example.org/ban", #"{"until":"2100-01-01T00:00:00Z","reason":" fraud "}"#)
        #expect(ban.status == 200 && ban.text.contains(#""until":"2100-01-01T00:00:00.000Z","reason":"fraud"},"sessions_ended":1}"#))
        #expect(await bench.ask("GET users/\(ada.text)").text.contains(#""ban":{"banned_at":""#))
        #expect(await bench.ask("PUT users/\(ada.text)/ban").text.hasSuffix(#"Z"},"sessions_ended":0}"#), "for good, without a body")
        #expect(await bench.ask("DELETE users/\(ada.text)/ban").text == #"{"id":"\#(ada.text)","ban":null,"sessions_ended":0}"#)
        #expect(!(await bench.ask("GET users/\(ada.text)").text.contains("ban")))
        let bad = [
            #"{"until":"tomorrow"}"#, #"{"until":"2001-01-01T00:00:00Z"}"#, #"{"until":1}"#, #"{"reason":"a\nb"}"#,
            #"{"reason":"\#(String(repeating: "a", count: 201))"}"#, "[]",
        ]
        for body in bad { #expect(await bench.ask("PUT users/\(ada.text)/ban", body).status == 400, "\(body)") }
        for line in ["PUT users/bob@example.org/ban", "DELETE users/bob@example.org/ban"] { #expect(await bench.ask(line).status == 404) }
    }
}

extension String {
    /// How often `text` occurs.
    fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}

private struct Unbound: Error { let outcome: ClaimOutcome }
