import Foundation
import Glibc
import TestServers
import TestThreads
import Testing

/// What the admin API shows of people, keys, limits and settings of gateways that run.
@Suite(.ownThread) struct OperatorViewTests {
    private static let token = "the-operator-of-this-gateway"

    private func ask(_ gateway: Gateway, _ methodAndTarget: String, token: String = token) throws -> Message {
        try Connection(port: gateway.adminPort).ask(methodAndTarget, ["Host: localhost", "Authorization: Bearer \(token)"])
    }

    private func json(_ gateway: Gateway, _ target: String) throws -> JSON { try JSON(ask(gateway, "GET /admin/api/\(target)").text) }

    /// Everything in which the answer differs from the API's own description.
    private func violations(_ gateway: Gateway, _ path: String, token: String = token) throws -> [String] {
        let description = APIDescription(document: try JSON(ask(gateway, "GET /admin/api/openapi.json", token: token).text))
        return try description.violations(ask(gateway, "GET /admin/api/\(path)", token: token).text, to: "GET", path)
    }

    @Test func aPersonIsFoundWithSessionsAndHistoryUntilDeleted() throws {
        let gateway = try Gateway("\(Gateway.contracts)\n\(Gateway.trustingProxies)\nTOLLGATE_ADMIN_TOKEN=\(Self.token)")
        let ada = try gateway.signUp("Ada@example.org", from: "198.51.100.7")
        let fields = ["Content-Type: application/json", "User-Agent: App/2.0 (iPhone)", "X-Forwarded-For: 2001:db8::5"]
        let signedIn = try gateway.ask("POST /auth/signin", fields, body: Array(credentials("ada@example.org").utf8))
        #expect(signedIn.status == 200, "\(signedIn.text)")
        let found = try json(gateway, "users?search=DA%40exam")["users"].array
        #expect(found.count == 1)
        let id = try must(found[0]["id"])
        let sessions = { try json(gateway, "users/\(id)")["sessions"].array }
        #expect(try sessions().map { $0["address"].text } == ["2001:db8::5", "198.51.100.7"])
        #expect(try sessions()[0]["device"].text == "App/2.0 (iPhone)")
        let last = try must(sessions()[1]["expires_at"])
        _ = try gateway.send("POST /auth/token/refresh", #"{"refresh_token":"\#(ada.refresh)"}"#, from: "203.0.113.9")
        #expect(try sessions()[1]["address"].text == "203.0.113.9", "where it was last refreshed")
        #expect(try must(sessions()[1]["expires_at"]) > last)
        #expect(try gateway.command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)
        #expect(try ask(gateway, "POST /admin/api/users/\(id)/revoke").text.contains(#""sessions_ended":2"#))
        let events = try json(gateway, "audit?user=\(id)")["events"].array
        let told = events.map { "\($0["event"].text ?? "") \($0["actor"].text ?? "") \($0["address"].text ?? "-")" }
        #expect(told.prefix(3) == ["session-ended admin-api -", "session-ended admin-api -", "tier-changed command -"], "\(told)")
        #expect(told.last == "account-opened user 198.51.100.7" && told.contains("signed-in user 2001:db8::5"), "\(told)")
        #expect(try json(gateway, "audit?limit=2")["events"].array.map { $0["id"].text } == events.prefix(2).map { $0["id"].text })
        let before = try must(events[1]["id"])
        #expect(try json(gateway, "audit?before=\(before)&limit=1")["events"][0]["id"].text == events[2]["id"].text)
        #expect(try ask(gateway, "DELETE /admin/api/users/\(id)").status == 200)
        let left = try ask(gateway, "GET /admin/api/audit?user=\(id)").text
        #expect(left.contains("account-deleted") && !left.contains("198.51.100.7") && !left.contains("2001:db8::5"), "\(left)")
        #expect(try json(gateway, "users?search=ada")["users"].array.isEmpty)
    }

    @Test func twoGatewaysThatRevokeAtOnceEndEachSessionOnce() throws {
        let fleet = try Fleet(2, .postgres)
        try fleet.waitForTheBus()
        let user = try must(claims(of: fleet[0].signUp("ada@example.org").access)["sub"])
        for _ in 0..<3 { _ = try fleet[1].send("POST /auth/signin", credentials("ada@example.org")) }
        let ports = fleet.gateways.map(\.adminPort)
        let answers = try atOnce(6) { number in
            let fields = ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"]
            return try Connection(port: ports[number % 2]).ask("POST /admin/api/users/\(user)/revoke", fields).text
        }
        #expect(try answers.reduce(0) { try $0 + (JSON($1)["sessions_ended"].int ?? 0) } == 4, "\(answers)")
        let events = try JSON(fleet.admin(0, "GET /admin/api/audit?user=\(user)").text)["events"].array
        #expect(events.count { $0["event"].text == "session-ended" && $0["actor"].text == "admin-api" } == 4)
    }

    /// Several rotations at once, at both gateways: each takes place or is refused, and no token is ever signed with a key that the other
    /// gateway does not have.
    @Test func aRotationIsSeenAtEveryGateway() throws {
        let fleet = try Fleet(2, .postgres)
        try fleet.waitForTheBus()
        let ports = fleet.gateways.map(\.adminPort)
        let rotations = Background {
            try atOnce(4) { number in
                let fields = ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"]
                let answer = try Connection(port: ports[number % 2]).ask("POST /admin/api/keys/rotate", fields)
                return (answer.status, answer.text)
            }
        }
        var asked = 0
        while asked == 0 || !rotations.isDone {
            let token = try fleet[asked % 2].register("u\(asked)@example.org").access
            #expect(try fleet.statuses("GET /me", token) == [200, 200])
            asked += 1
        }
        let answers = try rotations.value(seconds: 60)
        #expect(answers.allSatisfy { $0.0 == 200 || $0.0 == 409 } && answers.contains { $0.0 == 200 }, "\(answers)")
        let rotated = answers.count { $0.0 == 200 }
        let keys = { (index: Int) in try JSON(fleet.admin(index, "GET /admin/api/keys").text)["own"].array }
        try eventually("both have the same keys") {
            let own = try (0..<2).map { try keys($0).map { "\($0["kid"].text ?? "") \($0["state"].text ?? "")" } }
            return own[0] == own[1] && own[0].count == 2 + rotated
        }
        let own = try keys(1)
        #expect(own.map { $0["state"].text } == ["current", "next"] + Array(repeating: "retired", count: rotated))
        #expect(own.allSatisfy { ($0["state"].text == "retired") == ($0["ends_at"].text != nil) && $0["created_at"].text != nil })
        try fleet.expect("the new key signs") { gateway in
            let token = try gateway.register("v\(UInt64.random(in: 0 ... .max))@example.org").access
            let head = try JSON(text(of: bytes(base64URL: String(token.split(separator: ".")[0])) ?? []))
            return head["kid"].text == own[0]["kid"].text
        }
    }

    @Test func theKeysThatLimitsRefuseMostAreShown() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_ADMIN_TOKEN=\(Self.token)
            \(Gateway.trustingProxies)
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ME="/me upstream=u limit=1/h"
            TOLLGATE_ROUTE_OPEN="/open upstream=u auth=none limit=2/h limit=100/h+by=header:x-api-key"
            TOLLGATE_WORKERS=2
            """)
        let ada = try gateway.bearer("--sub", "ada")
        for number in 0..<6 { #expect(try gateway.ask("GET /me", [ada]).status == (number == 0 ? 200 : 429)) }
        for number in 0..<4 {
            #expect(
                try gateway.ask("GET /open", ["X-Forwarded-For: 198.51.100.7", "X-Api-Key: secret-key"]).status == (number < 2 ? 200 : 429))
        }
        let text = try ask(gateway, "GET /admin/api/limits").text
        let limits = try JSON(text)
        #expect(
            limits["hottest"].array.map {
                "\($0["policy"].text ?? "") \($0["kind"].text ?? "") \($0["key"].text ?? "") \($0["refused"].int ?? 0)"
            }
                == ["me user ada 5", "open address 198.51.100.7 2"], "\(text)")
        #expect(
            limits["policies"].array.map {
                "\($0["policy"].text ?? "") \($0["limit"].text ?? "") \($0["key"].text ?? "") \($0["failure"].text ?? "")"
            }
                == ["me 1/h user local", "open 2/h user local", "open.2 100/h+by=header:x-api-key header:x-api-key local"])
        #expect(limits["redis"]["configured"].bool == false && !text.contains("secret-key"))
        #expect(try violations(gateway, "limits").isEmpty)
    }

    @Test func theConfigurationSaysWhereItComesFromAndHowTheLastReloadWent() throws {
        let upstream = try Upstream()
        let lines = "TOLLGATE_ADMIN_TOKEN=\(Self.token)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_R=\"/r upstream=u\"\n"
        let gateway = try Gateway(lines + "TOLLGATE_IDLE_TIMEOUT=20s", environment: ["TOLLGATE_BODY_TIMEOUT": "21s"])
        let setting = { (shown: JSON, name: String) in shown["settings"].array.first { $0["name"].text == name } }
        let first = try json(gateway, "configuration")
        #expect(first["version"].int == 1 && first["last_reload"]["at"].text == nil)
        #expect(setting(first, "TOLLGATE_IDLE_TIMEOUT")?["value"].text == "20s")
        #expect(setting(first, "TOLLGATE_IDLE_TIMEOUT")?["source"].text?.hasSuffix("gateway.env:4") == true)
        #expect(setting(first, "TOLLGATE_BODY_TIMEOUT")?["source"].text == "environment")
        #expect(
            setting(first, "TOLLGATE_ADMIN_TOKEN")?["secret"].bool == true && setting(first, "TOLLGATE_ADMIN_TOKEN")?["value"].text == nil)
        try gateway.reload(lines + "TOLLGATE_IDLE_TIMEOUT=soon\nTOLLGATE_UPSTREAM_V=http://u:hidden@host")
        let refused = try json(gateway, "configuration")
        #expect(refused["version"].int == 1 && refused["last_reload"]["ok"].bool == false)
        #expect(try violations(gateway, "configuration").isEmpty)
        #expect(setting(refused, "TOLLGATE_IDLE_TIMEOUT")?["value"].text == "20s")
        #expect(refused["last_reload"]["faults"].array.count == 2 && !refused.description.contains("hidden"), "\(refused["last_reload"])")
        // The second could be taken for the end of the next reload.
        try gateway.process.complaints.wait(for: "a line for each fault") { $0.count { $0.contains("configuration refused") } == 2 }
        try gateway.reload(lines + "TOLLGATE_IDLE_TIMEOUT=22s\nTOLLGATE_WORKERS=2")
        let adopted = try json(gateway, "configuration")
        #expect(adopted["version"].int == 2 && adopted["last_reload"]["ok"].bool == true && adopted["last_reload"]["faults"].array.isEmpty)
        #expect(adopted["last_reload"]["warnings"].array.map { $0.text } == ["TOLLGATE_WORKERS: a change needs a restart"])
        #expect(
            setting(adopted, "TOLLGATE_IDLE_TIMEOUT")?["value"].text == "22s" && setting(adopted, "TOLLGATE_WORKERS")?["value"].text == "1")
    }

    /// Every secret setting has the marker in it, and what secrets are read from and kept in.
    @Test func noAnswerHasASecret() throws {
        let marker = "MARKER-of-more-than-thirty-two-bytes"
        let folder = try Folder()
        try folder.write("hs.txt", marker + marker)
        let database = try PostgresCluster.shared.get().newDatabase().replacing("tollgate@", with: "tollgate:\(marker)@")
        let secrets = [
            "TOLLGATE_ADMIN_TOKEN": marker, "TOLLGATE_JWT_SECRET": marker, "TOLLGATE_KEY_SECRET": marker, "DATABASE_URL": database,
            "DATABASE_URL_DIRECT": database, "TOLLGATE_DATABASE_URL": database, "TOLLGATE_DATABASE_URL_DIRECT": database,
            "REDIS_URL": "redis://:\(marker)@127.0.0.1:1", "SMTP_URL": "smtp://u:\(marker)@127.0.0.1:1",
            "TOLLGATE_SMS_URL": "http://127.0.0.1:1/\(marker)", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=\(marker)",
        ]
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            \(Gateway.contracts)
            \(secrets.map { "\($0)=\"\($1)\"" }.sorted().joined(separator: "\n"))
            TOLLGATE_MAIL_FROM=a@example.org
            OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_R="/r upstream=u limit=1/h"
            TOLLGATE_TRUST_HS="issuer=hs audience=any secret-file=\(folder.file("hs.txt"))"
            TOLLGATE_TRUST_AWAY="issuer=away audience=any jwks=http://127.0.0.1:1/keys?key=\(marker) tier-from=lookup tier-url=http://127.0.0.1:1/tier?token=\(marker)"
            """)
        let ada = try gateway.signUp("ada@example.org")
        for _ in 0..<3 { _ = try gateway.send("GET /r", bearer: ada.access) }
        let user = try must(claims(of: ada.access)["sub"])
        let paths = [
            "users", "users?search=ada", "users/\(user)", "audit", "keys", "limits", "configuration", "routes", "upstreams",
            "decisions?limit=100",
            "now", "openapi.json",
        ]
        for path in paths {
            let answer = try ask(gateway, "GET /admin/api/\(path)", token: marker)
            #expect(answer.status == 200 && !answer.text.contains("MARKER"), "\(path): \(answer.text)")
            #expect(!answer.text.contains(ada.refresh) && !answer.text.contains(ada.access), "\(path)")
        }
        // It needs no token.
        let ready = try Connection(port: gateway.adminPort).ask("GET /readyz", ["Host: localhost"]).text
        #expect(ready.contains("keys of away") && !ready.contains("MARKER"), "\(ready)")
        let rotation = try ask(gateway, "POST /admin/api/keys/rotate", token: marker)
        #expect(rotation.status == 409 && rotation.text.contains("TOLLGATE_JWT_SECRET") && !rotation.text.contains("MARKER"))
        let shown = try JSON(ask(gateway, "GET /admin/api/configuration", token: marker).text)["settings"].array.filter {
            $0["secret"].bool == true
        }
        // A new secret setting belongs into this test.
        #expect(Set(shown.compactMap { $0["name"].text }) == Set(secrets.keys))
        #expect(shown.allSatisfy { $0["source"].text?.contains("gateway.env:") == true })
        func issuers() throws -> [JSON] { try JSON(ask(gateway, "GET /admin/api/keys", token: marker).text)["issuers"].array }
        // The first fetch may not have ended yet, and during one the next is not known.
        try eventually("a fault of a fetch") {
            try issuers().last.map { $0["last_fault"].text != nil && $0["next_fetch_at"].text != nil } == true
        }
        let keys = try issuers()
        for path in ["keys", "limits", "audit", "users", "configuration"] { #expect(try violations(gateway, path, token: marker).isEmpty) }
        #expect(keys.map { "\($0["name"].text ?? "") \($0["keys"].int ?? 0)" } == ["hs 1", "away 0"])
        #expect(keys[1]["last_fault"].text?.contains("127.0.0.1:1") == true)
    }
}
