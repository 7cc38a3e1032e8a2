import Foundation
import TestThreads
import Testing

/// Lists of networks whose clients are refused, over every protocol, and their files.
@Suite(.ownThread) struct AddressListTests {
    /// A gateway behind a proxy at 127.0.0.1, which names the clients.
    private func gateway(_ upstream: Upstream, _ folder: Folder, workers: Int = 1) throws -> Gateway {
        try Gateway(
            """
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0
            TOLLGATE_WORKERS=\(workers)
            TOLLGATE_TRUSTED_PROXIES=127.0.0.1/32
            TOLLGATE_DENY_FROM=\(folder.file("blocked"))
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            TOLLGATE_ROUTE_ECHO="POST /test.Echo/* upstream=u auth=none"
            TOLLGATE_ROUTE_OFFICE="/office/* upstream=u auth=none allow-from=192.0.2.0/24,file:\(folder.file("office"))"
            TOLLGATE_CONTRACTS=password@/api
            """, folder: folder)
    }

    private func folder() throws -> Folder {
        let folder = try Folder()
        try folder.write("blocked", "# these are refused\n203.0.113.0/24\n2001:db8:bad::/48 # and these\n")
        try folder.write("office", "198.51.100.0/24\n")
        return folder
    }

    private func status(_ gateway: Gateway, _ path: String, from address: String) throws -> Int {
        try gateway.ask("GET \(path)", ["X-Forwarded-For: \(address)"]).status
    }

    @Test func aListedClientIsRefusedOverEveryProtocol() throws {
        let (upstream, folder) = (try Upstream(), try folder())
        let gateway = try gateway(upstream, folder)
        let blocked = ["X-Forwarded-For: 203.0.113.9"]
        let refused = try gateway.ask("GET /open/x", blocked)
        #expect(refused.status == 403 && refused.text.contains("ADDRESS_DENIED") && refused["www-authenticate"] == nil, "\(refused)")
        for path in ["/nowhere", "/api/auth/login", "/.well-known/jwks.json"] {
            #expect(try gateway.ask("GET \(path)", blocked).status == 403, "\(path)")
        }
        let multiplexed = ["-sS", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code} %{http_version}"]
        let outcome = try run(
            "curl", multiplexed + ["-H", "X-Forwarded-For: 2001:db8:bad::1", "http://127.0.0.1:\(gateway.port)/open/x"])
        #expect(outcome.output == "403 2", "\(outcome)")
        let call = try GRPCCall(port: gateway.port, "/test.Echo/X", metadata: ["x-forwarded-for": "203.0.113.9"])
        #expect(call.code == "PERMISSION_DENIED" && call.details == "Requests from this address are not accepted.", "\(call)")
        let socket = [
            "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        #expect(try gateway.ask("GET /open/x", blocked + socket).status == 403)
        for (address, expected) in [("203.0.113.9", 403), ("198.51.100.9", 200)] {
            let check = try Connection(port: gateway.checkPort).ask(
                "GET /auth/check",
                ["Host: a.test", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /open/x", "X-Forwarded-Host: a.test"]
                    + ["X-Forwarded-Proto: https", "X-Forwarded-For: \(address)"])
            #expect(check.status == expected, "\(check)")
        }
        #expect(upstream.requests.now.isEmpty)
        for (address, expected) in [("192.0.2.1", 200), ("198.51.100.9", 200), ("203.0.113.9", 403), ("192.0.3.1", 403)] {
            #expect(try status(gateway, "/office/x", from: address) == expected, "\(address)")
        }
        let walk = try gateway.command(["explain", "GET", "/office/x", "--from", "192.0.3.1"])
        #expect(walk.output.contains("allow-from= does not contain 192.0.3.1") && walk.output.contains("ADDRESS_DENIED"), "\(walk)")
        #expect(try gateway.metric("tollgate_refusals_total", "code=\"ADDRESS_DENIED\"", "route=\"office\"") == 2)
    }

    /// A request is refused within moments of its network's appearance in the file. A broken file changes nothing but the log and the readiness.
    @Test func aFileIsReadAgainAndABrokenOneChangesNothing() throws {
        let (upstream, folder) = (try Upstream(), try folder())
        let gateway = try gateway(upstream, folder, workers: 2)
        #expect(try status(gateway, "/open/x", from: "198.51.100.9") == 200)
        try folder.write("blocked", "198.51.100.0/24\n")
        try gateway.waitForLog("a list of networks has changed")
        try eventually("the new list") { try status(gateway, "/open/x", from: "198.51.100.9") == 403 }
        #expect(try status(gateway, "/open/x", from: "203.0.113.9") == 200)
        try folder.write("blocked", "203.0.113.0/24\n10.0.0.0/33\n")
        try gateway.waitForLog("a list of networks is not adopted")
        #expect(try status(gateway, "/open/x", from: "198.51.100.9") == 403)
        try eventually("a degraded readiness that names the line") {
            let ready = try gateway.askAdmin("/readyz")
            return ready.status == 200 && ready.text.contains("degraded") && ready.text.contains("line 2")
        }
        // Another policy, as for a key or a share, keeps the list that is in force.
        try FileManager.default.removeItem(atPath: folder.file("blocked"))
        try eventually("the fault of a missing file") { try gateway.askAdmin("/readyz").text.contains("no such file") }
        #expect(try status(gateway, "/open/x", from: "198.51.100.9") == 403)
        try folder.write("blocked", "")
        try eventually("an empty list") { try status(gateway, "/open/x", from: "198.51.100.9") == 200 }
        try eventually("a readiness that is whole") { try !gateway.askAdmin("/readyz").text.contains("degraded") }
    }

    @Test func aStartWithoutItsListFails() throws {
        let folder = try folder()
        try folder.write("office", "198.51.100.0/24 and more\n")
        #expect(throws: (any Error).self) { _ = try gateway(try Upstream(), folder) }
        let check = try Tollgate.run(["check", "--env-file", folder.file("gateway.env")])
        #expect(check.code == 2 && check.complaints.contains("TOLLGATE_ROUTE_OFFICE") && check.complaints.contains("line 1"), "\(check)")
    }
}
