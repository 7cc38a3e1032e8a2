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

    /// A spent token is judged by the database's clock at every gateway: one that is ahead does not end the session within the grace, one
    /// that is behind does not extend the grace.
    @Test func theGraceOfSpentTokensIsTheSameAtEveryGateway() throws {
        let name = try PostgresCluster.shared.get().newDatabaseName()
        let server = try PostgresCluster.shared.get()
        let fleet = try Fleet(
            3, .postgres, "TOLLGATE_REFRESH_GRACE=10m", database: server.url(name), clocks: [0, 7_200, -7_200])
        let ada = try fleet[0].signUp("ada@example.org")
        let next = try fleet[0].refreshed(ada.refresh)
        #expect(try fleet[0].send("GET /me", bearer: next.access).status == 200)
        try eventually("the pair counts as delivered") { try server.run("SELECT is_confirmed FROM sessions", in: name) == "1" }
        for gateway in fleet.gateways { #expect(try gateway.refreshed(ada.refresh).refresh == next.refresh) }
        #expect(try fleet[1].askAdmin("/metrics").text.contains("tollgate_clock_skew_seconds{source=\"database\"} 7"))
        // As if the grace were over.
        try server.run("UPDATE sessions SET rotated_at = rotated_at - 601000000", in: name)
        let late = try fleet[2].send("POST /auth/token/refresh", #"{"refresh_token":"\#(ada.refresh)"}"#)
        #expect(late.status == 401, "\(late.text)")
        #expect(try server.run("SELECT reason FROM ended_sessions", in: name) == "refresh-reuse")
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
