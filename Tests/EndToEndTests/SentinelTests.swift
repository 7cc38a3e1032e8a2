import Foundation
import TestThreads
import Testing

/// Gateways over a Redis primary with a replica and three sentinels.
@Suite(.ownThread) struct SentinelTests {
    /// How a primary goes.
    enum Loss: CaseIterable, Sendable {
        case killed, stopped, commanded
    }

    private func gateway(_ set: SentinelSet, _ upstream: Upstream, _ settings: String...) throws -> Gateway {
        try Gateway((["TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", set.setting, Redis.patience] + settings).joined(separator: "\n"))
    }

    private func redis(_ gateway: Gateway) throws -> (status: String?, reason: String) {
        let check = try JSON(gateway.askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "redis" }
        return (check?["status"].text, check?["reason"].text ?? "")
    }

    private func awaitRedis(_ gateways: Gateway...) throws {
        for gateway in gateways {
            do {
                try eventually("redis is ready", seconds: 30) { try redis(gateway).status == "ready" }
            } catch {
                throw Fault("\(error): \(try redis(gateway)); \(gateway.process.complaints.now.suffix(20))")
            }
        }
    }

    private func lose(_ set: SentinelSet, _ loss: Loss) throws {
        switch loss {
        case .killed: set.servers[0].kill()
        case .stopped: set.servers[0].pause()
        case .commanded: try set.sentinels[1].ask("SENTINEL", "FAILOVER", SentinelSet.master)
        }
    }

    // MARK: failovers

    static let losses = RedisProgram.all.flatMap { program in Loss.allCases.map { (program, $0) } }

    @Test(arguments: losses)
    func countsGoOnAtTheNewPrimary(_ program: RedisProgram, _ loss: Loss) throws {
        let (set, upstream) = (try SentinelSet(program), try Upstream())
        let route = "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=6/h\"\nTOLLGATE_RATE_LIMIT_FAILURE=closed"
        let gateways = try (0..<2).map { _ in try gateway(set, upstream, route, "TOLLGATE_WORKERS=2") }
        try awaitRedis(gateways[0], gateways[1])
        #expect(try (0..<4).map { try gateways[$0 % 2].ask("GET /few").status } == [200, 200, 200, 200])
        try set.replicate()
        try lose(set, loss)
        for gateway in gateways { try gateway.waitForLog("127.0.0.1:\(set.servers[1].port)") }
        try awaitRedis(gateways[0], gateways[1])
        // Two were left.
        #expect(try (0..<4).map { try gateways[$0 % 2].ask("GET /few").status } == [200, 200, 429, 429])
        #expect(try set.servers[1].info("cmdstat_evalsha") != "")

        // The old primary comes back, and takes itself for one at first.
        switch loss {
        case .killed: try set.servers[0].start()
        case .stopped: set.servers[0].resume()
        case .commanded: break
        }
        // The sentinel that makes it one closes its connections, this one with them: then it is asked again.
        try eventually("the old primary is a replica", seconds: 30) { (try? set.servers[0].ask("ROLE"))?.hasPrefix("slave") == true }
        try eventually("no gateway stays") { try set.servers[0].gatewayConnections() == 0 }
        #expect(try (0..<2).map { try gateways[$0].ask("GET /few").status } == [429, 429])
        for gateway in gateways { #expect(try redis(gateway).status == "ready") }
    }

    @Test(arguments: [("local", [200, 429]), ("open", [200, 200]), ("closed", [503, 503])])
    func untilThenTheFailureModeDecides(_ mode: String, _ statuses: [Int]) throws {
        let (set, upstream) = (try SentinelSet(), try Upstream())
        let gateway = try gateway(
            set, upstream, "TOLLGATE_RATE_LIMIT_FAILURE=\(mode)", "TOLLGATE_ROUTE_ONE=\"/one upstream=u auth=none limit=1/h\"",
            "TOLLGATE_ROUTE_AGAIN=\"/again upstream=u auth=none limit=1/h\"")
        try awaitRedis(gateway)
        // Without a replica that could take over, so that there is time to look.
        for server in set.servers.reversed() { server.kill() }
        try eventually("it says so") { try redis(gateway).status == "degraded" }
        #expect(try (0..<2).map { _ in try gateway.ask("GET /one").status } == statuses)
        var reason = ""
        do {
            try eventually("it says why") {
                reason = try redis(gateway).reason
                return reason.contains("the sentinels name 127.0.0.1:\(set.servers[0].port), which is not connected: ")
                    && reason.contains("onnection refused; ")
            }
        } catch {
            throw Fault("\(error): it says \(reason)")
        }
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "degraded")
        try set.servers[0].start()
        try awaitRedis(gateway)
        #expect(try (0..<2).map { _ in try gateway.ask("GET /again").status } == [200, 429])
    }

