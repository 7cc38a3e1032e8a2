import Accounts
import Credentials
import Fetch
import Testing
import Wire

@testable import Purchases

private typealias World = GoogleWorld

private let now = WallTime(seconds: 1_000)

@Suite struct GooglePurchaseTests {
    private func read(_ body: String) throws -> GooglePurchase {
        try GooglePurchase(subscription: #require(body.withRawBytes { JSONTree($0) }), "tok", at: now)
    }

    @Test func eachStateOfASubscriptionHasItsMeaning() throws {
        let cases: [(String, String?)] = [
            ("ACTIVE", "active pro until 1800 renews"), ("CANCELED", "active pro until 1800"),
            ("IN_GRACE_PERIOD", "grace pro until 1800 renews"),
            ("ON_HOLD", "retry pro until 1800 renews"), ("PAUSED", "paused pro until 1800 renews"), ("EXPIRED", "expired pro until 1800"),
            ("OF_TOMORROW", "expired pro until 1800"), ("PENDING", nil), ("PENDING_PURCHASE_CANCELED", nil), ("UNSPECIFIED", nil),
        ]
        for (state, expected) in cases {
            let found = try read(World.subscription(state))
            #expect(shown(found.effects) == expected.map { ["tok \($0) [GPA.1..0 GPA.1..1]"] } ?? [], "\(state)")
            #expect(found.products == ["extra", "pro"] && found.environment == .production && !found.needsAcknowledgement)
            if case .status(_, let status)? = found.effects.first {
                #expect((status.paidUntil == nil) == (state == "IN_GRACE_PERIOD"))
            }
            let pending = try read(World.subscription(state, acknowledged: false))
            #expect(pending.needsAcknowledgement == ["ACTIVE", "CANCELED", "IN_GRACE_PERIOD"].contains(state), "\(state)")
        }
    }

    /// Two answers of one second, in whatever order they come: the end wins.
    @Test func statusesAreOrderedByTheAPIsClockAndThenByTheirNearnessToTheEnd() throws {
        let times = try ["ACTIVE", "CANCELED", "IN_GRACE_PERIOD", "ON_HOLD", "PAUSED", "EXPIRED", "OF_TOMORROW"].map { state in
            guard case .status(_, let status)? = try read(World.subscription(state)).effects.first else { return WallTime.beginning }
            return status.at
        }
        #expect(times == times.sorted() && Set(times).count == times.count && times.allSatisfy { $0.seconds == 1_000 })
    }

    @Test func itNamesItsAccountItsPredecessorAndItsEnvironment() throws {
        let more = """
            ,"externalAccountIdentifiers":{"obfuscatedExternalAccountId":"\(alice.text)"},"linkedPurchaseToken":"old","testPurchase":{}
            """
        let found = try read(World.subscription("ACTIVE", more: more))
        #expect(shown(Array(found.effects.dropFirst())) == ["tok of alice", "old superseded"] && found.environment == .sandbox)
        // The same however often it is read.
        guard case .ended(let ended)? = found.effects.last else { return }
        #expect(ended.at == WallTime(seconds: 900) && ended.environment == .sandbox)
        // Before the new one is paid, the old one lasts.
        #expect(try read(World.subscription("PENDING", more: more)).effects == [])
        #expect(throws: StorefrontFault.malformed(reason: "subscription")) {
            try read(#"{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE"}"#)
        }
        #expect(try read("{}").effects == [])
    }

    @Test func aProductIsBoughtTakenBackOrPending() throws {
        func read(_ body: String) throws -> GooglePurchase {
            try GooglePurchase(product: #require(body.withRawBytes { JSONTree($0) }), "coin", "tok", at: now)
        }
        let cases: [(Int, [String])] = [
            (0, ["tok active coin until ever [GPA.2]", "tok of bob"]), (1, ["tok refunded coin until ever [GPA.2]", "tok of bob"]), (2, []),
            (3, []),
        ]
        let named = #","obfuscatedExternalAccountId":"\#(bob.text)""#
        for (state, expected) in cases {
            let found = try read(World.product(state: state, acknowledged: false, more: named))
            #expect(shown(found.effects) == expected && found.needsAcknowledgement == (state == 0))
        }
        #expect(try read(World.product(more: #","purchaseType":0"#)).environment == .sandbox)
        #expect(try read(World.product(more: #","purchaseType":1"#)).environment == .production)
        #expect(try !read(World.product()).needsAcknowledgement)
        #expect(throws: StorefrontFault.malformed(reason: "product")) { try read("{}") }
    }
}

@Suite struct GoogleStorefrontTests {
    private let reports = Reports()

    private func storefront(_ store: ScriptedStore, _ packages: [String] = ["test.app"]) throws -> GoogleStorefront {
        GoogleStorefront(try World.plan(packages), store.requests) { [reports] in reports.add($0) }
    }

    private func notify(_ front: GoogleStorefront, _ body: [UInt8], _ bearer: String?) async throws -> StoreEvent {
        try await front.notification(body, now: now) { "\($0)" == "authorization" ? bearer : nil }
    }

    @Test func aNotificationIsReadByTheAPI() async throws {
        let store = World.store(
            [World.subscriptionPath: World.subscription("ACTIVE"), World.productPath: World.product()],
            date: "Thu, 01 Jan 1970 00:16:42 GMT")
        let front = try storefront(store)
        let active = "tok active pro until 1800 renews [GPA.1..0 GPA.1..1]"
        let cases: [(String, String, [String])] = [
            (World.changed(4), "SUBSCRIPTION_PURCHASED", [active]), (World.changed(2), "SUBSCRIPTION_RENEWED", [active]),
            (World.changed(12), "SUBSCRIPTION_REVOKED", [active, "tok revoked"]), (World.changed(99), "SUBSCRIPTION_99", [active]),
            (World.changed(2, token: "gone"), "SUBSCRIPTION_RENEWED", []),
            (World.bought(1), "ONE_TIME_PRODUCT_PURCHASED", ["tok active coin until ever [GPA.2]"]),
            (World.voided(refund: 1), "VOIDED_PURCHASE", ["GPA.1..0 refunded", "GPA.1..0 refunded"]),
            (World.voided(refund: 1, order: ""), "VOIDED_PURCHASE", ["tok refunded", "tok refunded"]),
            (World.voided(refund: 2), "VOIDED_PURCHASE/PARTIAL", []), (#""testNotification":{"version":"1.0"}"#, "TEST", []),
            (#""pendingRefundReviewNotification":{}"#, "pendingRefundReviewNotification", []), (#""x":1"#, "UNKNOWN", []),
        ]
        for (text, type, expected) in cases {
            let event = try await notify(front, World.push(text), World.bearer())
            #expect(event.type == type && shown(event.effects) == expected, "\(text)")
            #expect(event.id == "m1" && event.at == WallTime(microseconds: 999_500_000) && event.source == .google)
            #expect(try await front.replay(World.push(text), now: now) == event)
        }
        // By the API's clock, not by ours.
        guard case .status(_, let status)? = try await notify(front, World.push(World.changed(2)), World.bearer()).effects.first else {
            return
        }
        #expect(status.at.seconds == 1_002)
        #expect(store.paths.count { $0 == "/certs" } == 1 && store.paths.count { $0 == "/token" } == 1)
    }

    @Test func onlyThePushServiceIsHeard() async throws {
        let store = World.store([:])
        let front = try storefront(store)
        let body = World.push(#""testNotification":{}"#)
        func fault(_ bearer: String?, _ body: [UInt8]) async -> String {
            await PurchasesTests.fault { () async throws(StorefrontFault) in
                try await front.notification(body, now: now) { "\($0)" == "authorization" ? bearer : nil }
            }
        }
        #expect(await fault(try World.bearer(), body) == "")
        #expect(await fault(try World.bearer(issuer: "accounts.google.com"), body) == "")
        let wrong = try [
            nil, "", "Bearer ", "Basic abc", World.bearer(World.otherKey), World.bearer(issuer: "https://evil.test"),
            World.bearer(audience: "https://other.test"), World.bearer(expires: 900), World.bearer() + "x",
        ]
        for bearer in wrong { #expect(await fault(bearer, body) == "not authentic: bearer", "\(bearer ?? "none")") }
        #expect(await fault(try World.bearer(email: "other@project.test"), body) == "not authentic: email")
        #expect(await fault(try World.bearer(isVerified: false), body) == "not authentic: email")
        let bearer = try World.bearer()
        #expect(await fault(bearer, World.push(#""testNotification":{}"#, package: "evil.app")) == "foreign: package")
        let broken = [
            "{}", #"{"message":{"data":"e30=","messageId":"1"}}"#, #"{"message":{"data":"!","messageId":"1"}}"#, "",
            World.push(World.changed(1)).rawBytes.text.replacing("messageId", with: "id"),
        ]
        for text in broken { #expect(await fault(bearer, Array(text.utf8)) == "malformed: notification", "\(text)") }
        #expect(await fault(bearer, World.push(#""subscriptionNotification":{}"#)) == "malformed: token")
        #expect(await fault(bearer, World.push(#""oneTimeProductNotification":{"purchaseToken":"t"}"#)) == "malformed: token")
        #expect(await fault(bearer, World.push(#""voidedPurchaseNotification":{}"#)) == "malformed: order")
        // None of it was worth a question to the API.
        #expect(Set(store.paths) == ["/certs"])
    }

    /// A forger names keys that do not exist, as often as he likes.
    @Test func anUnknownKeyHasTheKeysFetchedOnceAMinute() async throws {
        let old = World.jwks([World.otherKey])
        let new = World.jwks([World.pushKey])
        let store = ScriptedStore { _, count in count == 2 ? EndedTransfer(status: 400) : .ok(count == 0 ? old : new) }
        let front = try storefront(store)
        let body = World.push(#""testNotification":{}"#)
        func isHeard(_ key: SigningKey) async throws -> Bool {
            do { _ = try await notify(front, body, World.bearer(key)) } catch { return false }
            return true
        }
        #expect(try await isHeard(World.otherKey) && store.asked.count == 1)
        for _ in 0..<3 { #expect(try await !isHeard(World.pushKey) && store.asked.count == 1) }
        store.pass(60_000)
        #expect(try await isHeard(World.pushKey) && store.asked.count == 2)
        // After an hour they are fetched again; when that fails, they count on, for a day.
        store.pass(3_600_000)
        #expect(try await isHeard(World.pushKey) && store.asked.count == 3)
        #expect(try await isHeard(World.pushKey) && store.asked.count == 4)
        let away = try storefront(ScriptedStore { _, _ in EndedTransfer(failure: "no route") })
        let fault = await fault { () async throws(StorefrontFault) in
            try await away.notification(body, now: now) { _ in try? World.bearer() }
        }
        #expect(fault == "unavailable 5: no route")
    }

    @Test func aTokenProvesItsProduct() async throws {
        let pending = World.root + "/subscriptionsv2/tokens/pending"
        let store = World.store([
            World.subscriptionPath: World.subscription("ACTIVE"), pending: World.subscription("PENDING"),
            World.root + "/products/coin/tokens/once": World.product(), World.root + "/products/coin/tokens/wait": World.product(state: 2),
        ])
        let (front, two) = (try storefront(store), try storefront(store, ["test.app", "test.two"]))
        func prove(_ front: GoogleStorefront, _ product: String, _ token: String, _ package: String? = nil) async -> String {
            do throws(StorefrontFault) {
                let proven = try await front.prove(.google(package: package, product: product, token: token), now: now)
                return proven.key.original + " | " + shown(proven.effects).joined(separator: " | ")
            } catch {
                return "\(error)"
            }
        }
        let active = "tok | tok active pro until 1800 renews [GPA.1..0 GPA.1..1]"
        let cases: [(String, String, String?, String)] = [
            ("pro", "tok", nil, active), ("extra", "tok", "test.app", active),
            ("coin", "once", nil, "once | once active coin until ever [GPA.2]"),
            ("coin", "tok", nil, #"notAuthentic(reason: "product")"#), ("pro", "none", nil, #"notAuthentic(reason: "token")"#),
            ("pro", "pending", nil, #"notAuthentic(reason: "pending")"#), ("coin", "wait", nil, #"notAuthentic(reason: "pending")"#),
            ("pro", "tok", "evil.app", #"foreign(reason: "package")"#), ("", "tok", nil, #"malformed(reason: "evidence")"#),
            ("pro", "", nil, #"malformed(reason: "evidence")"#),
            ("pro", String(repeating: "t", count: 1_025), nil, #"malformed(reason: "evidence")"#),
        ]
        for (product, token, package, expected) in cases {
            #expect(await prove(front, product, token, package).contains(expected), "\(product) \(token)")
        }
        #expect(await prove(two, "pro", "tok").contains(#"malformed(reason: "evidence")"#))
        #expect(await prove(two, "pro", "tok", "test.app") == active)
        #expect(await prove(front, "../x", "a/b?c").contains("token"))
        #expect(
            store.paths.suffix(2) == [World.root + "/subscriptionsv2/tokens/a%2Fb%3Fc", World.root + "/products/..%2Fx/tokens/a%2Fb%3Fc"])
    }

    @Test func whatATesterBuysCountsWhereTheSandboxDoes() async throws {
        let store = World.store([
            World.subscriptionPath: World.subscription("ACTIVE", more: #","testPurchase":{}"#),
            World.productPath: World.product(more: #","purchaseType":0"#),
        ])
        let (front, tests) = (try storefront(store), GoogleStorefront(try World.plan(["test.app"], [.sandbox]), store.requests) { _ in })
        let evidence = PurchaseEvidence.google(package: nil, product: "pro", token: "tok")
        await #expect(throws: StorefrontFault.environmentRefused) { try await front.prove(evidence, now: now) }
        await #expect(throws: StorefrontFault.environmentRefused) { try await front.newest(World.purchase(until: nil), now: now) }
        for push in [World.changed(4), World.bought(1)] {
            await #expect(throws: StorefrontFault.environmentRefused) { try await notify(front, World.push(push), World.bearer()) }
            #expect(try await notify(tests, World.push(push), World.bearer()).environment == .sandbox)
        }
        #expect(try await tests.prove(evidence, now: now).key.environment == .sandbox)
    }

    @Test func theNewestStateIsAskedForInEachApp() async throws {
        let store = World.store([World.subscriptionPath: World.subscription("ON_HOLD"), World.productPath: World.product(state: 1)])
        let front = try storefront(store, ["test.two", "test.app"])
        let subscription = try #require(try await front.newest(World.purchase(), now: now))
        #expect(shown(subscription) == ["tok retry pro until 1800 renews [GPA.1..0 GPA.1..1]"])
        let product = try #require(try await front.newest(World.purchase(until: nil), now: now))
        #expect(shown(product) == ["tok refunded coin until ever [GPA.2]"])
        #expect(try await front.newest(World.purchase("gone"), now: now) == [])
        #expect(store.paths.filter { $0.contains("test.two") }.count == 3)
    }

    @Test func anAccessTokenIsBoughtOnceAndAgainWhenItIsRefused() async throws {
        let subscription = World.subscription("ACTIVE")
        let store = ScriptedStore { transfer, count in
            if transfer.url.hasSuffix("/token") { return .ok(#"{"access_token":"access-\#(count)","expires_in":3599}"#) }
            return transfer.fields == ["Authorization: Bearer access-0"] && count > 2 ? EndedTransfer(status: 401) : .ok(subscription)
        }
        let front = try storefront(store)
        for _ in 0..<2 { _ = try await front.newest(World.purchase(), now: now) }
        #expect(store.paths == ["/token", World.subscriptionPath, World.subscriptionPath])
        _ = try await front.newest(World.purchase(), now: now)
        #expect(store.paths.suffix(3) == [World.subscriptionPath, "/token", World.subscriptionPath])
        #expect(store.asked.last?.fields == ["Authorization: Bearer access-4"])
        // A minute before its end.
        store.pass(3_538_000)
        _ = try await front.newest(World.purchase(), now: now)
        #expect(store.asked.count == 7)
        store.pass(1_000)
        _ = try await front.newest(World.purchase(), now: now)
        #expect(store.paths.suffix(2) == ["/token", World.subscriptionPath])
        // The grant names the key as Google does, and no subject, which would ask to speak for another.
        let form = store.asked[0].body.map { $0.rawBytes.text } ?? ""
        #expect(
            form.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&") && store.asked[0].bodyType.contains("form"))
        let assertion = form.split(separator: "assertion=")[1].split(separator: ".").map { part in
            Base64URL.decode(Array(part.utf8).rawBytes).map { $0.rawBytes.text } ?? ""
        }
        let claims =
            #"{"iss":"app@project.test","scope":"https://www.googleapis.com/auth/androidpublisher","aud":"https://google.test/token","#
            + #""iat":1000,"exp":4600}"#
        #expect(Array(assertion.prefix(2)) == [#"{"alg":"RS256","typ":"JWT","kid":"key-1"}"#, claims])
    }

    @Test func failuresOfGoogleAreTriedAgainAndThenNamed() async throws {
        func fault(_ answer: @escaping @Sendable (String, Int) -> EndedTransfer) async throws -> (String, Int) {
            let store = ScriptedStore { transfer, count in answer(String(transfer.url.dropFirst("https://google.test".count)), count) }
            let front = try storefront(store)
            let text = await PurchasesTests.fault { () async throws(StorefrontFault) in try await front.newest(World.purchase(), now: now) }
            return (text, store.asked.count)
        }
        let token = EndedTransfer.ok(#"{"access_token":"a","expires_in":3599}"#)
        let cases: [(EndedTransfer, EndedTransfer, String, Int)] = [
            (token, EndedTransfer(status: 503), "unavailable 5: the answer has the status 503", 4),
            (token, EndedTransfer(failure: "timed out"), "unavailable 5: timed out", 4),
            (token, EndedTransfer(status: 429, retryAfter: "30"), "unavailable 30: the answer has the status 429", 2),
            (token, EndedTransfer(status: 403), "unavailable 60: the API answers with the status 403", 2),
            (token, EndedTransfer(status: 401), "unavailable 60: the API refuses the service account's token", 4),
            (.ok("{}"), token, "unavailable 60: the token endpoint answers with the status 200 and no token", 1),
            (EndedTransfer(status: 400), token, "unavailable 60: the token endpoint answers with the status 400 and no token", 1),
            (
                .ok(#"{"access_token":"a\r\nX: y","expires_in":9}"#), token,
                "unavailable 60: the token endpoint answers with the status 200 and no token", 1
            ),
        ]
        for (first, second, expected, count) in cases {
            let (text, asked) = try await fault { path, _ in path == "/token" ? first : second }
            #expect(text == expected && asked == count, "\(expected)")
        }
    }

    @Test func aPurchaseThatGivesATierIsAcknowledgedAfterItsCommit() async throws {
        let path = World.root + "/subscriptions/extra/tokens/tok:acknowledge"
        let body = World.subscription("ACTIVE", acknowledged: false)
        let store = ScriptedStore { transfer, count in
            if transfer.url.hasSuffix("/token") { return .ok(#"{"access_token":"a","expires_in":3599}"#) }
            if transfer.body == nil { return .ok(body) }
            return count < 4 ? EndedTransfer(status: 403) : EndedTransfer(status: 204)
        }
        let front = try storefront(store)
        await front.committed([World.purchase()])
        #expect(store.asked.isEmpty)
        _ = try await front.prove(.google(package: nil, product: "pro", token: "tok"), now: now)
        await front.committed([World.purchase(account: nil), World.purchase(tier: nil), World.purchase("other")])
        #expect(store.asked.count == 2)
        // What fails is tried again with the next commit, until it is done.
        await front.committed([World.purchase()])
        #expect(store.paths.suffix(1) == [path] && reports.all.count == 1)
        await front.committed([])
        #expect(store.paths.suffix(1) == [path] && store.asked.count == 4)
        await front.committed([])
        await front.committed([World.purchase()])
        #expect(store.asked.count == 5 && store.asked.last?.body.map { $0.rawBytes.text } == "{}" && reports.all.count == 2)
    }

    /// A reload keeps the storefront, with what it has to say again, as long as its line means the same.
    @Test func plansAreCompared() throws {
        let plan = try World.plan()
        #expect(try plan == World.plan() && plan != World.plan(["other.app"]) && plan != World.plan(base: "https://other.test"))
    }

    @Test func theKeyOfAServiceAccountIsRead() throws {
        #expect(try World.plan().account.email == "app@project.test")
        let curve = try SigningKey.generate(.ES256).pem()
        for (file, text) in [
            (try World.serviceFile(type: "authorized_user"), "is no key of a service account"),
            (Array("{}".utf8), "is no key of a service account"),
            (try World.serviceFile(key: "none"), "has no RSA key"), (try World.serviceFile(key: curve.rawBytes.text), "has no RSA key"),
        ] {
            do throws(ParseError) {
                _ = try GoogleServiceAccount(file: file.rawBytes)
                Issue.record("\(text)")
            } catch {
                #expect(error.text.hasPrefix(text))
            }
        }
    }
}
