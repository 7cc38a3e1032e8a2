import Foundation
import Glibc
import TestServers
import TestThreads
import Testing

/// Gateways that share a database: what happens at one counts at all.
@Suite(.ownThread) struct SeveralGatewaysTests {
    /// A way for a session to end, at the gateway of number 1.
    enum Ending: String, CaseIterable, Sendable {
        case signOut, reuse, oneSession, allSessions, command, deletion, ban
    }

    private func end(_ ending: Ending, _ tokens: RotatedTokens, _ email: String, in fleet: Fleet) throws {
        let said = try claims(of: tokens.access)
        let (user, session) = (try must(said["sub"]), try must(said["sid"]))
        switch ending {
        case .signOut: #expect(try fleet[1].send("POST /auth/signout", bearer: tokens.access).status == 200)
        case .reuse:
            let next = try fleet[2].refreshed(tokens.refresh)
            _ = try fleet[0].refreshed(next.refresh)
            #expect(try fleet[1].send("POST /auth/token/refresh", #"{"refresh_token":"\#(tokens.refresh)"}"#).status == 401)
        case .oneSession: #expect(try fleet.admin(1, "DELETE /admin/api/sessions/\(session)").status == 200)
        case .allSessions: #expect(try fleet.admin(1, "POST /admin/api/users/\(user)/revoke").status == 200)
        case .command: #expect(try fleet[1].command(["user", "revoke", email]).code == 0)
        case .ban: #expect(try fleet.admin(1, "PUT /admin/api/users/\(user)/ban").status == 200)
        case .deletion: #expect(try fleet.admin(1, "DELETE /admin/api/users/\(user)").status == 200)
        }
    }

    @Test(arguments: Bus.allCases)
    func aSessionThatEndsAtOneGatewayIsOverAtAll(_ bus: Bus) throws {
        let fleet = try Fleet(4, bus)
        try fleet.waitForTheBus()
        for ending in Ending.allCases {
            let email = "\(ending.rawValue)@example.org".lowercased()
            let tokens = try fleet[0].signUp(email)
            // All know the token by now.
            #expect(try fleet.statuses("GET /me", tokens.access) == [200, 200, 200, 200], "\(ending)")
            try end(ending, tokens, email, in: fleet)
            try fleet.expect("all refuse after \(ending)") { try Fleet.refuses($0, tokens.access) }
        }
        for gateway in fleet.gateways {
            // Changes are counted once workers were told of them, and may be read before they are heard of.
            try eventually("the changes are counted") { try gateway.metric("tollgate_bus_lag_seconds_count") >= 6 }
            try eventually("some were heard of") { try gateway.metric("tollgate_bus_messages_total", "heard") > 1 }
            #expect(try gateway.metric("tollgate_bus_messages_total", "refused") == 0)
        }
    }

    @Test(arguments: Bus.allCases)
    func allWebSocketsOfAUserEndAtAllGateways(_ bus: Bus) throws {
        let (server, url) = try WebSocketPeers.server()
        defer { server.kill() }
        let fleet = try Fleet(
            2, bus, "TOLLGATE_UPSTREAM_SOCKETS=\"\(url)\"", "TOLLGATE_ROUTE_CHAT=\"GET /chat upstream=sockets websocket=on\"")
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        let clients = try fleet.gateways.map { gateway in
            try WebSocketPeers.startClient(
                "ws://127.0.0.1:\(gateway.port)/chat",
                """
                sockets = [await websockets.connect(url, subprotocols=["bearer", "\(ada.access)"]) for number in range(3)]
                print("open", flush=True)
                for socket in sockets:
                    await asyncio.wait_for(socket.wait_closed(), 50)
                    print(socket.close_code, socket.close_reason)
                """)
        }
        for client in clients { try client.output.wait(for: "the sockets") { $0 == ["open"] } }
        let user = try must(try claims(of: ada.access)["sub"])
        #expect(try fleet.admin(1, "POST /admin/api/users/\(user)/revoke").status == 200)
        for client in clients {
            try client.output.wait(for: "the ends of the sockets") { $0 == ["open"] + Array(repeating: "4403 session ended", count: 3) }
        }
    }

