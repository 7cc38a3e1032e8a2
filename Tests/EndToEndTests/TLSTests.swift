import Foundation
import TestThreads
import Testing

/// HTTPS towards clients and towards upstreams, with curl, openssl and nginx at the other end.
@Suite(.ownThread) struct TLSTests {
    private static func settings(_ upstream: Upstream, _ folder: Folder, pairs: [String]) -> String {
        """
        TOLLGATE_LISTEN=
        TOLLGATE_LISTEN_TLS=127.0.0.1:0
        TOLLGATE_TLS_CERT="\(pairs.map { folder.file($0 + ".crt") }.joined(separator: " "))"
        TOLLGATE_TLS_KEY="\(pairs.map { folder.file($0 + ".key") }.joined(separator: " "))"
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ALL="/* upstream=u auth=none body-limit=100MiB"
        """
    }

    /// Asks with curl, which verifies; answers what it wrote.
    private func curl(_ gateway: Gateway, _ ca: String, host: String = "localhost", _ more: [String] = []) throws -> CommandOutcome {
        try run(
            "curl",
            ["-sS", "--max-time", "55", "--cacert", ca, "--resolve", "\(host):\(gateway.tlsPort):127.0.0.1"] + more
                + ["https://\(host):\(gateway.tlsPort)/x"])
    }

    /// One request through openssl, which prints the session.
    private func session(_ gateway: Gateway, _ more: [String] = []) throws -> String {
        let request = "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let arguments = ["s_client", "-connect", "127.0.0.1:\(gateway.tlsPort)", "-ign_eof"] + more
        return try run("openssl", arguments, input: request).output
    }

