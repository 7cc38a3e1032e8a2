import Glibc
import TestThreads
import Testing

/// Unix sockets on both sides, and addresses behind a balancer that speaks the PROXY protocol.
@Suite(.ownThread) struct ListenerTests {
    @Test func unixSocketsServeOnBothSides() throws {
        let folder = try Folder()
        let upstream = try Upstream(path: folder.file("upstream.sock"))
        let gateway = try Gateway(
            """
            TOLLGATE_LISTEN="127.0.0.1:0 unix:\(folder.file("gateway.sock"))"
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="unix:\(folder.file("upstream.sock"))"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """, folder: folder)
        for _ in 0..<10 {
            let connection = try Connection(path: folder.file("gateway.sock"))
            #expect(try connection.ask("GET /x").text == "ok")
            #expect(try connection.ask("GET /y").text == "ok")
        }
        #expect(try gateway.ask("GET /z").text == "ok")
        #expect(upstream.requests.now.count == 21)
        #expect(try gateway.stop() == 0)
    }

    /// Its requests would be shared with the first one, half and half.
    @Test func aSecondGatewayOnAnAddressOfTheFirstIsRefused() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let path = folder.file("gateway.sock")
        let tls = "TOLLGATE_TLS_CERT=\(folder.file("one.crt"))\nTOLLGATE_TLS_KEY=\(folder.file("one.key"))\n"
        let first = try Gateway(
            """
            \(tls)TOLLGATE_LISTEN="0.0.0.0:0 unix:\(path)"
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0
            TOLLGATE_WORKERS=2
            """, folder: folder)
        let addresses = [
            "TOLLGATE_LISTEN=0.0.0.0:\(first.port)", "TOLLGATE_LISTEN=127.0.0.1:\(first.port)", "TOLLGATE_LISTEN=unix:\(path)",
            "TOLLGATE_LISTEN_TLS=127.0.0.1:\(first.tlsPort)", "TOLLGATE_LISTEN_TLS=0.0.0.0:\(first.tlsPort)",
            "TOLLGATE_CHECK_LISTEN=127.0.0.1:\(first.checkPort)", "TOLLGATE_ADMIN_LISTEN=127.0.0.1:\(first.adminPort)",
        ]
        for address in addresses {
            let other = try Folder()
            let file = try other.write("second.env", Gateway.complete(tls + "TOLLGATE_WORKERS=2\n" + address, other))
            let outcome = try Tollgate.run(["serve", "--env-file", file])
            #expect(outcome.code == 1, "\(address)")
            let words = address.split(separator: "=")
            #expect(outcome.complaints.contains("cannot listen on \(words[1]): address already in use"), "\(outcome.complaints)")
        }
        #expect(try first.ask("GET /x").status == 404)
    }

    private static let v2: [UInt8] = [
        13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10, 0x21, 0x11, 0, 12, 203, 0, 113, 7, 127, 0, 0, 1, 0x30, 0x39, 0, 80,
    ]
    private static let v2Local: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10, 0x20, 0, 0, 0]

    @Test func aProxyAddressLearnsTheClientFromItsHeader() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_LISTEN=127.0.0.1:0;proxy\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"")
        let headers: [([UInt8], String)] = [
            (Array("PROXY TCP4 203.0.113.7 127.0.0.1 12345 80\r\n".utf8), "203.0.113.7"),
            (Array("PROXY TCP6 2001:db8::7 ::1 12345 80\r\n".utf8), "2001:db8::7"),
            (Array("PROXY UNKNOWN\r\n".utf8), "127.0.0.1"), (Self.v2, "203.0.113.7"), (Self.v2Local, "127.0.0.1"),
        ]
        for (header, address) in headers {
            for isDripped in [false, true] {
                let connection = try gateway.connect()
                if isDripped {
                    for byte in header { try connection.send([byte]) }
                    try connection.send(requestHead("GET /x"))
                } else {
                    try connection.send(header + Array(requestHead("GET /x").utf8))
                }
                #expect(try connection.answer().status == 200)
                #expect(upstream.requests.now.last?["X-Forwarded-For"] == address)
                #expect(try connection.ask("GET /again").status == 200)
                #expect(upstream.requests.now.last?["X-Forwarded-For"] == address)
            }
        }
    }

    @Test func theHeaderComesBeforeTLS() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(
            """
            TOLLGATE_LISTEN=
            TOLLGATE_LISTEN_TLS=127.0.0.1:0;proxy
            TOLLGATE_TLS_CERT=\(folder.file("one.crt"))
            TOLLGATE_TLS_KEY=\(folder.file("one.key"))
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """, folder: folder)
        let url = "https://localhost:\(gateway.tlsPort)/x"
        let curl = ["-sS", "--max-time", "15", "--cacert", authority.file, url]
        #expect(try mustRun("curl", ["--haproxy-protocol"] + curl) == "ok")
        #expect(try run("curl", curl).code != 0)
        #expect(upstream.requests.now.map { $0["X-Forwarded-For"] } == ["127.0.0.1"])
        #expect(upstream.requests.now[0]["X-Forwarded-Proto"] == "https")
    }

    @Test func withoutItsHeaderNobodyIsServedThere() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_LISTEN=127.0.0.1:0;proxy\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"")
        for bytes in [
            requestHead("GET /x"), "PROXY TCP4 nonsense\r\n" + requestHead("GET /x"), "PROXY TCP4 1.2.3.4 1.2.3.4 1 99999\r\n",
            "PROXY " + String(repeating: "x", count: 200), "\r\n\r\n\0\r\nQUITX" + requestHead("GET /x"),
        ] {
            let connection = try gateway.connect()
            try connection.send(bytes)
            let (answer, end) = connection.takeRest()
            #expect(answer.isEmpty && end != .silence)
        }
        #expect(upstream.connections.now == 0)
    }

    /// Each worker has a descriptor of the one socket: it is served as long as any of them does, and by none that drains.
    @Test func twoWorkersShareAUnixSocketAndBothLeaveIt() throws {
        let folder = try Folder()
        let go = Watched(false)
        let upstream = try Upstream { request, connection in
            if request.target == "/slow" { try go.wait(for: "the word", until: { $0 }) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let path = folder.file("gateway.sock")
        let gateway = try Gateway(
            """
            TOLLGATE_LISTEN="unix:\(path)"
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """, folder: folder)
        let connections = try (0..<40).map { _ in try Connection(path: path) }
        for connection in connections { try connection.send(requestHead("GET /x")) }
        for connection in connections { #expect(try connection.answer().text == "ok") }
        for connection in connections { connection.close() }
        let slow = try Connection(path: path)
        try slow.send(requestHead("GET /slow"))
        try upstream.requests.wait(for: "the slow request", until: { $0.contains { $0.target == "/slow" } })
        gateway.process.signal(SIGTERM)
        try gateway.waitForLog("draining")
        try eventually("nobody listens") { (try? Connection(path: path)) == nil }
        go.change { $0 = true }
        #expect(try slow.answer().text == "ok")
        #expect(try gateway.process.exitCode(seconds: 20) == 0)
    }
}
