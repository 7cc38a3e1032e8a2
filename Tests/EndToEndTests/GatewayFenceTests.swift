import Foundation
import TestServers
import TestThreads
import Testing

/// Gateways say in the database how far their workers have come with the change log. A purchase is answered by that.
@Suite(.ownThread) struct GatewayFenceTests {
    private struct World {
        let fleet: Fleet
        let ada: PasswordTokens

        init(_ count: Int, _ bus: Bus) throws {
            fleet = try Fleet(count, bus)
            try fleet.waitForTheBus()
            ada = try fleet[0].register("ada@example.org")
        }

        @discardableResult
        func sql(_ statement: String) throws -> String {
            try PostgresCluster.shared.get().run(statement, in: try #require(fleet.database.split(separator: "/").last.map(String.init)))
        }

        /// The status of every gateway, which thereby knows the tier of now.
        func statuses() throws -> [Int] { try fleet.statuses("GET /premium", ada.access) }

        /// Sets the tier and raises a fence behind it, as a further gateway would.
        func fence(behind tier: String) throws -> String {
            try sql("UPDATE accounts SET tier = '\(tier)', tier_version = tier_version + 1")
            return try sql("INSERT INTO changes (kind, subject, at) VALUES (5, decode(repeat('00', 16), 'hex'), \(clock)) RETURNING id")
        }

        func count(_ condition: String) throws -> Int { try #require(Int(try sql("SELECT count(*) FROM gateways WHERE \(condition)"))) }

        let clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    }

    @Test(arguments: Bus.allCases) func theFirstRequestBehindAFenceHasTheTier(_ bus: Bus) throws {
        let world = try World(3, bus)
        for (tier, before, after) in [("premium", 403, 200), ("free", 200, 403), ("premium", 403, 200)] {
            #expect(try world.statuses() == [before, before, before])
            let fence = try world.fence(behind: tier)
            try eventually("all have passed the fence") { try world.count("passed >= \(fence)") == 3 }
            #expect(try world.statuses() == [after, after, after])
        }
    }

    /// It does not pass the fence, so a purchase is not said to count at it; its first request afterwards has the tier all the same.
    @Test func aGatewayThatIsStoppedPassesNoFenceAndCatchesUp() throws {
        let world = try World(3, .postgres)
        #expect(try world.statuses() == [403, 403, 403])
        let stopped = world.fleet[2].process
        stopped.pause()
        defer { stopped.resume() }
        let fence = try world.fence(behind: "premium")
        try eventually("the others have passed the fence") { try world.count("passed >= \(fence)") == 2 }
        for gateway in world.fleet.gateways.prefix(2) {
            #expect(try gateway.send("GET /premium", bearer: world.ada.access).status == 200)
        }
        // Its row is old: a purchase does not wait for it.
        try eventually("it counts as gone") { try world.count("seen_at < \(world.clock) - 6000000") == 1 }
        #expect(try world.count("passed < \(fence)") == 1)
        let connection = try world.fleet[2].connect()
        try connection.send("GET /premium HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(world.ada.access)\r\n\r\n")
        stopped.resume()
        #expect(try connection.answer().status == 200)
        try eventually("it is back") { try world.count("seen_at > \(world.clock) - 6000000") == 3 }
    }

    /// After a second without an answer of it a purchase is answered, so it must notice a stop of a second, whenever that began.
    @Test func aStopOfASecondIsNoticed() throws {
        let world = try World(2, .postgres)
        let stopped = world.fleet[1].process
        for (tier, before, after) in [("premium", 403, 200), ("free", 200, 403), ("premium", 403, 200), ("free", 200, 403)] {
            // The request begins a wait of its loop.
            #expect(try world.statuses() == [before, before])
            let connection = try world.fleet[1].connect()
            stopped.pause()
            defer { stopped.resume() }
            _ = try world.fence(behind: tier)
            // The stop itself.
            Thread.sleep(forTimeInterval: 1)
            try connection.send("GET /premium HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(world.ada.access)\r\n\r\n")
            stopped.resume()
            #expect(try connection.answer().status == after)
        }
    }

    @Test func theRowOfAGatewayGoesWithItAndOneThatIsKilledLeavesIt() throws {
        let world = try World(3, .postgres)
        #expect(try world.count("seen_at > \(world.clock) - 6000000") == 3)
        #expect(try world.fleet[1].stop() == 0)
        #expect(try world.count("true") == 2)
        world.fleet[2].process.kill()
        let fence = try world.fence(behind: "premium")
        try eventually("the last has passed the fence") { try world.count("passed >= \(fence)") == 1 }
        #expect(try world.count("true") == 2)
        try eventually("the row is old") { try world.count("seen_at < \(world.clock) - 6000000") == 1 }
    }
}