    @Test(arguments: Bus.allCases)
    func anotherTierShowsAtAllGatewaysInTheSameOldToken(_ bus: Bus) throws {
        let fleet = try Fleet(2, bus, Redis.patience, "TOLLGATE_ROUTE_LIMITED=\"/limited upstream=u limit=free:1/h,premium:1000/h\"")
        try fleet.waitForTheBus()
        let ada = try fleet[0].register("ada@example.org")
        #expect(try fleet.statuses("GET /premium", ada.access) == [403, 403])
        #expect(try fleet.statuses("GET /api/v1/auth/me", ada.access) == [200, 200])
        #expect(try fleet[1].send("GET /limited", bearer: ada.access).status == 200)
        #expect(try fleet[1].send("GET /limited", bearer: ada.access).status == 429)

        let until = Date(timeIntervalSinceNow: 3_600).ISO8601Format()
        #expect(try fleet.admin(0, "PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"premium","until":"\#(until)"}"#).status == 200)
        try fleet.expect("premium") { try $0.send("GET /premium", bearer: ada.access).status == 200 }
        #expect(fleet.upstream.requests.now.last?["X-User-Tier"] == "premium")
        #expect(fleet.upstream.requests.now.last?["X-User-Premium"] == "true")
        try fleet.expect("/auth/me shows it") { gateway in
            let shown = try JSON(gateway.send("GET /api/v1/auth/me", bearer: ada.access).text)
            return shown["user"]["is_premium"].bool == true || shown["is_premium"].bool == true
        }
        #expect(try fleet[1].send("GET /limited", bearer: ada.access).status == 200)

        #expect(try fleet[1].command(["user", "set-tier", "ada@example.org", "free"]).code == 0)
        try fleet.expect("free again") { try $0.send("GET /premium", bearer: ada.access).status == 403 }
    }

    @Test func aTierCountsBeyondItsEndForAsLongAsTheGraceSays() throws {
        let fleet = try Fleet(2, .postgres, "TOLLGATE_TIER_GRACE=1h")
        let ada = try fleet[0].register("ada@example.org")
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        // By hand, for the product takes no end that is past.
        func set(until seconds: Int) throws {
            try PostgresCluster.shared.get().run(
                "UPDATE accounts SET tier = 'premium', tier_until = ((extract(epoch FROM now()) + \(seconds)) * 1000000)::bigint", in: name)
        }
        try set(until: -3_000)
        try fleet.expect("within the grace") { try $0.send("GET /premium", bearer: ada.access).status == 200 }
        try set(until: -3_700)
        try fleet.expect("beyond the grace") { try $0.send("GET /premium", bearer: ada.access).status == 403 }
    }

