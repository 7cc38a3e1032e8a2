import Foundation
import TestThreads
import Testing

/// Tokens that are bound to a device's key, and the proofs that they need.
@Suite(.ownThread) struct DeviceProofTests {
    private static let secret = String(repeating: "s", count: 40)

    /// A device with a key, and a token that is bound to it.
    private struct Device: Sendable {
        let token: String
        private let key: IssuerKey
        private let jwk: String

        init() throws {
            key = try IssuerKey(.es256)
            jwk = try key.jwk()
            let point = try JSON(jwk)
            let members = #"{"crv":"P-256","kty":"EC","x":"\#(point["x"].text ?? "")","y":"\#(point["y"].text ?? "")"}"#
            let bond = try Self.digest(members)
            token = try IssuerKey(.hs256(secret: DeviceProofTests.secret)).token(
                #"{"iss":"http://localhost:8000","aud":"tollgate","sub":"ada","exp":\#(unixNow + 600),"cnf":{"jkt":"\#(bond)"}}"#)
        }

        func proof(_ url: String, method: String = "GET") throws -> String {
            try key.token(
                #"{"jti":"\#(UUID().uuidString)","htm":"\#(method)","htu":"\#(url)","iat":\#(unixNow),"ath":"\#(try Self.digest(token))"}"#,
                header: #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#)
        }

        private static func digest(_ text: String) throws -> String {
            base64URL(bytes(hex: String(try mustRun("openssl", ["dgst", "-sha256", "-r"], input: text).prefix(64))))
        }
    }

    private static func settings(_ upstream: Upstream, _ more: String...) -> String {
        (["TOLLGATE_JWT_SECRET=\(secret)", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_R=\"/r upstream=u\""] + more)
            .joined(separator: "\n")
    }

    private static func code(_ answer: Message) throws -> String? { try JSON(answer.text)["error"]["code"].text }

    @Test func oneProofRacedAtThreeGatewaysPassesOnce() throws {
        let (redis, upstream, device) = (try Redis(), try Upstream(), try Device())
        let settings = Self.settings(upstream, redis.setting, Redis.patience, "TOLLGATE_WORKERS=2")
        let gateways = try (0..<3).map { _ in try Gateway(settings) }
        for gateway in gateways { try gateway.waitForRedis() }
        let ports = gateways.map(\.port)
        for _ in 0..<20 {
            let fields = ["Host: test", "Authorization: DPoP \(device.token)", "DPoP: \(try device.proof("http://test/r"))"]
            let answers = try atOnce(6) { number in try Connection(port: ports[number % 3]).ask("GET /r", fields) }
            #expect(answers.map(\.status).sorted() == [200, 401, 401, 401, 401, 401])
            let refused = try answers.filter { $0.status == 401 }.map { try Self.code($0) }
            #expect(refused == Array(repeating: "DEVICE_PROOF_INVALID", count: 5))
        }
        #expect(upstream.requests.now.count == 20)
        let reasons = try ["proven", "proof_replayed"].map { reason in
            try gateways.map { try $0.metric("tollgate_auth_decisions_total", "reason=\"\(reason)\"") }.reduce(0, +)
        }
        #expect(reasons == [20, 100])
    }

    /// `htm` is that of the request on the wire: a call of gRPC is a POST, and the handshake of a WebSocket a GET.
    @Test func proofsAreAskedForOverEveryProtocol() throws {
        let (upstream, service, device) = (try Upstream(), try GRPCService(), try Device())
        let (server, sockets) = try WebSocketPeers.server()
        defer { server.kill() }
        let gateway = try Gateway(
            Self.settings(
                upstream, "TOLLGATE_LISTEN=127.0.0.1:0;h2c", "TOLLGATE_UPSTREAM_G=\"\(service.url) http2=on\"",
                "TOLLGATE_ROUTE_G=\"POST /test.Echo/* upstream=g\"", "TOLLGATE_UPSTREAM_W=\"\(sockets)\"",
                "TOLLGATE_ROUTE_W=\"/chat upstream=w websocket=on\""))
        let address = "127.0.0.1:\(gateway.port)"
        let bearer = "DPoP \(device.token)"
        let proofs = try ["GET /r", "POST /test.Echo/Unary", "GET /chat"].map { asked in
            let words = asked.split(separator: " ").map(String.init)
            return try device.proof("http://\(address)\(words[1])", method: words[0])
        }
        // Once, again, that of another request, and none.
        for (turn, passes) in [(0, true), (0, false), (1, false), (nil, false)] as [(Int?, Bool)] {
            let sent = turn.map { turn in (0..<3).map { proofs[($0 + turn) % 3] } }
            let curl = try mustRun(
                "curl",
                [
                    "-sS", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "-H",
                    "Authorization: \(bearer)",
                ]
                    + (sent.map { ["-H", "DPoP: \($0[0])"] } ?? []) + ["http://\(address)/r"])
            #expect(curl == "2 \(passes ? 200 : 401)")
            var metadata = ["authorization": bearer]
            metadata["dpop"] = sent?[1]
            let call = try GRPCCall(port: gateway.port, "Unary", metadata: metadata)
            #expect(call.code == (passes ? "OK" : "UNAUTHENTICATED"), "\(call)")
            let fields = "{'Authorization': '\(bearer)'\(sent.map { ", 'DPoP': '\($0[2])'" } ?? "")}"
            let said = try WebSocketPeers.client(
                "ws://\(address)/chat",
                """
                try:
                    async with websockets.connect(url, extra_headers=\(fields)) as socket:
                        await socket.send("hello")
                        print(await socket.recv())
                except websockets.InvalidStatusCode as refusal: print(refusal.status_code)
                """)
            #expect(said == [passes ? "hello" : "401"])
        }
        #expect(try gateway.metric("tollgate_auth_decisions_total", "reason=\"proven\"") == 3)
        #expect(try gateway.metric("tollgate_auth_decisions_total", "reason=\"proof_replayed\"") == 3)
    }

    @Test func theProofGoesNoFurtherThanItsToken() throws {
        let (upstream, device) = (try Upstream(), try Device())
        let gateway = try Gateway(
            Self.settings(
                upstream, "TOLLGATE_ROUTE_KEPT=\"/kept upstream=u forward=authorization\"",
                "TOLLGATE_ROUTE_OFF=\"/off upstream=u proof=off\"",
                "TOLLGATE_DPOP_NONCE=off"))
        func ask(_ path: String, _ fields: [String] = []) throws -> Message {
            try gateway.ask("GET \(path)?page=1", ["Authorization: DPoP \(device.token)"] + fields)
        }
        let bare = try ask("/r")
        #expect(try bare.status == 401 && Self.code(bare) == "DEVICE_PROOF_REQUIRED")
        #expect(bare["WWW-Authenticate"]?.hasPrefix("DPoP ") == true)
        for path in ["/r", "/kept"] {
            #expect(try ask(path, ["DPoP: \(try device.proof("http://test\(path)"))"]).status == 200)
        }
        #expect(try ask("/off").status == 200)
        let seen = upstream.requests.now.map { ($0["DPoP"] != nil, $0["Authorization"] != nil) }
        #expect(seen.map { "\($0)" } == ["(false, false)", "(true, true)", "(false, false)"])
        #expect(try gateway.metric("tollgate_auth_decisions_total", "reason=\"proven\"") == 2)
        #expect(try gateway.metric("tollgate_auth_decisions_total", "reason=\"proof_missing\"") == 1)
    }

    @Test func endpointsOfTheGatewayDemandProofs() throws {
        let (upstream, device) = (try Upstream(), try Device())
        let gateway = try Gateway(Self.settings(upstream, Gateway.contracts))
        let answer = try gateway.ask("GET /api/v1/auth/me", ["Authorization: Bearer \(device.token)"])
        #expect(try answer.status == 401 && Self.code(answer) == "DEVICE_PROOF_REQUIRED", "\(answer)")
        let wrong = try gateway.ask(
            "GET /api/v1/auth/me", ["Authorization: Bearer \(device.token)", "DPoP: \(try device.proof("http://test/api/v1/other"))"])
        #expect(try wrong.status == 401 && Self.code(wrong) == "DEVICE_PROOF_INVALID", "\(wrong)")
        let proven = try gateway.ask(
            "GET /api/v1/auth/me", ["Authorization: Bearer \(device.token)", "DPoP: \(try device.proof("http://test/api/v1/auth/me"))"])
        #expect(try Self.code(proven)?.hasPrefix("DEVICE") != true, "\(proven)")
    }

    @Test func noncesAreTheSameAtAllGateways() throws {
        let (upstream, device) = (try Upstream(), try Device())
        let settings = Self.settings(
            upstream, "TOLLGATE_DPOP_NONCE=on", "TOLLGATE_KEY_SECRET=\"a secret that these gateways have in common\"")
        let gateways = try [Gateway(settings), Gateway(settings)]
        // The nonce may change between the two questions, but not between every two.
        try eventually("both give out the same nonce") {
            let nonces = try gateways.map { gateway in
                let answer = try gateway.ask(
                    "GET /r", ["Authorization: DPoP \(device.token)", "DPoP: \(try device.proof("http://test/r"))"])
                #expect(answer["WWW-Authenticate"]?.contains(#"error="use_dpop_nonce""#) == true)
                return answer["DPoP-Nonce"]
            }
            return nonces[0] != nil && nonces[0] == nonces[1]
        }
    }
}
