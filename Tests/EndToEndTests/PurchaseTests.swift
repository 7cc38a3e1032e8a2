import Foundation
import TestServers
import TestThreads
import Testing

/// Purchases at a gateway that runs: the same token is premium on its next request, and what an app may keep is a token that no gateway takes.
@Suite(.ownThread) struct PurchaseTests {
    private static let key = "the key of a service"
    private static let secret = "whsec_of_a_test_that_is_long"

    private let upstream: Upstream
    private let gateway: Gateway
    private let settings: String

    init() throws {
        upstream = try Upstream.streaming()
        let folder = try Folder()
        try folder.write("stripe", Self.secret)
        settings = """
            \(Gateway.contracts)
            \(Gateway.trustingProxies)
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0
            TOLLGATE_CORS=https://app.test
            TOLLGATE_INTERNAL_SERVICE=key-sha256=\(try run("sha256sum", [], input: Self.key).output.prefix(64))
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ME="/me/* upstream=u"
            TOLLGATE_ROUTE_PAID="/paid/* upstream=u tier=premium"
            TOLLGATE_PRODUCT_MONTHLY="tier=premium stripe=price_1"
            TOLLGATE_PURCHASES_STRIPE="secret-file=\(folder.file("stripe"))"
            """
        gateway = try Gateway(settings, folder: folder)
    }