    /// Two hundred changes, one after the other, and each must be seen by a gateway that did not make it.
    @Test(arguments: Bus.allCases)
    func everyOneOfManyChangesIsSeen(_ bus: Bus) throws {
        let fleet = try Fleet(2, bus)
        try fleet.waitForTheBus()
        let ada = try fleet[0].register("ada@example.org")
        let (admin, other) = (try Connection(port: fleet[0].adminPort), try fleet[1].connect())
        let operatorFields = ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"]
        var times: [Double] = []
        for number in 0..<200 {
            let (tier, expected) = number % 2 == 0 ? ("premium", 200) : ("free", 403)
            let start = Date()
            let body = Array(#"{"tier":"\#(tier)"}"#.utf8)
            #expect(try admin.ask("PUT /admin/api/users/\(ada.user)/tier", operatorFields, body: body).status == 200)
            try eventually("change \(number)") {
                try other.send("GET /premium", bearer: ada.access).status == expected
            }
            times.append(Date().timeIntervalSince(start))
        }
        times.sort()
        #expect(times[197] < 10, "\(times.suffix(5))")
        // They were told of, not only come upon.
        try eventually("they are heard of") { try fleet[1].metric("tollgate_bus_messages_total", "heard") > 150 }
    }

    /// Sessions end and tiers change at gateways whose clocks are minutes ahead or days behind, and none of it is lost.
    @Test func wrongClocksLoseNothing() throws {
        let fleet = try Fleet(3, .postgres, clocks: [-900_000, 0, 400])
        try fleet.waitForTheBus()
        // That the clocks are wrong is seen in what they sign.
        let issued = try (0..<3).map { number in
            try claims(of: fleet[number].register("clock\(number)@example.org").access)["iat"].int ?? 0
        }
        #expect(issued[1] - issued[0] > 300 && issued[2] - issued[1] > 300, "\(issued)")
        for number in 0..<3 {
            let tokens = try fleet[1].register("user\(number)@example.org")
            try fleet.expect("the token is good") { try $0.send("GET /me", bearer: tokens.access).status == 200 }
            #expect(try fleet.admin(number, "PUT /admin/api/users/\(tokens.user)/tier", #"{"tier":"premium"}"#).status == 200)
            try fleet.expect("premium from \(number)") { try $0.send("GET /premium", bearer: tokens.access).status == 200 }
            #expect(try fleet.admin(number, "POST /admin/api/users/\(tokens.user)/revoke").status == 200)
            try fleet.expect("revoked by \(number)") { try Fleet.refuses($0, tokens.access) }
        }
    }

    // MARK: the bus away

    @Test func whatChangesWhileRedisIsPausedOrGoneCountsAllTheSame() throws {
        let redis = try Redis()
        let relay = try RedisRelay(redis)
        let fleet = try Fleet(2, .redis, relay.setting)
        try fleet.waitForTheBus()
        let count = 4
        func trial(_ state: String) throws {
            for number in 0..<count {
                let tokens = try fleet[0].signUp("\(state)\(number)@example.org")
                #expect(try fleet.statuses("GET /me", tokens.access) == [200, 200])
                #expect(try fleet[number % 2].send("POST /auth/signout", bearer: tokens.access).status == 200)
                try fleet.expect("an end while the bus is \(state)") { try Fleet.refuses($0, tokens.access) }
            }
        }
        try trial("there")
        relay.line.change { $0 = .hole }
        // Nobody knows yet, and nothing may depend on knowing.
        try trial("silent")
        try fleet.expect("the silence is told") { gateway in
            let bus = try Fleet.bus(gateway)
            return bus.status == "degraded" && bus.reason?.hasPrefix("redis: ") == true
        }
        try trial("known-to-be-silent")
        relay.line.change { $0 = .open }
        try fleet.waitForTheBus()
        redis.kill()
        try trial("gone")
        try fleet.expect("its absence is told") { try Fleet.bus($0).status == "degraded" }
        try fleet.expect("it is not connected") { try $0.metric("tollgate_bus_connected") == 0 }
        try redis.start()
        try fleet.waitForTheBus()
        try trial("back")
        try fleet.expect("it is connected") { try $0.metric("tollgate_bus_connected") == 1 }
    }

    @Test func whatChangesWhileNothingIsNotifiedCountsAllTheSame() throws {
        let fleet = try Fleet(2, .postgres)
        try fleet.waitForTheBus()
        let cluster = try PostgresCluster.shared.get()
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        let cut =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '\(name)' AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"
        for number in 0..<5 {
            let tokens = try fleet[0].signUp("user\(number)@example.org")
            #expect(try fleet.statuses("GET /me", tokens.access) == [200, 200])
            try cluster.run(cut, in: name)
            #expect(try fleet[1].send("POST /auth/signout", bearer: tokens.access).status == 200)
            try fleet.expect("an end while the line is cut") { try Fleet.refuses($0, tokens.access) }
        }
        try fleet.waitForTheBus()
    }

    /// What was changed while the database was away from a gateway, or a gateway from it, is made up for.
    @Test func aGatewayCatchesUpWithADatabaseThatWasAway() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let fleet = try Fleet(2, .postgres, database: cluster.newDatabase())
        try fleet.waitForTheBus()
        let ada = try fleet[0].register("ada@example.org")
        #expect(try fleet.statuses("GET /premium", ada.access) == [403, 403])
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        try cluster.stop()
        try fleet.expect("its absence is told") { try Fleet.bus($0).status == "degraded" }
        try cluster.start()
        // By hand, and as likely as not before the gateways are there again.
        try cluster.run("UPDATE accounts SET tier = 'premium', tier_version = tier_version + 1", in: name)
        try fleet.expect("premium") { try $0.send("GET /premium", bearer: ada.access).status == 200 }
        try fleet.waitForTheBus()
    }

