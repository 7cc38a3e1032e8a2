import Foundation
import TestServers
import TestThreads
import Testing

/// Accounts in a PostgreSQL server that goes away and comes back, and that gateways share.
@Suite(.ownThread) struct AccountStorageEndToEndTests {
    private static let secret = "TOLLGATE_JWT_SECRET=\"a secret of more than thirty-two bytes\""

    private static func settings(_ url: String, _ more: String...) -> String {
        ([Gateway.contracts, secret, "DATABASE_URL=\"\(url)\""] + more).joined(separator: "\n")
    }

    private static func readiness(_ gateway: Gateway) throws -> (http: Int, status: String?) {
        let answer = try gateway.askAdmin("/readyz")
        return (answer.status, try JSON(answer.text)["status"].text)
    }

    /// The limit on the size of files stands for a full disk: reading goes on.
    @Test func changesThatFailDegradeTheGatewayUntilOneSucceeds() throws {
        let gateway = try Gateway("TOLLGATE_CONTRACTS=anonymous@/", command: ["bash", "-c", "trap '' XFSZ; exec \"$@\"", "limited"])
        let limit = { (size: String) in _ = try mustRun("prlimit", ["--pid", "\(gateway.process.pid)", "--fsize=\(size):"]) }
        let accounts = {
            try JSON(gateway.askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "accounts" }?["status"].text
        }
        #expect(try gateway.ask("POST /auth/user").status == 200)
        #expect(try accounts() == "ready")
        try limit("4096")
        #expect(try gateway.ask("POST /auth/user").status >= 500)
        try gateway.waitForLog("account store not writable")
        #expect(try gateway.askAdmin("/readyz").status == 200)
        #expect(try accounts() == "degraded")
        try limit("unlimited")
        #expect(try accounts() == "degraded", "nothing has been changed since")
        #expect(try gateway.ask("POST /auth/user").status == 200)
        #expect(try accounts() == "ready")
        try gateway.waitForLog("account store writable")
    }

    @Test func accountsLiveInPostgreSQLAndOutliveIt() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let (providers, upstream) = (try Providers.shared.get(), try Upstream())
        let routes = """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_OPEN="/open upstream=u auth=none"
            TOLLGATE_ROUTE_CLOSED="/closed upstream=u"
            """
        let gateway = try Gateway(Self.settings(try cluster.newDatabase(), providers.settings(), routes))
        let (kept, rotated) = (try gateway.register("ada@example.org"), try gateway.signUp("bob@example.org"))
        let idToken = try providers.token("apple", #"{"sub":"001.apple"}"#)
        let apple = #"{"provider":"apple","idToken":"\#(idToken)"}"#
        let signIn = try gateway.send("POST /whateat/api/v1/auth/signin", apple)
        let renewal = try must(JSON(signIn.text)["refreshToken"])
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200)
        #expect(try gateway.send("GET /closed", bearer: kept.access).status == 200)
        try eventually("/readyz is ready") { try Self.readiness(gateway) == (200, "ready") }

