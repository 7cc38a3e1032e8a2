import Foundation
import TestThreads
import Testing

/// Limits that several gateways count together in one Redis.
@Suite(.ownThread) struct SharedLimitTests {
    /// A gateway on `redis` with routes of one upstream.
    private func gateway(_ redis: Redis, _ upstream: Upstream, _ settings: String...) throws -> Gateway {
        try gateway(redis.setting, upstream, settings + [Redis.patience])
    }

    private func gateway(_ redis: String, _ upstream: Upstream, _ settings: [String]) throws -> Gateway {
        let gateway = try Gateway(
            (["TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", redis] + settings).joined(separator: "\n"))
        try awaitRedis(gateway)
        return gateway
    }

    private func awaitRedis(_ gateway: Gateway) throws {
        try eventually("redis is ready") { try redisState(gateway) == "ready" }
    }

    private func redisState(_ gateway: Gateway) throws -> String? {
        try JSON(gateway.askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "redis" }?["status"].text
    }

    // MARK: one count for all

    @Test func gatewaysAndWorkersCountTogether() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let route = "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=6/h\""
        let gateways = try [gateway(redis, upstream, route), gateway(redis, upstream, route, "TOLLGATE_WORKERS=2")]
        let start = ProcessInfo.processInfo.systemUptime
        let answers = try (0..<10).map { try gateways[$0 % 2].ask("GET /few") }
        #expect(answers.map(\.status) == Array(repeating: 200, count: 6) + Array(repeating: 429, count: 4))
        #expect(answers[5]["RateLimit"]?.hasPrefix("\"few\";r=0;t=") == true)
        #expect(LimitTests.isLeft(answers[9]["Retry-After"], of: 600, since: start), "\(answers[9])")
        #expect(upstream.requests.now.count == 6)
    }

    @Test func aRefusedCallerCostsRedisNothing() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(redis, upstream, "TOLLGATE_ROUTE_ONE=\"/one upstream=u auth=none limit=1/h\"")
        let connection = try gateway.connect()
        #expect(try connection.ask("GET /one").status == 200)
        let before = try redis.calls("evalsha") - Int(gateway.metric("tollgate_redis_commands_total", "cmd=\"census\""))
        for _ in 0..<50 { #expect(try connection.ask("GET /one").status == 429) }
        let takes = try gateway.metric("tollgate_redis_commands_total", "cmd=\"take\"")
        #expect(takes <= 2, "one for the grant and one for the first refusal; before: \(before)")
        #expect(try gateway.metric("tollgate_ratelimit_decisions_total", "source=\"deny_cache\"") >= 49)
    }

    /// As on a busy gateway, where each turn of the loop finds requests of many callers.
    @Test func callersWhoComeTogetherAreOneCommand() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(
            redis, upstream, "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=2/h limit-by=header:x-key\"",
            "TOLLGATE_ROUTE_FREE=\"/free upstream=u auth=none\"", "TOLLGATE_WORKERS=1")
        let connections = try (0..<40).map { _ in try gateway.connect() }
        for connection in connections { #expect(try connection.ask("GET /free").status == 200) }
        for round in 0..<3 {
            gateway.process.pause()
            for (caller, connection) in connections.enumerated() {
                try connection.send(requestHead("GET /few", ["X-Key: caller-\(caller)"]))
            }
            gateway.process.resume()
            let statuses = try connections.map { try $0.answer().status }
            #expect(statuses == Array(repeating: round < 2 ? 200 : 429, count: 40))
        }
        let takes = try gateway.metric("tollgate_redis_commands_total", "cmd=\"take\"")
        #expect(takes == 4, "32 callers and 8, twice; the third time they are known to have had theirs")
        #expect(try gateway.metric("tollgate_redis_batch_size_sum") == 80)
    }

    @Test func severalLimitsAreOneCommandAndARefusalCostsNothingInAny() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(
            redis, upstream, "TOLLGATE_ROUTE_FEED=\"/feed upstream=u auth=none limit=2/h+by=header:x-key limit=3/h+by=address\"")
        let statuses = try ["a", "a", "a", "a", "b", "b"].map { try gateway.ask("GET /feed", ["X-Key: \($0)"]).status }
        #expect(statuses == [200, 200, 429, 429, 200, 429])
        #expect(try gateway.metric("tollgate_redis_commands_total", "cmd=\"take\"") <= 6)
    }

    @Test func aBodyWaitsForTheVerdictAndGoesOnWhole() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(redis, upstream, "TOLLGATE_ROUTE_UP=\"/up upstream=u auth=none limit=2/h\"")
        let connection = try gateway.connect()
        let body = [UInt8](repeating: 0x61, count: 200_000)
        for _ in 0..<2 { #expect(try connection.ask("POST /up", [], body: body).status == 200) }
        #expect(upstream.requests.now.map(\.body.count) == [200_000, 200_000])
        #expect(try connection.ask("POST /up", [], body: body).status == 429)
    }

    @Test func pipelinedRequestsAreEachCountedInTheirTurn() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(
            redis, upstream, "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=3/h\"",
            "TOLLGATE_ROUTE_FREE=\"/free upstream=u auth=none\"")
        let connection = try gateway.connect()
        let paths = ["/few", "/free", "/few", "/few", "/few", "/free"]
        try connection.send(paths.map { "GET \($0) HTTP/1.1\r\nHost: h\r\n\r\n" }.joined())
        #expect(try paths.map { _ in try connection.answer().status } == [200, 200, 200, 200, 429, 200])
    }

    @Test func guessesAreCountedTogetherWhereverTheyAreMade() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateways = try (0..<2).map { _ in try gateway(redis, upstream, Gateway.contracts) }
        var statuses: [Int] = []
        let start = ProcessInfo.processInfo.systemUptime
        for number in 0..<40 {
            statuses.append(
                try gateways[number % 2].send("POST /api/v1/auth/login", #"{"email":"ada@example.org","password":"guess \#(number)"}"#)
                    .status)
        }
        // 180 an hour come after the burst: none, unless a busy machine takes 20 s for the hashes.
        let later = Int((ProcessInfo.processInfo.systemUptime - start) / 20)
        let passed = statuses.prefix { $0 == 401 }.count
        #expect((30...32 + later).contains(passed), "\(statuses)")
        #expect(statuses.allSatisfy { $0 == 401 || $0 == 429 } && statuses.dropFirst(passed).count { $0 == 401 } <= later, "\(statuses)")
        redis.kill()
        let status = try gateways[0].send("POST /api/v1/auth/login", #"{"email":"eve@example.org","password":"a guess"}"#).status
        #expect(status == 401, "without Redis each gateway goes on by itself")
    }

    // MARK: what the server may do

    @Test func aLostScriptIsLoadedAgainAndALostCountIsOneBurst() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let gateway = try gateway(redis, upstream, "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=4/h\"")
        let connection = try gateway.connect()
        #expect(try (0..<2).map { _ in try connection.ask("GET /few").status } == [200, 200])
        try redis.ask("SCRIPT", "FLUSH")
        #expect(try connection.ask("GET /few")["X-RateLimit-Remaining"] == "1")
        #expect(try gateway.metric("tollgate_redis_commands_total", "cmd=\"take\"", "result=\"ok\"") == 3)
        try redis.ask("FLUSHALL")
        #expect(try connection.ask("GET /few")["X-RateLimit-Remaining"] == "3")
    }

    /// What can be wrong with Redis, and what a gateway then says of it.
    enum Trouble: CaseIterable { case gone, stopped, full, readOnly, silent, loading }

    private func bring(_ trouble: Trouble, _ redis: Redis, _ relay: RedisRelay) throws {
        switch trouble {
        case .silent: relay.line.change { $0 = .hole }
        case .loading: relay.line.change { $0 = .refusing("-LOADING Redis is loading the dataset in memory") }
        case .gone: redis.kill()
        case .stopped: redis.pause()
        case .full: try redis.ask("CONFIG", "SET", "maxmemory", "1")
        case .readOnly: try redis.ask("REPLICAOF", "127.0.0.1", "1")
        }
    }

    private func end(_ trouble: Trouble, _ redis: Redis, _ relay: RedisRelay) throws {
        switch trouble {
        case .silent, .loading: relay.line.change { $0 = .open }
        case .gone: try redis.start()
        case .stopped: redis.resume()
        case .full: try redis.ask("CONFIG", "SET", "maxmemory", "0")
        case .readOnly: try redis.ask("REPLICAOF", "NO", "ONE")
        }
    }

    @Test(
        arguments: Trouble.allCases, [("local", [200, 200, 429, 429]), ("open", [200, 200, 200, 200]), ("closed", [503, 503, 503, 503])])
    func withoutRedisTheModeDecides(_ trouble: Trouble, _ mode: (name: String, statuses: [Int])) throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let relay = try RedisRelay(redis)
        let gateway = try gateway(
            relay.setting, upstream,
            [
                "TOLLGATE_RATE_LIMIT_FAILURE=\(mode.name)",
                "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=2/h+by=header:x-key\"",
                "TOLLGATE_ROUTE_FREE=\"/free upstream=u auth=none\"",
            ])
        let connection = try gateway.connect()
        // Of those who come before the machine lets Redis answer in time, the mode decides, too.
        var before = 0
        try eventually("the limits are counted in Redis") {
            before += 1
            return try connection.ask("GET /few", ["X-Key: before-\(before)"]).status == 200
        }
        try bring(trouble, redis, relay)
        // Whoever comes while it is being found out is judged by the mode too, after the deadline.
        let answers = try (0..<4).map { _ in try connection.ask("GET /few", ["X-Key: while"]) }
        #expect(answers.map(\.status) == mode.statuses)
        if mode.name == "closed" { #expect(answers[3]["Retry-After"] == "1") }
        #expect(try connection.ask("GET /free").status == 200)
        for _ in 0..<6 { _ = try connection.ask("GET /few", ["X-Key: more"]) }
        try eventually("the trouble is told") { try redisState(gateway) == "degraded" }
        #expect(try gateway.askAdmin("/readyz").status == 200)
        #expect(try gateway.metric("tollgate_ratelimit_decisions_total", "source=\"fallback\"") >= 4)

        try end(trouble, redis, relay)
        try eventually("it is counted in Redis again") {
            let key = "X-Key: \(UInt64.random(in: 0...UInt64.max))"
            let before = try gateway.metric("tollgate_ratelimit_decisions_total", "source=\"redis\"")
            return try connection.ask("GET /few", [key]).status == 200
                && gateway.metric("tollgate_ratelimit_decisions_total", "source=\"redis\"") > before
        }
        try eventually("readiness says so") {
            _ = try connection.ask("GET /few", ["X-Key: \(UInt64.random(in: 0...UInt64.max))"])
            return try redisState(gateway) == "ready"
        }
    }

    /// Nothing ever answers there, not even that nobody listens.
    @Test func anAddressThatSwallowsConnectionsDelaysNobody() throws {
        let (place, upstream) = (try Listening(backlog: 0), try Upstream())
        // What comes beyond the queue of those who wait to be accepted, the kernel drops.
        var queued: [Connection] = []
        try eventually("the queue is full") {
            guard let one = try? Connection(port: place.port, patience: 1) else { return true }
            queued.append(one)
            return false
        }
        let gateway = try Gateway(
            "REDIS_URL=redis://127.0.0.1:\(place.port)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=2/h\""
        )
        let connection = try gateway.connect()
        #expect(try (0..<4).map { _ in try connection.ask("GET /few").status } == [200, 200, 429, 429])
        try eventually("it says so") { try redisState(gateway) == "degraded" }
    }

    @Test func aGatewayStartsWithoutItsRedisAndWithAWrongPassword() throws {
        let (redis, upstream) = (try Redis(["--requirepass", "right horse"]), try Upstream())
        let route = "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=1/h\"\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\""
        for url in ["redis://127.0.0.1:1/0", "unix:\(redis.folder.file("s"))?password=wrong", "redis://no-such-host.invalid:6379"] {
            let gateway = try Gateway("\(route)\nREDIS_URL=\(url)")
            #expect(try (0..<2).map { _ in try gateway.ask("GET /few").status } == [200, 429])
            try eventually("it says so") { try redisState(gateway) == "degraded" }
            #expect(!gateway.process.complaints.now.joined().contains("wrong"))
        }
        let gateway = try Gateway("\(route)\n\(Redis.patience)\nREDIS_URL=unix:\(redis.folder.file("s"))?password=right%20horse")
        try awaitRedis(gateway)
        #expect(try (0..<2).map { _ in try gateway.ask("GET /few").status } == [200, 429])
    }

    // MARK: under load

    /// Asks over as many connections as there are ports, each as fast as it is answered, and counts what passed.
    private func hammer(_ ports: [Int], seconds: Double) throws -> (asked: Int, passed: Int) {
        let end = Date(timeIntervalSinceNow: seconds)
        let workers = ports.map { port in
            Background { () throws -> (Int, Int) in
                let connection = try Connection(port: port)
                var (asked, passed) = (0, 0)
                while Date() < end {
                    let status = try connection.ask("GET /hot").status
                    guard status == 200 || status == 429 else { throw Fault("status \(status)") }
                    asked += 1
                    passed += status == 200 ? 1 : 0
                }
                return (asked, passed)
            }
        }
        let counts = try workers.map { try $0.value() }
        return (counts.reduce(0) { $0 + $1.0 }, counts.reduce(0) { $0 + $1.1 })
    }

    private func verify(_ gateways: [Gateway]) throws -> CommandOutcome {
        var logs: [String] = []
        for gateway in gateways {
            try gateway.stop()
            logs.append(try gateway.folder.write("access.log", gateway.process.output.now.joined(separator: "\n") + "\n"))
        }
        return try Tollgate.run(["limits", "verify"] + logs)
    }

    @Test func twoGatewaysAdmitWhatTheLimitSaysAndNoMoreInAnyWindow() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        // Slow enough that a busy machine asks for more, and with a burst that makes up for a second in which it stands still.
        let route = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=100/s+burst=100\""
        let gateways = try [gateway(redis, upstream, route), gateway(redis, upstream, route)]
        let ports = gateways.map(\.port)
        let (asked, passed) = try hammer(ports + ports, seconds: 4)
        #expect(asked > passed)
        let proof = try verify(gateways)
        #expect(proof.code == 0, "\(proof.output)\(proof.complaints)")
        // From the first grant to the last, by the clock of Redis.
        let times = try gateways.flatMap { try $0.accessLog(1) }.filter { $0["limit_outcome"].text == "allow" }
            .compactMap { $0["limit_at"].number }
        let length = (try #require(times.max()) - (try #require(times.min()))) / 1_000_000
        #expect(Double(passed) >= 0.99 * 100 * length, "\(passed) in \(length) s")
        #expect(Double(passed) <= 100 + 100 * length + 1)
    }

    @Test func fourThousandCallersAreCountedEachForThemselvesByGatewaysAndWorkers() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let route = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=2/h limit-by=header:x-key\""
        let gateways = try (0..<2).map { _ in try gateway(redis, upstream, route, "TOLLGATE_WORKERS=2") }
        // Four connections, each asking for every caller once: who comes third or fourth is refused, wherever that is.
        let rounds = (0..<4).map { round in
            let port = gateways[round % 2].port
            return Background { () throws -> [Int] in
                let connection = try Connection(port: port)
                return try (0..<4_000).map { try connection.ask("GET /hot", ["X-Key: caller-\($0)"]).status }
            }
        }
        let statuses = try rounds.map { try $0.value(seconds: 300) }
        for caller in 0..<4_000 {
            #expect(statuses.map { $0[caller] }.sorted() == [200, 200, 429, 429], "caller \(caller)")
        }
        #expect(try verify(gateways).code == 0)
    }

    @Test func aLeaseSparesRedisAndKeepsTheBound() throws {
        let (redis, upstream) = (try Redis(), try Upstream())
        let route = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=100000/s+lease\""
        let gateways = try [gateway(redis, upstream, route), gateway(redis, upstream, route)]
        let ports = gateways.map(\.port)
        let start = ProcessInfo.processInfo.systemUptime
        let (asked, passed) = try hammer(ports + ports + ports, seconds: 2)
        #expect(asked == passed)
        let takes = try gateways.reduce(0) { try $0 + $1.metric("tollgate_redis_commands_total", "cmd=\"take\"") }
        // Where a busy machine asks seldom, each lease, which lasts for 100 ms, covers few requests: a few commands each time then.
        let leases = Double(gateways.count) * 10 * (ProcessInfo.processInfo.systemUptime - start)
        #expect(takes <= max(0.05 * Double(asked), 4 * leases), "\(takes) for \(asked)")
        let proof = try verify(gateways)
        #expect(proof.code == 0, "\(proof.output)\(proof.complaints)")
    }
}
