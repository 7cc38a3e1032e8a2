import Foundation
import TestThreads
import Testing

/// Limits that several gateways count together in a Redis Cluster.
@Suite(.ownThread, .serialized) struct ClusterLimitTests {
    private func gateway(
        _ cluster: RedisCluster, _ upstream: Upstream, _ settings: String..., environment: [String: String] = [:]
    ) throws -> Gateway {
        let gateway = try Gateway(
            (["TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", cluster.setting] + settings).joined(separator: "\n"), environment: environment)
        try eventually("all nodes are there") { try redis(gateway)["status"].text == "ready" }
        return gateway
    }

    private func redis(_ gateway: Gateway) throws -> JSON {
        try JSON(gateway.askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "redis" } ?? JSON("{}")
    }

    /// What `limits verify` finds in the logs of gateways, which end.
    private func verify(_ gateways: [Gateway]) throws -> (violations: [JSON], output: String) {
        var logs: [String] = []
        for gateway in gateways {
            try gateway.stop()
            logs.append(try gateway.folder.write("access.log", gateway.process.output.now.joined(separator: "\n") + "\n"))
        }
        let outcome = try Tollgate.run(["limits", "verify", "--json"] + logs)
        return (try JSON(outcome.output)["violations"].array, outcome.output + outcome.complaints)
    }

    /// Asks for callers in turn over several connections until told to stop, and counts the statuses.
    private final class Load {
        private let isOver = Watched(false)
        /// Requests that were answered.
        let answers = Watched(0)
        private var rounds: [Background<[Int: Int]>] = []

        init(_ gateways: [Gateway], callers: Int, connections: Int = 4) {
            let (isOver, answers) = (isOver, answers)
            rounds = (0..<connections).map { number in
                let port = gateways[number % gateways.count].port
                return Background { () throws -> [Int: Int] in
                    let connection = try Connection(port: port)
                    var statuses: [Int: Int] = [:]
                    var caller = number
                    while !isOver.now {
                        let status = try connection.ask("GET /hot", ["X-Key: caller-\(caller % callers)"]).status
                        statuses[status, default: 0] += 1
                        answers.change { $0 += 1 }
                        caller += 7
                    }
                    return statuses
                }
            }
        }

        /// Waits for so many more answers.
        func awaitAnswers(_ count: Int) throws {
            let before = answers.now
            try answers.wait(for: "answers", seconds: 120, until: { $0 >= before + count })
        }

        func end() throws -> [Int: Int] {
            isOver.change { $0 = true }
            return try rounds.map { try $0.value(seconds: 60) }.reduce(into: [:]) { all, one in all.merge(one) { $0 + $1 } }
        }
    }

    private static let hot = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=6/h limit-by=header:x-key\""

    // MARK: one count for all

    @Test func gatewaysAndWorkersCountTogetherOverAllNodes() throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let gateways = try [
            gateway(cluster, upstream, Self.hot, Redis.patience),
            gateway(cluster, upstream, Self.hot, "TOLLGATE_WORKERS=2", Redis.patience),
        ]
        let connections = try gateways.map { try $0.connect() }
        for caller in 0..<60 {
            let statuses = try (0..<8).map { try connections[$0 % 2].ask("GET /hot", ["X-Key: caller-\(caller)"]).status }
            #expect(statuses == [200, 200, 200, 200, 200, 200, 429, 429])
        }
        for node in cluster.nodes[..<3] { #expect(try node.keys.contains { $0.contains("}rl:") }) }
        // A busy machine may keep a node from answering its probe for a moment.
        try eventually("all nodes are ready") { try gateways[0].metric("tollgate_redis_nodes", "state=\"ready\"") == 3 }
        #expect(try verify(gateways).violations.isEmpty)
    }

