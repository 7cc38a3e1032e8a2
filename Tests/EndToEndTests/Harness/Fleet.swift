import Foundation
import Glibc
import TestServers

/// What one gateway of a fleet tells another, and over what.
enum Bus: String, CaseIterable, Sendable {
    case redis, postgres
}

/// Several gateways over one PostgreSQL database, each with a data folder of its own, as machines behind a balancer are.
final class Fleet {
    static let adminToken = "the-operator-of-the-fleet"
    static let keySecret = "a secret that all gateways of a fleet have in common"

    let gateways: [Gateway]
    let upstream: Upstream
    let database: String
    private let redis: Redis?

    /// `settings` come on top of the contracts, three routes, and the place of the accounts; `clocks` are so many seconds
    /// ahead, each of one gateway.
    init(_ count: Int, _ bus: Bus, _ settings: String..., database: String? = nil, clocks: [Int] = []) throws {
        let database = try database ?? PostgresCluster.shared.get().newDatabase()
        let hasRedis = settings.contains { $0.contains("REDIS_URL=") }
        let redis = try bus == .redis && !hasRedis ? Redis() : nil
        let upstream = try Upstream()
        let lines = (Self.settings(database, upstream) + settings + [redis?.setting].compactMap { $0 }).joined(separator: "\n")
        // A gateway belongs to one thread at a time; here it is handed over once.
        struct Handed: @unchecked Sendable { let gateway: Gateway }
        gateways = try atOnce(count) { number in
            let ahead = clocks.indices.contains(number) ? clocks[number] : 0
            let environment = try ahead == 0 ? [:] : WrongClock.shared.get().environment(ahead)
            return Handed(gateway: try Gateway(lines, environment: environment))
        }.map(\.gateway)
        (self.database, self.redis, self.upstream) = (database, redis, upstream)
    }

    static func settings(_ database: String, _ upstream: Upstream) -> [String] {
        [
            Gateway.contracts, "DATABASE_URL=\"\(database)\"", "TOLLGATE_KEY_SECRET=\"\(keySecret)\"",
            "TOLLGATE_ADMIN_TOKEN=\(adminToken)", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ME=\"/me upstream=u\"",
            "TOLLGATE_ROUTE_PREMIUM=\"/premium upstream=u tier=premium\"",
        ]
    }

    subscript(index: Int) -> Gateway { gateways[index] }

    /// The statuses with which all answer a request.
    func statuses(_ methodAndTarget: String, _ bearer: String) throws -> [Int] {
        try gateways.map { try $0.send(methodAndTarget, bearer: bearer).status }
    }

    /// Waits until all answer so; a second is what is promised, and the rest is for a busy machine.
    func expect(_ what: String, seconds: Double = 30, _ isSo: (Gateway) throws -> Bool) throws {
        try eventually(what, seconds: seconds) { try gateways.allSatisfy(isSo) }
    }

    /// Whether a gateway refuses a token because its session has ended.
    static func refuses(_ gateway: Gateway, _ token: String) throws -> Bool {
        let answer = try gateway.send("GET /me", bearer: token)
        return try answer.status == 401 && JSON(answer.text)["error"]["code"].text == "TOKEN_REVOKED"
    }

    /// Asks the admin API of the gateway of this number.
    @discardableResult
    func admin(_ index: Int, _ methodAndTarget: String, _ json: String = "") throws -> Message {
        try Connection(port: gateways[index].adminPort).ask(
            methodAndTarget, ["Host: localhost", "Authorization: Bearer \(Self.adminToken)"], body: Array(json.utf8))
    }

    /// What `/readyz` says of the bus.
    static func bus(_ gateway: Gateway) throws -> (status: String?, reason: String?) {
        let checks = try JSON(gateway.askAdmin("/readyz").text)["checks"].array
        let check = checks.first { $0["name"].text == "bus" }
        return (check?["status"].text, check?["reason"].text)
    }

    /// Waits until all hear what the others tell.
    func waitForTheBus() throws { try expect("the bus") { try Self.bus($0).status == "ready" } }
}

/// A library that makes a process see another time of day.
struct WrongClock: Sendable {
    static let shared = Result { try WrongClock() }

    private let folder: Folder

    private init() throws {
        folder = try Folder()
        try folder.write(
            "clock.c",
            """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stdlib.h>
            #include <time.h>
            int clock_gettime(clockid_t clock, struct timespec *time) {
                static int (*real)(clockid_t, struct timespec *);
                if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
                int status = real(clock, time);
                const char *ahead = getenv("CLOCK_AHEAD");
                if (status == 0 && clock == CLOCK_REALTIME && ahead != NULL) time->tv_sec += atol(ahead);
                return status;
            }
            """)
        try mustRun("cc", ["-shared", "-fPIC", "-O1", "-o", folder.file("clock.so"), folder.file("clock.c"), "-ldl"])
    }

    func environment(_ seconds: Int) -> [String: String] { ["LD_PRELOAD": folder.file("clock.so"), "CLOCK_AHEAD": "\(seconds)"] }
}
