import Foundation
import TestServers
import TestThreads
import Testing

/// Gateways whose clock is days off: what they do to the sessions of others, and of their own later life.
@Suite(.ownThread) struct WrongClockTests {
    private static let day = 86_400

    /// The environment in which libfaketime shows a process another time of day, SQLite included.
    private func environment(_ days: String) throws -> [String: String] {
        let folders = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime"]
        guard let folder = folders.first(where: { FileManager.default.fileExists(atPath: $0) }) else {
            throw Fault("libfaketime is missing: deploy/test installs it")
        }
        // The names in FAKETIME_SHARED need not exist: without them the library sets the variable itself, which moves the environment
        // to where Swift does not find the arguments.
        return [
            "LD_PRELOAD": folder + "/libfaketime.so.1", "FAKETIME": days, "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_SHARED": "/none /none",
        ]
    }

    /// A machine that boots with a wrong clock, until the time service puts it right.
    @Test func aStartWithTheClockFarAheadLosesNoSession() throws {
        let folder = try Folder()
        let settings = Gateway.contracts
        let first = try Gateway(settings, folder: folder)
        let ada = try first.signUp("ada@example.org")
        try first.stop()
        for round in 0..<2 {
            let wrong = try Gateway(settings, folder: folder, environment: environment("+38d"))
            // Its sweep came first: one thread writes. It stamps what it writes, and still the next start believes the store.
            #expect(try wrong.signUp("bob\(round)@example.org").access.isEmpty == false)
            try wrong.stop()
        }
        let right = try Gateway(settings, folder: folder)
        _ = try right.refreshed(ada.refresh)
    }

    /// The database's clock decides over the sessions of a fleet.
    @Test func aGatewayWithAWrongClockNeitherLosesNorRevivesSessionsOfOthers() throws {
        let fleet = try Fleet(1, .postgres)
        let (ada, bob) = (try fleet[0].signUp("ada@example.org"), try fleet[0].signUp("bob@example.org"))
        let wrong = try Fleet(2, .postgres, database: fleet.database, clocks: [38 * Self.day, -8 * Self.day])
        _ = try wrong[0].signUp("carl@example.org")
        // The one behind takes the token, and ends its session, under a stamp of last week by its own clock.
        #expect(try wrong[1].send("POST /auth/signout", bearer: bob.access).status == 200)
        try fleet.expect("the end is told") { try Fleet.refuses($0, bob.access) }
        _ = try fleet[0].refreshed(ada.refresh)
        let later = try Fleet(1, .postgres, database: fleet.database)
        try later.expect("the end is read at a start") { try Fleet.refuses($0, bob.access) }
    }
}
