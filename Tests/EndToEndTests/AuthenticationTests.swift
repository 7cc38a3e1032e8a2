import Foundation
import TestThreads
import Testing

/// Which tokens open which routes, and what those get that do not.
@Suite(.ownThread) struct AuthenticationTests {
    private static let secret = String(repeating: "s", count: 40)

    // MARK: modes

    private static let modes = """
        TOLLGATE_INTERNAL_BATCH="key-sha256=\(hash)"
        TOLLGATE_ROUTE_NONE="/none upstream=u auth=none"
        TOLLGATE_ROUTE_OPTIONAL="/optional upstream=u auth=optional"
        TOLLGATE_ROUTE_REQUIRED="/required upstream=u"
        TOLLGATE_ROUTE_INTERNAL="/internal upstream=u auth=internal"
        TOLLGATE_ROUTE_PREMIUM="/premium upstream=u tier=premium"
        TOLLGATE_ROUTE_MAYPREMIUM="/maypremium upstream=u auth=optional tier=premium"
        TOLLGATE_ROUTE_CLAIMS="/claims upstream=u claims=role=editor,team=red"
        """
    /// SHA-256 of `batch-key`.
    private static let hash = "f5ac4a6b0bd4dce33c9cbbb22dd2b9ba1b5a26d77ddf0cdbb36a2a49a5a2e2b1"

    private struct Caller {
        var name: String
        var fields: [String]
    }