    /// Sends an event as Stripe signs it.
    private func notify(_ id: String, _ type: String, _ object: String, secret: String = Self.secret) throws -> Message {
        let now = Int(Date().timeIntervalSince1970)
        let body = #"{"id":"\#(id)","object":"event","type":"\#(type)","created":\#(now),"livemode":true,"data":{"object":\#(object)}}"#
        let digest = try run("openssl", ["dgst", "-sha256", "-hmac", secret], input: "\(now).\(body)").output
        let signature = digest.split(separator: " ").last.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) } ?? ""
        return try gateway.ask(
            "POST /purchases/notifications/stripe", ["Stripe-Signature: t=\(now),v1=\(signature)", "Origin: https://app.test"],
            body: Array(body.utf8))
    }

    @Test func whatAnAppMayKeepIsVerifiedByTheKeySetAndIsNoBearer() throws {
        let ada = try gateway.register("ada@example.org")
        func ask(_ accept: String) throws -> Message {
            try gateway.ask("GET /purchases", ["Authorization: Bearer \(ada.access)", "Accept: \(accept)", "Origin: https://app.test"])
        }
        let plain = try ask("application/jwt;q=0, */*")
        #expect(plain.status == 200 && plain.text == #"{"tier":"free","until":null,"purchases":[]}"#, "\(plain) \(plain.text)")
        #expect(plain["Access-Control-Allow-Origin"] == "https://app.test")
        let answer = try ask("text/html, Application/JWT")
        #expect(answer["Content-Type"] == "application/jwt" && answer["Cache-Control"] == "no-store", "\(answer)")
        let script = """
            import json, sys, jwt
            token = sys.stdin.read()
            key = jwt.PyJWKClient(sys.argv[1]).get_signing_key_from_jwt(token).key
            claims = jwt.decode(token, key, algorithms=["ES256"], issuer=sys.argv[2], audience="entitlement")
            print(jwt.get_unverified_header(token)["typ"], json.dumps(claims))
            """
        let keys = "http://127.0.0.1:\(gateway.port)/.well-known/jwks.json"
        let words = try run("/usr/bin/python3", ["-c", script, keys, "http://localhost:8000"], input: answer.text).output
            .split(separator: " ", maxSplits: 1)
        let claims = try JSON(String(try #require(words.last)))
        #expect(words.first == "tollgate-entitlement+jwt" && claims["sub"].text == ada.user && claims["tier"].text == "free")
        #expect((claims["exp"].number ?? 0) - (claims["iat"].number ?? 0) == 86_400)
        // As a bearer of routes, of contracts and of purchases, asked about, by a proxy, and as a refresh token.
        for path in ["/me/x", "/api/v1/auth/me", "/purchases"] {
            #expect(try gateway.send("GET \(path)", bearer: answer.text).status == 401, "\(path)")
        }
        let form = "Content-Type: application/x-www-form-urlencoded"
        let introspection = try gateway.ask(
            "POST /oauth/introspect", [form, "X-Internal-Key: \(Self.key)"], body: Array("token=\(answer.text)".utf8))
        #expect(introspection.text == #"{"active":false}"#)
        let refresh = try gateway.ask(
            "POST /oauth/token", [form], body: Array("grant_type=refresh_token&refresh_token=\(answer.text)".utf8))
        #expect(refresh.status == 400)
        let described = [
            "Authorization: Bearer \(answer.text)", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /me/x", "X-Forwarded-Host: a",
        ]
        #expect(try Connection(port: gateway.checkPort).ask("GET /auth/check", described).status == 401)
    }

    @Test func onlyWhatAStoreSignedIsKept() throws {
        let forged = try notify("evt_9", "customer.created", #"{"id":"cus_9"}"#, secret: "whsec_of_somebody_else")
        #expect(forged.status == 401 && forged["Access-Control-Allow-Origin"] == nil, "\(forged)")
        for _ in 0..<2 {
            let kept = try notify("evt_1", "customer.created", #"{"id":"cus_1"}"#)
            #expect(kept.status == 200 && kept.text.contains(#""verdict":"kept""#), "\(kept) \(kept.text)")
        }
        let sizes = [
            ("purchases/notifications/stripe", 262_144, 401), ("purchases/notifications/stripe", 262_145, 413),
            ("api/v1/auth/login", 65_536, 400), ("api/v1/auth/login", 65_537, 413), ("oauth/token", 65_537, 413),
        ]
        for (path, size, status) in sizes {
            #expect(try gateway.ask("POST /\(path)", [], body: [UInt8](repeating: 0x20, count: size)).status == status, "\(path) \(size)")
        }
        #expect(try gateway.send("POST /purchases/apple", "{}", bearer: try gateway.register("ada@example.org").access).status == 404)
        #expect(!gateway.process.output.now.contains { $0.contains("cus_9") })
    }

    @Test func theSameTokenIsPremiumOnItsNextRequestAndARefundEndsItsStream() throws {
        let ada = try gateway.register("ada@example.org")
        let now = Int(Date().timeIntervalSince1970)
        let subscription = """
            {"id":"sub_1","object":"subscription","status":"active","metadata":{"account_id":"\(ada.user)"},"latest_invoice":"in_1",
             "items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1"},"current_period_start":\(now),
             "current_period_end":\(now + 3_600)}]}}
            """
        #expect(try gateway.send("GET /paid/x", bearer: ada.access).status == 403)
        #expect(try notify("evt_1", "customer.subscription.created", subscription).status == 200)
        let stream = try gateway.stream("/paid/x", bearer: ada.access)
        let refund = #"{"id":"ch_1","object":"charge","refunded":true,"payment_intent":"pi_1","invoice":"in_1"}"#
        #expect(try notify("evt_2", "charge.refunded", refund).status == 200)
        #expect(try stream.takeChunks().hasSuffix(": tier\n\n\r\n0\r\n\r\n"))
        #expect(try gateway.send("GET /paid/x", bearer: ada.access).status == 403)
        let held = try gateway.send("GET /purchases", bearer: ada.access)
        #expect(held.text.contains(#""state":"refunded""#) && held.text.contains(#""tier":"free""#), "\(held.text)")
    }

    /// What was bought before a line names it gives its tier at the reload that brings the line.
    @Test func aTransactionOfTheAppStoreWaitsForItsProductLine() throws {
        let ada = try gateway.register("ada@example.org")
        let words = [
            "purchases", "test-transaction", "--env-file", gateway.folder.file("gateway.env"), "--account", "ada@example.org",
            "--product", "org.example.monthly", "--bundle", "org.example.app", "--roots", gateway.folder.file("roots"),
        ]
        let transaction = try Tollgate.run(words).output.trimmingCharacters(in: .whitespacesAndNewlines)
        func claim() throws -> Message {
            try gateway.send("POST /purchases/apple", #"{"transaction":"\#(transaction)"}"#, bearer: ada.access)
        }
        #expect(try claim().status == 404)
        let store =
            "\n"
            + #"TOLLGATE_PURCHASES_APPLE="bundle-ids=org.example.app environments=sandbox roots=\#(gateway.folder.file("roots/root.pem"))""#
        try gateway.reload(settings + store)
        let unknown = try claim()
        #expect(unknown.status == 400 && unknown.text.contains(#""code":"PRODUCT_UNKNOWN""#), "\(unknown) \(unknown.text)")
        #expect(try gateway.send("GET /paid/x", bearer: ada.access).status == 403)
        try gateway.reload(settings + store + "\n" + #"TOLLGATE_PRODUCT_IOS="tier=premium apple=org.example.monthly""#)
        try eventually("the product line is adopted") {
            try gateway.send("GET /purchases", bearer: ada.access).text.contains(#""tier":"premium""#)
        }
        // The store has it before the workers do, which the claim waits for.
        let claimed = try claim()
        #expect(
            claimed.status == 200 && claimed.text.contains(#""everywhere":true"#) && claimed.text.contains(#""product":"ios""#),
            "\(claimed.text)")
        let stream = try gateway.stream("/paid/x", bearer: ada.access)
        #expect(try stream.take(forSeconds: 0.5).contains("data: "))
    }
}