        try cluster.stop()
        let away: [(request: String, body: String?, bearer: String?, status: Int)] = [
            ("POST /api/v1/auth/login", credentials("ada@example.org"), nil, 503),
            ("POST /api/v1/auth/register", credentials("eve@example.org"), nil, 503),
            ("POST /api/v1/auth/refresh", #"{"refresh":"\#(kept.refresh)"}"#, nil, 503),
            ("POST /auth/signin", credentials("bob@example.org"), nil, 503),
            ("POST /auth/token/refresh", #"{"refresh_token":"\#(rotated.refresh)"}"#, nil, 503),
            ("POST /auth/otp/resend", #"{"email":"bob@example.org","type":"email"}"#, nil, 503),
            ("POST /auth/password/forgot", #"{"email":"bob@example.org"}"#, nil, 503),
            ("POST /auth/signout", nil, rotated.access, 503),
            ("POST /auth/user", nil, nil, 503),
            ("POST /login", #"{"idToken":"\#(idToken)"}"#, nil, 503),
            // Its document knows no 503.
            ("POST /whateat/api/v1/auth/signin", apple, nil, 500),
            ("POST /whateat/api/v1/auth/refresh", #"{"refreshToken":"\#(renewal)"}"#, nil, 500),
        ]
        for (request, body, bearer, status) in away {
            let answer = try gateway.send(request, body, bearer: bearer)
            #expect(answer.status == status, "\(request): \(answer.text)")
            #expect(answer["Retry-After"].flatMap { Int($0) } ?? 0 > 0, "\(request)")
            #expect(answer["Cache-Control"] == "no-store", "\(request)")
        }
        // What needs no database goes on: open routes, keys, and whoever was here lately.
        #expect(try gateway.ask("GET /open").status == 200)
        #expect(try gateway.ask("GET /.well-known/jwks.json").status == 200)
        #expect(try gateway.send("GET /closed", bearer: kept.access).status == 200)
        #expect(try gateway.send("GET /closed").status == 401)
        try eventually("/readyz tells of it") { try Self.readiness(gateway) == (200, "degraded") }
        #expect(try gateway.askAdmin("/livez").status == 200)
        try gateway.waitForLog("account store unavailable")

        try cluster.start()
        try eventually("accounts are back") { try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200 }
        #expect(try gateway.send("POST /api/v1/auth/refresh", #"{"refresh":"\#(kept.refresh)"}"#).status == 200)
        // The refresh that found nobody has done nothing.
        _ = try gateway.refreshed(try gateway.refreshed(rotated.refresh).refresh)
        try eventually("/readyz tells of that too") { try Self.readiness(gateway) == (200, "ready") }
        try gateway.waitForLog("account store available")
    }

    /// A refresh waits for a store that is away for a moment: real clients sign their users out on any other answer.
    @Test func aRefreshWaitsForADatabaseThatRestarts() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let gateway = try Gateway(Self.settings(try cluster.newDatabase()))
        var token = try gateway.signUp("ada@example.org").refresh
        for _ in 0..<3 {
            try cluster.stop()
            let (port, old) = (gateway.port, token)
            let answer = Background {
                try Connection(port: port).send("POST /auth/token/refresh", #"{"refresh_token":"\#(old)"}"#)
            }
            try cluster.start()
            let refreshed = try answer.value()
            // Only a restart that takes longer than the two seconds that a refresh waits may be told.
            #expect([200, 503].contains(refreshed.status))
            token = refreshed.status == 200 ? try must(JSON(refreshed.text)["refresh_token"]) : token
        }
        try eventually("the session is still good") {
            try gateway.send("POST /auth/token/refresh", #"{"refresh_token":"\#(token)"}"#).status == 200
        }
    }

    /// A database that takes connections and says nothing: every answer comes in its time all the same.
    @Test func aDatabaseThatHangsIsToldLikeOneThatIsGone() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let upstream = try Upstream()
        let gateway = try Gateway(
            Self.settings(
                try cluster.newDatabase(), "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_OPEN=\"/open upstream=u auth=none\""))
        let tokens = try gateway.signUp("ada@example.org")
        try cluster.pause()
        let port = gateway.port
        let answers = Background {
            try atOnce(100) { number in
                let connection = try Connection(port: port)
                connection.setTimeout(seconds: 40)
                return number % 2 == 0
                    ? try connection.send("POST /auth/token/refresh", #"{"refresh_token":"\#(tokens.refresh)"}"#)
                    : try connection.send("POST /auth/password/forgot", #"{"email":"u\#(number)@example.org"}"#)
            }
        }
        #expect(try gateway.ask("GET /open").status == 200)
        let refusals = try answers.value(seconds: 60)
        #expect(refusals.allSatisfy { $0.status == 503 && $0["Retry-After"] != nil }, "\(Set(refusals.map(\.status)))")
        try eventually("/readyz tells of it") { try Self.readiness(gateway) == (200, "degraded") }
        try cluster.resume()
        try eventually("accounts are back") {
            try gateway.send("POST /auth/token/refresh", #"{"refresh_token":"\#(tokens.refresh)"}"#).status == 200
        }
    }

    @Test func aGatewayStartsWithoutItsDatabase() throws {
        let cluster = try PostgresCluster()
        defer { cluster.end() }
        let url = try cluster.newDatabase()
        try cluster.stop()
        let gateway = try Gateway(Self.settings(url))
        #expect(try gateway.send("POST /api/v1/auth/register", credentials("ada@example.org")).status == 503)
        try eventually("/readyz tells of it") { try Self.readiness(gateway) == (200, "degraded") }
        try cluster.start()
        try eventually("accounts are there") {
            try gateway.send("POST /api/v1/auth/register", credentials("ada@example.org")).status == 201
        }
    }

    @Test func twoGatewaysThatStartAtOnceShareAnEmptyDatabase() throws {
        let url = try PostgresCluster.shared.get().newDatabase()
        let settings = Self.settings(url)
        // A gateway belongs to one thread at a time; here it is handed over once.
        struct Handed: @unchecked Sendable { let gateway: Gateway }
        let gateways = try atOnce(2) { _ in Handed(gateway: try Gateway(settings)) }.map(\.gateway)
        let (left, right) = (gateways[0], gateways[1])

        let ada = try left.register("ada@example.org")
        #expect(try right.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200)
        #expect(try right.send("GET /api/v1/auth/me", bearer: ada.access).status == 200)
        #expect(try right.send("POST /api/v1/auth/register", credentials("ada@example.org")).status == 400)

        // One email at both at once: one account.
        let ports = gateways.map(\.port)
        let statuses = try atOnce(20) { number in
            try askingAgain(whileFull: "POST /api/v1/auth/register", credentials("eve@example.org"), port: ports[number % 2]).status
        }
        #expect(statuses.count { $0 == 201 } == 1 && statuses.count { $0 == 400 } == 19, "\(statuses)")

        // One refresh token at both at once: one successor.
        let bob = try right.signUp("bob@example.org")
        let sessions = try atOnce(40) { number in
            try Connection(port: ports[number % 2]).send("POST /auth/token/refresh", #"{"refresh_token":"\#(bob.refresh)"}"#)
        }
        #expect(Set(sessions.map(\.status)) == [200])
        #expect(Set(try sessions.map { try must(JSON($0.text)["refresh_token"]) }).count == 1)

        // A user who signs out at one is refused by the other.
        #expect(try right.send("GET /auth/user", bearer: bob.access).status == 200)
        #expect(try left.send("POST /auth/signout", bearer: bob.access).status == 200)
        try eventually("the other gateway refuses", seconds: 15) { try right.send("GET /auth/user", bearer: bob.access).status == 401 }
    }

    // MARK: the embedded database

    @Test func accountsLiveInTheFileThatIsNamed() throws {
        let folder = try Folder()
        let settings = [Gateway.contracts, "DATABASE_URL=sqlite://\(folder.file("mine.db"))"].joined(separator: "\n")
        let first = try Gateway(settings)
        _ = try first.register("ada@example.org")
        try first.stop()
        // Another gateway, with another data folder, finds them there.
        let second = try Gateway(settings)
        #expect(try second.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200)
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.file("mine.db"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    /// The gateway starts without it, and says why it is away.
    @Test func anEmbeddedDatabaseThatCannotBeOpenedIsNamedWithTheReason() throws {
        let folder = try Folder()
        let path = folder.file("none/mine.db")
        let reason = "SQLite: unable to open database file (14), no such file or directory, at: open \(path)"
        let gateway = try Gateway([Gateway.contracts, "DATABASE_URL=sqlite://\(path)"].joined(separator: "\n"))
        try gateway.waitForLog(#""msg":"account store unavailable","error":"\#(reason)""#)
        let command = try gateway.command(["user", "list"])
        #expect(command.code == 1 && command.complaints.contains("tollgate: the accounts cannot be opened: \(reason)\n"), "\(command)")
    }

    /// Another program, a backup say, holds the file: what must be written waits, then says so; what is read goes on.
    @Test func anEmbeddedDatabaseThatAnotherProgramHoldsIsWaitedFor() throws {
        let gateway = try Gateway(Gateway.contracts)
        let ada = try gateway.register("ada@example.org")
        let holder = try holder(of: gateway)
        let late = try gateway.send("POST /api/v1/auth/register", credentials("eve@example.org"))
        #expect(late.status == 503 && late["Retry-After"] != nil)
        #expect(try gateway.send("GET /api/v1/auth/me", bearer: ada.access).status == 200)

        let port = gateway.port
        // Who waits for longer than the holder takes on a busy machine is told to come back.
        let waiting = Background {
            try askingAgain(whileFull: "POST /api/v1/auth/register", credentials("bob@example.org"), port: port).status
        }
        holder.say("go\n")
        #expect(try waiting.value() == 201)
        #expect(try gateway.send("POST /api/v1/auth/register", credentials("eve@example.org")).status == 201)
    }

    /// Holds the file until it is told to go on.
    private func holder(of gateway: Gateway) throws -> Subprocess {
        let script = """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
            print("held", flush=True)
            sys.stdin.readline()
            db.execute("ROLLBACK")
            print("free", flush=True)
            sys.stdin.readline()
            """
        let holder = try Subprocess("python3", ["-c", script, gateway.folder.file("data/accounts.db")])
        try holder.output.wait(for: "the lock") { $0 == ["held"] }
        return holder
    }

    /// Refreshes that come at once, while another program holds the file: those that are let in are answered, the others are told when to come
    /// back, and no session has taken two steps.
    @Test func aStampedeOfRefreshesLosesNoSession() throws {
        let gateway = try Gateway(
            [Gateway.contracts, Gateway.trustingProxies, "TOLLGATE_MAX_LOCAL_REQUESTS=10", "TOLLGATE_SIGNUP_LIMIT=100000/h"]
                .joined(separator: "\n"))
        let tokens = try (0..<30).map { try gateway.signUp("user\($0)@example.org").refresh }
        let holder = try holder(of: gateway)
        // Each of another address: one alone would reach its share first.
        func begin(_ number: Int, _ body: String, length: Int) throws -> Connection {
            let connection = try gateway.connect()
            let fields = ["Content-Type: application/json", "X-Forwarded-For: 192.0.2.\(number)"]
            try connection.send(requestHead("POST /auth/token/refresh", fields, length: length) + body)
            return connection
        }
        let connections = try tokens.enumerated().map { number, token in
            let body = #"{"refresh_token":"\#(token)"}"#
            return try begin(number, body, length: body.utf8.count)
        }
        try eventually("those beyond the bound are refused") { try gateway.metric("tollgate_overload_sheds_total") >= 20 }
        // The content of one that cannot be kept is not waited for.
        let late = try (100..<120).map { try begin($0, "", length: 1_000) }
        for connection in late {
            let answer = try connection.answer()
            #expect(answer.status == 503 && answer["Retry-After"] == "1")
        }
        holder.say("go\n")
        for (token, connection) in zip(tokens, connections) {
            let answer = try connection.answer()
            if answer.status == 200 {
                #expect(try gateway.refreshed(token).refresh == must(JSON(answer.text)["refresh_token"]))
            } else {
                #expect(answer.status == 503 && answer["Retry-After"] != nil)
                _ = try gateway.refreshed(token)
            }
        }
    }
}
