import Foundation
import TestServers
import TestThreads
import Testing

/// Gateways over a PostgreSQL primary with a standby, and behind a pooler.
@Suite(.ownThread) struct DatabaseFailoverTests {
    @Test func gatewaysFollowTheNewPrimary() throws {
        let primary = try PostgresCluster()
        defer { primary.end() }
        let name = try primary.newDatabaseName()
        let standby = try PostgresCluster(following: primary)
        defer { standby.end() }
        let fleet = try Fleet(2, .postgres, database: PostgresCluster.url(name, on: [primary, standby]))
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])

        let position = try primary.run("SELECT pg_current_wal_lsn()")
        try eventually("the standby has replayed all") { try standby.run("SELECT pg_last_wal_replay_lsn() >= '\(position)'") == "t" }
        try primary.stop()
        // Tokens are verified without the database.
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        try standby.promote()

        try eventually("a sign-up") {
            try fleet[0].send("POST /auth/signup", credentials("eve@example.org")).status == 200
        }
        try fleet.waitForTheBus()
        let email = "ada@example.org"
        #expect(try fleet[1].command(["user", "set-tier", email, "premium"]).code == 0)
        try fleet.expect("premium") { try $0.send("GET /premium", bearer: ada.access).status == 200 }
        #expect(try fleet[1].send("POST /auth/signout", bearer: ada.access).status == 200)
        try fleet.expect("signed out") { try Fleet.refuses($0, ada.access) }
    }

    /// A planned switch: the primary takes no writes any more and goes on answering, and the standby is promoted.
    @Test func aPlannedSwitchLeavesNoGatewayBehind() throws {
        let primary = try PostgresCluster()
        defer { primary.end() }
        let name = try primary.newDatabaseName()
        let standby = try PostgresCluster(following: primary)
        defer { standby.end() }
        let fleet = try Fleet(2, .postgres, database: PostgresCluster.url(name, on: [primary, standby]))
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        let user = try primary.run("SELECT CAST(encode(id, 'hex') AS UUID) FROM accounts", in: name)
        let position = try primary.run("SELECT pg_current_wal_lsn()")
        try eventually("the standby has replayed all") { try standby.run("SELECT pg_last_wal_replay_lsn() >= '\(position)'") == "t" }
        try primary.run("ALTER SYSTEM SET default_transaction_read_only = on")
        try primary.run("SELECT pg_reload_conf()")
        let accounts = { (gateway: Gateway) in
            try JSON(gateway.askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "accounts" }?["status"].text
        }
        try fleet.expect("nothing is sure to be the newest") { try accounts($0) == "degraded" }
        try standby.promote()
        try fleet.expect("the new primary answers") { try accounts($0) == "ready" }
        #expect(try fleet.admin(0, "POST /admin/api/users/\(user)/revoke").status == 200)
        try fleet.expect("the session has ended") { try Fleet.refuses($0, ada.access) }
        // The former primary still answers, and nobody reads from it.
        let readers = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = '\(name)'"
        try eventually("every connection has moved") { try primary.run(readers) == "0" }
        try fleet.waitForTheBus()
    }

    @Test func gatewaysWorkBehindAPooler() throws {
        let server = try PostgresCluster.shared.get()
        let database = try server.newDatabase()
        let name = try #require(database.split(separator: "/").last.map(String.init))
        let pooler = try PostgresPooler(before: server, connections: 3)
        defer { pooler.end() }
        let fleet = try Fleet(2, .postgres, "DATABASE_URL_DIRECT=\"\(database)\"", database: pooler.url(name))
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        let next = try fleet[1].refreshed(ada.refresh)
        #expect(try fleet[0].send("POST /auth/signout", bearer: next.access).status == 200)
        try fleet.expect("signed out") { try Fleet.refuses($0, next.access) }
    }

    @Test func aPoolerWithoutTheServerItselfIsReported() throws {
        let server = try PostgresCluster.shared.get()
        let name = try server.newDatabaseName()
        let pooler = try PostgresPooler(before: server, connections: 3)
        defer { pooler.end() }
        let fleet = try Fleet(1, .postgres, database: pooler.url(name))
        try fleet.expect("the reason") { try Fleet.bus($0).reason?.contains("DATABASE_URL_DIRECT") == true }
        // The log of changes is polled.
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet[0].command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)
        try fleet.expect("premium") { try $0.send("GET /premium", bearer: ada.access).status == 200 }
    }

    @Test(arguments: [
        (["DATABASE_URL_DIRECT=postgres://h/d"], "it names none"),
        (["DATABASE_URL=postgres://p/d", "DATABASE_URL_DIRECT=sqlite:///d"], "names a file"),
        (["DATABASE_URL=sqlite:///tmp/d", "DATABASE_URL_DIRECT=postgres://h/d"], "it names none"),
    ])
    func aDirectAddressThatFitsNoPoolerIsRefused(_ lines: [String], _ fault: String) throws {
        let folder = try Folder()
        try folder.write("gateway.env", lines.joined(separator: "\n") + "\n")
        let result = try Tollgate.run(["check", "--env-file", folder.file("gateway.env")])
        #expect(result.code == 2)
        #expect(result.complaints.contains("DATABASE_URL_DIRECT: ") && result.complaints.contains(fault), "\(result.complaints)")
    }
}
