import Foundation
import Testing

/// The admin API of a gateway that runs.
@Suite struct AdminAPIEndToEndTests {
    /// The token that the first start told, and told once.
    private func toldToken(_ gateway: Gateway) throws -> String {
        let lines = gateway.process.complaints.now.filter { $0.contains("\"token\":") }
        guard lines.count == 1, let token = try JSON(lines[0])["token"].text else { throw Fault("no token is told: \(lines)") }
        return token
    }

    private func ask(_ gateway: Gateway, _ token: String, _ methodAndTarget: String, _ json: String = "") throws -> Message {
        try Connection(port: gateway.adminPort).ask(methodAndTarget, ["Authorization: Bearer \(token)"], body: Array(json.utf8))
    }

    @Test func whatTheOperatorDoesCountsAtOnceForTokensThatAreOut() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "\(Gateway.contracts)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_P=\"/premium upstream=u tier=premium\"\nTOLLGATE_WORKERS=2")
        let token = try toldToken(gateway)
        let ada = try gateway.register("ada@example.org")
        let status = { try gateway.send("GET /premium", bearer: ada.access).status }
        #expect(try status() == 403)
        #expect(try ask(gateway, token, "GET /admin/api/users?email=ada@example.org").text.contains(ada.user))
        #expect(try ask(gateway, token, "PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"premium"}"#).status == 200)
        try eventually("the old token is premium on every worker", seconds: 1) {
            try (0..<8).allSatisfy { _ in try status() == 200 }
        }
        #expect(try ask(gateway, token, "POST /admin/api/users/\(ada.user)/revoke").text.contains(#""sessions_ended":1"#))
        try eventually("the old token is refused by every worker", seconds: 1) {
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
}
