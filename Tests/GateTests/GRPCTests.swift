import HTTP
import Testing
import Wire

@testable import Gate

/// Refusals of requests of gRPC.
@Suite struct GRPCTests {
    /// The status of each HTTP status, where the table of the protocol has one.
    private static let statuses: [UInt16: GRPCStatus] = [
        401: .unauthenticated, 403: .permissionDenied, 404: .unimplemented, 405: .unimplemented, 413: .resourceExhausted,
        429: .resourceExhausted, 500: .internalError, 502: .unavailable, 503: .unavailable, 504: .deadlineExceeded,
    ]

    @Test func everyRefusalHasAStatusByItsHTTPStatus() {
        for refusal in everyRefusal {
            let status = GRPCStatus(refusal)
            if let expected = Self.statuses[refusal.status] { #expect(status == expected, "\(refusal)") }
        }
        #expect(GRPCStatus(.badRequest(.path(.aboveRoot))) == .invalidArgument)
        #expect(GRPCStatus(.badRequest(.severalAuthorizations)) == .invalidArgument)
        #expect(GRPCStatus(.badRequest(.http(.truncated))) == .internalError)
        #expect(GRPCStatus(.badRequest(.grpcTimeout)) == .internalError)
    }

    private func lines(_ refusal: Refusal) throws -> [String] {
        let policy = try Policy(rules: [rule("r", "POST /*")], trust: AdmissionHarness.trust())
        var edits = FieldEdits()
        refusal.addFields(policy, in: .grpc, to: &edits)
        return edits.http1.text.split(separator: "\r\n").map(String.init)
    }

    @Test func theAnswerIsOnlyFields() throws {
        for refusal in everyRefusal {
            var body = ByteBuffer()
            Envelopes()[.grpc].writeBody(
                refusal, requestID: RawSpan(), extras: [Envelope.Extra(name: "upgrade_url", value: "https://shop.test")], into: &body)
            #expect(body.isEmpty && Dialect.grpc.status(of: refusal) == 200)
            let lines = try lines(refusal)
            #expect(lines.contains("grpc-status: \(GRPCStatus(refusal).rawValue)"))
            #expect(lines.contains { $0.hasPrefix("grpc-message: ") && $0.count > 20 })
            #expect(lines.contains { $0.hasPrefix("grpc-retry-pushback-ms: ") } == (refusal.retryAfterSeconds != nil))
            #expect(!lines.contains { $0.hasPrefix("Retry-After") })
            let isChallenge = [401, 403].contains(refusal.status) && ![.addressDenied, .attestationRequired].contains(refusal.code)
            #expect(lines.contains { $0.hasPrefix("WWW-Authenticate: ") } == isChallenge)
        }
        #expect("\(Envelopes()[.grpc].contentType)" == "application/grpc")
    }

    @Test func theWaitIsInMillisecondsAndFitsAClientsNumber() throws {
        #expect(try lines(.rateLimited(retryAfterSeconds: 7)).contains("grpc-retry-pushback-ms: 7000"))
        #expect(try lines(.rateLimited(retryAfterSeconds: 0)).contains("grpc-retry-pushback-ms: 1000"))
        #expect(try lines(.rateLimited(retryAfterSeconds: .max)).contains("grpc-retry-pushback-ms: 2147483647"))
    }

    private func harness() throws -> AdmissionHarness {
        var closed = rule("closed", "POST /closed/*")
        closed.errors = .dlauth
        let harness = try AdmissionHarness([rule("open", "POST /open/*", auth: .none), closed, rule("read", "GET /read")])
        harness.isHTTP2 = true
        return harness
    }

    /// A refusal of gRPC is a 200, which a client that does not speak gRPC takes for success.
    @Test func onlyCallsAreRefusedInTheFormOfGRPC() throws {
        var called = rule("called", "/called/*")
        called.upstreamSpeaksHTTP2 = true
        let harness = try AdmissionHarness([rule("plain", "/plain/*"), called])
        let cases = [
            (false, "POST /plain/x", false), (false, "POST /called/x", true), (false, "GET /called/x", false), (false, "POST /none", false),
            (true, "POST /plain/x", true), (true, "GET /plain/x", false), (true, "PUT /called/x", false), (true, "POST /none", true),
        ]
        for (isHTTP2, target, isGRPC) in cases {
            harness.isHTTP2 = isHTTP2
            let judged = ask(harness, target)
            #expect(
                (judged.dialect == .grpc) == isGRPC && judged.status >= 401
                    && judged.headers.contains { $0.hasPrefix("grpc-status") } == isGRPC, "\(target)")
        }
    }

    private func ask(_ harness: AdmissionHarness, _ target: String, _ more: String = "", type: String = "application/grpc") -> Judged {
        harness.ask("\(target) HTTP/1.1\nHost: h\nContent-Type: \(type)\(more)")
    }

    @Test func theRoutesFormatGivesWay() throws {
        let harness = try harness()
        for (target, status) in [
            ("POST /closed/x", 401), ("POST /read", 405), ("POST /none", 404), ("POST /a/%2F", 400), ("POST /closed/%2F", 400),
        ] {
            let judged = ask(harness, target)
            #expect(judged.dialect == .grpc && judged.status == status, "\(target)")
            #expect(judged.headers.contains { $0.hasPrefix("grpc-status: ") })
            #expect(ask(harness, target, type: "application/grpc-web").dialect != .grpc)
        }
        #expect(ask(harness, "POST /closed/x", type: "application/grpc-web+proto").dialect == .dlauth)
        #expect(ask(harness, "POST /open/x").status == 0)
    }

    @Test func aTimeoutThatCannotBeReadIsRefused() throws {
        let harness = try harness()
        for value in ["5", "5s", "123456789S", "soon", "", "5S\ngrpc-timeout: 5S"] {
            let judged = ask(harness, "POST /open/x", "\ngrpc-timeout: \(value)")
            #expect(judged.verdict == .refuse(.badRequest(.grpcTimeout)), "\(value)")
            #expect(judged.headers.contains("grpc-status: 13"))
        }
        #expect(ask(harness, "POST /open/x", "\ngrpc-timeout: soon", type: "application/json").status == 0)
    }

    @Test func aRequestWhoseTimeIsOverIsNotForwarded() throws {
        let harness = try harness()
        #expect(ask(harness, "POST /open/x", "\ngrpc-timeout: 0n").verdict == .refuse(.timeout))
        #expect(ask(harness, "POST /open/x", "\ngrpc-timeout: 1n").status == 0)
    }
}