    /// Whoever can speak to Redis makes gateways look into their database, no more.
    @Test func whatStrangersSayOnTheBusDoesNothing() throws {
        let redis = try Redis()
        let fleet = try Fleet(2, .redis, redis.setting)
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        let texts = [
            "nonsense", "", "tollgate1 0123456789abcdef 0000000000000001 -", String(repeating: "x", count: 100_000),
            "tollgate1 0123456789abcdef 0000000000000001 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ]
        for text in texts { try redis.ask("PUBLISH", "tollgate:changes", text) }
        try fleet.expect("it is refused") { try $0.metric("tollgate_bus_messages_total", "refused") == Double(texts.count) }
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        #expect(try fleet[1].send("POST /auth/signout", bearer: ada.access).status == 200)
        try fleet.expect("the bus goes on") { try Fleet.refuses($0, ada.access) }
    }

    // MARK: nothing per request

    @Test func whoIsKnownCostsTheDatabaseNothing() throws {
        let cluster = try PostgresCluster.shared.get()
        let fleet = try Fleet(1, .postgres)
        try fleet.waitForTheBus()
        let ada = try fleet[0].register("ada@example.org")
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        // PostgreSQL tells of transactions with a delay of up to a second, and of those of a connection at its end at once.
        func transactions() throws -> Int {
            try Int(
                cluster.run("SELECT pg_stat_force_next_flush(), xact_commit FROM pg_stat_database WHERE datname = '\(name)'", in: name)
                    .split(separator: "|").last.map(String.init) ?? "") ?? 0
        }
        let connection = try fleet[0].connect()
        _ = try connection.send("GET /api/v1/auth/me", bearer: ada.access)
        sleep(3)
        let (before, start) = (try transactions(), Date())
        for _ in 0..<1_000 { #expect(try connection.send("GET /api/v1/auth/me", bearer: ada.access).status == 200) }
        let asked = Date()
        sleep(3)
        let spent = try transactions() - before
        // The watch looks twice a second, and the listener asks whether it is still heard.
        #expect(Double(spent) < 100 + 10 * asked.timeIntervalSince(start), "\(spent) transactions for 1,000 requests")
    }

    // MARK: keys

    /// The ids of the keys that a gateway publishes.
    private func keyIDs(_ gateway: Gateway) throws -> Set<String> {
        Set(try JSON(gateway.ask("GET /.well-known/jwks.json").text)["keys"].array.compactMap { $0["kid"].text })
    }

    @Test(arguments: Bus.allCases)
    func gatewaysThatStartAtOnceHaveTheSameKeysAndRotateTogether(_ bus: Bus) throws {
        let fleet = try Fleet(4, bus)
        try fleet.waitForTheBus()
        let first = try keyIDs(fleet[0])
        for gateway in fleet.gateways { #expect(try keyIDs(gateway) == first) }
        let old = try fleet[1].register("old@example.org")
        #expect(try fleet.statuses("GET /me", old.access) == [200, 200, 200, 200])
        #expect(try fleet[2].send("POST /api/v1/auth/refresh", #"{"refresh":"\#(old.refresh)"}"#).status == 200)

        #expect(try fleet[3].command(["keys", "rotate"]).code == 0)
        let (bearer, rotated) = (
            try fleet[3].command(["token", "mint", "--sub", "minted"]).output, try fleet[3].command(["keys", "list", "--json"])
        )
        #expect(try JSON(rotated.output).array.count == 3)
        // The key that signs now was known to all before.
        #expect(try fleet.statuses("GET /me", bearer) == [200, 200, 200, 200])
        try fleet.expect("all have the next key too") { try keyIDs($0).count == 3 }
        let active = try #require(try JSON(rotated.output).array.first { $0["state"].text == "current" })
        try fleet.expect("all sign with the new key") { gateway in
            let token = try gateway.register("n\(UInt64.random(in: 0 ... .max))@example.org").access
            let header = try JSON(text(of: bytes(base64URL: String(token.split(separator: ".")[0])) ?? []))
            return header["kid"].text == active["kid"].text
        }
        #expect(try fleet.statuses("GET /me", old.access) == [200, 200, 200, 200])
    }

    @Test func aKeyOfAnotherAlgorithmIsKnownToAllBeforeItSigns() throws {
        let fleet = try Fleet(2, .postgres)
        try fleet.waitForTheBus()
        let settings = try fleet[0].folder.read("gateway.env")
        try fleet[0].folder.write("other.env", settings + "\nTOLLGATE_SIGNING_ALGORITHM=EdDSA\n")
        let words = ["--env-file", fleet[0].folder.file("other.env")]
        #expect(try Tollgate.run(["keys", "rotate"] + words).code == 0)
        let token = try Tollgate.run(["token", "mint", "--sub", "minted"] + words).output
        #expect(try fleet.statuses("GET /me", token) == [200, 200])
    }

    @Test func theWrongSecretIsToldAtTheStart() throws {
        let fleet = try Fleet(1, .postgres)
        let folder = try Folder()
        let lines = Fleet.settings(fleet.database, fleet.upstream).map {
            $0.hasPrefix("TOLLGATE_KEY_SECRET=") ? "TOLLGATE_KEY_SECRET=\"another secret, as long as the right one is\"" : $0
        }
        try folder.write("gateway.env", Gateway.complete(lines.joined(separator: "\n"), folder))
        for words in [["serve"], ["keys", "list"], ["keys", "rotate"]] {
            let outcome = try Tollgate.run(words + ["--env-file", folder.file("gateway.env")])
            #expect(outcome.code == 1)
            #expect(outcome.complaints.contains("sealed with another TOLLGATE_KEY_SECRET"), "\(outcome.complaints)")
        }
    }

    @Test func aGatewayThatHadKeysOfItsOwnBringsThemAlong() throws {
        let (database, upstream, folder) = (try PostgresCluster.shared.get().newDatabase(), try Upstream(), try Folder())
        let lines = Fleet.settings(database, upstream)
        let alone = try Gateway(lines.filter { !$0.hasPrefix("TOLLGATE_KEY_SECRET=") }.joined(separator: "\n"), folder: folder)
        let ada = try alone.signUp("ada@example.org")
        try alone.stop()
        let shared = try Gateway(lines.joined(separator: "\n"), folder: folder)
        let other = try Gateway(lines.joined(separator: "\n"))
        #expect(try other.send("GET /me", bearer: ada.access).status == 200)
        #expect(try shared.send("GET /me", bearer: ada.access).status == 200)
        _ = try other.refreshed(ada.refresh)
    }

    @Test func aGatewayStartsWithItsCopyOfTheKeysWhileTheDatabaseIsAway() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let (upstream, folder) = (try Upstream(), try Folder())
        let settings = Fleet.settings(try cluster.newDatabase(), upstream).joined(separator: "\n")
        let first = try Gateway(settings, folder: folder)
        let bearer = try first.bearer("--sub", "minted")
        try first.stop()
        try cluster.stop()
        let second = try Gateway(settings, folder: folder)
        #expect(try second.ask("GET /me", [bearer]).status == 200)
        let sealed = try String(
            decoding: Data(contentsOf: URL(filePath: folder.file("data/keys/shared-signing-keys.sealed"))), as: UTF8.self)
        #expect(!sealed.contains("PRIVATE KEY"))
    }

    @Test func nobodyWhoReadsTheDatabaseReadsAKey() throws {
        let fleet = try Fleet(1, .postgres)
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        let kept = try PostgresCluster.shared.get().run(
            "SELECT name, length(sealed) > 60, position('PRIVATE' in encode(sealed, 'escape')) FROM sealed_secrets ORDER BY name", in: name)
        #expect(kept == "refresh secret|t|0\nsigning keys|t|0")
    }
}