    @Test func bothVersionsAreSpokenAndNoOlderOne() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        #expect(try curl(gateway, authority.file, ["--tlsv1.3", "-w", " %{http_version}"]).output == "ok 2")
        #expect(try curl(gateway, authority.file, ["--tls-max", "1.2"]).output == "ok")
        #expect(try curl(gateway, authority.file, ["--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"]).code != 0)
        #expect(try session(gateway, ["-tls1_3"]).contains("TLSv1.3"))
        #expect(try session(gateway, ["-tls1_2"]).contains("TLSv1.2"))
        #expect(try session(gateway, ["-alpn", "http/1.1"]).contains("ALPN protocol: http/1.1"))
        #expect(upstream.requests.now.allSatisfy { $0["X-Forwarded-Proto"] == "https" })
        #expect(upstream.requests.now.count == 5)
        #expect(try gateway.metric("tollgate_tls_handshakes_total", #"version="1.3""#) >= 2)
    }

    @Test func anExpiredCertificateInPlaceOfAGoodOneIsWarnedOf() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:one.test")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "ready")
        try authority.issue("one", "DNS:one.test", endsWithin: -60)
        try gateway.waitForLog("certificates changed")
        try gateway.waitForLog("one.crt expired at ")
        let ready = try gateway.askAdmin("/readyz")
        #expect(ready.status == 200 && ready.text.contains("expired: one.test"), "\(ready)")
    }

    @Test func theNameChoosesTheCertificate() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:one.test")
        try authority.issue("two", "DNS:two.test", "DNS:*.wild.test")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one", "two"]), folder: folder)
        for (name, subject) in [
            ("one.test", "one"), ("two.test", "two"), ("a.wild.test", "two"), ("two.test.", "two"), ("unknown.test", "one"),
        ] {
            #expect(try session(gateway, ["-servername", name]).contains("subject=CN = \(subject)"), "\(name)")
        }
        #expect(try session(gateway, ["-noservername"]).contains("subject=CN = one"))
        #expect(try curl(gateway, authority.file, host: "two.test").output == "ok")
        #expect(try curl(gateway, authority.file, host: "unknown.test").code != 0)
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aSessionIsResumed(_ version: String) throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        try CertificateAuthority(folder).issue("one", "DNS:localhost")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        let file = folder.file("session")
        #expect(try session(gateway, [version, "-sess_out", file]).contains("New, TLS"))
        let again = try session(gateway, [version, "-sess_in", file])
        #expect(again.contains("Reused, TLS"))
        #expect(again.hasSuffix("ok") || again.contains("\nok"))
        #expect(try gateway.metric("tollgate_tls_handshakes_total", #"result="resumed""#) == 1)
    }

    @Test func aChangedCertificateIsPickedUpAndABadOneIsNot() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost", subject: "before")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        #expect(try session(gateway).contains("subject=CN = before"))
        try authority.issue("one", "DNS:localhost", subject: "after")
        try gateway.waitForLog("certificates changed")
        try eventually("the new certificate") { try session(gateway).contains("subject=CN = after") }
        try folder.write("one.crt", "no certificate\n")
        try gateway.waitForLog("certificates not adopted")
        #expect(try session(gateway).contains("subject=CN = after"))
        #expect(try curl(gateway, authority.file).output == "ok")
    }

    @Test func largeBodiesAndPipelinesGoThroughTLS() throws {
        let (upstream, folder) = (
            try Upstream { request, connection in
                try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
                try connection.send(request.body)
            }, try Folder()
        )
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        let content = StreamingTests.pattern(20 << 20)
        try Data(content).write(to: URL(fileURLWithPath: folder.file("body")))
        let out = folder.file("answer")
        let outcome = try curl(gateway, authority.file, ["--data-binary", "@\(folder.file("body"))", "-o", out])
        #expect(outcome.code == 0)
        #expect(try isSame(Array(Data(contentsOf: URL(fileURLWithPath: out))), content))
        #expect(try gateway.peakResidentKiB < 60 * 1_024)
        let pipeline = (0..<50).map { requestHead("POST /\($0)", $0 == 49 ? ["Connection: close"] : [], length: 4) + "n\($0 + 100)" }
        let arguments = ["s_client", "-quiet", "-connect", "127.0.0.1:\(gateway.tlsPort)", "-ign_eof"]
        let answers = try run("openssl", arguments, input: pipeline.joined()).output
        #expect((0..<50).allSatisfy { answers.contains("n\($0 + 100)") })
    }

    /// What openssl says of the end: without a close-notify, that it was unexpected.
    private func complaint(_ process: Subprocess) throws -> String {
        _ = try process.exitCode()
        return (process.complaints.now + process.output.now).filter { $0.contains("eof") || $0.contains("error") }.joined()
    }

    @Test func everyOrderlyEndIsSaidInTLS() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]) + "\nTOLLGATE_IDLE_TIMEOUT=1s", folder: folder)
        let client = { (request: String) in
            let process = try Subprocess(
                "openssl", ["s_client", "-connect", "127.0.0.1:\(gateway.tlsPort)", "-CAfile", authority.file, "-quiet"])
            process.say(request)
            try process.output.wait(for: "an answer", until: { $0.contains { $0.hasPrefix("HTTP/1.1 ") } })
            return process
        }
        // Asked for by the client, after silence, after a refusal, and because the gateway ends.
        for request in ["GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", requestHead("GET /x"), "GARBAGE\r\n\r\n"] {
            #expect(try complaint(client(request)) == "", "\(request)")
        }
        let last = try client(requestHead("GET /x"))
        try gateway.stop()
        #expect(try complaint(last) == "")
    }

    @Test func whatIsNoTLSIsDropped() throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        try CertificateAuthority(folder).issue("one", "DNS:localhost")
        let gateway = try Gateway(Self.settings(upstream, folder, pairs: ["one"]), folder: folder)
        let connection = try Connection(port: gateway.tlsPort)
        try connection.send(requestHead("GET /x"))
        let (bytes, end) = connection.takeRest()
        #expect(end != .silence)
        #expect(!text(of: bytes).contains("200"))
        #expect(upstream.connections.now == 0)
        #expect(try gateway.metric("tollgate_tls_handshakes_total", #"result="failed""#) == 1)
    }

    // MARK: towards upstreams

    @Test func anUpstreamsCertificateMustHold() throws {
        let folder = try Folder()
        let (authority, stranger) = (try CertificateAuthority(folder), try CertificateAuthority(Folder()))
        try authority.issue("good", "DNS:localhost")
        try authority.issue("other", "DNS:other.test")
        let server = { (name: String) in
            "ssl_certificate \(folder.file(name + ".crt")); ssl_certificate_key \(folder.file(name + ".key")); location / { return 200 \"$ssl_server_name $host\"; }"
        }
        let (good, other) = (try Nginx(server("good"), tls: true), try Nginx(server("other"), tls: true))
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_GOOD="https://localhost:\(good.port) tls-ca=\(authority.file) host=upstream connect-timeout=20s"
            TOLLGATE_UPSTREAM_STRANGER="https://localhost:\(good.port) tls-ca=\(stranger.file) connect-timeout=20s"
            TOLLGATE_UPSTREAM_SYSTEM="https://localhost:\(good.port) connect-timeout=20s"
            TOLLGATE_UPSTREAM_NAME="https://localhost:\(other.port) tls-ca=\(authority.file) connect-timeout=20s"
            TOLLGATE_ROUTE_GOOD="/good upstream=good auth=none"
            TOLLGATE_ROUTE_STRANGER="/stranger upstream=stranger auth=none"
            TOLLGATE_ROUTE_SYSTEM="/system upstream=system auth=none"
            TOLLGATE_ROUTE_NAME="/name upstream=name auth=none"
            """, folder: folder)
        let connection = try gateway.connect()
        for _ in 0..<3 { #expect(try connection.ask("GET /good").text == "localhost localhost") }
        for path in ["/stranger", "/system", "/name"] {
            #expect(try connection.ask("GET \(path)").status == 502, "\(path)")
        }
        let log = try gateway.accessLog(6)
        #expect(log.suffix(3).allSatisfy { $0["error"].text == "handshake_failed" })
    }

    /// nginx asks for a certificate and shows its serial number. While it is replaced, no request fails, and a broken pair changes nothing.
    @Test(arguments: [false, true])
    func anUpstreamIsShownACertificateWhichIsReplacedUnderLoad(_ http2: Bool) throws {
        let folder = try Folder()
        let (authority, clients) = (try CertificateAuthority(folder), try CertificateAuthority(Folder()))
        try authority.issue("good", "DNS:backend.test")
        try clients.issue("me", "DNS:gateway.test")
        let upstream = try Nginx(
            """
            ssl_certificate \(folder.file("good.crt")); ssl_certificate_key \(folder.file("good.key"));
            ssl_client_certificate \(clients.file); ssl_verify_client on; location / { return 200 "$ssl_client_serial $ssl_server_name"; }
            """, tls: true, http2: http2)
        let line = "https://127.0.0.1:\(upstream.port) tls-ca=\(authority.file) http2=\(http2 ? "on" : "off") connect-timeout=20s"
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="\(line) tls-name=backend.test tls-cert=\(clients.folder.file("me.crt")) tls-key=\(clients.folder.file("me.key"))"
            TOLLGATE_UPSTREAM_BARE="\(line) tls-name=backend.test"
            TOLLGATE_UPSTREAM_UNNAMED="\(line) tls-cert=\(clients.folder.file("me.crt")) tls-key=\(clients.folder.file("me.key"))"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            TOLLGATE_ROUTE_BARE="/bare upstream=bare auth=none"
            TOLLGATE_ROUTE_UNNAMED="/unnamed upstream=unnamed auth=none"
            """, folder: folder)
        #expect(try gateway.ask("GET /bare").text.contains("No required SSL certificate was sent"))
        #expect(try gateway.ask("GET /unnamed").status == 502)
        func serial() throws -> String {
            let text = try run("openssl", ["x509", "-noout", "-serial", "-in", clients.folder.file("me.crt")]).output
            return (text.split(separator: "=").last.map(String.init) ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let first = try serial()
        #expect(try gateway.ask("GET /x").text == "\(first) backend.test")
        let failures = Watched<[String]>([])
        let (isOver, ended, port) = (Watched(false), Watched(0), gateway.port)
        for _ in 0..<3 {
            Thread.detachNewThread {
                while !isOver.now {
                    do {
                        let answer = try Connection(port: port).ask("GET /x")
                        if answer.status != 200 { failures.change { $0.append("\(answer)") } }
                    } catch { failures.change { $0.append("\(error)") } }
                }
                ended.change { $0 += 1 }
            }
        }
        for _ in 0..<3 {
            try clients.issue("me", "DNS:gateway.test")
            let next = try serial()
            try eventually("the next certificate") { try (0..<8).allSatisfy { _ in try gateway.ask("GET /x").text.hasPrefix(next) } }
        }
        let last = try serial()
        try clients.folder.write("me.key", "broken")
        try gateway.waitForLog("a certificate for upstreams is not adopted")
        #expect(try gateway.ask("GET /x").text.hasPrefix(last))
        // The line of the log comes first.
        try eventually("readiness names the file") { try gateway.askAdmin("/readyz").text.contains("me.key") }
        #expect(try gateway.askAdmin("/readyz").status == 200)
        isOver.change { $0 = true }
        try ended.wait(for: "the end of the load") { $0 == 3 }
        #expect(failures.now.isEmpty, "\(failures.now.prefix(3))")
        try clients.issue("me", "DNS:gateway.test")
        try eventually("no fault") { try !gateway.askAdmin("/readyz").text.contains("degraded") }
    }

    /// Gateways with the same secret resume the sessions of each other, in TLS 1.3 alone: there a key that leaks opens no recorded traffic.
    @Test(arguments: [("-tls1_3", true, true), ("-tls1_2", true, false), ("-tls1_3", false, false)])
    func aSessionIsResumedByAnotherGateway(_ version: String, _ sharesSecret: Bool, _ isResumed: Bool) throws {
        let (upstream, folder) = (try Upstream(), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateways = try (0..<2).map { number in
            let secret = String(repeating: sharesSecret ? "s" : "\(number)", count: 40)
            return try Gateway(Self.settings(upstream, folder, pairs: ["one"]) + "\nTOLLGATE_KEY_SECRET=\(secret)")
        }
        let file = folder.file("session")
        #expect(try session(gateways[0], [version, "-sess_out", file]).contains("New, TLS"))
        #expect(try session(gateways[1], [version, "-sess_in", file]).contains(isResumed ? "Reused, TLS" : "New, TLS"))
    }

    @Test func aReloadKeepsTheConnectionsOfAnHTTPSUpstreamWhoseAuthorityStays() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("good", "DNS:localhost")
        let pair = "ssl_certificate \(folder.file("good.crt")); ssl_certificate_key \(folder.file("good.key"));"
        let upstream = try Nginx(pair + " location / { return 200 \"$connection\"; }", tls: true)
        let settings = """
            TOLLGATE_UPSTREAM_U="https://localhost:\(upstream.port) tls-ca=\(authority.file) balance=round connect-timeout=20s"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """
        let gateway = try Gateway(settings, folder: folder)
        let connection = try gateway.connect()
        let first = try connection.ask("GET /x").text
        try gateway.reload(settings)
        #expect(try connection.ask("GET /x").text == first)
        // Another authority is another upstream: what was trusted by the old one is not used any more.
        try CertificateAuthority(try Folder()).replace(authority.file)
        try gateway.reload(settings)
        try eventually("the worker goes by the new authority") { try connection.ask("GET /x").status == 502 }
    }

    @Test func healthIsAskedForByTLSAndVerifiedToo() throws {
        let folder = try Folder()
        let (authority, stranger) = (try CertificateAuthority(folder), try CertificateAuthority(Folder()))
        try authority.issue("good", "DNS:localhost")
        let pair = "ssl_certificate \(folder.file("good.crt")); ssl_certificate_key \(folder.file("good.key"));"
        let upstream = try Nginx(
            pair + " location /up { return 204; } location /down { return 503; } location / { return 200 \"ok\"; }", tls: true)
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_WELL="https://localhost:\(upstream.port) tls-ca=\(authority.file) health=/up connect-timeout=20s"
            TOLLGATE_UPSTREAM_SICK="https://localhost:\(upstream.port) tls-ca=\(authority.file) health=/down"
            TOLLGATE_UPSTREAM_STRANGE="https://localhost:\(upstream.port) tls-ca=\(stranger.file) health=/up"
            TOLLGATE_ROUTE_WELL="/well upstream=well auth=none"
            TOLLGATE_ROUTE_SICK="/sick upstream=sick auth=none"
            TOLLGATE_ROUTE_STRANGE="/strange upstream=strange auth=none"
            """, folder: folder)
        let connection = try gateway.connect()
        for path in ["/sick", "/strange"] {
            try eventually("a verdict for \(path)") { try connection.ask("GET \(path)").status == 503 }
        }
        // Two probes that a busy machine does not answer in time turn it off, and the next two on again.
        try eventually("the well one is asked") { try connection.ask("GET /well").status == 200 }
    }
}
