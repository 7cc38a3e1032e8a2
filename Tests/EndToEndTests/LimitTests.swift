import Foundation
import TestThreads
import Testing

/// How many may pass, exactly, and what everybody is told of it.
@Suite(.ownThread) struct LimitTests {
    /// Whether so many seconds are left, less those that have gone by since `start`: a busy machine takes its time.
    static func isLeft(_ text: String?, of seconds: Int, since start: Double) -> Bool {
        guard let left = text.flatMap({ Int($0) }) else { return false }
        return (seconds - Int(ProcessInfo.processInfo.systemUptime - start)...seconds).contains(left)
    }

    @Test func theHeadersCountDown() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=3/h\"")
        let connection = try gateway.connect()
        let start = ProcessInfo.processInfo.systemUptime
        for number in 1...3 {
            let answer = try connection.ask("GET /few")
            #expect(answer.status == 200)
            #expect(answer["RateLimit-Policy"] == #""few";q=3;w=3600"#)
            #expect(answer["RateLimit"] == "\"few\";r=\(3 - number);t=\(answer["X-RateLimit-Reset"] ?? "")")
            #expect(answer["X-RateLimit-Limit"] == "3")
            #expect(answer["X-RateLimit-Remaining"] == String(3 - number))
            #expect(Self.isLeft(answer["X-RateLimit-Reset"], of: number * 1_200, since: start), "\(answer)")
            #expect(answer["Retry-After"] == nil)
        }
        for _ in 0..<5 {
            let answer = try connection.ask("GET /few")
            #expect(answer.status == 429)
            #expect(answer["RateLimit-Policy"] == #""few";q=3;w=3600"#)
            #expect(answer["RateLimit"] == "\"few\";r=0;t=\(answer["X-RateLimit-Reset"] ?? "")")
            #expect(Self.isLeft(answer["X-RateLimit-Reset"], of: 3_600, since: start), "\(answer)")
            #expect(answer["X-RateLimit-Remaining"] == "0")
            #expect(Self.isLeft(answer["Retry-After"], of: 1_200, since: start), "\(answer)")
            #expect(try JSON(answer.text)["error"]["code"].text == "RATE_LIMITED")
        }
        #expect(upstream.requests.now.count == 3)
        #expect(upstream.requests.now[0]["X-RateLimit-Limit"] == nil)
    }

    @Test func whatAnUpstreamSaysOfLimitsOfItsOwnIsNotMixedIn() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-RateLimit-Remaining: 99\r\nRateLimit: \"x\";r=9\r\n\r\nok"))
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=3/h\"")
        let answer = try gateway.ask("GET /few")
        #expect(answer.all("X-RateLimit-Remaining") == ["2"])
        #expect(answer.all("RateLimit").count == 1)
    }

    @Test func eachTierHasItsOwnLimit() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEED=\"/feed upstream=u auth=optional limit=anonymous:1/h,free:2/h,premium:10/h+burst=4\""
        )
        let connection = try gateway.connect()
        let callers: [(String, [String], Int)] = [
            ("nobody", [], 1), ("free", [try gateway.bearer("--sub", "ada")], 2),
            ("another free", [try gateway.bearer("--sub", "bob")], 2),
            ("premium", [try gateway.bearer("--sub", "eva", "--tier", "premium")], 4),
        ]
        for (name, fields, count) in callers {
            let statuses = try (0..<6).map { _ in try connection.ask("GET /feed", fields).status }
            #expect(statuses == Array(repeating: 200, count: count) + Array(repeating: 429, count: 6 - count), "\(name)")
        }
        #expect(try connection.ask("GET /feed", callers[3].1)["X-RateLimit-Limit"] == "10")
    }

    @Test func severalLimitsMustAllAdmitAndARefusalCostsNothing() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEED=\"/feed upstream=u limit=2/h limit=free:3/h+by=address,premium:50/h+by=address\""
        )
        let (ada, bob) = (try gateway.bearer("--sub", "ada"), try gateway.bearer("--sub", "bob"))
        let eva = try gateway.bearer("--sub", "eva", "--tier", "premium")
        let start = ProcessInfo.processInfo.systemUptime
        #expect(try (0..<4).map { _ in try gateway.ask("GET /feed", [ada]).status } == [200, 200, 429, 429])
        // Of the address's three, two are spent.
        let bobs = try (0..<2).map { _ in try gateway.ask("GET /feed", [bob]) }
        #expect(bobs.map(\.status) == [200, 429])
        #expect(bobs[0]["RateLimit-Policy"] == #""feed";q=2;w=3600, "feed.2";q=3;w=3600"#)
        let left = try #require(bobs[0]["RateLimit"]?.wholeMatch(of: /"feed";r=1;t=1800, "feed\.2";r=0;t=([0-9]+)/))
        #expect(Self.isLeft(String(left.output.1), of: 3_600, since: start), "\(bobs[0])")
        #expect(bobs[1]["X-RateLimit-Limit"] == "3" && bobs[1]["X-RateLimit-Remaining"] == "0")
        #expect(Self.isLeft(bobs[1]["Retry-After"], of: 1_200, since: start), "\(bobs[1])")
        #expect(try gateway.ask("GET /feed", [eva]).status == 200)
    }

    @Test func theSubjectIsWhatTheRouteSays() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_TRUSTED_PROXIES=127.0.0.0/8
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ADDRESS="/address upstream=u auth=optional limit=1/h limit-by=address"
            TOLLGATE_ROUTE_HEADER="/header upstream=u auth=none limit=1/h limit-by=header:X-Device"
            TOLLGATE_ROUTE_USER="/user upstream=u auth=optional limit=1/h"
            TOLLGATE_ROUTE_OTHER="/other upstream=u auth=optional limit=1/h"
            """)
        let from = { (address: String) in "X-Forwarded-For: \(address)" }
        let (ada, bob) = (try gateway.bearer("--sub", "ada"), try gateway.bearer("--sub", "bob"))
        let table: [(String, [String], Int)] = [
            ("/address", [from("192.0.2.1")], 200), ("/address", [from("192.0.2.1")], 429), ("/address", [from("192.0.2.2")], 200),
            ("/address", [from("192.0.2.1"), ada], 429),
            ("/address", [from("2001:db8:1:2::1")], 200), ("/address", [from("2001:db8:1:2:ffff::9")], 429),
            ("/address", [from("2001:db8:1:3::1")], 200), ("/address", [from("::ffff:192.0.2.1")], 429),
            ("/header", [from("192.0.2.1"), "X-Device: a"], 200), ("/header", [from("192.0.2.2"), "X-Device: a"], 429),
            ("/header", [from("192.0.2.1"), "X-Device: b"], 200), ("/header", [from("192.0.2.3")], 200),
            ("/header", [from("192.0.2.3")], 429),
            ("/user", [ada], 200), ("/user", [ada], 429), ("/user", [bob], 200), ("/user", [], 200), ("/user", [], 429),
            ("/other", [ada], 200),
        ]
        for (path, fields, status) in table {
            #expect(try gateway.ask("GET \(path)", fields).status == status, "\(path) \(fields)")
        }
    }

    @Test func aLogWithALineCutOutIsTold() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_A="/a upstream=u auth=none limit=3/h"
            TOLLGATE_ROUTE_B="/b upstream=u auth=none"
            """)
        for path in ["/a", "/b", "/a", "/a", "/b", "/a", "/a"] { try gateway.ask("GET \(path)") }
        _ = try gateway.accessLog(7)
        var lines = gateway.process.output.now
        func verified(_ lines: [String]) throws -> CommandOutcome {
            try Tollgate.run(["limits", "verify", gateway.folder.write("access.log", lines.joined(separator: "\n") + "\n")])
        }
        #expect(try !verified(lines).output.contains("with limits"))
        lines.remove(at: 3)
        #expect(try verified(lines).output.contains("The logs lack 1 line with limits"))
        #expect(try verified(Array(lines.dropFirst())).output.contains("The gateways wrote 1 line with limits before the first line"))
    }

    @Test func twoWorkersAdmitExactlyTheBurst() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_MANY="/many upstream=u limit=50/h"
            """)
        let (port, bearer) = (gateway.port, try gateway.bearer("--sub", "ada"))
        let clients = (0..<12).map { _ in
            Background {
                let connection = try Connection(port: port)
                return try (0..<25).map { _ in try connection.ask("GET /many", [bearer]).status }
            }
        }
        let statuses = try clients.flatMap { try $0.value() }
        #expect(statuses.filter { $0 == 200 }.count == 50)
        #expect(statuses.filter { $0 == 429 }.count == 250)
        #expect(upstream.requests.now.count == 50)
    }

    @Test func noWindowAdmitsMoreThanItsBound() throws {
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_MANY="/many upstream=u auth=none limit=100/s+burst=10"
            """)
        let port = gateway.port
        let start = ProcessInfo.processInfo.systemUptime
        let clients = (0..<6).map { _ in
            Background {
                let connection = try Connection(port: port)
                var asked: [(sent: Double, answered: Double, status: Int)] = []
                while ProcessInfo.processInfo.systemUptime - start < 2 {
                    let sent = ProcessInfo.processInfo.systemUptime
                    let status = try connection.ask("GET /many").status
                    asked.append((sent, ProcessInfo.processInfo.systemUptime, status))
                }
                return asked
            }
        }
        let asked = try clients.flatMap { try $0.value() }
        #expect(asked.allSatisfy { $0.status == 200 || $0.status == 429 })
        let admitted = asked.filter { $0.status == 200 }.sorted { $0.sent < $1.sent }
        // Each was decided between its sending and its answer: a window from one sending to a later answer holds them both.
        for first in admitted.indices {
            for last in stride(from: first, to: admitted.count, by: 7) {
                let length = admitted[first...last].map(\.answered).max()! - admitted[first].sent
                #expect(Double(last - first + 1) <= 10 + 100 * length + 0.001)
            }
        }
        // Nor is anybody refused while there is room: from one of those before on, the burst and what came since were all admitted.
        let refused = asked.filter { $0.status == 429 }
        for number in stride(from: 0, to: refused.count, by: max(refused.count / 100, 1)) {
            let refusal = refused[number]
            let before = admitted.filter { $0.sent <= refusal.answered }
            let isUsedUp = before.contains { first in
                let count = before.count { $0.answered >= first.sent }
                return Double(count) + 0.01 > 9 + 100 * (refusal.sent - first.answered)
            }
            #expect(isUsedUp, "callers that keep asking get all that the rate allows")
        }
        #expect(admitted.count >= 10)
    }

    @Test func aShadowedLimitOnlyCounts() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=1/h shadow=limit\"")
        for _ in 0..<3 { #expect(try gateway.ask("GET /few").status == 200) }
        #expect(upstream.requests.now.count == 3)
        #expect(try gateway.metric("tollgate_ratelimit_decisions_total", #"policy="few""#) == 3)
    }

    @Test func eachSessionHasALimitOfItsOwn() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let text = "a secret of at least thirty-two bytes"
        let secret = try folder.write("secret", text)
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_S=\"/s upstream=u auth=optional limit=1/h limit-by=session\"\nTOLLGATE_TRUST_APP=\"issuer=https://app.test audience=app secret-file=\(secret) algorithms=HS256\""
        )
        let key = try IssuerKey(.hs256(secret: text))
        let token = { (user: String, session: String?) in
            let sid = session.map { #","sid":"\#($0)""# } ?? ""
            return "Authorization: Bearer "
                + (try key.token(#"{"iss":"https://app.test","aud":"app","sub":"\#(user)","exp":\#(unixNow + 600)\#(sid)}"#))
        }
        let (phone, tablet) = (try token("ada", "s-1"), try token("ada", "s-2"))
        let table: [(String, [String], Int)] = [
            ("the first session", [phone], 200), ("again", [phone], 429), ("another session of the same user", [tablet], 200),
            ("a new token of the first session", [try token("ada", "s-1")], 429),
            ("the same session name of another user is the same session", [try token("bob", "s-1")], 429),
            ("without a session, the user", [try token("eva", nil)], 200), ("again", [try token("eva", nil)], 429),
            ("nobody, by address", [], 200), ("again", [], 429),
        ]
        for (what, fields, status) in table { #expect(try gateway.ask("GET /s", fields).status == status, "\(what)") }
    }
}