    @Test func everyModeTreatsEveryCallerAsItSays() throws {
        let upstream = try Upstream()
        let digest = try mustRun("openssl", ["dgst", "-sha256", "-r"], input: "batch-key").prefix(64)
        let gateway = try Gateway(
            "TOLLGATE_JWT_SECRET=\(Self.secret)\nTOLLGATE_CLOCK_SKEW=0s\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n"
                + Self.modes.replacingOccurrences(of: Self.hash, with: digest))
        let own = try IssuerKey(.hs256(secret: Self.secret))
        let expired = try own.token(
            #"{"iss":"http://localhost:8000","aud":"tollgate","sub":"ada","exp":\#(unixNow - 5)}"#)
        let callers = [
            Caller(name: "nobody", fields: []),
            Caller(name: "free", fields: [try gateway.bearer("--sub", "ada")]),
            Caller(name: "premium", fields: [try gateway.bearer("--sub", "eva", "--tier", "premium")]),
            Caller(
                name: "editor",
                fields: [try gateway.bearer("--sub", "kim", "--claim", "role=editor", "--claim", "team=red")]),
            Caller(name: "half editor", fields: [try gateway.bearer("--sub", "lee", "--claim", "role=editor")]),
            Caller(name: "bad", fields: ["Authorization: Bearer a.b.c"]),
            Caller(name: "expired", fields: ["Authorization: Bearer \(expired)"]),
            Caller(name: "basic", fields: ["Authorization: Basic eDp5"]),
            Caller(name: "batch", fields: ["X-Internal-Key: batch-key"]),
            Caller(name: "wrong batch", fields: ["X-Internal-Key: batch-keyx"]),
            Caller(name: "batch, bad token", fields: ["X-Internal-Key: batch-key", "Authorization: Bearer a.b.c"]),
        ]
        // In the order of the callers: the status of each route.
        let table: [(String, [Int])] = [
            ("/none", [200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200]),
            ("/optional", [200, 200, 200, 200, 200, 401, 401, 200, 200, 200, 401]),
            ("/required", [401, 200, 200, 200, 200, 401, 401, 401, 401, 401, 401]),
            ("/internal", [403, 403, 403, 403, 403, 403, 403, 403, 200, 403, 401]),
            ("/premium", [401, 403, 200, 403, 403, 401, 401, 401, 401, 401, 401]),
            ("/maypremium", [401, 403, 200, 403, 403, 401, 401, 401, 401, 401, 401]),
            ("/claims", [401, 403, 403, 200, 403, 401, 401, 401, 401, 401, 401]),
        ]
        let connection = try gateway.connect()
        var passed = 0
        for (path, statuses) in table {
            for (caller, status) in zip(callers, statuses) {
                let answer = try connection.ask("GET \(path)", caller.fields)
                #expect(answer.status == status, "\(path) for \(caller.name)")
                if answer.status == 200 { passed += 1 }
            }
        }
        #expect(upstream.requests.now.count == passed)
        #expect(upstream.requests.now.allSatisfy { $0["X-Internal-Key"] == nil })
    }

    @Test func aRefusalSaysWhatIsMissing() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_JWT_SECRET=\(Self.secret)
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPGRADE_URL=https://example.org/upgrade
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_REQUIRED="/required upstream=u"
            TOLLGATE_ROUTE_PREMIUM="/premium upstream=u tier=premium"
            TOLLGATE_ROUTE_CLAIMS="/claims upstream=u claims=role=editor"
            """)
        let own = try IssuerKey(.hs256(secret: Self.secret))
        let expired = try own.token(#"{"iss":"http://localhost:8000","aud":"tollgate","sub":"ada","exp":\#(unixNow - 5)}"#)
        let free = try gateway.bearer("--sub", "ada")
        let table: [(String, [String], Int, String, String)] = [
            ("/required", [], 401, "UNAUTHORIZED", #"Bearer realm="tollgate""#),
            (
                "/required", ["Authorization: Bearer \(expired)"], 401, "TOKEN_EXPIRED",
                #"Bearer realm="tollgate", error="invalid_token", error_description="The token expired""#
            ),
            (
                "/required", ["Authorization: Bearer a.b.c"], 401, "UNAUTHORIZED",
                #"Bearer realm="tollgate", error="invalid_token", error_description="The token is malformed""#
            ),
            (
                "/premium", [free], 403, "PREMIUM_REQUIRED",
                #"Bearer realm="tollgate", error="insufficient_scope", error_description="The caller's tier is too low""#
            ),
            (
                "/claims", [free], 403, "FORBIDDEN",
                #"Bearer realm="tollgate", error="insufficient_scope", error_description="The token lacks a required claim""#
            ),
        ]
        for (path, fields, status, code, challenge) in table {
            let answer = try gateway.ask("GET \(path)", fields)
            #expect(answer.status == status)
            #expect(answer["WWW-Authenticate"] == challenge)
            let body = try JSON(answer.text)
            #expect(body["error"]["code"].text == code)
            #expect(body["error"]["upgrade_url"].text == (code == "PREMIUM_REQUIRED" ? "https://example.org/upgrade" : nil))
            #expect(answer["X-Request-Id"] != nil)
            #expect(answer["Cache-Control"] == "no-store")
        }
        #expect(upstream.requests.now.isEmpty)
    }

    // MARK: tokens

    @Test func onlyAGoodTokenOfATrustedIssuerIsAccepted() throws {
        let upstream = try Upstream()
        let folder = try Folder()
        let shared = try IssuerKey(.hs256(secret: Self.secret))
        let (rsa, ec, ed) = (try IssuerKey(.rs256, kid: "r1"), try IssuerKey(.es256, kid: "e1"), try IssuerKey(.eddsa, kid: "d1"))
        let stranger = try IssuerKey(.es256, kid: "e1")
        try folder.write("secret", Self.secret + "\n")
        try folder.write("keys.json", try keySet(rsa, ec, ed))
        let gateway = try Gateway(
            """
            TOLLGATE_TRUST_SHARED="issuer=https://hs.test audience=app,other secret-file=\(folder.file("secret")) algorithms=HS256 max-lifetime=1h"
            TOLLGATE_TRUST_KEYS="issuer=https://keys.test audience=any jwks=\(folder.file("keys.json")) algorithms=RS256,ES256,EdDSA user-claim=uid tier-claim=plan"
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u"
            """, folder: folder)
        let (now, later) = (unixNow, unixNow + 600)
        let hs = { (claims: String) in try shared.token(#"{"iss":"https://hs.test","aud":"app","iat":\#(now),\#(claims)}"#) }
        let keyClaims = #"{"iss":"https://keys.test","uid":"bob","plan":"premium","exp":\#(later)}"#
        let good = try hs(#""sub":"ada","exp":\#(later)"#)
        let parts = good.split(separator: ".").map(String.init)
        let rsaPublic = try rsa.jwk()
        let table: [(String, String, String?)] = [
            ("HS256", good, nil),
            (
                "one of several audiences",
                try shared.token(#"{"iss":"https://hs.test","aud":["x","other"],"iat":\#(now),"sub":"ada","exp":\#(later)}"#), nil
            ),
            ("RS256", try rsa.token(keyClaims), nil),
            ("ES256", try ec.token(keyClaims), nil),
            ("EdDSA", try ed.token(keyClaims), nil),
            ("no kid", try ec.token(keyClaims, header: #"{"alg":"ES256"}"#), nil),
            ("fractional exp", try hs(#""sub":"ada","exp":\#(later).5"#), nil),
            ("expired", try hs(#""sub":"ada","exp":\#(now - 60)"#), "expired"),
            ("not yet", try hs(#""sub":"ada","exp":\#(later),"nbf":\#(now + 300)"#), "not_yet_valid"),
            ("no exp", try hs(#""sub":"ada""#), "no_expiry"),
            ("exp is text", try hs(#""sub":"ada","exp":"\#(later)""#), "no_expiry"),
            ("no sub", try hs(#""exp":\#(later)"#), "no_subject"),
            ("empty sub", try hs(#""sub":"","exp":\#(later)"#), "no_subject"),
            ("sub is a number", try hs(#""sub":7,"exp":\#(later)"#), "no_subject"),
            ("sub with a line end", try hs(#""sub":"ada\r\nX-User-Tier: premium","exp":\#(later)"#), "unsafe_claim"),
            ("a refresh token", try hs(#""sub":"ada","exp":\#(later),"token_use":"refresh""#), "not_an_access_token"),
            ("duplicate sub", try hs(#""sub":"ada","sub":"eva","exp":\#(later)"#), "duplicate_member"),
            ("lives too long", try hs(#""sub":"ada","exp":\#(now + 7_200)"#), "lifetime_too_long"),
            (
                "another audience", try shared.token(#"{"iss":"https://hs.test","aud":"web","iat":\#(now),"sub":"ada","exp":\#(later)}"#),
                "wrong_audience"
            ),
            ("another issuer", try shared.token(#"{"iss":"https://evil.test","aud":"app","sub":"ada","exp":\#(later)}"#), "wrong_issuer"),
            ("no issuer", try shared.token(#"{"aud":"app","sub":"ada","exp":\#(later)}"#), "wrong_issuer"),
            (
                "another secret",
                try IssuerKey(.hs256(secret: Self.secret + "x")).token(
                    #"{"iss":"https://hs.test","aud":"app","iat":\#(now),"sub":"ada","exp":\#(later)}"#), "bad_signature"
            ),
            ("a stranger's key", try stranger.token(keyClaims), "bad_signature"),
            ("an unknown kid", try ec.token(keyClaims, header: #"{"alg":"ES256","kid":"nine"}"#), "unknown_key"),
            ("none", base64URL(Array(#"{"alg":"none"}"#.utf8)) + "." + parts[1] + ".", "unsupported_algorithm"),
            (
                "none, signed",
                try shared.token(#"{"iss":"https://hs.test","aud":"app","sub":"ada","exp":\#(later)}"#, header: #"{"alg":"none"}"#),
                "unsupported_algorithm"
            ),
            (
                "crit",
                try shared.token(
                    #"{"iss":"https://hs.test","aud":"app","sub":"ada","exp":\#(later)}"#, header: #"{"alg":"HS256","crit":["x"],"x":1}"#),
                "critical_extension"
            ),
            ("the public key as a secret", try IssuerKey(.hs256(secret: rsaPublic)).token(keyClaims), "algorithm_not_allowed"),
            ("signature cut", String(good.dropLast(3)), "bad_signature"),
            ("padded", good + "=", "malformed"),
            ("four parts", good + ".x", "malformed"),
            ("empty signature", parts[0] + "." + parts[1] + ".", "bad_signature"),
        ]
        let connection = try gateway.connect()
        for (index, (name, token, reason)) in table.enumerated() {
            let answer = try connection.ask("GET /x", ["Authorization: Bearer \(token)"])
            #expect(answer.status == (reason == nil ? 200 : 401), "\(name)")
            let line = try gateway.accessLog(index + 1)[index]
            #expect(line["auth_reason"].text == reason, "\(name)")
            #expect(line["auth_outcome"].text == (reason == nil ? "accepted" : "refused"), "\(name)")
        }
        let accepted = upstream.requests.now
        #expect(accepted.count == table.filter { $0.2 == nil }.count)
        #expect(accepted.map { $0["X-User-Id"] } == ["ada", "ada", "bob", "bob", "bob", "bob", "ada"])
        #expect(accepted[2]["X-User-Tier"] == "premium")
        #expect(accepted[2]["X-Token-Issuer"] == "https://keys.test")
    }

    @Test func aTokenCountsUntilItExpiresAndNotLonger() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_JWT_SECRET=\(Self.secret)
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u"
            """)
        let bearer = try gateway.bearer("--sub", "ada", "--ttl", "10s")
        let connection = try gateway.connect()
        #expect(try connection.ask("GET /x", [bearer]).status == 200)
        #expect(try connection.ask("GET /x", [bearer]).status == 200)
        try eventually("the cached token expires") { try connection.ask("GET /x", [bearer]).status == 401 }
        let last = try connection.ask("GET /x", [bearer])
        #expect(try JSON(last.text)["error"]["code"].text == "TOKEN_EXPIRED")
    }

    @Test func twoAuthorizationsAreAmbiguous() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u\"\nTOLLGATE_ROUTE_NO=\"/no upstream=u auth=none\"")
        let bearer = try gateway.bearer("--sub", "ada")
        #expect(try gateway.ask("GET /x", [bearer, bearer]).status == 400)
        #expect(try gateway.ask("GET /x", [bearer, "authorization: Basic eDp5"]).status == 400)
        #expect(upstream.requests.now.isEmpty)
    }
}
