import Foundation
import TestThreads
import Testing

/// WebSockets with real clients and servers at both ends.
@Suite(.ownThread) struct WebSocketTests {
    private let server: Subprocess
    private let gateway: Gateway

    init() throws {
        let (server, url) = try WebSocketPeers.server()
        self.server = server
        gateway = try Gateway(
            """
            \(Gateway.contracts)
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_ACCESS_LOG=json
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPSTREAM_U="\(url)"
            TOLLGATE_ROUTE_CHAT="GET /chat upstream=u websocket=on websocket-max=3"
            TOLLGATE_ROUTE_PLAIN="/plain upstream=u auth=none"
            """)
    }

    private var url: String { "ws://127.0.0.1:\(gateway.port)/chat" }

    private func token(_ words: String...) throws -> String {
        let outcome = try gateway.command(["token", "mint", "--sub", "ada"] + words)
        guard outcome.code == 0 else { throw Fault("no token: \(outcome.complaints)") }
        return outcome.output
    }

    // MARK: Python

    @Test func theTokenOfTheSubprotocolsIsForTheGatewayAlone() throws {
        let token = try token()
        let said = try WebSocketPeers.client(
            url,
            """
            for offer in (["bearer", "\(token)"], ["bearer", "\(token)", "chat"], ["bearer", "\(token)", "news"]):
                async with websockets.connect(url, subprotocols=offer) as socket:
                    await socket.send("who")
                    print(socket.subprotocol, "|", await socket.recv())
            async with websockets.connect(url, extra_headers={"Authorization": "Bearer \(token)"}) as socket:
                await socket.send("who")
                print(socket.subprotocol, "|", await socket.recv())
            """)
        #expect(said == ["bearer | ada - - -", "chat | ada chat chat -", "bearer | ada - news -", "None | ada - - -"])
        #expect(!gateway.process.output.now.contains { $0.contains(token) })
    }

    @Test func messagesOfAllKindsComeBackAsTheyWere() throws {
        let said = try WebSocketPeers.client(
            url,
            """
            async with websockets.connect(url, subprotocols=["bearer", "\(try token())"], max_size=None) as socket:
                for message in ("", "a", "é" * 1000, b"", bytes(range(256)) * 300, "x" * 65535, "x" * 65536, bytes(1 << 20)):
                    await socket.send(message)
                    assert await socket.recv() == message
                await socket.send(["in ", "three ", "fragments"])
                print(await socket.recv())
                await (await socket.ping(b"p" * 125))
                await socket.send("close")
                try: await socket.recv()
                except websockets.ConnectionClosed: print(socket.close_code, socket.close_reason)
            """)
        #expect(said == ["in three fragments", "4000 enough"])
    }

    @Test func refusalsAreAnswersOfHTTP() throws {
        let said = try WebSocketPeers.client(
            url,
            """
            async def attempt(**options):
                try:
                    await websockets.connect(url, **options)
                    return "open"
                except websockets.InvalidStatusCode as refusal:
                    return str(refusal.status_code) + " " + refusal.headers.get("WWW-Authenticate", refusal.headers.get("Retry-After", ""))
            print((await attempt())[:10])
            print((await attempt(subprotocols=["bearer", "no.such.token"]))[:10])
            held = [await attempt(subprotocols=["bearer", "\(try token())"]) for _ in range(5)]
            print(*held, sep=",")
            """)
        #expect(said == ["401 Bearer", "401 Bearer", "open,open,open,429 10,429 10"])
        // The sockets that were held are given back.
        try eventually("a place is free again") { try opens(try token()) }
    }

    private func opens(_ token: String) throws -> Bool {
        try WebSocketPeers.startClient(url, "await (await websockets.connect(url, subprotocols=['bearer', '\(token)'])).close()")
            .exitCode(seconds: 30) == 0
    }

    @Test func aLargeMessageForASlowReaderTakesLittleMemory() throws {
        let before = try gateway.residentKiB
        let said = try WebSocketPeers.client(
            url,
            """
            options = dict(max_size=None, read_limit=2 ** 14, max_queue=1, ping_interval=None)
            async with websockets.connect(url, subprotocols=["bearer", "\(try token())"], **options) as socket:
                await socket.send("large 104857600")
                await asyncio.sleep(1)
                print(len(await socket.recv()))
            """)
        #expect(said == ["104857600"])
        #expect(try gateway.peakResidentKiB - before < 8 * 1_024)
    }

