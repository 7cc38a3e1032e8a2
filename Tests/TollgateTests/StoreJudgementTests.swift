import Accounts
import Gate
import MemoryStore
import TestThreads
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// The judgements of `tollgate doctor` about stores of apps: what it says of facts.
@Suite(.ownThread) struct StoreJudgementTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    @Test func credentialsAreTriedOnAPurchaseThatThereIsNot() {
        let cases: [(PurchaseSource, ScriptedStorefront.Answer, asked: Int, Diagnosis.Level, String)] = [
            (.apple, .success([]), 1, .ok, "accepts the key"), (.apple, .success(nil), 2, .warn, "no key in TOLLGATE_PURCHASES_APPLE"),
            (.revenuecat, .success(nil), 2, .ok, "does not ask it"),
            (
                .google, .failure(.unavailable(reason: "status 403", retryAfterSeconds: 1, isKeyRefused: true)), 1, .fail,
                "(status 403): correct the key in"
            ), (.google, .failure(.unavailable(reason: "timed out", retryAfterSeconds: 1)), 1, .fail, "(timed out): see whether"),
            (.stripe, .failure(.notAuthentic(reason: "chain")), 1, .fail, "(chain)"),
        ]
        for (source, answer, asked, level, text) in cases {
            let storefront = ScriptedStorefront(source) { _ in answer }
            let finding = StoreJudgements.credentials(source, StoreProbes.ask(storefront, Self.now))
            #expect(finding.level == level && finding.text.contains(text), "\(finding)")
            #expect(storefront.asked.count == asked, "\(source)")
        }
        // A key may be for the sandbox alone.
        let sandbox = ScriptedStorefront(.apple) { $0.key.environment == .sandbox ? .success([]) : .success(nil) }
        #expect(StoreJudgements.credentials(.apple, StoreProbes.ask(sandbox, Self.now)).level == .ok)
    }

    @Test func switchesThatAreThrownAreNamed() {
        var feed = RouteRule(name: "feed", path: "/", isPrefix: true, target: .upstream(0))
        feed.split = RouteSplit(percent: 5, upstreamName: "next")
        var guarded = feed
        guarded.name = "guarded"
        let until = LiveSwitch(name: "maintenance/route/feed", value: "{}", version: 1, expiresAt: Self.now)
        let switches = [
            LiveSwitch(name: "maintenance/all", value: #"{"allow":["192.0.2.0/24"]}"#, version: 2), until,
            LiveSwitch(name: "maintenance/route/gone", value: "{}", version: 3), LiveSwitch(name: "split/feed", value: "10", version: 4),
            LiveSwitch(name: "split/guarded", value: "0 guard", version: 5), LiveSwitch(name: "acme/lease", value: "x", version: 6),
        ]
        #expect(
            StoreJudgements.switches(switches, [feed, guarded]) == [
                .warn("maintenance of all", "closed until `tollgate maintenance off`, but for 192.0.2.0/24"),
                .warn("maintenance of feed", "closed until 2027-01-15T08:00:00.000Z"),
                .warn("maintenance of gone", "closed until `tollgate maintenance off`; no route has this name"),
                .ok("split of feed", "10% of the requests of feed go to next: set by an operator; the line says 5%"),
                .warn(
                    "split of guarded",
                    "0% of the requests of guarded go to next: set by split-guard=, because they failed there; the line says 5%"),
            ])
        #expect(StoreJudgements.switches([], [feed]) == [])
    }

    @Test func silenceAndUnsoldProductsAreNamed() {
        let lines = [
            ProductLine(
                name: "monthly", tier: "premium", products: [.apple: ["a", "b"], .google: ["g"], .stripe: ["s"]], graceSeconds: nil),
            ProductLine(name: "lifetime", tier: "premium", products: [.apple: ["a2"]], graceSeconds: nil),
        ]
        let stores = Stores([ScriptedStorefront(.apple), ScriptedStorefront(.google), ScriptedStorefront(.revenuecat)], Products(lines))
        let history = StoreHistory(
            newest: [.apple: Self.now.advanced(seconds: -60), .google: Self.now.advanced(seconds: -4 * 86_400)],
            bought: [.apple: ["a", "a2"]])
        let findings = StoreJudgements.history(history, stores, now: Self.now)
        #expect(findings.map(\.level) == [.ok, .warn, .warn, .warn])
        #expect(findings[1].text.contains("right address") && findings[2].text.contains("/notifications/revenuecat"))
        #expect(findings[3].subject == "product monthly" && findings[3].text.hasPrefix("was never bought as apple=b:"))
        #expect(StoreJudgements.history(StoreHistory(newest: [:]), stores, now: Self.now).map(\.level) == [.warn, .warn, .warn])
    }

    @Test func aSandboxAtAPublicAddressIsRemarkedOn() {
        func judge(_ environments: String, _ url: String = "https://api.test") -> [String] {
            let line = "TOLLGATE_PUBLIC_URL=\(url)\nTOLLGATE_PURCHASES_APPLE=\"bundle-ids=sandbox environments=\(environments)\"\n"
            return StoreJudgements.sandbox(load(line + oneRoute).partial.settings).map(\.text)
        }
        for list in ["sandbox", "production,sandbox", "sandbox,production"] {
            #expect(judge(list).map { $0.hasPrefix("TOLLGATE_PURCHASES_APPLE has") } == [true] && judge(list, "http://a.test") == [])
        }
        #expect(judge("production") == [])
    }

    @Test func aNoticeAndATokenOfAppleThatWaitForLongAreRemarkedOn() {
        let (set, bare) = (load("TOLLGATE_NOTICES=email\n" + oneRoute).partial.settings, load(oneRoute).partial.settings)
        let cases: [(OutgoingQueue, Int64?, Configuration, String?)] = [
            (.notices, nil, set, "ok none waits"), (.notices, nil, bare, nil), (.appleTokens, nil, set, nil),
            (.notices, 3_600, set, "ok 2 wait, since 1970-01-01T00:00:00.000Z"),
            (.notices, 3_601, set, "warn 2 wait, since 1970-01-01T00:00:00.000Z: see whether the mail server takes mails"),
            (
                .appleTokens, 3_601, bare,
                "warn 2 wait, since 1970-01-01T00:00:00.000Z: set TOLLGATE_APPLE_KEY, by which they are revoked"
            ),
        ]
        for (queue, age, settings, text) in cases {
            let state = OutgoingState(queue, waiting: age == nil ? 0 : 2, since: age.map { _ in WallTime(seconds: 0) })
            let found = StoreJudgements.outgoing(state, settings, now: WallTime(seconds: age ?? 9))
            #expect(found.map { "\($0.level.rawValue) \($0.text)" } == text)
        }
    }

    @Test func theBaseOfTheEndpointsHasNoSlashAtItsEnd() {
        for (line, base) in [("/shop/", "/shop"), ("/shop", "/shop"), ("/", "/")] {
            #expect(load("TOLLGATE_PURCHASES=\(line)\n" + oneRoute).partial.settings.purchaseBase == base)
        }
    }
}
