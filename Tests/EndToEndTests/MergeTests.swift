import Foundation
import TestServers
import TestThreads
import Testing

/// Guests that are merged, over gateways that share a database or are killed.
@Suite(.ownThread) struct MergeTests {
    private func guest(of gateway: Gateway) throws -> PasswordTokens {
        let body = try JSON(try gateway.send("POST /auth/user", "{}").text)
        return PasswordTokens(
            user: try must(body["userId"]), access: try must(body["sessionToken"]), refresh: try must(body["refreshToken"]))
    }

    private func merge(_ guest: PasswordTokens) -> String { #"{"guest_token":"\#(guest.refresh)"}"# }

    @Test(arguments: Bus.allCases)
    func aGuestThatIsMergedAtOneGatewayEndsAtAll(_ bus: Bus) throws {
        let fleet = try Fleet(2, bus, "TOLLGATE_ACCOUNT=/account")
        try fleet.waitForTheBus()
        let (guest, ada) = (try guest(of: fleet[0]), try fleet[1].signUp("ada@example.org"))
        let user = try must(try claims(of: ada.access)["sub"])
        #expect(try fleet.statuses("GET /me", guest.access) == [200, 200])
        for _ in 0..<2 {
            let answer = try fleet[1].send("POST /account/merge", #"{"guest_token":"\#(guest.refresh)"}"#, bearer: ada.access)
            #expect(answer.status == 200 && answer.text == #"{"id":"\#(user)","merged_from":"\#(guest.user)"}"#)
        }
        try fleet.expect("all refuse the guest") { try Fleet.refuses($0, guest.access) }
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        let shown = try fleet.admin(0, "GET /admin/api/users/\(guest.user)").text
        #expect(try must(try JSON(shown)["id"]) == user && shown.contains(#""merges":[{"from":"\#(guest.user)""#))
        #expect(try fleet[1].metric("tollgate_account_merges_total", "made") == 1)
        let done = "users/\(guest.user)/merges/\(guest.user)/done"
        for number in 0..<2 { #expect(try fleet.admin(number, "POST /admin/api/\(done)").status == 200) }
        #expect(try fleet.admin(1, "GET /admin/api/users/\(user)").text.contains(#""merges":[]"#))
        #expect(try fleet[0].metric("tollgate_account_merges_total", "taken") == 1)
    }

    /// What the app asks for again has one effect, whether or not the gateway had got to it.
    @Test(arguments: [false, true]) func aGatewayThatIsKilledMergesEachGuestOnce(_ isPostgres: Bool) throws {
        let folder = try Folder()
        let database = isPostgres ? "DATABASE_URL=\"\(try PostgresCluster.shared.get().newDatabase())\"\n" : ""
        let settings = "\(Gateway.contracts)\n\(database)TOLLGATE_ACCOUNT=/account\nTOLLGATE_ADMIN_TOKEN=\(Fleet.adminToken)"
        var gateway = try Gateway(settings, folder: folder)
        let ada = try gateway.signUp("ada@example.org")
        let guests = try (0..<9).map { _ in try guest(of: gateway) }
        for round in 0..<3 {
            let connections = try guests.map { _ in try gateway.connect() }
            for (connection, guest) in zip(connections, guests) {
                let body = merge(guest)
                try connection.send(
                    "POST /account/merge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(ada.access)\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
            // After the first, some, or most of its answers.
            for connection in connections.prefix(1 + round * 3) { _ = try connection.take(through: "merged_from") }
            gateway.process.kill()
            gateway = try Gateway(settings, folder: folder)
        }
        for guest in guests {
            let answer = try gateway.send("POST /account/merge", merge(guest), bearer: ada.access)
            #expect(answer.status == 200 && answer.text.contains(guest.user), "\(answer.text)")
        }
        let user = try must(try claims(of: ada.access)["sub"])
        let shown = try Connection(port: gateway.adminPort).ask(
            "GET /admin/api/users/\(user)", ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"])
        let merges = try JSON(shown.text)["merges"].array.map { try must($0["from"]) }
        #expect(merges.sorted() == guests.map(\.user).sorted())
    }
}
