import Credentials
import Gate
import HTTP
@testable import Limits
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// The head that goes upstream, byte for byte.
@Suite(.ownThread) struct ForwardedRequestTests {
    private static let peer = IPAddress(parsing: "192.0.2.1")!
    /// The end of every head that came by HTTP for the host `h`.
    private static let forwarding =
        "X-Forwarded-Host: h\r\nX-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nVia: 1.1 tollgate\r\nX-Request-Id: id-1\r\ntraceparent: trace\r\n"

    /// The forwarded form of a head, and the argument of `readdress`.
    private func forwarded(
        _ request: String, to address: UpstreamAddress = UpstreamAddress(address: .unix("/u")), ownHost: Bool = false,
        trusted: Bool = false, isTLS: Bool = false, trace: String = "trace", isRecorded: Bool = false, restarts: Bool = false,
        asBlock: Bool = false, _ change: (inout RouteRule) -> Void = { _ in }
    ) throws -> (text: String, slices: UpstreamHead) {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        change(&rule)
        let proxies = trusted ? [CIDR(parsing: "192.0.2.0/24")!] : []
        let policy = try Policy(rules: [rule], trust: Trust(issuers: []), trustedProxies: proxies)
        let limiter = SharedLimiter(capacity: 64)
        var admission = Admission(policy: policy, limiter: limiter, cacheCapacity: 1)
        let bytes = Array(request.utf8)
        var head = RequestHead()
        let outcome = head.parse(bytes.rawBytes, limits: HeadLimits())
        try #require(outcome == .complete)
        var decision = Decision()
        let from = Peer(address: Self.peer, isTLS: isTLS)
        admission.decide(head, bytes.rawBytes, peer: from, at: EventLoop.now(), limiter: limiter, &decision)
        let refusal = decision.refusal
        try #require(refusal == nil)
        if restarts { decision.removeTraceState() }
        var out = ByteBuffer()
        let slices = ForwardedRequest.write(
            head, bytes.rawBytes, decision, requestID: Array("id-1".utf8).rawBytes, traceparent: Array(trace.utf8).rawBytes,
            isTraced: isRecorded, from: from,
            to: address, sendsOwnHost: ownHost, isForHTTP2: asBlock, into: &out)
        return (Self.text(out.readable), slices)
    }

    /// Each byte as a scalar, since lengths in a block are no UTF-8.
    private static func text(_ bytes: RawSpan) -> String { bytes.array.map { String(UnicodeScalar($0)) }.joined() }

