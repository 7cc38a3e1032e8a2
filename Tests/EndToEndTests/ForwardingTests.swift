import Foundation
import TestThreads
import Testing

/// What comes in goes out once, whole, and so does its answer.
@Suite(.ownThread) struct ForwardingTests {
    static func settings(_ upstream: Upstream, _ more: String = "") -> String {
        """
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ALL="/* upstream=u auth=none body-limit=100MiB"
        \(more)
        """
    }

    @Test func aGetIsAnswered() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello"))
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask("GET /a/b?c=d&e=%2F", ["X-B: 2"])
        #expect(answer.startLine == "HTTP/1.1 200 Fine")
        #expect(answer.text == "hello")
        #expect(answer["X-A"] == "1")
        let request = upstream.requests.now[0]
        #expect(request.startLine == "GET /a/b?c=d&e=%2F HTTP/1.1")
        #expect(request["X-B"] == "2")
        #expect(request["Host"] == "test")
        #expect(request["Content-Length"] == nil)
        #expect(request["Transfer-Encoding"] == nil)
        #expect(try gateway.stop() == 0)
    }

    @Test(arguments: ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
    func everyMethodGoesThroughAsItIs(_ method: String) throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream))
        #expect(try gateway.ask("\(method) /x").status == 200)
        #expect(upstream.requests.now.map(\.startLine) == ["\(method) /x HTTP/1.1"])
    }

    @Test func traceReachesNoUpstream() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_ROUTE_GET=\"GET /get upstream=u\""))
        let refusal = try gateway.ask("TRACE /x", ["Cookie: secret"])
        #expect(refusal.status == 405)
        #expect(refusal["Allow"] == "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")
        #expect(!refusal.text.contains("secret"))
        #expect(try gateway.ask("TRACE /get").status == 405)
        #expect(upstream.requests.now.isEmpty)
    }

    /// Fields and trailers by which frameworks route or believe, in any spelling; a route lets through what it names.
    @Test func noFieldByWhichUpstreamsRouteOrBelieveArrivesUnlessARouteKeepsIt() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            Self.settings(upstream, "TOLLGATE_ROUTE_KEEP=\"/keep upstream=u auth=none keep=X-Original-URL,X-HTTP-Method-Override\""))
        let names = [
            "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy",
            "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded-User", "X-Forwarded-Port", "X-Forwarded-Scheme",
            "X-Forwarded-Ssl", "X-Forwarded-Server", "X-Real-IP", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP",
            "CF-Connecting-IP", "Remote-User", "X-Remote-User", "X-Authenticated-User", "transfer---encoding", "transfer___encoding",
            "content--length",
        ]
        let forged = names.flatMap { [$0, $0.lowercased().replacingOccurrences(of: "-", with: "_")] }
            .filter { $0 != "transfer_encoding" && $0 != "content_length" }.map { "\($0): forged" }
        for path in ["/x", "/keep"] {
            let connection = try gateway.connect()
            try connection.send(
                requestHead("POST \(path)", forged + ["Transfer-Encoding: chunked", "X-Stays: 1"]) + "0\r\n"
                    + forged.prefix(30).map { $0 + "\r\n" }.joined() + "\r\n")
            #expect(try connection.answer().status == 200)
        }
        let requests = upstream.requests.now
        #expect(requests.count == 2 && requests.allSatisfy { $0["X-Real-IP"] == "127.0.0.1" && $0["X-Stays"] == "1" })
        #expect(
            requests.map { $0.fields.filter { $0.value == "forged" }.map(\.name) } == [[], ["X-Original-URL", "X-HTTP-Method-Override"]])
        #expect(requests.allSatisfy { $0.trailers.isEmpty })
    }

    /// One that comes behind the body would be a second one to an upstream that merges trailers with the head.
    @Test func trailersEndHereWhereALimitReadsAField() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_ROUTE_L=\"/l upstream=u auth=none limit=9/h limit-by=header:X-Key\""))
        let connection = try gateway.connect()
        for path in ["/l", "/x"] {
            try connection.send(
                requestHead("POST \(path)", ["X-Key: one", "Transfer-Encoding: chunked"]) + "1\r\na\r\n0\r\nX-Key: two\r\n\r\n")
            #expect(try connection.answer().status == 200)
        }
        #expect(upstream.requests.now.map { $0.trailers.map(\.value) } == [[], ["two"]])
        #expect(try connection.ask("GET /l", ["X-Key: one", "x_key: two"]).status == 400)
        #expect(upstream.requests.now.count == 2)
    }

    @Test func answersWithoutABodyEndWithTheirHead() throws {
        let upstream = try Upstream { request, connection in
            let head: String
            switch request.target {
            case "/204": head = "HTTP/1.1 204 No Content"
            case "/304": head = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 1000"
            default: head = "HTTP/1.1 200 OK\r\nContent-Length: 1000"
            }
            try connection.send(head + "\r\n\r\n")
        }
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for _ in 0..<2 {
            let head = try connection.ask("HEAD /head")
            #expect(head.status == 200)
            #expect(head["Content-Length"] == "1000")
            #expect(try connection.ask("GET /204").status == 204)
            let unchanged = try connection.ask("GET /304")
            #expect(unchanged.status == 304)
            #expect(unchanged["ETag"] == "\"a\"")
        }
        #expect(connection.isQuiet)
        #expect(upstream.connections.now == 1)
    }

    @Test func bodiesGoBothWaysWithALengthOrInChunks() throws {
        let upstream = try Upstream { request, connection in
            if request["X-Chunked"] == "yes" {
                try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for byte in request.body { try connection.send("1\r\n" + text(of: [byte]) + "\r\n") }
                try connection.send("0\r\n\r\n")
            } else {
                try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
                try connection.send(request.body)
            }
        }
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for answerIsChunked in [false, true] {
            let wish = "X-Chunked: \(answerIsChunked ? "yes" : "no")"
            let plain = try connection.ask("POST /x", [wish], body: Array("with a length".utf8))
            #expect(plain.text == "with a length")
            #expect(plain.isChunked == answerIsChunked)
            #expect(plain.all("Content-Length").count == (answerIsChunked ? 0 : 1))

            try connection.send(
                requestHead("POST /y", [wish, "Transfer-Encoding: Chunked"]) + "3;a=b\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n")
            #expect(try connection.answer().text == "abc0123456789")
            #expect(try connection.ask("POST /z", [wish], body: []).text == "")
        }
        let requests = upstream.requests.now
        #expect(requests.map { $0.all("Content-Length") } == [["13"], [], ["0"], ["13"], [], ["0"]])
        #expect(requests.map { $0.all("Transfer-Encoding") } == [[], ["chunked"], [], [], ["chunked"], []])
        #expect(!requests.contains { text(of: $0.head).contains(";a=b") })
    }

    @Test func trailersGoBothWaysButNoneThatForges() throws {
        let upstream = try Upstream(
            Upstream.saying(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n"
            ))
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        let forged = ["X-User-Id: root", "x_user_tier: premium", "Authorization: Bearer x", "Content-Length: 5", "Host: evil"]
        try connection.send(
            requestHead("POST /x", ["Transfer-Encoding: chunked", "TE: trailers"]) + "1\r\na\r\n0\r\nX-Check: 5\r\n"
                + forged.map { $0 + "\r\n" }.joined() + "\r\n")
        let answer = try connection.answer()
        #expect(answer.text == "ok")
        #expect(answer.trailers.map { "\($0.name): \($0.value)" } == ["X-Sum: 7"])
        let request = upstream.requests.now[0]
        #expect(request.trailers.map { "\($0.name): \($0.value)" } == ["X-Check: 5"])
    }

    @Test func anAnswerThatEndsWithItsConnectionReachesEveryKindOfClient() throws {
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\n\r\nuntil ")
            try connection.send("the end")
            connection.finishSending()
        }
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for _ in 0..<2 {
            let answer = try connection.ask("GET /x")
            #expect(answer.text == "until the end")
            #expect(answer.isChunked)
        }
        let old = try gateway.connect()
        try old.send("GET /x HTTP/1.0\r\n\r\n")
        let (bytes, end) = old.takeRest()
        #expect(end == .orderly)
        #expect(text(of: bytes).hasSuffix("\r\n\r\nuntil the end"))
        #expect(!text(of: bytes).lowercased().contains("transfer-encoding"))
    }

    @Test func aClientOfHTTP10GetsWhatItUnderstands() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\nX-T: 1\r\n\r\n"))
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        try connection.send("GET /x HTTP/1.0\r\n\r\n")
        let (bytes, end) = connection.takeRest()
        #expect(end == .orderly)
        #expect(text(of: bytes).hasSuffix("\r\n\r\nabcdef"))
        #expect(!text(of: bytes).lowercased().contains("transfer-encoding"))
        #expect(upstream.requests.now[0].startLine == "GET /x HTTP/1.1")
        #expect(upstream.requests.now[0]["Host"] == "127.0.0.1:\(upstream.port)")
    }

    @Test func aClientOfHTTP10ThatAsksForItKeepsItsConnection() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for _ in 0..<3 {
            try connection.send("GET /x HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
            let answer = try connection.answer()
            #expect(answer.text == "ok")
            #expect(answer["Connection"]?.lowercased() == "keep-alive")
        }
    }

    @Test func aConnectionIsKeptUntilEitherSideWantsItClosed() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for _ in 0..<5 { #expect(try connection.ask("GET /x")["Connection"] == nil) }
        let last = try connection.ask("GET /x", ["Connection: close"])
        #expect(last["Connection"] == "close")
        try connection.expectEnd()
        #expect(upstream.connections.now == 1, "the upstream's connection is kept")
    }

    @Test func anUpstreamThatClosesDoesNotCloseTheClientsConnection() throws {
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            throw Fault("closed")
        }
        let gateway = try Gateway(Self.settings(upstream))
        let connection = try gateway.connect()
        for _ in 0..<3 {
            let answer = try connection.ask("GET /x")
            #expect(answer.text == "ok")
            #expect(answer["Connection"] == nil)
        }
        #expect(upstream.connections.now == 3)
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)")
        }
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_ROUTE_NO=\"/no/* upstream=u\""))
        let connection = try gateway.connect()
        var requests = ""
        for number in 0..<100 {
            switch number % 4 {
            case 0: requests += requestHead("GET /\(number)")
            case 1: requests += requestHead("POST /\(number)", length: 3) + "abc"
            case 2: requests += requestHead("POST /\(number)", ["Transfer-Encoding: chunked"]) + "1\r\nx\r\n0\r\n\r\n"
            default: requests += requestHead("GET /no/\(number)")
            }
        }
        try connection.send(requests)
        for number in 0..<100 {
            let answer = try connection.answer()
            if number % 4 == 3 {
                #expect(answer.status == 401)
            } else {
                #expect(answer.text == "/\(number)")
            }
        }
        #expect(connection.isQuiet)
        #expect(upstream.requests.now.count == 75)
    }

    @Test func aClientThatExpectsContinueIsToldToGoOn() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
            try connection.send(request.body)
        }
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_ROUTE_NO=\"/no/* upstream=u\""))
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", ["Expect: 100-continue"], length: 4))
        #expect(text(of: try connection.take(through: "\r\n\r\n")) == "HTTP/1.1 100 Continue\r\n\r\n")
        try connection.send("body")
        let answer = try connection.answer()
        #expect(answer.interim.isEmpty)
        #expect(answer.text == "body")
        #expect(upstream.requests.now[0]["Expect"] == nil)

        // Refused before the body is asked for, and nothing of it is expected any more.
        try connection.send(requestHead("POST /no/x", ["Expect: 100-continue"], length: 4))
        let refusal = try connection.answer()
        #expect(refusal.status == 401)
        #expect(refusal.interim.isEmpty)
    }

    @Test func hintsGoThroughButNotToOldClients() throws {
        let upstream = try Upstream(
            Upstream.saying(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            ))
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask("GET /x")
        #expect(answer.interim.map(\.status) == [103])
        #expect(answer.interim.first?["Link"] == "</a.css>; rel=preload")
        #expect(answer.text == "ok")
        let old = try gateway.connect()
        try old.send("GET /x HTTP/1.0\r\n\r\n")
        #expect(text(of: old.takeRest().bytes).hasPrefix("HTTP/1.1 200"))
    }

    @Test func fieldsOfTheConnectionEndAtTheGateway() throws {
        let upstream = try Upstream(
            Upstream.saying(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-End: 2\r\n\r\nok"
            ))
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask(
            "GET /x",
            [
                "Connection: keep-alive, X-Private, upgrade", "X-Private: 1", "Keep-Alive: 300", "Proxy-Connection: keep-alive",
                "Proxy-Authorization: Basic eDp5", "TE: gzip", "Upgrade: websocket", "X-Public: 2",
            ])
        let request = upstream.requests.now[0]
        for name in ["X-Private", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Upgrade", "Connection", "TE"] {
            #expect(request[name] == nil, "\(name) reached the upstream")
        }
        #expect(request["X-Public"] == "2")
        for name in ["X-Hop", "Keep-Alive", "Upgrade", "Proxy-Authenticate", "Connection"] {
            #expect(answer[name] == nil, "\(name) reached the client")
        }
        #expect(answer["X-End"] == "2")
    }

    @Test func manyClientsAreServedByTwoWorkers() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)")
        }
        let gateway = try Gateway(Self.settings(upstream, "TOLLGATE_WORKERS=2"))
        let port = gateway.port
        let clients = (0..<16).map { client in
            Background {
                let connection = try Connection(port: port)
                for number in 0..<100 {
                    let answer = try connection.ask("GET /\(client)/\(number)")
                    guard answer.text == "/\(client)/\(number)" else { throw Fault("\(client)/\(number) got \(answer.text)") }
                }
                return true
            }
        }
        for client in clients { #expect(try client.value()) }
        #expect(upstream.requests.now.count == 1_600)
        #expect(try gateway.metric("tollgate_http_requests_total", #"route="all""#) == 1_600)
    }
}
