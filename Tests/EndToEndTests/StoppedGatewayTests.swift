import Foundation
import TestServers
import TestThreads
import Testing

/// A gateway that did not run for a while (SIGSTOP, a frozen machine): what has happened meanwhile counts for its first request.
@Suite(.ownThread) struct StoppedGatewayTests {
    /// Longer than a second, for which a gateway may lag behind.
    private static let stop = 3.0

    /// Asks a gateway that is stopped, and lets it go on.
    private func firstStatus(of gateway: Gateway, _ token: String) throws -> Int {
        let connection = try gateway.connect()
        try connection.send("GET /me HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)\r\n\r\n")
        gateway.process.resume()
        return try connection.answer().status
    }

    @Test(arguments: Bus.allCases)
    func anEndedSessionIsRefusedAtOnce(_ bus: Bus) throws {
        let fleet = try Fleet(2, bus)
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        let bob = try fleet[0].signUp("bob@example.org")
        for token in [ada.access, bob.access] { #expect(try fleet.statuses("GET /me", token) == [200, 200]) }
        fleet[1].process.pause()
        defer { fleet[1].process.resume() }
        #expect(try fleet[0].send("POST /auth/signout", bearer: ada.access).status == 200)
        // The stop itself: the gateway must see that time has gone by.
        Thread.sleep(forTimeInterval: Self.stop)
        #expect(try firstStatus(of: fleet[1], ada.access) == 401)
        #expect(try fleet[1].send("GET /me", bearer: bob.access).status == 200)
    }

    /// The keys were rotated twice meanwhile, so the key that signs now was not published to it before.
    @Test func aTokenOfANewKeyIsAcceptedAtOnce() throws {
        let fleet = try Fleet(2, .postgres)
        try fleet.waitForTheBus()
        fleet[1].process.pause()
        defer { fleet[1].process.resume() }
        for _ in 0..<2 { #expect(try fleet.admin(0, "POST /admin/api/keys/rotate").status == 200) }
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try firstStatus(of: fleet[1], ada.access) == 200)
    }
}