    private static func buffer(_ text: String) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.append(text.unicodeScalars.map { UInt8($0.value) })
        return buffer
    }

    /// The head with the names of its fields in lower case, but for `Host`, which is never in a block.
    private static func lowercased(_ head: String) -> String {
        let lines = head.split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
        return lines.enumerated().map { number, line in
            guard number > 0, !line.hasPrefix("Host:"), let colon = line.firstIndex(of: ":") else { return line }
            return line[..<colon].lowercased() + line[colon...]
        }.joined(separator: "\r\n")
    }

    @Test(
        "An upstream of HTTP/2 gets the same fields, and one that turns out to speak HTTP/1.1 the same head",
        arguments: heads.map(\.request) + [
            "POST /S/M HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\nGRPC-Timeout: 5S\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nUser-Agent: \(String(repeating: "agent ", count: 40))x\r\nX-Empty:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: \(Array(repeating: "203.0.113.9", count: 20).joined(separator: ", "))\r\n\r\n",
        ])
    func fieldsAreTheSameInABlock(_ request: String) throws {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let addresses = Self.addresses.map {
            UpstreamAddress(address: $0.address, authority: $0.authority, pathPrefix: $0.pathPrefix, speaksHTTP2: true)
        }
        for from in addresses {
            let expected = try forwarded(request, to: from, trusted: true, trace: trace, isRecorded: true)
            let block = try forwarded(request, to: from, trusted: true, trace: trace, isRecorded: true, asBlock: true)
            var slices = block.slices
            let (start, end) = (slices.block, slices.length)
            #expect(start > 0 && end == block.text.unicodeScalars.count)
            var opening = Self.buffer(block.text + "body")
            for to in addresses + [from] { slices.readdress(&opening, to: to) }
            slices.writeLines(&opening, isChunked: request.lowercased().contains("transfer-encoding: chunked"))
            let lines = opening.readable.text
            #expect(lines == Self.lowercased(expected.text) + "body")
            #expect(slices == expected.slices)
        }
    }

    @Test func theTimeOfACallIsWrittenByTheGatewayAlone() throws {
        let call = "POST /S/M HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\nGRPC-Timeout: 5S\r\nX-A: b\r\n\r\n"
        let (text, slices) = try forwarded(call)
        #expect(text.lowercased().ranges(of: "grpc-timeout").count == 1)
        #expect(text.contains("\r\nX-A: b\r\ngrpc-timeout: 05000000u\r\n"))
        #expect(Array(text.utf8)[Int(slices.timeout.start)..<slices.timeout.end].elementsEqual("05000000u".utf8))
        let other = try forwarded("GET / HTTP/1.1\r\nHost: h\r\ngrpc-timeout: 5S\r\n\r\n")
        #expect(other.text.contains("\r\ngrpc-timeout: 5S\r\n") && other.slices.timeout.isEmpty)
    }

    @Test func theStateOfATraceGoesWithItsTrace() throws {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let call = "GET / HTTP/1.1\r\nHost: h\r\nTraceState: a=b\r\nX-A: b\r\n\r\n"
        for (isRecorded, restarts) in [(false, false), (true, false), (true, true)] {
            let (text, slices) = try forwarded(call, trace: trace, isRecorded: isRecorded, restarts: restarts)
            #expect(text.contains("TraceState: a=b") == !restarts && text.contains("\r\nX-A: b\r\n"))
            guard isRecorded else {
                #expect(slices.span.isEmpty)
                continue
            }
            // A retry writes its span there, at another address, too.
            var head = ByteBuffer()
            var moved = slices
            head.append(Array(text.utf8))
            moved.readdress(&head, to: UpstreamAddress(address: .unix("/u"), pathPrefix: "/longer"))
            let bytes = Array(head.readable.text.utf8)
            #expect(bytes[Int(moved.span.start)..<moved.span.end].elementsEqual("b7ad6b7169203331".utf8))
        }
    }

    static let heads: [(what: String, request: String, start: String, own: String)] = [
        ("a plain one", "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n", "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n", ""),
        (
            "white space around values", "GET / HTTP/1.1\r\nHost:  h \r\nX-A:\t a b  \r\nX-B:c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX-A: a b\r\nX-B: c\r\n", ""
        ),
        (
            "what belongs to the connection",
            "GET / HTTP/1.1\r\nConnection: close, X-Mine\r\nHost: h\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: x\r\nProxy-Connection: close\r\nProxy-Authorization: p\r\nX-Stays: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Stays: 1\r\n", ""
        ),
        (
            "names that the gateway injects, however they are spelled",
            "GET / HTTP/1.1\r\nHost: h\r\nX-User-Id: root\r\nx_user_tier: premium\r\nX.Actor.Id: a\r\nX-USER-EMAIL: e\r\nX-Session-Id: s\r\nX-Internal-Key: k\r\nX-Refresh-Token: t\r\nX-Users: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Users: 1\r\n", ""
        ),
        (
            "what an untrusted client says of its way",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: x\r\nForwarded: for=1.2.3.4\r\nX-Request-Id: mine\r\ntraceparent: t\r\nx_forwarded_for: 1.2.3.4\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n", ""
        ),
        (
            "what upstreams route or believe by",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Original-URL: /admin\r\nx_rewrite_url: /admin\r\nX-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\nX-Method-Override: DELETE\r\nProxy: evil\r\nX-Forwarded-Prefix: /x\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-User: root\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Scheme: https\r\nX-Forwarded-Ssl: on\r\nX-Forwarded-Server: s\r\nX-Real-IP: 6.6.6.6\r\nx.real.ip: 6.6.6.6\r\nTrue-Client-IP: 6.6.6.6\r\nX-Client-IP: 6.6.6.6\r\nX-Cluster-Client-IP: 6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6\r\nRemote-User: root\r\nREMOTE_USER: root\r\nX-Remote-User: root\r\nX-Authenticated-User: root\r\ntransfer---encoding: chunked\r\ntransfer___encoding: chunked\r\ncontent--length: 9\r\nX-Stays: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX-Stays: 1\r\n", ""
        ),
        (
            "a body with a length", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 12\r\nX-A: b\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: h\r\nX-A: b\r\n", "Content-Length: 12\r\n"
        ),
        (
            "a chunked body", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n", "POST / HTTP/1.1\r\nHost: h\r\n",
            "Transfer-Encoding: chunked\r\n"
        ),
        (
            "a bearer on a route that does not look at it", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\n", ""
        ),
        (
            "an absolute target", "GET http://h/a?b HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a?b HTTP/1.1\r\nHost: h\r\n", ""
        ),
        (
            "a path that is written plainly", "GET /a//b/../c?d//../e HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /a/c?d//../e HTTP/1.1\r\nHost: h\r\n", ""
        ),
        ("an old client", "GET /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n", ""),
    ]

    @Test(arguments: heads) func aHeadComesTo(_ what: String, _ request: String, _ start: String, _ own: String) throws {
        #expect(try forwarded(request).text == start + Self.forwarding + own + "\r\n")
    }

    @Test func onlyATrustedProxysWordOnTheClientIsPassedOn() throws {
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For:\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n"
        #expect(try forwarded(request, trusted: true).text.value(of: "X-Forwarded-For") == "203.0.113.9, 198.51.100.7, 192.0.2.1")
        #expect(try forwarded(request).text.value(of: "X-Forwarded-For") == "192.0.2.1")
    }

    @Test func theClientsAddressIsToldAsItWasResolved() throws {
        let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.9\r\n\r\n"
        for (isTrusted, address) in [(true, "203.0.113.9"), (false, "192.0.2.1")] {
            let lines = try forwarded(request, trusted: isTrusted).text.headLines.filter { $0.lowercased().hasPrefix("x-real-ip") }
            #expect(lines == ["X-Real-IP: \(address)"])
        }
    }

    @Test func aRouteKeepsWhatItNamesAndNothingElse() throws {
        let request =
            "GET / HTTP/1.1\r\nHost: h\r\nX-ORIGINAL-URL: /a\r\nX_Original_URL: /b\r\nX-Rewrite-URL: /c\r\nX-Forwarded-User: u\r\nConnection: X-Forwarded-User\r\n\r\n"
        let kept: KeptFields = [try KeptFields(named: "x-original-url"), try KeptFields(named: "X-Forwarded-User")]
        let text = try forwarded(request) { $0.keptFields = kept }.text
        #expect(text == "GET / HTTP/1.1\r\nHost: h\r\nX-ORIGINAL-URL: /a\r\n" + Self.forwarding + "\r\n")
    }

    @Test func theSchemeIsTheConnections() throws {
        #expect(try forwarded("GET / HTTP/1.1\r\nHost: h\r\n\r\n", isTLS: true).text.value(of: "X-Forwarded-Proto") == "https")
    }

    @Test func whatARouteStripsIsGoneAndTheBasePathStandsBeforeTheRest() throws {
        let address = UpstreamAddress(address: .unix("/u"), authority: "up.test:81", pathPrefix: "/base")
        let text = try forwarded("GET /api/x?y HTTP/1.1\r\nHost: h\r\n\r\n", to: address) {
            $0.path = "/api/"
            $0.strip = "/api"
        }.text
        #expect(text.hasPrefix("GET /base/x?y HTTP/1.1\r\nHost: h\r\n"))
    }

    // MARK: other addresses

    private static let addresses = [
        UpstreamAddress(address: .unix("/1"), authority: "one.test"),
        UpstreamAddress(address: .unix("/2"), authority: "two.test:8080", pathPrefix: "/b"),
        UpstreamAddress(address: .unix("/3"), authority: "x", pathPrefix: "/a/much/longer/base"),
        UpstreamAddress(address: .unix("/4"), authority: "two.test:8080", pathPrefix: "/b"),
    ]

    /// Turned from any address to any other, once or again and again, a head is the one that would have been written.
    @Test(
        arguments: [
            "GET /a?b HTTP/1.1\r\nHost: client.test\r\nAccept: */*\r\n\r\n", "DELETE / HTTP/1.0\r\n\r\n",
            "PUT /x//y HTTP/1.1\r\nHost: two.test:8080\r\nContent-Length: 3\r\n\r\n",
        ], [true, false])
    func aHeadForAnotherAddressIsTheOneThatWouldHaveBeenWritten(_ request: String, _ ownHost: Bool) throws {
        for from in Self.addresses {
            var (text, slices) = try forwarded(request, to: from, ownHost: ownHost)
            var opening = ByteBuffer()
            opening.append(text + "body")
            for to in Self.addresses + [from] {
                slices.readdress(&opening, to: to)
                let expected = try forwarded(request, to: to, ownHost: ownHost)
                text = opening.readable.text
                #expect(text == expected.text + "body")
                #expect(slices == expected.slices)
            }
        }
    }
}
