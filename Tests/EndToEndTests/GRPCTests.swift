import Foundation
import TestThreads
import Testing

/// gRPC, with the client that Google writes at one end, and where it can be at the other.
@Suite(.ownThread) struct GRPCTests {
    private static func settings(_ upstream: String, _ more: String = "") -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_UPSTREAM_U="\(upstream)"
        TOLLGATE_ROUTE_ECHO="POST /test.Echo/* upstream=u auth=none"
        TOLLGATE_ROUTE_CLOSED="POST /test.Closed/* upstream=u auth=required tier=premium errors=password"
        TOLLGATE_ROUTE_LIMITED="POST /test.Limited/* upstream=u auth=none limit=1/h"
        TOLLGATE_ROUTE_SMALL="POST /test.Small/* upstream=u auth=none body-limit=1KiB"
        TOLLGATE_ACCESS_LOG=json
        \(more)
        """
    }

    // MARK: refusals

    @Test func refusalsAreStatusesOfGRPC() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream.url))
        let bearer = try gateway.bearer("--sub", "7").dropFirst("Authorization: ".count)
        let missing = try GRPCCall(port: gateway.port, "/test.Closed/X")
        #expect(missing.code == "UNAUTHENTICATED" && missing.details == "An access token is required.")
        #expect(missing.all["www-authenticate"]?.hasPrefix("Bearer realm=") == true && missing.all["x-request-id"] != nil)
        let bad = try GRPCCall(port: gateway.port, "/test.Closed/X", metadata: ["authorization": "Bearer nonsense"])
        #expect(bad.code == "UNAUTHENTICATED")
        #expect(try GRPCCall(port: gateway.port, "/test.Closed/X", metadata: ["authorization": String(bearer)]).code == "PERMISSION_DENIED")
        #expect(try GRPCCall(port: gateway.port, "/no.Such/Thing").code == "UNIMPLEMENTED")
        #expect(
            try GRPCCall(port: gateway.port, "/test.Small/X", .unary, [String(repeating: "x", count: 2_000)]).code == "RESOURCE_EXHAUSTED")
        #expect(upstream.requests.now.isEmpty)
        let lines = try gateway.accessLog(5)
        #expect(lines.allSatisfy { $0["status"].int == 200 && $0["proto"].text == "HTTP/2" })
        #expect(lines.map { $0["code"].text } == ["UNAUTHORIZED", "UNAUTHORIZED", "PREMIUM_REQUIRED", "NOT_FOUND", "PAYLOAD_TOO_LARGE"])
        #expect(try gateway.metric("tollgate_http_requests_total", "code_class=\"4xx\"") == 5)
    }

    @Test func aLimitTellsClientsWhenToComeBack() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream.url))
        _ = try GRPCCall(port: gateway.port, "/test.Limited/X")
        let limited = try GRPCCall(port: gateway.port, "/test.Limited/X")
        // One an hour, less the time that the second call has taken to begin.
        let pause = limited.all["grpc-retry-pushback-ms"].flatMap { Int($0) } ?? 0
        #expect(limited.code == "RESOURCE_EXHAUSTED" && (3_400_000...3_600_000).contains(pause), "\(limited)")
        #expect(limited.all["ratelimit"] != nil && limited.all["retry-after"] == nil)
    }

    @Test func failuresOfTheUpstreamAreStatusesOfGRPC() throws {
        let refusing = try Listening.refusing()
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(refusing.port)"))
        let call = try GRPCCall(port: gateway.port, "Unary")
        #expect(call.code == "UNAVAILABLE" && call.details == "The service behind the gateway failed.")
        #expect(try gateway.accessLog(1)[0]["error"].text == "not_reached")
    }

    @Test func aRefusalIsOneFrame() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream.url))
        let peer = try HTTP2Peer(gateway)
        for (stream, ends) in [(1, true), (3, false)] {
            try peer.ask(stream, "POST", "/test.Closed/X", [("content-type", "application/grpc"), ("te", "trailers")], ends: ends)
            let frames = try peer.take { $0.stream == stream }
            #expect(frames.last?.description == "HEADERS \(stream)" && frames.last?.endsStream == true)
        }
    }

    /// Clients and logs of HTTP/1.1 take the 200 for success.
    @Test func overHTTP1OnlyARouteToAnUpstreamOfHTTP2RefusesInTheFormOfGRPC() throws {
        let upstream = try Upstream()
        let called = "TOLLGATE_UPSTREAM_C=\"\(upstream.url) http2=on\"\nTOLLGATE_ROUTE_CALLED=\"/test.Called/* upstream=c errors=password\""
        let gateway = try Gateway(Self.settings(upstream.url, called))
        for type in ["application/grpc", "application/grpc+proto", "application/grpc; charset=utf-8"] {
            let answer = try gateway.ask("POST /test.Called/X", ["Content-Type: \(type)"], body: [])
            #expect(answer.status == 200 && answer["grpc-status"] == "16" && answer.body.isEmpty)
            #expect(answer["Content-Type"] == "application/grpc" && answer["grpc-message"] == "An access token is required.")
        }
        let plain = [
            ("POST /test.Closed/X", "application/grpc", 401), ("GET /test.Called/X", "application/grpc", 401),
            ("POST /test.Called/X", "application/grpc-web+proto", 401), ("POST /none", "application/grpc", 404),
        ]
        for (target, type, status) in plain {
            let answer = try gateway.ask(target, ["Content-Type: \(type)"], body: target.hasPrefix("GET") ? nil : [])
            #expect(answer.status == status && answer["grpc-status"] == nil && !answer.body.isEmpty, "\(target)")
        }
        #expect(try gateway.accessLog(7).filter { $0["status"].int == 200 }.count == 3)
    }

    // MARK: deadlines

    /// An answer of curl, which has no deadline of its own, over HTTP/2.
    private func curl(_ gateway: Gateway, _ path: String, _ fields: [String]) throws -> String {
        let arguments = ["-sS", "-i", "--max-time", "60", "--http2-prior-knowledge", "-X", "POST", "-H", "Content-Type: application/grpc"]
        let outcome = try run("curl", arguments + fields.flatMap { ["-H", $0] } + ["http://127.0.0.1:\(gateway.port)\(path)"])
        return outcome.output
    }

    /// The line of the access log at the end of the only call, which may have one for its begin, too.
    private func endOfCall(_ gateway: Gateway) throws -> JSON {
        let lines = try gateway.process.output.wait(for: "the end of the call") { $0.last?.contains(#""code":"#) == true }
        return try JSON(lines[lines.count - 1])
    }

    @Test func aLateAnswerIsEndedAtTheDeadline() throws {
        let upstream = try Upstream { (_: Message, _) in }
        let gateway = try Gateway(Self.settings(upstream.url))
        let start = ProcessInfo.processInfo.systemUptime
        let answer = try curl(gateway, "/test.Echo/X", ["grpc-timeout: 4S"])
        #expect((3.9...60).contains(ProcessInfo.processInfo.systemUptime - start))
        #expect(answer.contains("grpc-status: 4\r\n") && answer.hasPrefix("HTTP/2 200"), "\(answer)")
        let line = try endOfCall(gateway)
        #expect(line["code"].text == "TIMEOUT" && line["error"].text == "deadline")
        let told = try #require(upstream.requests.now.first?["grpc-timeout"])
        #expect(told > "01000000u" && told < "04000000u" && told.hasSuffix("u"), "\(told)")
    }

    @Test func aStreamThatLastsTooLongEndsWithTrailers() throws {
        let upstream = try Upstream { _, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n")
        }
        let gateway = try Gateway(Self.settings(upstream.url))
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "POST", "/test.Echo/X", [("content-type", "application/grpc"), ("grpc-timeout", "5S")])
        let frames = try peer.take { $0.stream == 1 && ($0.endsStream || $0.type == 3) }.filter { $0.stream == 1 }
        #expect(frames.map(\.description) == ["HEADERS 1", "DATA 1", "HEADERS 1"])
        #expect(try endOfCall(gateway)["code"].text == "TIMEOUT")
    }

    @Test func malformedTimeoutsAreRefused() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream.url))
        for value in ["soon", "123456789S", "5"] {
            #expect(try curl(gateway, "/test.Echo/X", ["grpc-timeout: \(value)"]).contains("grpc-status: 13\r\n"))
        }
        #expect(upstream.requests.now.isEmpty)
    }

    // MARK: answers that break

    @Test func anAnswerThatBreaksOffIsUnavailable() throws {
        let upstream = try Upstream { _, connection in
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n\0\0\0\0\u{3}abc\r\n9\r\n\0\0\0\0\u{9}part\r\n"
            )
            connection.close()
        }
        let gateway = try Gateway(Self.settings(upstream.url))
        let call = try GRPCCall(port: gateway.port, "ServerStream", .server)
        #expect(call.messages == ["abc"] && call.code == "UNAVAILABLE", "\(call)")
        let line = try gateway.accessLog(1)[0]
        #expect(line["code"].text == "BAD_GATEWAY" && line["error"].text == "broken_answer")
    }

    @Test func anAnswerThatIsNoneOfGRPCPassesAsItIs() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<b/>"))
        let gateway = try Gateway(Self.settings(upstream.url))
        let answer = try curl(gateway, "/test.Echo/X", [])
        #expect(answer.hasPrefix("HTTP/2 502") && answer.hasSuffix("<b/>"))
        #expect(try GRPCCall(port: gateway.port, "Unary").code == "UNAVAILABLE", "clients take 502 for it")
    }

    @Test func aRequestThatGrowsTooLargeDuringItsAnswerIsTold() throws {
        let upstream = try Upstream.raw { connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n\0\0\0\0\u{3}abc\r\n")
            _ = connection.takeRest()
        }
        let gateway = try Gateway(Self.settings(upstream.url))
        let peer = try HTTP2Peer(gateway)
        try peer.ask(1, "POST", "/test.Small/X", [("content-type", "application/grpc")], ends: false)
        try peer.send(0, 0, 1, [0])
        try peer.take { $0.stream == 1 && $0.type == 0 }
        try peer.send(0, 0, 1, [UInt8](repeating: 0, count: 2_000))
        #expect(try peer.take { $0.stream == 1 }.last.map { $0.type == 1 && $0.endsStream } == true)
        #expect(try gateway.accessLog(1)[0]["code"].text == "PAYLOAD_TOO_LARGE")
    }

    // MARK: both ends

    @Test func everyKindOfCallPasses() throws {
        let service = try GRPCService()
        let gateway = try Gateway(Self.settings("\(service.url) http2=on"))
        let unary = try GRPCCall(
            port: gateway.port, "Unary", .unary, ["hello"], timeout: 30, metadata: ["x-mine": "1", "x-user-id": "root"])
        #expect(unary.code == "OK" && unary.messages == ["olleh"], "\(unary)")
        #expect(unary.trailing?["x-end"] == "yes" && unary.trailing?["x-end-bin"] == "b'\\x00\\xff\\n'")
        let told = try JSON(try #require(unary.initial?["x-told"]))
        #expect(told["metadata"]["x-mine"].text == "1" && told["metadata"]["x-user-id"].text == nil)
        #expect((20..<30).contains(told["remaining"].number ?? 0), "the service knows the deadline")
        let large = String(repeating: "0123456789", count: 200_000)
        #expect(try GRPCCall(port: gateway.port, "ClientStream", .client, ["a", "b", "c"]).messages == ["a,b,c"])
        #expect(try GRPCCall(port: gateway.port, "ServerStream", .server, ["500"]).messages == (0..<500).map { "\($0)" })
        #expect(try GRPCCall(port: gateway.port, "Bidi", .bidi, ["a", "", "c", large]).messages == ["<a>", "<>", "<c>", "<\(large)>"])
        let failed = try GRPCCall(port: gateway.port, "Fail", .unary, ["nö: 100%"])
        #expect(failed.code == "ABORTED" && failed.details == "nö: 100%" && failed.trailing?["x-end"] == "failed")
        #expect(try GRPCCall(port: gateway.port, "NoSuch").code == "UNIMPLEMENTED")
    }

    /// A case of gRPC's interoperability tests that no other test here has.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let method: String
        let kind: GRPCCall.Kind
        var messages: [String] = []
        var code = "OK"
        var answers: [String] = []
        var testDescription: String { name }
    }

    static let cases = [
        Case(name: "empty_unary", method: "Unary", kind: .unary, messages: [""], answers: [""]),
        Case(name: "empty_stream", method: "Bidi", kind: .bidi),
        Case(name: "a stream of requests without one", method: "ClientStream", kind: .client, answers: [""]),
        Case(name: "empty_server_stream", method: "ServerStream", kind: .server, messages: ["0"]),
        Case(name: "cancel_after_begin", method: "ClientStream", kind: .cancelled, code: "CANCELLED"),
        Case(name: "cancel_after_first_response", method: "Bidi", kind: .left, messages: ["a", "b"], code: "CANCELLED", answers: ["<a>"]),
        Case(name: "unimplemented_service", method: "/no.Service/Method", kind: .unary, messages: [""], code: "UNIMPLEMENTED"),
        Case(
            name: "special_status_message", method: "Fail", kind: .unary,
            messages: ["\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"], code: "ABORTED"),
    ]

    @Test func casesOfInteroperabilityPass() throws {
        let service = try GRPCService()
        let gateway = try Gateway(Self.settings("\(service.url) http2=on"))
        for one in Self.cases {
            // Several times: frames come together or apart.
            for _ in 0..<(one.messages.isEmpty ? 4 : 1) {
                let call = try GRPCCall(port: gateway.port, one.method, one.kind, one.messages, timeout: 30)
                #expect(call.code == one.code && call.messages == one.answers, "\(one.name): \(call)")
                if one.method == "Fail" { #expect(call.details == one.messages[0]) }
            }
        }
    }

    private static let go = repository.appending(path: ".build/grpc-go").path

    /// The whole set, by the client and the server that gRPC's authors test with; `deploy/test` builds them.
    @Test(.enabled(if: isThere(go + "/client") && isThere(go + "/server"))) func theClientAndTheServerOfGoPassEachCase() throws {
        let port = try Listening().port
        let service = try Subprocess(Self.go + "/server", ["-port", "\(port)"])
        defer { service.kill() }
        try eventually("it listens") { (try? Connection(port: port)) != nil }
        let upstream = "http://127.0.0.1:\(port) http2=on"
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_ROUTE_CASES=\"POST /* upstream=u auth=none\""))
        let cases = [
            "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server",
            "cancel_after_begin", "cancel_after_first_response", "status_code_and_message", "special_status_message", "custom_metadata",
            "unimplemented_method", "unimplemented_service",
        ]
        for name in cases {
            // Several times: frames come together or apart.
            for _ in 0..<(name == "empty_stream" ? 8 : 1) {
                let outcome = try run(
                    Self.go + "/client", ["-server_host", "127.0.0.1", "-server_port", "\(gateway.port)", "-test_case", name])
                #expect(outcome.code == 0, "\(name): \(outcome.complaints)")
            }
        }
    }

    @Test func aClientsDeadlineEndsTheCallAtBothEnds() throws {
        let service = try GRPCService()
        let gateway = try Gateway(Self.settings("\(service.url) http2=on"))
        for (method, kind) in [("Slow", GRPCCall.Kind.unary), ("Endless", .server)] {
            let call = try GRPCCall(port: gateway.port, method, kind, ["60"], timeout: 0.4)
            #expect(call.code == "DEADLINE_EXCEEDED" && call.seconds < 30, "\(call)")
        }
        try eventually("the service has nothing left to do") { try GRPCCall(port: gateway.port, "Calls").messages == ["0"] }
    }

    @Test func aServiceThatDiesDuringACallIsUnavailable() throws {
        let service = try GRPCService()
        let gateway = try Gateway(Self.settings("\(service.url) http2=on"))
        let call = try GRPCCall.start(port: gateway.port, "Endless", .server)
        try call.complaints.wait(for: "the first message", until: { $0.contains("first") })
        service.kill()
        let outcome = try GRPCCall(outcomeOf: call)
        #expect(outcome.code == "UNAVAILABLE" && outcome.messages == ["first"], "\(outcome)")
        #expect(try GRPCCall(port: gateway.port, "Unary").code == "UNAVAILABLE")
    }

    // MARK: health

    @Test func aServerThatDoesNotServeGetsNoRequests() throws {
        let service = try GRPCService()
        let gateway = try Gateway(Self.settings("\(service.url) http2=on health=grpc"))
        #expect(try GRPCCall(port: gateway.port, "Unary", .unary, ["x"]).code == "OK")
        // NOT_SERVING.
        _ = try GRPCCall(port: service.port, "SetHealth", .unary, ["2"])
        try eventually("it is unhealthy") { try gateway.metric("tollgate_upstream_healthy") == 0 }
        #expect(try GRPCCall(port: gateway.port, "Unary", .unary, ["x"]).code == "UNAVAILABLE")
        _ = try GRPCCall(port: service.port, "SetHealth", .unary, ["1"])
        try eventually("it is healthy again") { try gateway.metric("tollgate_upstream_healthy") == 1 }
        #expect(try GRPCCall(port: gateway.port, "Unary", .unary, ["x"]).code == "OK")
    }
}
