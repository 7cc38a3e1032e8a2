import Foundation
import TestServers
import TestThreads
import Testing

/// Tiers of people whose tokens carry none: set here, or known to a server.
@Suite(.ownThread) struct OutsideTierTests {
    private static let secret = "the secret of an old system's tokens"

    /// A server that knows tiers: answers by the subject as it is told.
    private final class TierBook: Sendable {
        let tiers = Watched<[String: String]>([:])
        /// A whole answer in place of the usual one.
        let fault = Watched<String?>(nil)
        let questions = Watched<[String]>([])
        private let server: Upstream
        var url: String { "\(server.url)/tiers?key=k" }

        init(port: Int = 0) throws {
            let (tiers, fault, questions) = (tiers, fault, questions)
            server = try Upstream(port: port) { request, connection in
                let target = URLComponents(string: request.target)
                let values = Dictionary(uniqueKeysWithValues: (target?.queryItems ?? []).map { ($0.name, $0.value ?? "") })
                let subject = "\(values["issuer"] ?? "") \(values["subject"] ?? "")"
                questions.change { $0.append(subject) }
                if let fault = fault.now { return try connection.send(fault) }
                let body = tiers.now[subject].map { #"{"tier":"\#($0)"}"# } ?? #"{"tier":null}"#
                try connection.send(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
        }
    }

    /// The settings of a gateway with routes for everybody and for premium people, and a filtered one.
    private static func settings(_ upstream: Upstream, _ folder: Folder, _ trust: String...) throws -> String {
        try folder.write("secret", secret)
        let lines = [
            "TOLLGATE_ADMIN_TOKEN=\(Fleet.adminToken)", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ME=\"/me upstream=u\"",
            "TOLLGATE_ROUTE_PREMIUM=\"/premium upstream=u tier=premium\"", "TOLLGATE_ROUTE_LIST=\"/list upstream=u filter=results[].tier\"",
        ]
        let issuers = trust.map { line in
            let (name, more) = (line.prefix { $0 != " " }, line.drop { $0 != " " })
            return
                "TOLLGATE_TRUST_\(name.uppercased())=\"issuer=https://\(name).test audience=any secret-file=\(folder.file("secret")) algorithms=HS256\(more)\""
        }
        return (lines + issuers).joined(separator: "\n")
    }

    private static func gateway(_ upstream: Upstream, _ trust: String..., more: String = "") throws -> Gateway {
        let folder = try Folder()
        var text = ""
        switch trust.count {
        case 1: text = try settings(upstream, folder, trust[0])
        default: text = try settings(upstream, folder, trust[0], trust[1])
        }
        return try Gateway(text + "\n" + more, folder: folder)
    }

    private static func token(_ subject: String, of issuer: String = "django", tier: String? = nil) throws -> String {
        let claim = tier.map { #","tier":"\#($0)""# } ?? ""
        let quoted = String(decoding: try JSONEncoder().encode(subject), as: UTF8.self)
        return try IssuerKey(.hs256(secret: secret)).token(
            #"{"iss":"https://\#(issuer).test","sub":\#(quoted)\#(claim),"exp":\#(unixNow + 3_600)}"#)
    }

    private static func admin(_ gateway: Gateway, _ request: String, _ json: String = "") throws -> Message {
        try Connection(port: gateway.adminPort).ask(
            request, ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"], body: Array(json.utf8))
    }

    private static let list = #"{"results":[{"id":1,"tier":"free"},{"id":2,"tier":"premium"}]}"#

    private static func listing() throws -> Upstream {
        try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(list.utf8.count)\r\n\r\n\(list)"))
    }

    // MARK: account

    @Test func aTierThatIsSetCountsAtOnceInATokenThatIsOut() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "django tier-from=account", more: "TOLLGATE_WORKERS=2")
        let token = try Self.token("42", tier: "premium")
        let status = { try gateway.send("GET /premium", bearer: token).status }
        #expect(try status() == 403, "a claim does not count")
        #expect(try gateway.command(["user", "set-tier", "django:42", "premium"]).output == "django:42 has the tier premium.")
        try eventually("premium on every worker", seconds: 15) { try (0..<8).allSatisfy { _ in try status() == 200 } }
        #expect(upstream.requests.now.last?["X-User-Tier"] == "premium" && upstream.requests.now.last?["X-User-Id"] == "42")
        #expect(try Self.admin(gateway, "PUT /admin/api/users/django:42/tier", #"{"tier":"free"}"#).status == 200)
        try eventually("free on every worker", seconds: 15) { try (0..<8).allSatisfy { _ in try status() == 403 } }
        #expect(try Self.admin(gateway, "PUT /admin/api/users/django:42/tier", #"{"tier":"premium"}"#).status == 200)
        try eventually("premium again", seconds: 15) { try status() == 200 }
        let shown = try gateway.command(["explain", "GET", "/premium", "--token", token])
        #expect(shown.output.contains("the tier is the account's, looked up 0 s ago"), "\(shown)")
        let account = try Self.admin(gateway, "GET /admin/api/users/django:42").text
        let id = try must(JSON(account)["id"])
        #expect(try gateway.command(["user", "set-tier", id, "free"]).code == 0)
        try eventually("free by the account's id", seconds: 15) { try status() == 403 }
        #expect(try Self.admin(gateway, "PUT /admin/api/users/\(id)/tier", #"{"tier":"premium"}"#).status == 200)
        try eventually("premium by the account's id", seconds: 15) { try status() == 200 }
        #expect(try Self.admin(gateway, "DELETE /admin/api/users/django:42").status == 200)
        try eventually("nothing is left", seconds: 15) { try status() == 403 }
        let none = try gateway.command(["explain", "GET", "/premium", "--token", token])
        #expect(none.output.contains("no tier was set here for django:42"), "\(none)")
    }

    @Test func anImportOfPeopleWhoAreKnownAsFreeMakesThemPremium() throws {
        let gateway = try Self.gateway(try Upstream(), "django tier-from=account")
        let token = try Self.token("7")
        #expect(try gateway.send("GET /premium", bearer: token).status == 403)
        let lines = #"{"id":"7","email":"ada@example.org","tier":"premium"}"# + "\n"
        #expect(try gateway.command(["user", "import", "-"], input: lines).output.hasPrefix("1 made"))
        try eventually("premium", seconds: 15) { try gateway.send("GET /premium", bearer: token).status == 200 }
    }

    @Test func nobodySharesATierWithANamesake() throws {
        let upstream = try Upstream()
        let gateway = try Self.gateway(upstream, "django tier-from=account", "rails tier-from=account", more: Gateway.contracts)
        let ada = try gateway.register("ada@example.org")
        #expect(try Self.admin(gateway, "PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"premium"}"#).status == 200)
        #expect(try gateway.send("GET /premium", bearer: ada.access).status == 200)
        let alike = try Self.token(ada.user)
        #expect(try gateway.send("GET /premium", bearer: alike).status == 403, "the id of an own account as a subject")
        #expect(try Self.admin(gateway, "PUT /admin/api/users/rails:42/tier", #"{"tier":"premium"}"#).status == 200)
        #expect(try gateway.send("GET /premium", bearer: Self.token("42", of: "rails")).status == 200)
        #expect(try gateway.send("GET /premium", bearer: Self.token("42")).status == 403)
        #expect(try Self.admin(gateway, "PUT /admin/api/users/django:\(ada.user)/tier", #"{"tier":"premium"}"#).status == 200)
        #expect(try Self.admin(gateway, "PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"free"}"#).status == 200)
        #expect(try gateway.send("GET /premium", bearer: alike).status == 200)
        #expect(try gateway.send("GET /premium", bearer: ada.access).status == 403)
    }

    static let odd = ["a:b", "a/b", "50%", "%41", "../../x", "ü ü", "e\u{301}", "\u{E9}", "a?b&tier=premium#c", "a+b", "\u{1F600}", "'--"]

    @Test func oddSubjectsAreNobodyElse() throws {
        let upstream = try Upstream()
        let book = try TierBook()
        let gateway = try Self.gateway(upstream, "django tier-from=account", "rails tier-from=lookup tier-url=\(book.url) tier-max-age=1h")
        let unreserved = CharacterSet.alphanumerics.intersection(CharacterSet(charactersIn: Unicode.Scalar(0)..<Unicode.Scalar(128)))
        for subject in Self.odd {
            let path = subject.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
            let (kept, asked) = (try Self.token(subject), try Self.token(subject, of: "rails"))
            #expect(try gateway.send("GET /premium", bearer: kept).status == 403, "\(subject)")
            #expect(try gateway.send("GET /premium", bearer: asked).status == 403, "\(subject)")
            let set = try Self.admin(gateway, "PUT /admin/api/users/django:\(path)/tier", #"{"tier":"premium"}"#)
            #expect(set.status == 200, "\(subject): \(set.text)")
            #expect(try gateway.send("GET /premium", bearer: kept).status == 200, "\(subject)")
            book.tiers.change { $0["https://rails.test \(subject)"] = "premium" }
            #expect(try gateway.send("GET /premium", bearer: asked).status == 403, "the answer still counts")
            #expect(try Self.admin(gateway, "DELETE /admin/api/users/rails:\(path)/tier-cache").status == 200)
            #expect(try gateway.send("GET /premium", bearer: asked).status == 200, "\(subject)")
            #expect(book.questions.now.suffix(2).allSatisfy { $0.utf8.elementsEqual("https://rails.test \(subject)".utf8) })
            book.tiers.change { $0 = [:] }
        }
        #expect(book.questions.now.count == 2 * Self.odd.count)
    }

    // MARK: lookup

    @Test func manyRequestsAskOnceAndTheAnswerCountsForItsTime() throws {
        let (upstream, book) = (try Self.listing(), try TierBook())
        book.tiers.change { $0["https://django.test 42"] = "premium" }
        let gateway = try Self.gateway(
            upstream, "django tier-from=lookup tier-url=\(book.url) tier-max-age=10s", more: "TOLLGATE_WORKERS=2")
        let (port, token) = (gateway.port, try Self.token("42"))
        let statuses = try atOnce(50) { _ in try Connection(port: port).ask("GET /premium", ["Authorization: Bearer \(token)"]).status }
        #expect(statuses.allSatisfy { $0 == 200 } && book.questions.now == ["https://django.test 42"])
        #expect(try gateway.send("GET /list", bearer: token).text == Self.list)
        book.tiers.change { $0["https://django.test 42"] = "gold" }
        #expect(try gateway.send("GET /premium", bearer: token).status == 200)
        try eventually("the next answer") { try gateway.send("GET /premium", bearer: token).status == 403 }
        #expect(try gateway.send("GET /list", bearer: token).text == #"{"results":[{"id":1,"tier":"free"}]}"#)
        #expect(try gateway.metric("tollgate_tier_lookups_total", #"issuer="django""#, #"result="ok""#) == Double(book.questions.now.count))
        let told = try gateway.command(["explain", "GET", "/premium", "--token", token]).output
        #expect(
            told.contains("the tier is the answer of the tier server of django") && told.contains(#"the tier server names "gold""#),
            "\(told)")
    }

    static let faults = [
        "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 404 X\r\nContent-Length: 18\r\n\r\n{\"tier\":\"premium\"}",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "nonsense\r\n\r\n",
    ]

    @Test func whileTheServerFailsAKnownTierStaysAndAnUnknownOneIs503WhereItMatters() throws {
        let (upstream, book) = (try Self.listing(), try TierBook())
        let gateway = try Self.gateway(upstream, "django tier-from=lookup tier-url=\(book.url) tier-max-age=1s")
        book.tiers.change { $0["https://django.test known"] = "premium" }
        let known = try Self.token("known")
        #expect(try gateway.send("GET /premium", bearer: known).status == 200)
        for (number, fault) in Self.faults.enumerated() {
            book.fault.change { $0 = fault }
            let token = try Self.token("new\(number)", tier: "premium")
            for path in ["/premium", "/list"] {
                let answer = try gateway.send("GET \(path)", bearer: token)
                #expect(answer.status == 503 && answer["Retry-After"] == "1", "\(fault): \(answer)")
            }
            #expect(try gateway.send("GET /me", bearer: token).status == 200)
            #expect(upstream.requests.now.last?["X-User-Tier"] == "free" && upstream.requests.now.last?["X-User-Premium"] == "false")
        }
        Thread.sleep(forTimeInterval: 1.2)
        #expect(try gateway.send("GET /premium", bearer: known).status == 200, "long after its time")
        #expect(try gateway.metric("tollgate_tier_lookups_total", #"result="failed""#) >= Double(Self.faults.count))
        try gateway.waitForLog("a tier server does not answer")
        // What is forgotten is unknown.
        #expect(try Self.admin(gateway, "DELETE /admin/api/users/django:known/tier-cache").status == 200)
        #expect(try gateway.send("GET /premium", bearer: known).status == 503)
        book.fault.change { $0 = nil }
        try eventually("the server is back", seconds: 15) { try gateway.send("GET /premium", bearer: known).status == 200 }
    }

    /// More users at once than questions that may be under way.
    @Test func manyUsersAtOnceEachGetTheirOwnTier() throws {
        let book = try TierBook()
        book.tiers.change { tiers in for number in 0..<200 where number % 2 == 0 { tiers["https://django.test \(number)"] = "premium" } }
        let gateway = try Self.gateway(try Upstream(), "django tier-from=lookup tier-url=\(book.url)", more: "TOLLGATE_WORKERS=2")
        // 128 may be under way; of the others none waits for the three seconds after which it is refused, on a busy machine either.
        let tokens = try (0..<200).map { try Self.token("\($0)") }
        let port = gateway.port
        let statuses = try atOnce(200) { try Connection(port: port).ask("GET /premium", ["Authorization: Bearer \(tokens[$0])"]).status }
        #expect(statuses == (0..<200).map { $0 % 2 == 0 ? 200 : 403 })
        #expect(book.questions.now.count == 200)
    }

    @Test func aServerThatNeverAnswersHoldsNobodyForLong() throws {
        let silent = try Upstream { _, _ in Thread.sleep(forTimeInterval: 30) }
        let gateway = try Self.gateway(try Upstream(), "django tier-from=lookup tier-url=\(silent.url)/")
        let start = Date()
        #expect(try gateway.send("GET /premium", bearer: Self.token("1")).status == 503)
        #expect(try gateway.send("GET /me", bearer: Self.token("1")).status == 200)
        // Two times three seconds; the server would answer after thirty.
        #expect(Date().timeIntervalSince(start) < 25)
    }

    @Test func anotherServerAfterAReloadIsAskedAnew() throws {
        let (upstream, first, second, folder) = (try Upstream(), try TierBook(), try TierBook(), try Folder())
        first.tiers.change { $0["https://django.test 42"] = "premium" }
        let gateway = try Gateway(
            try Self.settings(upstream, folder, "django tier-from=lookup tier-url=\(first.url) tier-max-age=1h"), folder: folder)
        let token = try Self.token("42", tier: "premium")
        #expect(try gateway.send("GET /premium", bearer: token).status == 200)
        try gateway.reload(Self.settings(upstream, folder, "django tier-from=lookup tier-url=\(second.url) tier-max-age=1h"))
        #expect(try gateway.send("GET /premium", bearer: token).status == 403)
        try gateway.reload(Self.settings(upstream, folder, "django"))
        #expect(try gateway.send("GET /premium", bearer: token).status == 200, "the claim counts again")
        try gateway.reload(Self.settings(upstream, folder, "django tier-from=account"))
        #expect(try gateway.send("GET /premium", bearer: token).status == 403)
        #expect(first.questions.now.count == 1 && second.questions.now.count == 1)
    }

    // MARK: several gateways

    @Test(arguments: Bus.allCases)
    func whatChangesAtOneGatewayCountsAtAll(_ bus: Bus) throws {
        let (book, folder) = (try TierBook(), try Folder())
        try folder.write("secret", Self.secret)
        let base = "audience=any secret-file=\(folder.file("secret")) algorithms=HS256"
        let fleet = try Fleet(
            2, bus, "TOLLGATE_TRUST_DJANGO=\"issuer=https://django.test \(base) tier-from=account\"",
            "TOLLGATE_TRUST_RAILS=\"issuer=https://rails.test \(base) tier-from=lookup tier-url=\(book.url) tier-max-age=1h\"")
        try fleet.waitForTheBus()
        let (kept, asked) = (try Self.token("42"), try Self.token("42", of: "rails"))
        #expect(try fleet.statuses("GET /premium", kept) == [403, 403])
        #expect(try fleet.statuses("GET /premium", asked) == [403, 403])
        #expect(try fleet.admin(0, "PUT /admin/api/users/django:42/tier", #"{"tier":"premium"}"#).status == 200)
        try fleet.expect("premium") { try $0.send("GET /premium", bearer: kept).status == 200 }
        book.tiers.change { $0["https://rails.test 42"] = "premium" }
        #expect(try fleet.statuses("GET /premium", asked) == [403, 403])
        #expect(try fleet.admin(1, "DELETE /admin/api/users/rails:42/tier-cache").status == 200)
        try fleet.expect("asked again") { try $0.send("GET /premium", bearer: asked).status == 200 }
        #expect(book.questions.now.count == 4)
        #expect(try fleet[0].command(["user", "delete", "django:42"]).code == 0)
        try fleet.expect("free") { try $0.send("GET /premium", bearer: kept).status == 403 }
    }
}
