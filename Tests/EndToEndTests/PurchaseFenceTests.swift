import Foundation
import TestServers
import TestThreads
import Testing

/// A purchase that is answered counts at every gateway, or the answer says that it does not yet.
@Suite(.ownThread) struct PurchaseFenceTests {
    /// Gateways that share a database, and a Stripe that knows every checkout session as paid.
    private struct World {
        let fleet: Fleet
        private let stripe: Upstream
        private let folder: Folder

        init(_ count: Int, _ bus: Bus, database: String? = nil) throws {
            folder = try Folder()
            stripe = try Upstream { request, connection in
                let id = request.target.split(whereSeparator: { "/?".contains($0) }).first { $0.hasPrefix("cs_") } ?? "cs_"
                let body = World.session(String(id.dropFirst(3)))
                try connection.send(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
            let secret = try folder.write("secret", "whsec_not_used_here")
            let key = try folder.write("key", "rk_test_1")
            fleet = try Fleet(
                count, bus, "TOLLGATE_PRODUCT_PREMIUM=\"tier=premium stripe=price_premium\"",
                "TOLLGATE_PURCHASES_STRIPE=\"environments=sandbox secret-file=\(secret) api-key-file=\(key) api-url=\(stripe.url)\"",
                database: database)
            try fleet.waitForTheBus()
        }

        private static func session(_ number: String) -> String {
            let now = Int(Date().timeIntervalSince1970)
            let period = "\"current_period_start\":\(now - 10),\"current_period_end\":\(now + 86_400)"
            return """
                {"id":"cs_\(number)","object":"checkout.session","livemode":false,"status":"complete","payment_status":"paid",\
                "mode":"subscription","created":\(now),"subscription":{"id":"sub_\(number)","object":"subscription","status":"active",\
                \(period),"items":{"data":[{"price":{"id":"price_premium"},\(period)}]}}}
                """
        }

        /// Buys the subscription of this number at a gateway; whether it counts everywhere.
        func buy(_ number: Int, at gateway: Int, _ token: String) throws -> Bool {
            let answer = try claim(number, at: gateway, token)
            #expect(answer.status == 200, "\(answer.text)")
            let json = try JSON(answer.text)
            #expect(json["tier"].text == "premium")
            return try #require(json["everywhere"].bool as Bool?)
        }

        func claim(_ number: Int, at gateway: Int, _ token: String) throws -> Message {
            try fleet[gateway].send("POST /purchases/stripe", Self.body(number), bearer: token)
        }

        static func body(_ number: Int) -> String { #"{"session_id":"cs_\#(number)"}"# }

        func statuses(_ token: String) throws -> [Int] { try fleet.statuses("GET /premium", token) }
    }

    @Test(arguments: Bus.allCases) func theNextRequestIsPremiumAtEveryGateway(_ bus: Bus) throws {
        let world = try World(3, bus)
        var everywhere = 0
        for number in 0..<9 {
            let ada = try world.fleet[0].register("ada\(number)@example.org")
            #expect(try world.statuses(ada.access) == [403, 403, 403])
            // On a busy machine a gateway may take longer than it has.
            guard try world.buy(number, at: number % 3, ada.access) else { continue }
            everywhere += 1
            #expect(try world.statuses(ada.access) == [200, 200, 200])
        }
        #expect(everywhere > 0)
    }

    @Test func aStoppedGatewayIsNamedAndItsNextRequestIsPremium() throws {
        let world = try World(3, .postgres)
        let ada = try world.fleet[0].register("ada@example.org")
        #expect(try world.statuses(ada.access) == [403, 403, 403])
        let stopped = world.fleet[2].process
        stopped.pause()
        defer { stopped.resume() }
        #expect(try !world.buy(1, at: 0, ada.access), "it is answered while the other is stopped")
        try world.fleet[0].waitForLog("/\(stopped.pid)\"")
        for gateway in world.fleet.gateways.prefix(2) { #expect(try gateway.send("GET /premium", bearer: ada.access).status == 200) }
        let connection = try world.fleet[2].connect()
        try connection.send("GET /premium HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(ada.access)\r\n\r\n")
        stopped.resume()
        #expect(try connection.answer().status == 200)
        try eventually("it is waited for again") { try world.buy(1, at: 0, ada.access) }
    }

    @Test func aKilledGatewayIsWaitedForUntilItsRowIsOld() throws {
        let world = try World(2, .postgres)
        let ada = try world.fleet[0].register("ada@example.org")
        try eventually("both are up") { try world.buy(1, at: 0, ada.access) }
        world.fleet[1].process.kill()
        let bob = try world.fleet[0].register("bob@example.org")
        #expect(try !world.buy(2, at: 0, bob.access))
        #expect(try world.fleet[0].send("GET /premium", bearer: bob.access).status == 200)
        try eventually("it is gone") { try world.buy(2, at: 0, bob.access) }
    }

    /// What is committed is found by the next claim, wherever it is made.
    @Test func aClaimThatIsKilledBeforeItsAnswerIsMadeAgain() throws {
        let cluster = try PostgresCluster.shared.get()
        let name = try cluster.newDatabaseName()
        let world = try World(2, .postgres, database: cluster.url(name))
        let ada = try world.fleet[0].register("ada@example.org")
        try eventually("both are up") { try world.buy(1, at: 0, ada.access) }
        // The answer waits for it.
        let other = world.fleet[1].process
        other.pause()
        defer { other.resume() }
        let bob = try world.fleet[0].register("bob@example.org")
        let body = World.body(2)
        let connection = try world.fleet[0].connect()
        try connection.send(
            "POST /purchases/stripe HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(bob.access)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        )
        let count = "SELECT count(*) FROM purchases WHERE account IS NOT NULL"
        try eventually("it is committed") { try cluster.run(count, in: name) == "2" }
        world.fleet[0].process.kill()
        other.resume()
        #expect(try world.fleet[1].send("GET /premium", bearer: bob.access).status == 200)
        _ = try world.buy(2, at: 1, bob.access)
        #expect(try cluster.run(count, in: name) == "2")
    }

    @Test func aClaimWhileTheDatabaseIsAwayIsRefusedAndMadeAgain() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let name = try cluster.newDatabaseName()
        let world = try World(2, .postgres, database: cluster.url(name))
        let ada = try world.fleet[0].register("ada@example.org")
        try cluster.stop()
        let refused = try world.claim(1, at: 0, ada.access)
        #expect(refused.status == 503 && refused["Retry-After"] != nil, "\(refused.text)")
        try cluster.start()
        try eventually("the database is back") { try world.claim(1, at: 0, ada.access).status == 200 }
        try eventually("both have heard") { try world.statuses(ada.access) == [200, 200] }
        #expect(try cluster.run("SELECT count(*) FROM purchases", in: name) == "1")
    }
}