    @Test func overTLSMessagesPassToo() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let (server, upstream) = try WebSocketPeers.server()
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream)"
            TOLLGATE_ROUTE_CHAT="/chat upstream=u websocket=on auth=none"
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT="\(folder.file("one.crt"))"
            TOLLGATE_TLS_KEY="\(folder.file("one.key"))"
            """, folder: folder)
        let said = try WebSocketPeers.client(
            "wss://localhost:\(gateway.tlsPort)/chat",
            """
            import ssl
            trusted = ssl.create_default_context(cafile="\(authority.file)")
            async with websockets.connect(url, ssl=trusted, max_size=None) as socket:
                for size in (0, 1, 16384, 16385, 1 << 20):
                    await socket.send(bytes(size))
                    print(len(await socket.recv()))
            """)
        #expect(said == ["0", "1", "16384", "16385", "1048576"])
        _ = server
    }

    // MARK: the end of the session

    @Test func aSocketEndsWithItsToken() throws {
        let said = try WebSocketPeers.client(
            url,
            """
            async with websockets.connect(url, subprotocols=["bearer", "\(try token("--ttl", "15s"))"]) as socket:
                await asyncio.wait_for(socket.wait_closed(), 50)
                print(socket.close_code, socket.close_reason)
            """)
        #expect(said == ["4401 token expired"])
    }

    @Test func aSocketEndsWithItsSession() throws {
        let ada = try gateway.signUp("ada@example.org")
        let client = try WebSocketPeers.startClient(
            url,
            """
            async with websockets.connect(url, subprotocols=["bearer", "\(ada.access)"]) as socket:
                await asyncio.sleep(1.5)
                print("open", flush=True)
                await asyncio.wait_for(socket.wait_closed(), 20)
                print(socket.close_code, socket.close_reason)
            """)
        try client.output.wait(for: "the socket") { $0 == ["open"] }
        let began = Date()
        #expect(try gateway.send("POST /auth/signout", bearer: ada.access).status == 200)
        try client.output.wait(for: "the end of the socket") { $0 == ["open", "4403 session ended"] }
        #expect(Date().timeIntervalSince(began) < 15)
    }

    @Test func aDrainSaysGoingAway() throws {
        let client = try WebSocketPeers.startClient(
            url,
            """
            async with websockets.connect(url, subprotocols=["bearer", "\(try token())"]) as socket:
                print("open", flush=True)
                await asyncio.wait_for(socket.wait_closed(), 20)
                print(socket.close_code, socket.close_reason)
            """)
        try client.output.wait(for: "the socket") { $0 == ["open"] }
        #expect(try gateway.stop() == 0)
        try client.output.wait(for: "the end of the socket") { $0 == ["open", "1001 going away"] }
    }

    @Test func openSocketsAndTheirEndsAreCounted() throws {
        let token = try token()
        let client = try WebSocketPeers.startClient(
            url,
            """
            async with websockets.connect(url, subprotocols=["bearer", "\(token)"]) as socket:
                print("open", flush=True)
                await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            async with websockets.connect(url, subprotocols=["bearer", "\(token)"]) as socket:
                await socket.send("close")
                await socket.wait_closed()
            """)
        try client.output.wait(for: "the socket") { $0 == ["open"] }
        let open = { try self.gateway.metric("tollgate_streams_open", "route=\"chat\"", "kind=\"websocket\"") }
        let ended = { (reason: String) in
            try self.gateway.metric("tollgate_streams_ended_total", "kind=\"websocket\"", "reason=\"\(reason)\"")
        }
        #expect(try open() == 1)
        client.say("\n")
        #expect(try client.exitCode() == 0)
        try eventually("both have ended") { try open() == 0 && ended("client") == 1 && ended("upstream") == 1 }
        let lines = try gateway.process.output.wait(for: "the log") {
            $0.count { $0.contains("\"/chat\"") && $0.contains("bytes_in") } >= 2
        }
        #expect(lines.contains { $0.contains("\"status\":101") })
    }

    // MARK: HTTP/2

    private func open(_ peer: HTTP2Peer, _ stream: Int, _ path: String, _ more: [(String, String)] = []) throws {
        let head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", path), (":authority", "test")]
        let block = HTTP2Peer.block(head + [("sec-websocket-version", "13")] + more)
        try peer.connection.send(HTTP2Peer.frame(1, 4, stream, block))
    }

    /// The next frame of DATA.
    private func content(_ peer: HTTP2Peer) throws -> HTTP2Peer.Frame {
        while true {
            let frame = try peer.next()
            if frame.type == 0 { return frame }
        }
    }

    @Test func anExtendedConnectBecomesAHandshake() throws {
        let peer = try HTTP2Peer(gateway)
        try open(peer, 1, "/chat", [("sec-websocket-protocol", "bearer, \(try token()), chat")])
        try peer.connection.send(HTTP2Peer.frame(0, 0, 1, [0x81, 0x83, 0, 0, 0, 0] + Array("who".utf8)))
        #expect(text(of: Array(try content(peer).payload.dropFirst(2))) == "ada chat chat -")
        // A message in frames of any size, and the close handshake.
        for byte in [0x82, 0x82, 0, 0, 0, 0, 7, 8] as [UInt8] { try peer.connection.send(HTTP2Peer.frame(0, 0, 1, [byte])) }
        #expect(try content(peer).payload == [0x82, 2, 7, 8])
        try peer.connection.send(HTTP2Peer.frame(0, 0, 1, [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8]))
        let last = try content(peer)
        #expect(last.payload == [0x88, 2, 0x03, 0xE8])
        #expect(try last.endsStream || content(peer).endsStream)
    }

    @Test func aSocketOverHTTP2KeepsToItsWindows() throws {
        let peer = try HTTP2Peer(gateway)
        try open(peer, 1, "/chat", [("sec-websocket-protocol", "bearer, \(try token())")])
        let ask = Array("large 300000".utf8)
        try peer.connection.send(HTTP2Peer.frame(0, 0, 1, [0x81, 0x80 | UInt8(ask.count), 0, 0, 0, 0] + ask))
        var received = 0
        // The window of a stream to begin with (RFC 9113 §6.9.2).
        while received < 65_535 { received += try content(peer).payload.count }
        usleep(200_000)
        #expect(received == 65_535 && peer.connection.isQuiet)
        for stream in [0, 1] { try peer.widen(stream, by: 300_000) }
        while received < 300_010 { received += try content(peer).payload.count }
        #expect(received == 300_010)
        // The end of the stream is the end of the socket.
        try peer.connection.send(HTTP2Peer.frame(0, 1, 1))
        #expect(try content(peer).endsStream)
    }

    @Test func anExtendedConnectElsewhereIsNotServed() throws {
        let peer = try HTTP2Peer(gateway)
        try open(peer, 1, "/plain")
        let fields = [
            (":method", "CONNECT"), (":protocol", "connect-udp"), (":scheme", "http"), (":path", "/chat"), (":authority", "test"),
        ]
        try peer.connection.send(HTTP2Peer.frame(1, 5, 3, HTTP2Peer.block(fields)))
        #expect(try gateway.accessLog(2).map { $0["status"].int } == [501, 501])
    }
}

/// WebSockets of a browser. One after the other: they share one browser.
@Suite(.serialized, .ownThread) struct BrowserWebSocketTests {
    /// Safe: one test at a time.
    nonisolated(unsafe) private static let browser = Result { try Browser() }

    /// Says what a socket does, in the order in which it does so.
    private static func script(_ url: String, _ offer: String, _ message: String) -> String {
        """
        new Promise((done) => {
            const seen = []
            const socket = new WebSocket("\(url)", \(offer))
            socket.onopen = () => { seen.push("open " + socket.protocol); socket.send("\(message)") }
            socket.onmessage = (event) => { seen.push(event.data); socket.send("close") }
            socket.onclose = (event) => { seen.push(event.code + " " + event.reason + " " + event.wasClean); done(seen.join("|")) }
        })
        """
    }

    @Test func aPageOpensASocketWithItsToken() throws {
        let (server, url) = try WebSocketPeers.server()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(url)\"\nTOLLGATE_ROUTE_CHAT=\"GET /chat upstream=u websocket=on\"\nTOLLGATE_CLOCK_SKEW=0s")
        let page = try Page(try Self.browser.get())
        let socket = "ws://127.0.0.1:\(gateway.port)/chat"
        let token = try gateway.command(["token", "mint", "--sub", "ada"]).output
        #expect(try page.run(Self.script(socket, "['bearer', '\(token)']", "who")).text == "open bearer|ada - - -|4000 enough true")
        #expect(
            try page.run(Self.script(socket, "['bearer', '\(token)', 'chat']", "who")).text == "open chat|ada chat chat -|4000 enough true")
        #expect(try page.run(Self.script(socket, "['bearer', 'no.such.token']", "who")).text == "1006  false")
        let short = try gateway.command(["token", "mint", "--sub", "ada", "--ttl", "10s"]).output
        let end = try page.run(
            "new Promise((done) => { new WebSocket('\(socket)', ['bearer', '\(short)']).onclose = (event) => done([event.code, event.reason, event.wasClean].join(' ')) })"
        )
        #expect(end.text == "4401 token expired true")
        _ = server
    }

    @Test func aPageOverHTTP2SharesItsConnection() throws {
        let (server, url) = try WebSocketPeers.server()
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(
            """
            TOLLGATE_CONTRACTS=password@/api/v1
            TOLLGATE_ACCESS_LOG=json
            TOLLGATE_UPSTREAM_U="\(url)"
            TOLLGATE_ROUTE_CHAT="GET /chat upstream=u websocket=on"
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT="\(folder.file("one.crt"))"
            TOLLGATE_TLS_KEY="\(folder.file("one.key"))"
            """, folder: folder)
        let page = try Page(try Self.browser.get())
        try page.call("Security.enable")
        try page.call("Security.setIgnoreCertificateErrors", "\"ignore\":true")
        let place = "127.0.0.1:\(gateway.tlsPort)"
        try page.open("https://\(place)/web/")
        let token = try gateway.command(["token", "mint", "--sub", "ada"]).output
        let seen = try page.run(Self.script("wss://\(place)/chat", "['bearer', '\(token)', 'chat']", "who"))
        #expect(seen.text == "open chat|ada chat chat -|4000 enough true")
        let lines = try gateway.process.output.wait(for: "the socket in the access log") { $0.contains { $0.contains("\"/chat\"") } }
        let line = try #require(lines.last { $0.contains("\"/chat\"") })
        #expect(try JSON(line)["proto"].text == "HTTP/2")
        _ = server
    }
}
