import Foundation
import TestThreads
import Testing

/// The endpoints of `TOLLGATE_ACCOUNT`, over gateways that share a database.
@Suite(.ownThread) struct OwnAccountTests {
    private func sessions(at gateway: Gateway, _ token: String) throws -> [JSON] {
        let answer = try gateway.send("GET /account/sessions", bearer: token)
        guard answer.status == 200 else { throw Fault("the sessions are not shown: \(answer)") }
        return try JSON(answer.text)["sessions"].array
    }

    private func signIn(at gateway: Gateway) throws -> String {
        try must(try JSON(try gateway.send("POST /auth/signin", credentials("ada@example.org")).text)["session"]["access_token"])
    }

    /// A request that costs no write is still a use, and all gateways show it.
    @Test func aUseAtOneGatewayIsSeenAtAllWithinAMinute() throws {
        let fleet = try Fleet(2, .postgres, "TOLLGATE_ACCOUNT=/account")
        let used = try fleet[0].signUp("ada@example.org")
        let token = try signIn(at: fleet[1])
        let id = try must(try claims(of: used.access)["sid"])
        func lastUse() throws -> String {
            guard let session = try sessions(at: fleet[1], token).first(where: { $0["id"].text == id }) else { throw Fault("it is gone") }
            return try must(session["last_used_at"])
        }
        let opened = try lastUse()
        try eventually("the use is shown") {
            guard try fleet[0].send("GET /me", bearer: used.access).status == 200 else { throw Fault("the token is refused") }
            return try lastUse() > opened
        }
    }

    @Test func aSessionThatEndsAtOneGatewayIsRefusedAtTheOther() throws {
        let fleet = try Fleet(2, .redis, "TOLLGATE_ACCOUNT=/account")
        try fleet.waitForTheBus()
        let first = try fleet[0].signUp("ada@example.org").access
        let (second, third) = (try signIn(at: fleet[1]), try signIn(at: fleet[0]))
        let ended = try must(try claims(of: second)["sid"])
        #expect(try fleet[0].send("DELETE /account/sessions/\(ended)", bearer: first).status == 204)
        try fleet.expect("the second is refused") { try Fleet.refuses($0, second) }
        #expect(try sessions(at: fleet[1], third).map { $0["current"].bool } == [true, false])
        #expect(try fleet[1].send("DELETE /account/sessions", bearer: third).status == 204)
        try fleet.expect("the first is refused") { try Fleet.refuses($0, first) }
        #expect(try sessions(at: fleet[0], third).count == 1)
    }
}
