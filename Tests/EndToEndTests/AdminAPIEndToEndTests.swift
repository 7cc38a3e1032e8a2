import Foundation
import TestThreads
import Testing

/// The admin API of a gateway that runs.
@Suite(.ownThread) struct AdminAPIEndToEndTests {
    /// The token that the first start told, and told once.
    private func toldToken(_ gateway: Gateway) throws -> String {
        let lines = gateway.process.complaints.now.filter { $0.contains("\"token\":") }
        guard lines.count == 1, let token = try JSON(lines[0])["token"].text else { throw Fault("no token is told: \(lines)") }
        return token
    }

    private func ask(_ gateway: Gateway, _ token: String, _ methodAndTarget: String, _ json: String = "") throws -> Message {
        try Connection(port: gateway.adminPort).ask(
            methodAndTarget, ["Host: localhost:\(gateway.adminPort)", "Authorization: Bearer \(token)"], body: Array(json.utf8))
    }

    @Test func whatTheOperatorDoesCountsAtOnceForTokensThatAreOut() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "\(Gateway.contracts)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_P=\"/premium upstream=u tier=premium\"\nTOLLGATE_WORKERS=2"
        )
        let token = try toldToken(gateway)
        let ada = try gateway.register("ada@example.org")
        let status = { try gateway.send("GET /premium", bearer: ada.access).status }
        #expect(try status() == 403)
        #expect(try ask(gateway, token, "GET /admin/api/users?email=ada@example.org").text.contains(ada.user))
        #expect(try ask(gateway, token, "PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"premium"}"#).status == 200)
        try eventually("the old token is premium on every worker", seconds: 15) {
            try (0..<8).allSatisfy { _ in try status() == 200 }
        }
        #expect(try ask(gateway, token, "POST /admin/api/users/\(ada.user)/revoke").text.contains(#""sessions_ended":1"#))
        try eventually("the old token is refused by every worker", seconds: 15) {
            try (0..<8).allSatisfy { _ in try status() == 401 }
        }
        #expect(try gateway.send("GET /premium", bearer: ada.access).text.contains("TOKEN_REVOKED"))
    }

    @Test func aMadeTokenIsToldOnceAndKept() throws {
        let folder = try Folder()
        let first = try Gateway("", folder: folder)
        let token = try toldToken(first)
        #expect(try ask(first, "wrong", "GET /admin/api/routes").status == 401)
        #expect(try first.send("GET /admin/api/routes", bearer: token).status == 404, "not on the main listener")
        try first.stop()
        let second = try Gateway("", folder: folder)
        #expect(throws: Fault.self) { try toldToken(second) }
        #expect(try ask(second, token, "GET /admin/api/routes").status == 200)
        #expect(!second.process.output.now.joined().contains(token))
    }

    @Test func aTokenThatIsSetIsNeverTold() throws {
        let gateway = try Gateway("TOLLGATE_ADMIN_TOKEN=a-token-that-was-set")
        #expect(try ask(gateway, "a-token-that-was-set", "GET /admin/api/users").text == #"{"users":[]}"#)
        #expect(!(gateway.process.complaints.now + gateway.process.output.now).joined().contains("a-token-that-was-set"))
    }

    /// A token with scopes counts from its file as the last reload found it, and is never printed.
    @Test func aTokenWithScopesIsReplacedByAReload() throws {
        let folder = try Folder()
        let (first, second) = ("first-token-of-billing", "second-token-of-billing")
        try folder.write("billing", first + "\n")
        let line = "TOLLGATE_ADMIN_TOKEN_BILLING=\"token-file=\(folder.file("billing")) scope="
        let gateway = try Gateway(line + "users:read\"", folder: folder)
        #expect(try ask(gateway, first, "GET /admin/api/users").text == #"{"users":[]}"#)
        let refused = try ask(gateway, first, "GET /admin/api/configuration")
        #expect(refused.status == 403 && refused.text.contains("the token billing has users:read"))
        try folder.write("billing", second + "\n")
        try gateway.reload(line + "gateway:read\"")
        #expect(try ask(gateway, first, "GET /admin/api/users").status == 401)
        #expect(try ask(gateway, second, "GET /admin/api/users").status == 403)
        let shown = try ask(gateway, second, "GET /admin/api/configuration")
        #expect(shown.status == 200)
        let told = (gateway.process.complaints.now + gateway.process.output.now).joined() + shown.text
        #expect(!told.contains(first) && !told.contains(second))
    }

    @Test func withoutAnAdminListenerNoTokenIsMadeOrTold() throws {
        let folder = try Folder()
        try folder.write("gateway.env", Gateway.complete("TOLLGATE_ADMIN_LISTEN=", folder))
        let process = try Subprocess(try Tollgate.binary.get(), ["serve", "--env-file", folder.file("gateway.env")])
        try process.complaints.wait(for: "the gateway's address", until: { $0.contains { $0.contains("listening") } })
        process.signal(SIGTERM)
        #expect(try process.exitCode() == 0)
        #expect(!process.complaints.now.joined().contains("admin token"))
        #expect(!FileManager.default.fileExists(atPath: folder.file("data/keys/admin-token")))
    }

    /// A page whose name leads to this machine (DNS rebinding) names itself in `Host`.
    @Test func theAdminListenerAnswersUnderItsOwnNamesOnly() throws {
        let gateway = try Gateway(
            "TOLLGATE_ADMIN_TOKEN=a-token-that-was-set\nTOLLGATE_ADMIN_HOSTS=\"gate.example.org Console.Example.org\"")
        let port = gateway.adminPort
        let ask = { (target: String, host: String) in
            try Connection(port: port).ask("GET \(target)", ["Host: \(host)", "Authorization: Bearer a-token-that-was-set"])
        }
        for host in [
            "127.0.0.1:\(port)", "127.0.0.1", "10.1.2.3", "[::1]:\(port)", "localhost", "LOCALHOST:\(port)", "gate.example.org",
            "GATE.example.org:\(port)", "console.example.org",
        ] {
            #expect(try ask("/admin/api/routes", host).status == 200, "\(host)")
        }
        for host in [
            "evil.example", "evil.example:\(port)", "localhost.evil.example", "x.gate.example.org", "127.0.0.1.evil.example", "2130706433",
        ] {
            for target in ["/admin/api/routes", "/admin/api/users", "/", "/console/"] {
                let refused = try ask(target, host)
                #expect(refused.status == 421, "\(target) of \(host)")
                #expect(refused.text.contains("TOLLGATE_ADMIN_HOSTS"))
            }
            for target in ["/livez", "/readyz", "/metrics"] { #expect(try ask(target, host).status == 200, "\(target) of \(host)") }
        }
    }

    @Test func theRightTokenIsNeverHeldUpByWrongOnes() throws {
        let gateway = try Gateway("TOLLGATE_ADMIN_TOKEN=a-token-that-was-set")
        let statuses = try (0..<40).map { try ask(gateway, "guess-\($0)", "GET /admin/api/routes").status }
        #expect(statuses.first == 401 && statuses.last == 429)
        #expect(try ask(gateway, "a-token-that-was-set", "GET /admin/api/routes").status == 200)
        #expect(try ask(gateway, "another-guess", "GET /admin/api/routes").status == 429)
    }

    @Test func everyRefusalIsToldByItsRequestIDAsExplainTellsIt() throws {
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_GONE="http://127.0.0.1:1"
            TOLLGATE_ROUTE_ME="/me upstream=gone"
            TOLLGATE_ROUTE_GOLD="/gold upstream=gone tier=premium"
            TOLLGATE_ROUTE_FEW="/few upstream=gone auth=none limit=1/h"
            TOLLGATE_ROUTE_SMALL="/small upstream=gone auth=none body-limit=1KiB"
            TOLLGATE_WORKERS=2
            """)
        let admin = try toldToken(gateway)
        let bearer = try gateway.bearer("--sub", "ada")
        let body = [UInt8](repeating: 0x20, count: 2_048)
        let cases: [(request: String, fields: [String], body: [UInt8], steps: [String: String])] = [
            ("GET /me?secret=x", [], [], ["route": "me: /me, auth=required", "identity": "refused: missing"]),
            (
                "GET /gold", [bearer], [],
                ["identity": "user ada of tollgate, tier free, by ES256; refused: tier", "tier": "premium is needed, free is held"]
            ),
            ("GET /few", [], [], ["cause": "not_reached", "limit": "1/h by user: 0 left"]),
            ("GET /few", [], [], ["limit": "1/h by user: 0 left, again in 3600 s"]),
            ("POST /small", [], body, ["size": "the content is larger than 1024 bytes"]),
            ("GET /none", [], [], ["route": "none"]),
        ]
        for (request, fields, body, steps) in cases {
            let refused = try gateway.ask(request, fields, body: body.isEmpty ? nil : body)
            let id = try #require(refused["x-request-id"])
            let told = try ask(gateway, admin, "GET /admin/api/decisions?request_id=\(id)").text
            let decisions = try JSON(told)["decisions"].array
            #expect(decisions.count == 1, "\(request): \(told)")
            let decision = try #require(decisions.first)
            #expect(decision["request_id"].text == id && decision["status"].int == refused.status)
            // Some of the hour may have gone by between two requests.
            let found = decision["steps"].array.reduce(into: [String: String]()) {
                $0[$1["step"].text ?? ""] = $1["text"].text?.replacing(/again in 3[45]\d\d s/, with: "again in 3600 s")
            }
            for (name, text) in steps { #expect(found[name] == text || found[name]?.hasPrefix(text) == true, "\(request): \(found)") }
            #expect(!told.contains("secret") && !told.contains(bearer.dropFirst(22)))
        }
        let raw = try gateway.connect()
        try raw.send("GET / HTTP/1.1\r\n\r\n")
        #expect(try raw.answer().status == 400)
        let newest = try JSON(ask(gateway, admin, "GET /admin/api/decisions?limit=1").text)["decisions"][0]
        #expect(newest["steps"].array.contains { $0["text"].text == "missing_host" }, "\(newest)")
    }
}
