import Foundation
import TestThreads
import Testing

/// Plain addresses that lead to HTTPS, and the field by which browsers stay there.
@Suite(.ownThread) struct PlainEdgeTests {
    private final class World {
        let folder: Folder
        let authority: CertificateAuthority
        let upstream: Upstream
        let gateway: Gateway

        init(_ listen: String = "127.0.0.1:0;h2c;redirect", _ more: String = "") throws {
            folder = try Folder()
            authority = try CertificateAuthority(folder)
            try authority.issue("one", "DNS:localhost")
            upstream = try Upstream(
                Upstream.saying(
                    "HTTP/1.1 200 OK\r\nstrict-transport-security: max-age=1\r\nSTRICT-Transport-Security: max-age=2\r\nContent-Length: 2\r\n\r\nok"
                ))
            gateway = try Gateway(
                """
                TOLLGATE_LISTEN=\(listen)
                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT=\(folder.file("one.crt"))
                TOLLGATE_TLS_KEY=\(folder.file("one.key"))
                TOLLGATE_HSTS=180d,subdomains
                TOLLGATE_DENY_FROM=127.0.0.9
                TOLLGATE_UPSTREAM_U="\(upstream.url)"
                TOLLGATE_ROUTE_ALL="/x upstream=u auth=none"
                TOLLGATE_ROUTE_KEPT="/cached upstream=u auth=none cache=60s cache-by=public"
                TOLLGATE_ROUTE_ME="/me upstream=u auth=required"
                \(more)
                """, folder: folder)
        }

        /// The head of an answer over TLS.
        func head(_ path: String, _ more: [String] = []) throws -> String {
            let outcome = try run(
                "curl",
                ["-sS", "--max-time", "30", "--cacert", authority.file, "-D", "-", "-o", "/dev/null"] + more
                    + ["https://localhost:\(gateway.tlsPort)\(path)"])
            return outcome.output.lowercased()
        }
    }

    @Test func aPlainAddressLeadsToHTTPS() throws {
        let world = try World()
        let (gateway, port) = (world.gateway, world.gateway.tlsPort)
        let cases: [(String, String, String)] = [
            ("GET /x", "Host: a.test", "https://a.test:\(port)/x"),
            ("POST /a%2Fb//c;d?e=%20&f=/../?g", "Host: a.test:8080", "https://a.test:\(port)/a%2Fb//c;d?e=%20&f=/../?g"),
            ("DELETE /../x", "Host: [::1]:80", "https://[::1]:\(port)/../x"),
            ("HEAD //evil.test/", "Host: a.test", "https://a.test:\(port)//evil.test/"),
            ("GET http://b.test/y?z", "Host: b.test", "https://b.test:\(port)/y?z"),
            ("OPTIONS *", "Host: a.test", "https://a.test:\(port)"),
            ("GET /?u=https://evil.test", "Host: A.test.", "https://A.test.:\(port)/?u=https://evil.test"),
        ]
        for (line, host, location) in cases {
            let answer = try gateway.ask(line, [host], body: line.hasPrefix("POST") ? Array("content".utf8) : nil)
            #expect(answer.status == 308 && answer["location"] == location, "\(line) \(host): \(answer)")
            #expect(answer["cache-control"] == "no-store" && answer["strict-transport-security"] == nil && answer.body.isEmpty)
        }
        for (line, host) in [
            ("GET /x", "Host: a.test/b"), ("GET /x", "Host: u@a.test"), ("GET /x", "Host: a.test b"), ("GET /x", "Host: "),
        ] {
            let answer = try gateway.ask(line, [host])
            #expect(answer.status == 400 && answer["location"] == nil, "\(host): \(answer)")
        }
        let old = try gateway.connect()
        try old.send("GET /x HTTP/1.0\r\n\r\n")
        #expect(try old.answer().status == 400)
        #expect(try Connection(port: gateway.port, host: 9).ask("GET /x", ["Host: a.test"]).status == 403)
        let multiplexed = try run(
            "curl",
            ["-sS", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code} %{http_version} %{redirect_url}"]
                + ["-d", "content", "http://localhost:\(gateway.port)/x?y"])
        #expect(multiplexed.output == "308 2 https://localhost:\(port)/x?y", "\(multiplexed)")
        #expect(world.upstream.requests.now.isEmpty)
        #expect(try gateway.accessLog(13).allSatisfy { [308, 400, 403].contains($0["status"].int) })
        let connection = try gateway.connect()
        for _ in 0..<3 { #expect(try connection.ask("POST /x", ["Host: a.test"], body: Array("kept".utf8)).status == 308) }
    }

    @Test func noPortIsWrittenForTheUsualOne() throws {
        let world = try World("127.0.0.1:0;redirect=443")
        #expect(try world.gateway.ask("GET /x?y", ["Host: a.test:8000"])["location"] == "https://a.test/x?y")
    }

    /// Every answer over TLS has the field once, and none without TLS.
    @Test func answersOverTLSKeepBrowsersThere() throws {
        let world = try World("127.0.0.1:0")
        let field = "\r\nstrict-transport-security: max-age=15552000; includesubdomains\r\n"
        let cases: [(String, [String], String)] = [
            ("/x", [], " 200 "), ("/x", ["--http1.1"], " 200 "), ("/nowhere", [], " 404 "), ("/me", [], " 401 "), ("/cached", [], " 200 "),
            ("/cached", [], " 200 "), ("/.well-known/jwks.json", [], " 200 "), ("/x", ["--http1.1", "-H", "Content-Length: x"], " 400 "),
        ]
        for (path, more, status) in cases {
            let head = try world.head(path, more)
            #expect(head.contains(status) && head.components(separatedBy: "strict-transport-security").count == 2, "\(path): \(head)")
            #expect(head.contains(field), "\(path): \(head)")
        }
        for path in ["/nowhere", "/me", "/.well-known/jwks.json"] {
            #expect(try world.gateway.ask("GET \(path)")["strict-transport-security"] == nil, "\(path)")
        }
        #expect(try world.gateway.ask("GET /x")["strict-transport-security"] == "max-age=1 | max-age=2")
    }

    @Test func aRedirectNeedsAnAddressToLeadTo() throws {
        let folder = try Folder()
        let cases = [
            ("TOLLGATE_LISTEN=127.0.0.1:0;redirect", "has no TLS address to lead to"),
            ("TOLLGATE_LISTEN=127.0.0.1:0;redirect=0", "names no port"), ("TOLLGATE_LISTEN=127.0.0.1:0;h2c=1", "unknown part"),
            ("TOLLGATE_HSTS=180d,preload", "has preload"), ("TOLLGATE_HSTS=10", "is no duration"),
            ("TOLLGATE_ADMIN_LISTEN=127.0.0.1:0;redirect", "remove ;redirect"),
        ]
        for (line, fault) in cases {
            try folder.write("gateway.env", Gateway.complete("\(line)\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:1", folder))
            let outcome = try Tollgate.run(["check", "--env-file", folder.file("gateway.env")])
            #expect(outcome.code == 2 && (outcome.output + outcome.complaints).contains(fault), "\(line): \(outcome)")
        }
    }
}
