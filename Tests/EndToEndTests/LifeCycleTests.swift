import Foundation
import Glibc
import TestThreads
import Testing

/// Reloading, draining and refusing to start.
@Suite(.ownThread) struct LifeCycleTests {
    // MARK: reload

    @Test func aReloadChangesRoutesAndKeepsWhatIsUnderWay() throws {
        let step = Watched(0)
        let upstream = try Upstream { request, connection in
            guard request.target == "/stream" else { return try Upstream.ok(request, connection) }
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n")
            try step.wait(for: "the reload", until: { $0 == 1 })
            try connection.send("3\r\nend\r\n0\r\n\r\n")
        }
        let before =
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/stream upstream=u auth=none\"\nTOLLGATE_ROUTE_B=\"/b upstream=u auth=none\""
        let gateway = try Gateway(before)
        let (stream, idle) = (try gateway.connect(), try gateway.connect())
        try stream.send(requestHead("GET /stream"))
        _ = try stream.take(through: "begin\r\n")
        #expect(try idle.ask("GET /b").status == 200)
        try gateway.reload("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_C=\"/c upstream=u auth=none\"")
        try gateway.waitForLog("configuration adopted")
        #expect(try idle.ask("GET /b").status == 404)
        #expect(try idle.ask("GET /c").status == 200)
        step.change { $0 = 1 }
        #expect(text(of: try stream.take(through: "0\r\n\r\n")) == "3\r\nend\r\n0\r\n\r\n")
        #expect(try stream.ask("GET /c").status == 200, "the connection goes on by the new rules")
        try eventually("the reload is counted beside the start") {
            try gateway.metric("tollgate_config_reloads_total", #"result="ok""#) == 2
        }
    }

    @Test func aBadFileChangesNothingAndSaysWhy() throws {
        let upstream = try Upstream()
        let good = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/a upstream=u auth=none\""
        let gateway = try Gateway(good)
        let bad = [
            good + "\nTOLLGATE_ROUTE_B=\"/b upstream=nobody\"\nTOLLGATE_NONSENSE=1", good + "\nTOLLGATE_ROUTE_B=\"/a upstream=u\"",
            good + "\nTOLLGATE_JWT_SECRET=short",
        ]
        let failed = { try gateway.metric("tollgate_config_reloads_total", #"result="failed""#) }
        for (number, settings) in bad.enumerated() {
            try gateway.reload(settings)
            // A second line of the reload before may have been taken for the end of this one.
            try eventually("the refusal is counted") { try failed() == Double(number + 1) }
            #expect(try gateway.ask("GET /a").status == 200)
            #expect(try gateway.ask("GET /b").status == 404)
        }
        try gateway.process.complaints.wait(for: "a line for each refusal, and what is wrong") { lines in
            let refused = lines.filter { $0.contains("configuration refused") }
            return refused.count >= bad.count
                && ["TOLLGATE_NONSENSE", "nobody"].allSatisfy { word in refused.contains { $0.contains(word) } }
        }
        #expect(!gateway.process.complaints.now.contains { $0.contains("configuration adopted") })
        #expect(try failed() == Double(bad.count))
        try FileManager.default.removeItem(atPath: gateway.envFile)
        gateway.process.signal(SIGHUP)
        try eventually("a missing file is refused too") { try failed() == Double(bad.count + 1) }
        #expect(try gateway.ask("GET /a").status == 200)
    }

    @Test func aReloadTakesTheRestAndNamesWhatNeedsARestartEachTime() throws {
        let upstream = try Upstream()
        let good = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/a upstream=u auth=none\""
        let gateway = try Gateway(good)
        let fixed = [
            "TOLLGATE_WORKERS=2", "TOLLGATE_LISTEN=127.0.0.1:1", "TOLLGATE_ADMIN_LISTEN=127.0.0.1:2", "TOLLGATE_TOKEN_CACHE=7",
            "TOLLGATE_DATA_DIR=\(gateway.folder.file("elsewhere"))", "TOLLGATE_ACCESS_LOG=text", "TOLLGATE_RATE_LIMIT_FAILURE=open",
            "REDIS_URL=redis://:hunter2@127.0.0.1:1", "DATABASE_URL=sqlite://\(gateway.folder.file("other.db"))",
            "TOLLGATE_KEY_SECRET=\(String(repeating: "k", count: 32))",
        ]
        let named = { (setting: String) in
            gateway.process.complaints.now.filter { $0.contains("needs a restart") && $0.contains("\"\(setting)\"") }
        }
        for round in 1...2 {
            try gateway.reload(good + "\nTOLLGATE_ROUTE_B=\"/b\(round) upstream=u auth=none\"\n" + fixed.joined(separator: "\n"))
            #expect(try gateway.ask("GET /b\(round)").status == 200, "the rest is taken")
            for setting in fixed.map({ String($0.prefix { $0 != "=" }) }) {
                #expect(named(setting).count == round, "\(setting)")
                #expect(try named(setting).allSatisfy { try JSON($0)["level"].text == "warning" })
            }
        }
        #expect(try gateway.metric("tollgate_config_reloads_total", #"result="ok""#) == 3)
        #expect(!gateway.process.complaints.now.joined().contains("hunter2"))
        #expect(!FileManager.default.fileExists(atPath: gateway.folder.file("elsewhere")))
        try gateway.reload(good)
        #expect(named("TOLLGATE_WORKERS").count == 2, "what runs is what the file says again")
    }

    @Test func aReloadTakesTheLevelOfTheLog() throws {
        let gateway = try Gateway("")
        let adopted = { gateway.process.complaints.now.count { $0.contains("configuration adopted") } }
        try gateway.folder.write("gateway.env", Gateway.complete("TOLLGATE_LOG=error", gateway.folder))
        gateway.process.signal(SIGHUP)
        try eventually("the reload is counted") { try gateway.metric("tollgate_config_reloads_total", #"result="ok""#) == 2 }
        try gateway.reload("TOLLGATE_LOG=info")
        #expect(adopted() == 1, "of the first reload, at the level of errors, nothing is told")
    }

    /// As under a service manager that loads the env file into the environment.
    @Test func aReloadNamesWhatTheEnvironmentKeepsFromChanging() throws {
        let gateway = try Gateway(
            "TOLLGATE_CLOCK_SKEW=10s", environment: ["TOLLGATE_CLOCK_SKEW": "10s", "TOLLGATE_ADMIN_TOKEN": "a-token-of-the-environment"])
        let named = { gateway.process.complaints.now.filter { $0.contains("TOLLGATE_CLOCK_SKEW") && $0.contains("environment") } }
        #expect(named().isEmpty)
        for round in 1...2 {
            try gateway.reload("TOLLGATE_CLOCK_SKEW=20s\nTOLLGATE_ADMIN_TOKEN=a-token-of-the-file")
            #expect(named().count == round)
        }
        #expect(!gateway.process.complaints.now.joined().contains("a-token-of-the"))
    }

    @Test func noRequestIsLostWhileReloading() throws {
        let upstreams = [try Upstream(), try Upstream()]
        let settings = { (upstream: Upstream) in
            "TOLLGATE_WORKERS=2\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none limit=1000000/s\""
        }
        let gateway = try Gateway(settings(upstreams[0]))
        let (port, isOver) = (gateway.port, Watched(false))
        let clients = (0..<4).map { number in
            Background {
                var (connection, count) = (try Connection(port: port), 0)
                while !isOver.now {
                    // Some with a connection of their own, some with a kept one.
                    if number == 0 { connection = try Connection(port: port) }
                    guard try connection.ask("GET /\(number)").status == 200 else { throw Fault("a request failed") }
                    count += 1
                }
                return count
            }
        }
        try upstreams[0].requests.wait(for: "requests of all clients") { Set($0.map(\.target)).count == clients.count }
        for round in 1...6 {
            let upstream = upstreams[round % 2]
            let before = upstream.requests.now.count
            try gateway.reload(settings(upstream))
            // Each configuration serves for a while before the next replaces it.
            try upstream.requests.wait(for: "requests by the new configuration") { $0.count > before }
        }
        isOver.change { $0 = true }
        let counts = try clients.map { try $0.value() }
        #expect(counts.allSatisfy { $0 > 0 })
        #expect(upstreams.allSatisfy { $0.requests.now.count > 0 })
        #expect(upstreams.reduce(0) { $0 + $1.requests.now.count } == counts.reduce(0, +))
    }

    @Test func aReloadKeepsCountsAndLimits() throws {
        let upstream = try Upstream()
        let settings = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/a upstream=u auth=none limit=2/h\""
        let gateway = try Gateway(settings)
        #expect(try gateway.ask("GET /a").status == 200)
        try gateway.reload(settings + "\nTOLLGATE_ROUTE_B=\"/b upstream=u auth=none\"")
        #expect(try gateway.ask("GET /a").status == 200)
        #expect(try gateway.ask("GET /a").status == 429)
        #expect(try gateway.metric("tollgate_http_requests_total", #"route="a""#) == 3)
    }

    // MARK: drain

    @Test func whatIsUnderWayEndsBeforeTheGatewayDoes() throws {
        let go = Watched(false)
        let upstream = try Upstream { request, connection in
            if request.target == "/slow" { try go.wait(for: "the word", until: { $0 }) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(
            "TOLLGATE_WORKERS=2\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"")
        let (idle, slow) = (try gateway.connect(), try gateway.connect())
        let leaving = try gateway.connect()
        #expect(try leaving.ask("GET /x").status == 200)
        // So many that each worker has some: once they have ended, the one that has the slow request drains, too.
        let fresh = try (0..<30).map { _ in try gateway.connect() }
        #expect(try idle.ask("GET /x").status == 200)
        try slow.send(requestHead("GET /slow") + requestHead("GET /next"))
        try upstream.requests.wait(for: "the slow request", until: { $0.count == 3 })
        gateway.process.signal(SIGTERM)
        try gateway.waitForLog("draining")
        try eventually("nobody listens") { (try? Connection(port: gateway.port)) == nil }
        // What an idle client sends meanwhile is answered.
        let last = try idle.ask("POST /x", body: Array("something".utf8))
        #expect(last.status == 200 && last["Connection"] == "close")
        try idle.expectEnd()
        leaving.close()
        for connection in fresh { try connection.expectEnd() }
        #expect(gateway.process.isRunning)
        let ready = try gateway.askAdmin("/readyz")
        #expect(ready.status == 503)
        #expect(try JSON(ready.text)["checks"][0]["reason"].text == "draining")
        go.change { $0 = true }
        let answer = try slow.answer()
        #expect(answer.text == "ok")
        #expect(answer["Connection"] == "close")
        let (rest, end) = slow.takeRest()
        #expect(rest.isEmpty && end != .silence, "the pipelined request is not begun")
        #expect(try gateway.process.exitCode(seconds: 20) == 0)
        #expect(throws: (any Error).self) { try Connection(port: gateway.port) }
        #expect(gateway.process.complaints.now.last?.contains(#""msg":"ended""#) == true)
    }

    @Test func aDrainHasABound() throws {
        let upstream = try Upstream { (_: Message, connection) in _ = connection.takeRest() }
        let gateway = try Gateway(
            "TOLLGATE_DRAIN_TIMEOUT=500ms\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"")
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /never"))
        try upstream.requests.wait(for: "the request", until: { $0.count == 1 })
        let start = ProcessInfo.processInfo.systemUptime
        #expect(try gateway.stop() == 0)
        // Without this setting it would be thirty seconds.
        #expect((0.4...20).contains(ProcessInfo.processInfo.systemUptime - start))
        #expect(try gateway.accessLog(1).count == 1, "what was cut is logged too")
    }

    @Test func askedTwiceItEndsAtOnce() throws {
        let upstream = try Upstream { (_: Message, connection) in _ = connection.takeRest() }
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"")
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /never"))
        try upstream.requests.wait(for: "the request", until: { $0.count == 1 })
        gateway.process.signal(SIGINT)
        try gateway.waitForLog("draining")
        gateway.process.signal(SIGINT)
        #expect(try gateway.process.exitCode(seconds: 20) == 0)
    }

    @Test func aGatewayWithoutADescriptorToSpareStillDrains() throws {
        let go = Watched(false)
        let upstream = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(
            "TOLLGATE_WORKERS=2\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"",
            command: ["bash", "-c", "ulimit -n 70; exec \"$@\"", "limited"])
        let busy = try gateway.connect()
        try busy.send(requestHead("GET /slow"))
        try upstream.requests.wait(for: "the request", until: { $0.count == 1 })
        var others: [Connection] = []
        while others.count < 150 { others.append(try gateway.connect()) }
        try gateway.waitForLog("out of resources")
        gateway.process.signal(SIGTERM)
        try gateway.waitForLog("draining")
        go.change { $0 = true }
        #expect(try busy.answer().text == "ok")
        #expect(try gateway.process.exitCode(seconds: 20) == 0)
        for other in others { try other.expectEnd() }
    }

    @Test func systemdIsTold() throws {
        let (folder, upstream) = (try Folder(), try Upstream())
        let manager = try ServiceManager(folder)
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"", folder: folder,
            environment: manager.environment)
        try manager.wait(for: "READY=1")
        #expect(manager.messages.now.first?.has("READY=1") == true)
        gateway.process.signal(SIGTERM)
        try manager.wait(for: "STOPPING=1")
        #expect(manager.messages.now.allSatisfy { $0.has("READY=1") || $0.has("WATCHDOG=1") || $0.has("STOPPING=1") })
        #expect(try gateway.process.exitCode() == 0)
    }

    // MARK: refusing to start

    @Test func everyFaultIsListedWithItsPlace() throws {
        let folder = try Folder()
        let file = try folder.write(
            "bad.env",
            """
            TOLLGATE_LISTEN=nowhere
            TOLLGATE_WORKERS=0
            TOLLGATE_LISTN=127.0.0.1:0
            TOLLGATE_UPSTREAM_U="ftp://x"
            TOLLGATE_ROUTE_A="/a/* upstream=v auth=perhaps limit=many"
            TOLLGATE_TIERS="free free"
            not a setting
            """)
        for command in ["serve", "check"] {
            let outcome = try Tollgate.run([command, "--env-file", file])
            #expect(outcome.code == 2, "\(command)")
            for place in [
                "\(file):1: TOLLGATE_LISTEN:", "\(file):2: TOLLGATE_WORKERS:", "\(file):3: TOLLGATE_LISTN:",
                "\(file):4: TOLLGATE_UPSTREAM_U:",
                "\(file):5: TOLLGATE_ROUTE_A:", "\(file):6: TOLLGATE_TIERS:", "\(file):7:",
            ] { #expect(outcome.complaints.contains(place), "\(command) does not name \(place)\n\(outcome.complaints)") }
            #expect(outcome.complaints.contains("TOLLGATE_LISTEN"), "the nearest name")
            let ofRoute = outcome.complaints.split(separator: "\n").filter { $0.contains("TOLLGATE_ROUTE_A:") }
            #expect(ofRoute.count == 3, "upstream, auth and limit are all wrong: \(ofRoute)")
        }
    }

    @Test func whatCannotBeHadIsSaidInASentence() throws {
        let (folder, taken) = (try Folder(), try Listening())
        let usual = "TOLLGATE_ADMIN_LISTEN=127.0.0.1:0\nTOLLGATE_DATA_DIR=\(folder.file("data"))\nTOLLGATE_CONTRACTS=\n"
        let inUse = try folder.write("used.env", usual + "TOLLGATE_LISTEN=127.0.0.1:\(taken.port)\n")
        let outcome = try Tollgate.run(["serve", "--env-file", inUse])
        #expect(outcome.code == 1)
        #expect(outcome.complaints.contains("127.0.0.1:\(taken.port)"), "\(outcome.complaints)")
        #expect(outcome.complaints.lowercased().contains("in use"))

        let missing = try Tollgate.run(["serve", "--env-file", folder.file("none.env")])
        #expect(missing.code == 2)
        #expect(missing.complaints.contains("none.env"))

        let both = try folder.write(
            "both.env", usual + "TOLLGATE_JWT_SECRET=\(String(repeating: "x", count: 40))\nTOLLGATE_JWT_SECRET_FILE=/dev/null\n")
        #expect(try Tollgate.run(["serve", "--env-file", both]).code == 2)

        let noCertificate = try folder.write(
            "tls.env",
            usual + "TOLLGATE_LISTEN=\nTOLLGATE_LISTEN_TLS=127.0.0.1:0\nTOLLGATE_TLS_CERT=/nowhere.crt\nTOLLGATE_TLS_KEY=/nowhere.key\n")
        let without = try Tollgate.run(["serve", "--env-file", noCertificate])
        #expect(without.code != 0)
        #expect(without.complaints.contains("/nowhere.crt"))

        let noFolder = try folder.write(
            "data.env", usual.replacingOccurrences(of: folder.file("data"), with: "/proc/nowhere") + "TOLLGATE_LISTEN=127.0.0.1:0\n")
        let nowhere = try Tollgate.run(["serve", "--env-file", noFolder])
        #expect(nowhere.code != 0)
        #expect(nowhere.complaints.contains("/proc/nowhere"))
    }

    /// The end of a handover fails once all threads run. What C libraries clean up at `exit` they would still use.
    @Test func aStartThatFailsAtItsEndRunsNoCleanUpBesideItsThreads() throws {
        let folder = try Folder()
        let file = try folder.write("gateway.env", Gateway.complete("TOLLGATE_WORKERS=2", folder))
        var ends: [Int32] = [0, 0]
        try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let message = Array("tollgate-handover/1 complete".utf8)
        try #require(send(ends[0], message, message.count, 0) == message.count)
        // The loader writes which libraries it begins and ends.
        let process = try Subprocess(
            try Tollgate.binary.get(), ["serve", "--env-file", file],
            environment: ["HANDOVER_FD": "3", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": folder.file("loader")], descriptors: [3: ends[1]])
        close(ends[1])
        var ready = [UInt8](repeating: 0, count: 100)
        #expect(recv(ends[0], &ready, ready.count, 0) > 0)
        close(ends[0])
        #expect(try process.exitCode() == 1)
        #expect(process.complaints.now.last == "tollgate: the running gateway has ended, or has given the upgrade up")
        let log = try folder.read("loader.\(process.pid)")
        #expect(log.contains("calling init") && !log.contains("calling fini"))
    }

    @Test func aGatewayStartsWithAllOfItsWorkersOrNotAtAll() throws {
        let folder = try Folder()
        let file = try folder.write("gateway.env", Gateway.complete("TOLLGATE_WORKERS=4", folder))
        // Its keys are made.
        try #require(try Tollgate.run(["token", "mint", "--sub", "ada", "--env-file", file]).code == 0)
        var (started, ended) = (0, 0)
        // How many are open from the start depends on the tests around.
        for descriptors in stride(from: 16, to: 80, by: 3) {
            let process = try Subprocess(
                "bash", ["-c", "ulimit -n \(descriptors); exec \"$@\"", "limited", try Tollgate.binary.get(), "serve", "--env-file", file])
            let lines = try process.complaints.wait(for: "its start or its end") { lines in
                lines.contains { $0.contains("\"listening\"") } || lines.last?.hasPrefix("tollgate: ") == true
            }
            guard lines.contains(where: { $0.contains("\"listening\"") }) else {
                #expect(try process.exitCode() == 1)
                ended += 1
                continue
            }
            started += 1
            process.signal(SIGTERM)
            #expect(try process.exitCode() == 0)
            #expect(!process.complaints.now.contains { $0.contains("could not start") || $0.contains("tollgate: ") }, "\(descriptors)")
        }
        #expect(started > 0 && ended > 0)
    }

    @Test func theEnvironmentWinsOverFilesAndLaterFilesOverEarlier() throws {
        let folder = try Folder()
        let first = try folder.write("1.env", "TOLLGATE_TIERS=\"a b\"\nTOLLGATE_AUDIENCE=one\nTOLLGATE_CONTRACTS=\n")
        let second = try folder.write("2.env", "TOLLGATE_TIERS=\"c d\"\n")
        let tiers = { (environment: [String: String]) in
            let outcome = try Tollgate.run(
                ["check", "--json", "--env-file", first, "--env-file", second], environment: environment)
            return try JSON(outcome.output)["tiers"].array.compactMap(\.text)
        }
        #expect(try tiers([:]) == ["c", "d"])
        #expect(try tiers(["TOLLGATE_TIERS": "e f g"]) == ["e", "f", "g"])
    }
}
