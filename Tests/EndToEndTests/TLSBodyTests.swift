import Foundation
import TestThreads
import Testing

/// Large answers over TLS to clients that read slowly or go away, and connections that stay silent after their handshake.
@Suite(.ownThread) struct TLSBodyTests {
    private let content = StreamingTests.pattern(24 << 20)
    private let folder: Folder
    private let authority: CertificateAuthority
    private let upstream: Upstream
    private let settings: String
    private let gateway: Gateway

    init() throws {
        folder = try Folder()
        authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let content = content
        upstream = try Upstream { request, connection in
            let body = request.startLine.contains("/large") ? content : Array("ok".utf8)
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            try connection.send(body)
        }
        settings = """
            TOLLGATE_LISTEN=
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT="\(folder.file("one.crt"))"
            TOLLGATE_TLS_KEY="\(folder.file("one.key"))"
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"

            """
        gateway = try Gateway(settings, folder: folder)
    }

    private func curl(_ more: [String], path: String = "large") throws -> CommandOutcome {
        try run("curl", ["-sS", "--max-time", "60", "--cacert", authority.file] + more + ["https://localhost:\(gateway.tlsPort)/\(path)"])
    }

    @Test(arguments: ["--http1.1", "--http2"])
    func aSlowReaderGetsAllOfItAndCostsNoMemory(_ version: String) throws {
        #expect(try curl([version], path: "small").output == "ok")
        let before = try gateway.residentKiB
        let out = folder.file("answer")
        let outcome = try curl([version, "--limit-rate", "12M", "-o", out])
        #expect(outcome.code == 0, "\(outcome)")
        #expect(try isSame(Array(Data(contentsOf: URL(fileURLWithPath: out))), content))
        #expect(try gateway.peakResidentKiB - before < 8 * 1_024)
    }

    @Test(arguments: ["TLSv1_2", "TLSv1_3"], [false, true])
    func aClientThatGoesAwayInTheMiddleIsForgotten(_ version: String, _ resets: Bool) throws {
        let before = try gateway.metric("tollgate_connections")
        let outcome = try run(
            "python3",
            [
                "-c",
                """
                import socket, ssl, struct
                trusted = ssl.create_default_context(cafile="\(authority.file)")
                trusted.minimum_version = trusted.maximum_version = ssl.TLSVersion.\(version)
                peer = trusted.wrap_socket(socket.create_connection(("127.0.0.1", \(gateway.tlsPort))), server_hostname="localhost")
                peer.sendall(b"GET /large HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
                got = sum(len(peer.recv(65536)) for _ in range(50))
                if \(resets ? 1 : 0): peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
                print(0 < got < 24 << 20)
                """,
            ])
        #expect(outcome.output.hasPrefix("True"), "\(outcome)")
        try eventually("the client is forgotten") { try gateway.metric("tollgate_connections") == before }
        #expect(try curl([], path: "small").output == "ok")
    }

    /// Handshakes without a request: the clients get their tickets, and the buffers of OpenSSL are freed, 8 KiB of which are resident.
    @Test func silentConnectionsGetATicketAndTakeLittleMemory() throws {
        // The first of them is silent for as long as a busy machine takes for the others.
        try gateway.reload(settings + "TOLLGATE_HEADER_TIMEOUT=1h")
        #expect(try curl(["--http1.1"], path: "small").output == "ok")
        let before = try gateway.residentKiB
        let client = try Subprocess(
            "python3",
            [
                "-u", "-c",
                """
                import select, socket, ssl, sys
                trusted = ssl.create_default_context(cafile="\(authority.file)")
                peers = [trusted.wrap_socket(socket.create_connection(("127.0.0.1", \(gateway.tlsPort))), server_hostname="localhost")
                         for _ in range(300)]
                for peer in peers:
                    if not select.select([peer], [], [], 20)[0]: sys.exit("no ticket")
                print("tickets")
                sys.stdin.readline()
                peers[7].sendall(b"GET /small HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
                print(peers[7].recv(100).split(b"\\r\\n")[0].decode())
                """,
            ])
        try client.output.wait(for: "the tickets", until: { $0.contains("tickets") })
        #expect(try gateway.residentKiB - before < 300 * 20)
        client.say("\n")
        try client.output.wait(for: "an answer", until: { $0.contains("HTTP/1.1 200 OK") })
    }

    @Test(arguments: ["h2", "http/1.1"])
    func aClientThatSaysNothingAfterItsHandshakeIsClosedAtTheHeaderTimeout(_ version: String) throws {
        // The time of the handshake, too.
        try gateway.reload(settings + "TOLLGATE_HEADER_TIMEOUT=5s")
        let client = try run(
            "python3",
            [
                "-c",
                """
                import socket, ssl
                trusted = ssl.create_default_context(cafile="\(authority.file)")
                trusted.set_alpn_protocols(["\(version)"])
                peer = trusted.wrap_socket(socket.create_connection(("127.0.0.1", \(gateway.tlsPort)), 40), server_hostname="localhost")
                while peer.recv(1000): pass
                print(peer.selected_alpn_protocol())
                """,
            ])
        #expect(client.output == version, "\(client)")
    }

    @Test func clientsThatConnectedAMomentBeforeADrainDoNotHoldItUp() throws {
        try gateway.reload(settings + "TOLLGATE_HEADER_TIMEOUT=1h\nTOLLGATE_DRAIN_TIMEOUT=1h")
        let client = try Subprocess(
            "python3",
            [
                "-u", "-c",
                """
                import socket, ssl, sys
                trusted = ssl.create_default_context(cafile="\(authority.file)")
                peers = [trusted.wrap_socket(socket.create_connection(("127.0.0.1", \(gateway.tlsPort))), server_hostname="localhost")
                         for _ in range(20)]
                # Some say nothing at all.
                peers += [socket.create_connection(("127.0.0.1", \(gateway.tlsPort))) for _ in range(20)]
                print("connected")
                sys.stdin.readline()
                """,
            ])
        try client.output.wait(for: "connections", until: { $0.contains("connected") })
        #expect(try gateway.stop() == 0)
    }
}