    /// A limit by address lies elsewhere than one by a field, and still both admit a request or none counts it.
    @Test func severalLimitsOnSeveralNodesAdmitARequestTogether() throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let route =
            "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=2/h+by=header:x-key limit=100/h+by=header:x-key limit=9/h+by=address\""
        let gateway = try gateway(cluster, upstream, route, Redis.patience)
        let connection = try gateway.connect()
        // Five callers have two each; the third of each costs the address nothing, which has nine.
        for caller in 0..<5 {
            let statuses = try (0..<4).map { _ in try connection.ask("GET /hot", ["X-Key: caller-\(caller)"]).status }
            #expect(statuses == (caller < 4 ? [200, 200, 429, 429] : [200, 429, 429, 429]), "caller \(caller)")
        }
        #expect(upstream.requests.now.count == 9)
        #expect(try verify([gateway]).violations.isEmpty)
    }

    @Test func callersOfOneBucketShareACall() throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let gateway = try gateway(
            cluster, upstream, "TOLLGATE_ROUTE_FEW=\"/hot upstream=u auth=none limit=9/h+by=address limit=9/m+by=address\"", Redis.patience)
        #expect(try (0..<3).map { _ in try gateway.ask("GET /hot").status } == [200, 200, 200])
        #expect(try gateway.metric("tollgate_redis_commands_total", "cmd=\"take\"") == 3)
    }

    // MARK: slots that move

    /// Slots move one after the other while gateways count in them, and stay half moved for a moment: nothing is decided without Redis.
    @Test func reshardingUnderLoadKeepsEveryBound() throws {
        let (cluster, upstream) = (try RedisCluster(joining: 1), try Upstream())
        let route = "TOLLGATE_ROUTE_HOT=\"/hot upstream=u auth=none limit=6/h+by=header:x-key limit=5/h+burst=6+by=header:x-key\""
        let gateways = try (0..<2).map { _ in try gateway(cluster, upstream, route, "TOLLGATE_RATE_LIMIT_FAILURE=closed") }
        let load = Load(gateways, callers: 1_500)
        var redirects = 0.0
        for tag in 0..<256 where redirects == 0 || tag < 48 {
            let slot = try cluster.slot("{b\(tag)}")
            guard slot <= RedisCluster.ranges[0].1 else { continue }
            try cluster.move(slot, from: cluster.nodes[0], to: cluster.nodes[6]) { try load.awaitAnswers(20) }
            redirects = try gateways.reduce(0) { try $0 + $1.metric("tollgate_redis_redirects_total") }
        }
        let statuses = try load.end()
        #expect(Set(statuses.keys).isSubset(of: [200, 429, 503]), "\(statuses)")
        #expect(redirects > 0)
        let found = try verify(gateways)
        #expect(found.violations.isEmpty, "\(found.output)")
    }

    // MARK: nodes that go away

    @Test func aNodeAwayConcernsItsKeysAloneAndIsNamed() throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let gateway = try gateway(cluster, upstream, Self.hot, "TOLLGATE_RATE_LIMIT_FAILURE=closed", Redis.patience)
        let connection = try gateway.connect()
        let callers = (0..<40).map { "X-Key: caller-\($0)" }
        for caller in callers { #expect(try connection.ask("GET /hot", [caller]).status == 200) }
        // With its replica, so that nobody takes its place.
        cluster.nodes[4].kill()
        cluster.nodes[1].kill()
        try eventually("it is told") { try redis(gateway)["reason"].text?.contains("node 127.0.0.1:\(cluster.nodes[1].port): ") == true }
        var statuses: [Int: Int] = [:]
        for caller in callers { statuses[try connection.ask("GET /hot", [caller]).status, default: 0] += 1 }
        #expect(statuses[503] ?? 0 > 0 && statuses[200] ?? 0 > 0, "\(statuses)")
        // The map is read again and again while a node is away, and counted by each worker.
        try eventually("one node is away") { try gateway.metric("tollgate_redis_nodes", "state=\"away\"") == 1 }
        try eventually("it says whose requests get 503") {
            try redis(gateway)["reason"].text?.contains("requests with limits of their keys get 503") == true
        }
        try gateway.waitForLog("127.0.0.1:\(cluster.nodes[1].port)")
    }

    /// At most three bursts more than the bound: what the replica had not heard of, one at the switch to this gateway's own counting, and
    /// one at the switch back. With `closed` only the first.
    @Test(arguments: ["closed", "local"])
    func aFailoverUnderLoadAddsAtMostThreeBurstsToTheKeysOfThatNode(_ mode: String) throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let gateways = try (0..<2).map { _ in try gateway(cluster, upstream, Self.hot, "TOLLGATE_RATE_LIMIT_FAILURE=\(mode)") }
        let load = Load(gateways, callers: 3_000)
        try load.awaitAnswers(500)
        cluster.nodes[0].kill()
        try eventually("the replica has taken over", seconds: 60) {
            try cluster.nodes[3].ask("INFO", "replication").contains("role:master")
        }
        for gateway in gateways {
            try eventually("the gateways have found it", seconds: 60) { try redis(gateway)["status"].text == "ready" }
        }
        try load.awaitAnswers(3_000)
        let statuses = try load.end()
        #expect(Set(statuses.keys).isSubset(of: [200, 429, 503]), "\(statuses)")
        // The counts that others have had all the time.
        let others = Set(try (cluster.nodes[1].keys + cluster.nodes[2].keys).compactMap { $0.split(separator: ":").last.map(String.init) })
        let local = try gateways.flatMap { try $0.accessLog(1) }.filter { $0["limit_source"].text == "fallback" }
        let late = Set(local.compactMap { (line: JSON) -> String? in line["limit_keys"].text.map { String($0.prefix(32)) } })
        let burst = 6.0
        let most = mode == "closed" ? burst : 3 * burst
        let found = try verify(gateways)
        for violation in found.violations {
            let caller = try #require(violation["caller"].text)
            #expect(!others.contains(caller) || late.contains(caller), "a count of another node: \(violation)")
            let excess = (violation["admitted"].number ?? 0) - (violation["bound"].number ?? 0)
            #expect(excess <= most, "\(violation)")
        }
    }

    /// The node takes connections and commands and says nothing, so that only the circuit breaker tells.
    @Test func aPrimaryThatHangsIsReplaced() throws {
        let (cluster, upstream) = (try RedisCluster(), try Upstream())
        let gateway = try gateway(cluster, upstream, Self.hot, "TOLLGATE_RATE_LIMIT_FAILURE=closed")
        cluster.nodes[0].pause()
        try expectCounts(of: gateway, cluster, from: 0)
    }

    // MARK: nodes of other kinds

    /// With TLS everywhere. The certificate must be good for the address or name by which a node is known.
    @Test func aClusterWithTLSIsVerifiedAndFollowed() throws {
        let authority = try CertificateAuthority(try Folder())
        try authority.issue("redis", "IP:127.0.0.1")
        let (cluster, upstream) = (try RedisCluster(.init(authority: authority)), try Upstream())
        let trusting = ["SSL_CERT_FILE": authority.file]
        let gateway = try gateway(cluster, upstream, Self.hot, "TOLLGATE_RATE_LIMIT_FAILURE=closed", Redis.patience, environment: trusting)
        try count(gateway, cluster)
        for node in cluster.nodes[..<3] { #expect(try node.keys.contains { $0.contains("}rl:") }) }
        // By a name that the certificate lacks, and without its authority.
        for (host, environment) in [("localhost", trusting), ("127.0.0.1", [:])] {
            let settings = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n\(cluster.setting(host: host))\n\(Self.hot)"
            let stranger = try Gateway(settings, environment: environment)
            try eventually("it says so") {
                let reason = try redis(stranger)["reason"].text ?? ""
                return reason.contains("no node of the Redis Cluster tells which there are, \(host):")
                    && reason.contains("the TLS handshake failed")
            }
        }
        cluster.nodes[0].kill()
        try expectCounts(of: gateway, cluster, from: 3)
    }

    @Test func nodesThatKnowOnlyTheOlderCommandAreFollowed() throws {
        let (cluster, upstream) = (try RedisCluster(.init(isBeforeSeven: true)), try Upstream())
        let gateway = try gateway(cluster, upstream, Self.hot, "TOLLGATE_RATE_LIMIT_FAILURE=closed", Redis.patience)
        try count(gateway, cluster)
        cluster.nodes[0].kill()
        try expectCounts(of: gateway, cluster, from: 3)
        let calls = try cluster.nodes[1...].map { try $0.ask("INFO", "commandstats") }.joined()
        #expect(calls.contains("cmdstat_cluster|slots:") && !calls.contains("cmdstat_cluster|shards:"))
    }

    private static let callers = (0..<30).map { "X-Key: caller-\($0)" }

    /// Three requests of each caller, of six in an hour, which the replicas then know.
    private func count(_ gateway: Gateway, _ cluster: RedisCluster) throws {
        let connection = try gateway.connect()
        for caller in Self.callers {
            for _ in 0..<3 { try eventually("\(caller) is counted") { try connection.ask("GET /hot", [caller]).status == 200 } }
        }
        for node in cluster.nodes[..<3] { try eventually("its replica has all") { try node.ask("WAIT", "1", "5000").hasPrefix("1") } }
    }

    /// The replica of the first node takes over, and no caller has more than what is left of six: at least `spent` are not. On a busy
    /// machine some calls are late, which count all the same.
    private func expectCounts(of gateway: Gateway, _ cluster: RedisCluster, from spent: Int) throws {
        let connection = try gateway.connect()
        try eventually("the replica has taken over", seconds: 60) {
            _ = try connection.ask("GET /hot", ["X-Key: other"])
            return try cluster.nodes[3].ask("INFO", "replication").contains("role:master")
        }
        try eventually("the gateway has found it", seconds: 60) { try redis(gateway)["status"].text == "ready" }
        for caller in Self.callers {
            var admitted = 0
            try eventually("\(caller) is refused") {
                let status = try connection.ask("GET /hot", [caller]).status
                if status == 200 { admitted += 1 }
                return status == 429
            }
            #expect(admitted <= 6 - spent, "\(caller)")
        }
    }

    // MARK: what else is kept in Redis

    /// Hints go over any node; the one that carries them dies.
    @Test func anEndedSessionIsToldOverAnotherNodeWhenOneDies() throws {
        let cluster = try RedisCluster()
        let fleet = try Fleet(2, .redis, cluster.setting)
        try fleet.waitForTheBus()
        for round in 0..<3 {
            let tokens = try fleet[0].signUp("user\(round)@example.org")
            #expect(try fleet.statuses("GET /me", tokens.access) == [200, 200])
            #expect(try fleet[round % 2].send("POST /auth/signout", bearer: tokens.access).status == 200)
            try fleet.expect("an end is told") { try Fleet.refuses($0, tokens.access) }
            // Every subscription is on one of two nodes now, then on one that is left.
            if round < 2 { for node in [cluster.nodes[round], cluster.nodes[round + 3]] { node.kill() } }
            try fleet.waitForTheBus()
        }
    }

    @Test func oneGatewayRefreshesForAllOverACluster() throws {
        let (cluster, server, upstream) = (try RedisCluster(), try AuthServer(), try Upstream())
        let gateways = try (0..<2).map { _ in try OutsideRefreshTests.gateway(server, upstream, cluster.setting, Redis.patience) }
        for gateway in gateways { try eventually("Redis is there") { try redis(gateway)["status"].text == "ready" } }
        try eventually("gateways are counted") { try cluster.nodes[..<3].contains { try $0.keys.contains("tollgate:{b0}gateways") } }
        let ports = gateways.map(\.port)
        for round in 1...3 {
            let user = "user-\(round)"
            server.mood.change { $0 = .slow(0.3) }
            let fields = TransparentRefreshTests.fields(try OutsideRefreshTests.old(user), server.signIn(user))
            let answers = try atOnce(10) { try Connection(port: ports[$0 % 2]).ask("GET /internal/x", fields) }
            #expect(answers.allSatisfy { $0.status == 200 })
            #expect(Set(answers.compactMap { $0["X-New-Access-Token"] }).count == 1)
            #expect(server.questions.now.count == round)
        }
    }
}
