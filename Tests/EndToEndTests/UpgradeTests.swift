import Foundation
import Glibc
import TestThreads
import Testing

/// The program is replaced while it serves (SIGUSR2).
@Suite(.ownThread, .timeLimit(.minutes(5))) struct UpgradeTests {
    /// The old process keeps idle connections for half of the time of its drain: long enough for clients on a busy machine.
    private static func settings(_ upstream: Upstream, _ more: String = "", drain: String = "30s") -> String {
        "TOLLGATE_DRAIN_TIMEOUT=\(drain)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"\n" + more
    }

    // MARK: no request is lost

    @Test func noRequestIsLostWhileUpgradingAndNoneIsAnsweredTwice() throws {
        let (folder, upstream, isOver) = (try Folder(), try Upstream(), Watched(false))
        let (echo, echoURL) = try WebSocketPeers.server()
        defer { echo.kill() }
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let settings = { (workers: Int) in
            Self.settings(
                upstream,
                """
                TOLLGATE_WORKERS=\(workers)
                TOLLGATE_LISTEN="127.0.0.1:0;h2c unix:\(folder.file("http"))"
                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT=\(folder.file("one.crt"))
                TOLLGATE_TLS_KEY=\(folder.file("one.key"))
                TOLLGATE_UPSTREAM_W="\(echoURL)"
                TOLLGATE_ROUTE_CHAT="GET /chat upstream=w auth=none websocket=on"
                """)
        }
        let upgraded = try UpgradedGateway(settings(2), folder: folder)
        let (port, path) = (upgraded.gateway.port, folder.file("http"))
        let connects: [@Sendable () throws -> Connection] = [{ try Connection(port: port) }, { try Connection(path: path) }]
        var clients = connects.flatMap { connect in
            // A connection for each request, one for many, and one that idles in between.
            [false, true].map { Self.ask(connect, persists: $0, isOver) }
        }
        clients.append(Self.ask(connects[0], persists: true, pause: 300_000, isOver))
        clients.append(Background { try Self.askOverHTTP2(port, isOver) })
        let secure = try Subprocess("python3", ["-c", Self.secureClient, authority.file, "\(upgraded.gateway.tlsPort)"])
        let chat = try WebSocketPeers.startClient("ws://127.0.0.1:\(port)/chat", Self.chatClient)

        try chat.output.wait(for: "a WebSocket", until: { !$0.isEmpty })
        for (upgrades, workers) in [3, 1, 2].enumerated() {
            try upgraded.writeSettings(settings(workers))
            try upgraded.upgrade()
            // The end of a WebSocket is told, so that its client connects again.
            try chat.output.wait(for: "a WebSocket through the new process", until: { $0.count > upgrades + 1 })
            // Each process serves for a while before the next replaces it.
            let before = upstream.requests.now.count
            try upstream.requests.wait(for: "requests through the new process", until: { $0.count > before + 200 })
        }
        isOver.change { $0 = true }
        for client in [secure, chat] { client.say("\n") }
        var counts = try clients.map { try $0.value() }
        #expect(try secure.exitCode() == 0, "\(secure.complaints.now)")
        #expect(try chat.exitCode() == 0, "\(chat.complaints.now)")
        counts.append(Int(secure.output.now.last ?? "") ?? 0)
        #expect(counts.allSatisfy { $0 > 0 })
        // An old process may have taken one that came just before it let go of the listener.
        #expect(Int(chat.output.now.last?.split(separator: " ").last ?? "") ?? 0 >= 3, "\(chat.output.now)")
        #expect(upstream.requests.now.count == counts.reduce(0, +))
        try upgraded.waitForPredecessors()
        try upgraded.stop()
        #expect(throws: (any Error).self) { try Connection(port: port) }
        let log = upgraded.gateway.process.output.now
        let logged = try log.filter { try JSON($0)["route"].text == "a" }
        #expect(logged.count == counts.reduce(0, +), "every line is whole, and every request has one")
    }

    /// Asks until it is over; answers how often.
    private static func ask(
        _ connect: @escaping @Sendable () throws -> Connection, persists: Bool, pause: UInt32 = 0, _ isOver: Watched<Bool>
    ) -> Background<Int> {
        Background {
            var (connection, count) = (try connect(), 0)
            while !isOver.now {
                let answer = try connection.ask("GET /x")
                guard answer.status == 200, answer.text == "ok" else { throw Fault("a request failed: \(answer)") }
                count += 1
                if !persists || answer["Connection"] == "close" { connection = try connect() }
                if pause > 0 { usleep(pause) }
            }
            return count
        }
    }

    /// One stream after the other. After a GOAWAY the client connects again; a stream above its number was not processed.
    private static func askOverHTTP2(_ port: Int, _ isOver: Watched<Bool>) throws -> Int {
        var (peer, stream, count) = (try HTTP2Peer(port: port), 1, 0)
        while !isOver.now {
            try peer.ask(stream, "GET", "/x")
            var (content, isLeaving, isRefused, ends): ([UInt8], Bool, Bool, Bool) = ([], false, false, false)
            while !ends && !isRefused {
                let frame = try peer.next()
                if frame.type == 7 { (isLeaving, isRefused) = (true, frame.word(0) < stream) }
                guard frame.stream == stream else { continue }
                guard frame.type < 2 else { throw Fault("a request failed: \(frame)") }
                if frame.type == 0 { content += frame.payload }
                ends = frame.endsStream
            }
            if !isRefused {
                guard text(of: content) == "ok" else { throw Fault("a request failed: \(text(of: content))") }
                count += 1
            }
            stream += 2
            if isLeaving || isRefused { (peer, stream) = (try HTTP2Peer(port: port), 1) }
        }
        return count
    }

    /// Asks over TLS until a line comes; prints how often.
    private static let secureClient = """
        import http.client, ssl, sys, threading
        over = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
        client = http.client.HTTPSConnection("localhost", int(sys.argv[2]), context=ssl.create_default_context(cafile=sys.argv[1]))
        count = 0
        while not over.is_set():
            client.request("GET", "/x")
            answer = client.getresponse()
            assert answer.status == 200 and answer.read() == b"ok"
            count += 1
        print(count)
        """

    /// Sends numbers and expects them back; prints how many, and how often the gateway ended the WebSocket.
    private static let chatClient = """
        import threading
        over = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
        number, ends = 0, 0
        while not over.is_set():
            async with websockets.connect(url) as socket:
                print("open", flush=True)
                try:
                    while not over.is_set():
                        await socket.send(str(number))
                        assert await socket.recv() == str(number)
                        number += 1
                except websockets.ConnectionClosed:
                    assert socket.close_code == 1001, socket.close_code
                    ends += 1
        assert number > 0
        print(number, ends)
        """

    @Test func whatIsUnderWayIsAnsweredByTheOldProcessAndIdleConnectionsOnceMore() throws {
        let go = Watched(false)
        let upstream = try Upstream { request, connection in
            if request.target == "/slow" { try go.wait(for: "the word", until: { $0 }) }
            try Upstream.ok(request, connection)
        }
        let upgraded = try UpgradedGateway(Self.settings(upstream, "TOLLGATE_WORKERS=2"))
        let (slow, used, fresh) = (try upgraded.gateway.connect(), try upgraded.gateway.connect(), try upgraded.gateway.connect())
        #expect(try used.ask("GET /x").status == 200)
        try slow.send(requestHead("GET /slow"))
        try upstream.requests.wait(for: "the slow request", until: { $0.contains { $0.target == "/slow" } })
        try upgraded.upgrade()
        for idle in [used, fresh] {
            // The old process says that it is done a moment before its workers know.
            var answer = try idle.ask("GET /x")
            for _ in 0..<100 where answer.status == 200 && answer["Connection"] != "close" { answer = try idle.ask("GET /x") }
            #expect(answer.status == 200 && answer["Connection"] == "close")
        }
        #expect(try upgraded.gateway.ask("GET /x")["Connection"] != "close", "the new process serves")
        #expect(try upgraded.gateway.askAdmin("/readyz").status == 200)
        go.change { $0 = true }
        #expect(try slow.answer().status == 200)
        try upgraded.waitForPredecessors()
        try upgraded.stop()
    }

    /// SIGHUP may find the old process with the upgrade just done, and the new one with the configuration read before.
    @Test func aReloadThatComesToTheOldProcessReachesTheNewOne() throws {
        let go = Watched(false)
        let upstream = try Upstream { request, connection in
            if request.target == "/slow" { try go.wait(for: "the word", until: { $0 }) }
            try Upstream.ok(request, connection)
        }
        let upgraded = try UpgradedGateway(Self.settings(upstream))
        let slow = try upgraded.gateway.connect()
        try slow.send(requestHead("GET /slow"))
        try upstream.requests.wait(for: "the slow request", until: { !$0.isEmpty })
        try upgraded.upgrade()
        try upgraded.writeSettings(Self.settings(upstream, "TOLLGATE_ROUTE_B=\"/b upstream=u auth=required\""))
        kill(upgraded.pids[0], SIGHUP)
        try upgraded.gateway.waitForLog("configuration adopted")
        #expect(try upgraded.gateway.ask("GET /b").status == 401)
        go.change { $0 = true }
        #expect(try slow.answer().status == 200)
        try upgraded.waitForPredecessors()
        try upgraded.stop()
    }

    @Test func anIdleConnectionAndARequestWithoutEndDoNotKeepTheOldProcess() throws {
        let upstream = try Upstream { (request: Message, connection) in
            if request.target == "/never" { _ = connection.takeRest() } else { try Upstream.ok(request, connection) }
        }
        let upgraded = try UpgradedGateway(Self.settings(upstream, drain: "1s"))
        let (idle, endless) = (try upgraded.gateway.connect(), try upgraded.gateway.connect())
        #expect(try idle.ask("GET /x").status == 200)
        try endless.send(requestHead("GET /never"))
        try upstream.requests.wait(for: "the request", until: { $0.count == 2 })
        try upgraded.upgrade()
        try idle.expectEnd()
        try upgraded.waitForPredecessors()
        #expect(try upgraded.gateway.ask("GET /x").status == 200)
        try upgraded.stop()
    }

    // MARK: what fails

    @Test func aNewVersionThatDoesNotStartLeavesTheOldOneServing() throws {
        let (folder, upstream) = (try Folder(), try Upstream())
        let taken = try Listening()
        let upgraded = try UpgradedGateway(Self.settings(upstream), folder: folder)
        let connection = try upgraded.gateway.connect()
        let serves = { try connection.ask("GET /x").status == 200 && upgraded.gateway.ask("GET /x").status == 200 }

        try upgraded.replaceProgram(by: "#!/bin/sh\nexit 7\n")
        #expect(try upgraded.upgrade(succeeds: false).contains("the new process has ended with 7"))
        #expect(try serves())
        try upgraded.replaceProgram(by: "no program")
        #expect(try upgraded.upgrade(succeeds: false).contains("cannot start \(folder.file("program"))"))
        #expect(try serves())

        try upgraded.replaceProgram(by: nil)
        try upgraded.writeSettings(Self.settings(upstream, "TOLLGATE_NONSENSE=1"))
        #expect(try upgraded.upgrade(succeeds: false).contains("has ended with 2"))
        #expect(upgraded.lines("TOLLGATE_NONSENSE").count == 1, "the new process says why")
        #expect(try serves())
        // It has taken the listeners over before it meets the address in use.
        try upgraded.writeSettings(Self.settings(upstream, "TOLLGATE_CHECK_LISTEN=127.0.0.1:\(taken.port)"))
        #expect(try upgraded.upgrade(succeeds: false).contains("has ended with 1"))
        #expect(try serves())

        try upgraded.writeSettings(Self.settings(upstream))
        try upgraded.upgrade()
        #expect(try serves())
        try upgraded.waitForPredecessors()
        try upgraded.stop()
    }

    @Test func oneUpgradeAtATimeAndAReloadWaitsForIt() throws {
        let upstream = try Upstream()
        let upgraded = try UpgradedGateway(Self.settings(upstream))
        try upgraded.replaceProgram(by: "#!/bin/sh\nexec sleep 600\n")
        upgraded.signal(SIGUSR2)
        try upgraded.gateway.waitForLog("upgrade begins")
        upgraded.signal(SIGUSR2)
        try upgraded.gateway.waitForLog("an upgrade is under way already")
        try upgraded.writeSettings(Self.settings(upstream, "TOLLGATE_ROUTE_B=\"/b upstream=u auth=required\""))
        upgraded.signal(SIGHUP)
        #expect(try upgraded.gateway.ask("GET /b").status == 200)
        kill(upgraded.startedLast, SIGKILL)
        try upgraded.gateway.waitForLog("configuration adopted")
        #expect(upgraded.lines("upgrade failed").first?.contains("was ended by signal 9") == true)
        #expect(try upgraded.gateway.ask("GET /b").status == 401)

        // A gateway that is told to end takes the unfinished upgrade with it.
        let before = upgraded.lines("upgrade begins").count
        upgraded.signal(SIGUSR2)
        try upgraded.gateway.process.complaints.wait(for: "another upgrade") { $0.count { $0.contains("upgrade begins") } > before }
        let child = upgraded.startedLast
        try upgraded.stop()
        #expect(kill(child, 0) == -1 && errno == ESRCH)
    }

    @Test func addedListenersOpenAndRemovedOnesClose() throws {
        let (folder, upstream) = (try Folder(), try Upstream())
        let listens = { (names: [String]) in
            "TOLLGATE_WORKERS=2\nTOLLGATE_LISTEN=\"\((["127.0.0.1:0"] + names.map { "unix:" + folder.file($0) }).joined(separator: " "))\""
        }
        let upgraded = try UpgradedGateway(Self.settings(upstream, listens(["a", "b"])), folder: folder)
        try upgraded.writeSettings(Self.settings(upstream, listens(["b", "c"])))
        try upgraded.upgrade()
        try upgraded.waitForPredecessors()
        for name in ["b", "c"] { #expect(try Connection(path: folder.file(name)).ask("GET /x").status == 200, "\(name)") }
        #expect(throws: (any Error).self) { try Connection(path: folder.file("a")) }
        #expect(try upgraded.gateway.ask("GET /x").status == 200, "a port that the system chose stays")
        try upgraded.stop()
    }

    /// The new process binds an address that the old one still listens on, as part of another.
    @Test func anAddressMayBecomeTheWildcardOfItsPortAndBack() throws {
        let upstream = try Upstream()
        let upgraded = try UpgradedGateway(Self.settings(upstream, "TOLLGATE_WORKERS=2"))
        for host in ["0.0.0.0", "127.0.0.1"] {
            try upgraded.writeSettings(Self.settings(upstream, "TOLLGATE_WORKERS=2\nTOLLGATE_LISTEN=\(host):\(upgraded.gateway.port)"))
            try upgraded.upgrade()
            try upgraded.waitForPredecessors()
            #expect(try upgraded.gateway.ask("GET /x").status == 200)
        }
        try upgraded.stop()
    }

    // MARK: the service manager

    @Test func systemdLearnsTheNewMainProcessBeforeItHearsFromIt() throws {
        let (folder, upstream) = (try Folder(), try Upstream())
        let manager = try ServiceManager(folder)
        let upgraded = try UpgradedGateway(Self.settings(upstream), folder: folder, environment: manager.environment)
        try manager.wait(for: "READY=1")
        try upgraded.upgrade()
        let (old, new) = (upgraded.pids[0], upgraded.pids[1])
        try manager.wait(for: "READY=1", from: new)
        try manager.wait(for: "WATCHDOG=1", from: new)
        try upgraded.waitForPredecessors()
        try upgraded.stop()
        try manager.wait(for: "STOPPING=1", from: new)
        let messages = manager.messages.now
        let change = try #require(messages.firstIndex { $0.has("MAINPID=\(new)") })
        #expect(messages[change].sender == old)
        #expect(messages[..<change].allSatisfy { $0.sender == old })
        #expect(messages[(change + 1)...].allSatisfy { $0.sender == new }, "the old process does not say that the service stops")
    }
}
