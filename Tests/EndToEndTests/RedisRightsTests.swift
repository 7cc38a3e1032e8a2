import Foundation
import TestThreads
import Testing

/// Gateways as the users that `docs/several-gateways.md` gives them in Redis.
@Suite(.ownThread) struct RedisRightsTests {
    /// The rules of the page: of the user at a server, what Sentinel adds, of the user at a sentinel, and what a cluster adds.
    private static func rules() throws -> (server: String, addition: String, sentinel: String, cluster: String) {
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let prefix = "ACL SETUSER tollgate "
        let page = try String(contentsOf: root.appending(path: "docs/several-gateways.md"), encoding: .utf8)
        let lines = page.split(separator: "\n").filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
        guard lines.count == 4 else { throw Fault("the page has \(lines.count) rules") }
        return (lines[0], lines[1], lines[2], lines[3])
    }

    /// The commands that a rule allows, as INFO names them.
    private static func commands(_ rule: String) -> Set<String> {
        Set(rule.split(separator: " ").filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) })
    }

    /// Limits, refused and returned attempts, the bus, a lease and the heartbeat; then `meanwhile`, before the gateways end.
    private func useEverything(_ setting: String, meanwhile: () throws -> Void = {}) throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let fleet = try Fleet(
            2, .redis, setting, Redis.patience, "TOLLGATE_ROUTE_FEW=\"/few upstream=u auth=none limit=2/h\"", Gateway.trustingProxies)
        try fleet.waitForTheBus()
        try fleet.expect("Redis is ready") { try $0.askAdmin("/readyz").text.contains(#""redis","status":"ready""#) }
        #expect(try (0..<3).map { try fleet[$0 % 2].send("GET /few").status } == [200, 200, 429])
        let ada = try fleet[0].register("ada@example.org")
        // A right password gives its charge back, in part after a wrong one.
        #expect(try fleet[0].send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "10.1.2.4").status == 200)
        let wrong = #"{"email":"ada@example.org","password":"no, it is another"}"#
        #expect(try fleet[1].send("POST /api/v1/auth/login", wrong, from: "10.1.2.3").status == 401)
        #expect(try fleet[1].send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "10.1.2.3").status == 200)
        #expect(try fleet.admin(0, "POST /admin/api/users/\(ada.user)/revoke").status == 200)
        try fleet.expect("signed out") { try Fleet.refuses($0, ada.access) }
        try eventually("a hint") { try fleet[1].metric("tollgate_bus_messages_total", "heard") > 1 }
        #expect(try fleet[0].command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)

        let folder = try Folder()
        let lines = [
            try TransparentRefreshTests.settings(upstream), try server.settings(folder), setting, Redis.patience,
            "TOLLGATE_KEY_SECRET=\"\(Fleet.keySecret)\"",
        ]
        let refreshing = try Gateway(lines.joined(separator: "\n"), folder: folder)
        try eventually("Redis is there") { try refreshing.askAdmin("/readyz").text.contains(#""redis","status":"ready""#) }
        let fields = TransparentRefreshTests.fields(try AuthServer.token("u1", lifetime: -100), server.signIn("u1"))
        #expect(try refreshing.ask("GET /internal/x", fields).status == 200)
        try withExtendedLifetime((fleet, refreshing)) { try meanwhile() }
    }

    /// Waits until every command of the rule has been called at the node.
    private func waitForUse(of rule: String, _ node: RedisNode) throws {
        var unused: Set<String> = []
        do {
            try eventually("each right is used") {
                let stats = try node.ask("INFO", "commandstats")
                unused = Self.commands(rule).filter { !stats.contains("cmdstat_\($0):") }
                return unused.isEmpty
            }
        } catch {
            throw Fault("\(error); not used: \(unused.sorted())")
        }
    }

    @Test(arguments: RedisProgram.all)
    func theDocumentedUserMayDoAllThatIsNeededAndNoMore(_ program: RedisProgram) throws {
        let rules = try Self.rules()
        let node = try RedisNode.alone(
            program, ["user default on >admin ~* &* +@all", "user tollgate \(rules.server)"], login: ["--no-auth-warning", "-a", "admin"])
        // The heartbeat deletes a key of another type.
        try node.ask("-n", "2", "SET", "tollgate:gateways", "of another type")
        try node.ask("CONFIG", "RESETSTAT")
        // The gateways ping once a second.
        try useEverything("REDIS_URL=redis://tollgate:secret@127.0.0.1:\(node.port)/2") { try waitForUse(of: rules.server, node) }
        #expect(try node.ask("ACL", "LOG") == "")
        // Without one of them it says what is missing.
        try node.ask("ACL", "SETUSER", "tollgate", "-evalsha")
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            REDIS_URL=redis://tollgate:secret@127.0.0.1:\(node.port)/2
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ONE="/one upstream=u auth=none limit=1/h"
            """)
        try eventually("it says so") {
            _ = try gateway.ask("GET /one")
            return try gateway.askAdmin("/readyz").text.contains("NOPERM")
        }
    }

    @Test func theDocumentedUserSufficesOnTheNodesOfACluster() throws {
        let rules = try Self.rules()
        let cluster = try RedisCluster()
        for node in cluster.nodes {
            try node.ask(["ACL", "SETUSER", "tollgate"] + (rules.server + " " + rules.cluster).split(separator: " ").map(String.init))
        }
        try useEverything(cluster.setting.replacingOccurrences(of: "redis+cluster://", with: "redis+cluster://tollgate:secret@"))
        for node in cluster.nodes { #expect(try node.ask("ACL", "LOG") == "") }
    }

    @Test(arguments: RedisProgram.all)
    func theDocumentedUsersSufficeWithSentinels(_ program: RedisProgram) throws {
        let rules = try Self.rules()
        let admin = "user default on >admin ~* &* +@all"
        let set = try SentinelSet(
            program,
            .init(
                server: [admin, "masterauth admin", "user tollgate \(rules.server) \(rules.addition)"],
                sentinel: [
                    admin, "sentinel auth-pass \(SentinelSet.master) admin", "sentinel sentinel-pass admin",
                    "user tollgate \(rules.sentinel)",
                ],
                login: ["--no-auth-warning", "-a", "admin"], user: "tollgate:secret@",
                options: "/1?sentinel-user=tollgate&sentinel-password=other"))
        for node in set.servers { try node.ask("CONFIG", "RESETSTAT") }
        try useEverything(set.setting)
        for node in set.servers + set.sentinels { #expect(try node.ask("ACL", "LOG") == "") }
        #expect(try set.servers[0].info("cmdstat_role") != "")
        // Without a right at the sentinels it says what is missing.
        for sentinel in set.sentinels { try sentinel.ask("ACL", "SETUSER", "tollgate", "-sentinel|master") }
        let gateway = try Gateway(set.setting)
        try eventually("it says so") {
            try gateway.askAdmin("/readyz").text.contains("NOPERM")
        }
    }
}
