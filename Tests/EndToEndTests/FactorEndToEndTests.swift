import Foundation
import TestServers
import TestThreads
import Testing

/// The second factor over gateways that share a database, with an authenticator from PyPI.
@Suite(.ownThread, .enabled(if: PythonTools.hasAuthenticator)) struct FactorEndToEndTests {
    private static let settings = [
        "TOLLGATE_ACCOUNT=/account", "TOLLGATE_FACTOR=offered", "TOLLGATE_ROUTE_BANK=\"/bank upstream=u factor=10m errors=problem\"",
        "TOLLGATE_CHECK_LISTEN=127.0.0.1:0",
    ].joined(separator: "\n")

    private let fleet: Fleet
    private let ada: RotatedTokens

    init() throws {
        fleet = try Fleet(2, .postgres, Self.settings)
        ada = try fleet[0].signUp("ada@example.org")
    }

    private func bank(_ gateway: Gateway) throws -> Int { try gateway.send("GET /bank", bearer: ada.access).status }

    /// The code that the authenticator shows `seconds` from now, for the URI of an enrolment.
    private func code(_ uri: String, _ seconds: Int = 0) throws -> String {
        let script = "import sys, time, pyotp; print(pyotp.parse_uri(sys.argv[1]).at(time.time() + int(sys.argv[2])))"
        let shown = try run(PythonTools.python, ["-c", script, uri, "\(seconds)"])
        guard shown.code == 0 else { throw Fault(shown.complaints) }
        return shown.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func enrol() throws -> String {
        let uri = try must(JSON(try fleet[0].send("POST /account/factors/totp", bearer: ada.access).text)["uri"])
        let verified = try fleet[0].send("POST /account/factors/totp/verify", #"{"code":"\#(try code(uri))"}"#, bearer: ada.access)
        #expect(verified.status == 200, "\(verified.text)")
        return uri
    }

    @Test func aProofUpgradesThePresentTokenAtAllGatewaysAndOverAStart() throws {
        let refused = try fleet[1].send("GET /bank", bearer: ada.access)
        #expect(refused.status == 401 && refused["WWW-Authenticate"]?.contains(#"acr_values="urn:tollgate:acr:factor""#) == true)
        _ = try enrol()
        #expect(try bank(fleet[0]) == 200, "the gateway that took the code knows at once")
        try fleet.expect("the others do within a second") { try bank($0) == 200 }
        let started = try Fleet(1, .postgres, Self.settings, database: fleet.database)
        #expect(try bank(started[0]) == 200, "a gateway that starts has read it")
        let explained = try fleet[0].command(["explain", "GET", "/bank", "--token", ada.access])
        #expect(explained.output.contains("a second factor at most 600 s ago is needed, it was proven"))
        let reset = try fleet[0].command(["user", "reset-factors", "ada@example.org"])
        #expect(reset.output == "Removed the second factor of ada@example.org.")
        try fleet.expect("the proof counts no more") { try bank($0) == 401 }
        #expect(try fleet.admin(0, "DELETE /admin/api/users/ada%40example.org/factors").text.contains(#""removed":false"#))
    }

    /// The form of the refusal is the protocol's own; the token is the same all the time.
    @Test func aProofCountsInEveryProtocolAtEveryGateway() throws {
        let service = try GRPCService()
        let (socket, chat) = try WebSocketPeers.server()
        defer { socket.kill() }
        let routes = """
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_UPSTREAM_G="\(service.url) http2=on"
            TOLLGATE_UPSTREAM_W="\(chat)"
            TOLLGATE_ROUTE_ECHO="POST /test.Echo/* upstream=g factor=10m"
            TOLLGATE_ROUTE_CHAT="GET /chat upstream=w websocket=on factor=10m"
            """
        let gateways = try Fleet(2, .postgres, Self.settings, routes, database: fleet.database)
        let asked = #"acr_values="urn:tollgate:acr:factor""#

        func http2(_ gateway: Gateway) throws -> String {
            let arguments = ["-sS", "-i", "--max-time", "60", "--http2-prior-knowledge", "-H", "Authorization: Bearer \(ada.access)"]
            return try mustRun("curl", arguments + ["http://127.0.0.1:\(gateway.port)/bank"])
        }
        func call(_ gateway: Gateway, _ kind: GRPCCall.Kind = .unary) throws -> GRPCCall {
            let (method, messages) = kind == .unary ? ("Unary", ["abc"]) : ("Bidi", ["1", "2"])
            return try GRPCCall(port: gateway.port, method, kind, messages, metadata: ["authorization": "Bearer \(ada.access)"])
        }
        func talk(_ gateway: Gateway) throws -> String? {
            try WebSocketPeers.client(
                "ws://127.0.0.1:\(gateway.port)/chat",
                """
                try:
                    async with websockets.connect(url, subprotocols=["bearer", "\(ada.access)"]) as socket:
                        await socket.send("hello")
                        print(await socket.recv())
                except websockets.InvalidStatusCode as refusal:
                    print(refusal.status_code, refusal.headers.get("WWW-Authenticate"))
                """
            ).first
        }

        for gateway in gateways.gateways {
            let answer = try http2(gateway)
            #expect(answer.hasPrefix("HTTP/2 401") && answer.contains(asked), "\(answer)")
            for kind in [GRPCCall.Kind.unary, .bidi] {
                let refused = try call(gateway, kind)
                #expect(refused.code == "UNAUTHENTICATED" && refused.details == "This needs a second factor.", "\(refused)")
                #expect(refused.all["www-authenticate"]?.contains(asked) == true && refused.messages.isEmpty)
            }
            let opened = try talk(gateway)
            #expect(opened?.hasPrefix("401 Bearer ") == true && opened?.contains(asked) == true, "\(opened ?? "")")
        }
        _ = try enrol()
        try gateways.expect("HTTP/2") { try http2($0).hasPrefix("HTTP/2 200") }
        try gateways.expect("gRPC") { try call($0).messages == ["cba"] && call($0, .bidi).messages == ["<1>", "<2>"] }
        try gateways.expect("WebSocket") { try talk($0) == "hello" }
    }

    @Test func aCodeThatIsSentToTwoGatewaysAtOnceCountsOnce() throws {
        let uri = try enrol()
        let next = #"{"code":"\#(try code(uri, 30))"}"#
        struct Handed: @unchecked Sendable { let gateway: Gateway }
        let (gateways, token) = (fleet.gateways.map(Handed.init), ada.access)
        let statuses = try atOnce(2) { number in
            try gateways[number].gateway.send("POST /account/factors/verify", next, bearer: token).status
        }
        #expect(statuses.sorted() == [200, 401])
    }

    /// One session, from a hundred addresses.
    @Test func guessesFromManyAddressesGetNowhere() throws {
        let uri = try enrol()
        let gateway = try Gateway(
            (Fleet.settings(fleet.database, fleet.upstream) + [Self.settings, Gateway.trustingProxies]).joined(separator: "\n"))
        var judged = 0
        for number in 0..<1_000 {
            let answer = try gateway.ask(
                "POST /account/factors/verify",
                ["Authorization: Bearer \(ada.access)", "X-Forwarded-For: 203.0.113.\(number % 100)"],
                body: Array(#"{"code":"\#(String(format: "%06d", number))"}"#.utf8))
            if answer.status == 401 { judged += 1 } else { #expect(answer.status == 429 || answer.status == 200) }
        }
        #expect(judged <= 6, "five at once, and one in six minutes")
        let right = #"{"code":"\#(try code(uri, 30))"}"#
        #expect(try gateway.send("POST /account/factors/verify", right, bearer: ada.access).status == 429)
    }
}