    /// Two gateways under load while the primary is killed: at most one burst more than without, for the counts that the replica
    /// had not received.
    @Test func aFailoverUnderLoadGrantsAtMostOneBurstMore() throws {
        let (set, upstream) = (try SentinelSet(), try Upstream())
        let route = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=100/s+burst=50\"\nTOLLGATE_RATE_LIMIT_FAILURE=closed"
        let gateways = try (0..<2).map { _ in try gateway(set, upstream, route) }
        try awaitRedis(gateways[0], gateways[1])
        let isOver = Watched(false)
        let clients = (gateways + gateways).map { gateway in
            let port = gateway.port
            return Background { () throws -> [Int: Int] in
                let connection = try Connection(port: port)
                var statuses: [Int: Int] = [:]
                while !isOver.now { statuses[try connection.ask("GET /hot").status, default: 0] += 1 }
                return statuses
            }
        }
        try eventually("load") { try gateways[0].metric("tollgate_ratelimit_decisions_total", "outcome=\"allow\"") > 100 }
        set.servers[0].kill()
        for gateway in gateways { try gateway.waitForLog("127.0.0.1:\(set.servers[1].port)") }
        try awaitRedis(gateways[0], gateways[1])
        let before = try gateways.map { try $0.metric("tollgate_ratelimit_decisions_total", "source=\"redis\"") }.reduce(0, +)
        try eventually("shared counts") {
            try gateways.map { try $0.metric("tollgate_ratelimit_decisions_total", "source=\"redis\"") }.reduce(0, +) > before + 200
        }
        isOver.change { $0 = true }
        let statuses = try clients.map { try $0.value() }
        #expect(statuses.allSatisfy { Set($0.keys).isSubset(of: [200, 429, 503]) }, "\(statuses)")
        let passed = statuses.reduce(0) { $0 + $1[200, default: 0] }
        let asked = (0..<2).map { statuses[$0].values.reduce(0, +) + statuses[$0 + 2].values.reduce(0, +) }
        let times = try (0..<2).flatMap { try gateways[$0].accessLog(asked[$0]) }.filter { $0["limit_outcome"].text == "allow" }
            .compactMap { $0["limit_at"].number }
        #expect(times.count == passed)
        let seconds = (try #require(times.max()) - (try #require(times.min()))) / 1_000_000
        #expect(Double(passed) <= 2 * 50 + 100 * seconds + 1, "\(passed) in \(seconds) s")
    }

    // MARK: sentinels

    @Test func aSentinelThatIsGoneIsMissedByNoFailover() throws {
        let (set, upstream) = (try SentinelSet(), try Upstream())
        let gateway = try gateway(set, upstream, "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=2/h\"")
        try awaitRedis(gateway)
        set.sentinels[0].kill()
        try gateway.waitForLog("\"sentinel\":\"127.0.0.1:\(set.sentinels[0].port)\"")
        #expect(try redis(gateway).status == "ready")
        set.servers[0].kill()
        try gateway.waitForLog("\"primary\":\"127.0.0.1:\(set.servers[1].port)\"")
        try awaitRedis(gateway)
        #expect(try (0..<3).map { _ in try gateway.ask("GET /few").status } == [200, 200, 429])
    }

    @Test func withoutSentinelsLimitsAreStillSharedAndItSaysWhatIsMissing() throws {
        let (set, upstream) = (try SentinelSet(), try Upstream())
        let route = "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=4/h\""
        let gateways = try (0..<2).map { _ in try gateway(set, upstream, route) }
        try awaitRedis(gateways[0], gateways[1])
        for sentinel in set.sentinels { sentinel.kill() }
        for gateway in gateways {
            try eventually("it says so") {
                let (status, reason) = try redis(gateway)
                return status == "degraded" && reason.hasPrefix("no sentinel answers: 127.0.0.1:")
                    && reason.hasSuffix("; limits are shared, but a failover would not be noticed")
            }
        }
        #expect(try (0..<6).map { try gateways[$0 % 2].ask("GET /few").status } == [200, 200, 200, 200, 429, 429])
        for sentinel in set.sentinels { try sentinel.start() }
        try awaitRedis(gateways[0], gateways[1])
    }

    @Test func aWrongMasterNameIsSaid() throws {
        let (set, upstream) = (try SentinelSet(), try Upstream())
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_FEW="/few upstream=u auth=none limit=1/h"
            \(set.setting(master: "orders"))
            """)
        try eventually("it says so") {
            try redis(gateway).reason.hasPrefix("the sentinels know no master named \"orders\"; limits are counted in this gateway")
        }
        #expect(try (0..<2).map { _ in try gateway.ask("GET /few").status } == [200, 429])
        try gateway.waitForLog("it knows no master named")
    }

    @Test func sentinelsAndServersUseTLS() throws {
        let authority = try CertificateAuthority(try Folder())
        try authority.issue("redis", "IP:127.0.0.1")
        let tls = [
            "tls-cert-file \(authority.folder.file("redis.crt"))", "tls-key-file \(authority.folder.file("redis.key"))",
            "tls-ca-cert-file \(authority.file)", "tls-auth-clients no", "tls-replication yes",
        ]
        let set = try SentinelSet(
            .redis, .init(server: tls, sentinel: tls, login: ["--tls", "--cacert", authority.file], scheme: "rediss+sentinel"))
        let upstream = try Upstream()
        let settings =
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=3/h\"\n\(set.setting)\n\(Redis.patience)"
        let gateway = try Gateway(settings, environment: ["SSL_CERT_FILE": authority.file])
        try awaitRedis(gateway)
        #expect(try gateway.ask("GET /few").status == 200)
        try set.replicate()
        try lose(set, .killed)
        try gateway.waitForLog("\"primary\":\"127.0.0.1:\(set.servers[1].port)\"")
        try awaitRedis(gateway)
        #expect(try (0..<3).map { _ in try gateway.ask("GET /few").status } == [200, 200, 429])

        // One that trusts none of them says so.
        let stranger = try Gateway(settings)
        try eventually("it says so") {
            let reason = try redis(stranger).reason
            return reason.hasPrefix("no sentinel answers: ") && reason.contains("the TLS handshake failed")
        }
    }

    // MARK: the bus

    @Test func sessionsThatEndDuringAFailoverAreOverEverywhere() throws {
        let set = try SentinelSet()
        let fleet = try Fleet(2, .redis, set.setting)
        try fleet.waitForTheBus()
        func trial(_ number: Int) throws {
            let tokens = try fleet[0].signUp("user\(number)@example.org")
            #expect(try fleet.statuses("GET /me", tokens.access) == [200, 200])
            #expect(try fleet[0].send("POST /auth/signout", bearer: tokens.access).status == 200)
            try fleet.expect("the end of session \(number)") { try Fleet.refuses($0, tokens.access) }
        }
        try trial(0)
        set.servers[0].kill()
        var number = 1
        // As many as there is time for, before and after the bus knows that it is away.
        while fleet.gateways.contains(where: {
            !$0.process.complaints.now.contains { $0.contains("\"primary\":\"127.0.0.1:\(set.servers[1].port)\"") }
        }) {
            try trial(number)
            number += 1
        }
        try fleet.waitForTheBus()
        let before = try fleet[1].metric("tollgate_bus_messages_total", "heard")
        try trial(number)
        try eventually("a hint over the new primary") { try fleet[1].metric("tollgate_bus_messages_total", "heard") > before }
        // Of a command, too, which finds the primary by itself.
        #expect(try fleet[0].command(["user", "set-tier", "user0@example.org", "premium"]).code == 0)
        #expect(try set.servers[1].info("cmdstat_publish") != "")
    }

    @Test func attemptsAreCountedTogetherAfterAFailover() throws {
        let set = try SentinelSet()
        let fleet = try Fleet(2, .redis, set.setting, Redis.patience, Gateway.trustingProxies, "TOLLGATE_SIGNUP_LIMIT=1/h+burst=4")
        try fleet.waitForTheBus()
        func open(_ index: Int, _ name: String) throws -> Int {
            try fleet[index].send("POST /auth/signup", credentials("\(name)@example.org"), from: "10.1.2.3").status
        }
        #expect(try [open(0, "a"), open(1, "b")] == [200, 200])
        try set.replicate()
        try set.sentinels[0].ask("SENTINEL", "FAILOVER", SentinelSet.master)
        for gateway in fleet.gateways { try gateway.waitForLog("\"primary\":\"127.0.0.1:\(set.servers[1].port)\"") }
        try awaitRedis(fleet[0], fleet[1])
        #expect(try [open(1, "c"), open(0, "d"), open(1, "e"), open(0, "f")] == [200, 200, 429, 429])
    }

    @Test func aRefreshIsLeasedAfterAFailover() throws {
        let (set, server, upstream) = (try SentinelSet(), try AuthServer(), try Upstream())
        let gateways = try (0..<2).map { _ in
            let folder = try Folder()
            let lines = [
                try TransparentRefreshTests.settings(upstream), try server.settings(folder), set.setting, Redis.patience,
                "TOLLGATE_KEY_SECRET=\"\(Fleet.keySecret)\"",
            ]
            return try Gateway(lines.joined(separator: "\n"), folder: folder)
        }
        try awaitRedis(gateways[0], gateways[1])
        try set.sentinels[0].ask("SENTINEL", "FAILOVER", SentinelSet.master)
        for gateway in gateways { try gateway.waitForLog("\"primary\":\"127.0.0.1:\(set.servers[1].port)\"") }
        try awaitRedis(gateways[0], gateways[1])
        server.mood.change { $0 = .slow(0.3) }
        let ports = gateways.map(\.port)
        let fields = TransparentRefreshTests.fields(try AuthServer.token("u1", lifetime: -100), server.signIn("u1"))
        let answers = try atOnce(20) { try Connection(port: ports[$0 % 2]).ask("GET /internal/x", fields) }
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(server.questions.now.count == 1)
    }
}
