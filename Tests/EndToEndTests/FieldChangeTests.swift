import Foundation
import TestThreads
import Testing

/// `request-set=`, `request-remove=`, `response-set=` and `response-remove=`.
@Suite(.ownThread) struct FieldChangeTests {
    private static let route = """
        /* upstream=u auth=optional keep=X-Forwarded-Prefix \
        request-set=X-Channel:a%2C%20b,X-Who:u-{user},X-Tier:{tier},X-Trace:{request-id}/{route},Accept-Language:de,X-Forwarded-Prefix:/v1 \
        request-remove=X-Debug,Cookie \
        response-set=X-Served:{route}/{user},Cache-Control:max-age=60,X-Plain:1 response-remove=Server,X-Secret
        """
    private static let answer = """
        HTTP/1.1 200 OK\r\nServer: u\r\nX-Secret: 1\r\nX_Secret: 2\r\nX-Served: theirs\r\nCache-Control: public\r\n\
        Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Secret: 3\r\nX-Stays: 1\r\n\r\n
        """

    private static func settings(_ url: String, _ route: String = route, _ options: String = "") -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_UPSTREAM_U="\(url) \(options)"
        TOLLGATE_ROUTE_ALL="\(route)"
        TOLLGATE_ROUTE_CLOSED="/closed upstream=u response-set=X-Served:{route}/{user},X-Plain:1,Cache-Control:max-age=60"
        """
    }

    private func fields(_ answer: String, _ name: String) -> [String] {
        answer.split(separator: "\r\n").filter { $0.lowercased().hasPrefix(name + ":") }
            .map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
    }

    @Test(arguments: ["--http1.1", "--http2-prior-knowledge"], [false, true])
    func theyHoldOverBothProtocolsOnBothSides(_ version: String, _ isMultiplexed: Bool) throws {
        let upstream = try Upstream(Upstream.saying(Self.answer))
        // Over HTTP/2 the upstream is another gateway, which changes nothing.
        let back = try Gateway(Self.settings(upstream.url, "/* upstream=u auth=none keep=X-Forwarded-Prefix"))
        let front = try Gateway(
            isMultiplexed ? Self.settings("http://127.0.0.1:\(back.port)", Self.route, "http2=on") : Self.settings(upstream.url))
        func curl(_ path: String, _ fields: [String]) throws -> String {
            let more = (fields + ["X_Debug: 1", "X-Debug: 2", "Cookie: a=b", "x.channel: forged", "X-Tier: forged", "Accept-Language: en"])
                .flatMap { ["-H", $0] }
            return try mustRun("curl", ["-sS", "-i", version] + more + ["http://127.0.0.1:\(front.port)\(path)"])
        }
        let answer = try curl("/x", [front.bearer("--sub", "a,b ü", "--tier", "premium")])
        let request = try #require(upstream.requests.now.last)
        let seen = request.fields.map { (name: $0.name.lowercased().replacing(/[_.]/, with: "-"), value: $0.value) }
        func sent(_ name: String) -> [String] { seen.filter { $0.name == name }.map(\.value) }
        #expect(sent("x-channel") == ["a, b"] && sent("x-who") == ["u-a%2Cb%20%C3%BC"] && sent("x-tier") == ["premium"])
        #expect(sent("accept-language") == ["de"] && sent("x-forwarded-prefix") == ["/v1"])
        #expect(sent("x-debug").isEmpty && sent("cookie").isEmpty)
        #expect(fields(answer, "x-request-id").map { $0 + "/all" } == sent("x-trace"))
        #expect(fields(answer, "x-served") == ["all/a%2Cb%20%C3%BC"] && fields(answer, "cache-control") == ["max-age=60"])
        #expect(fields(answer, "server").isEmpty && fields(answer, "x-secret").isEmpty && fields(answer, "x_secret").isEmpty)
        // Without a user nothing names one, and the client's own is removed all the same.
        let anonymous = try curl("/x", ["X-Who: forged"])
        let other = try #require(upstream.requests.now.last)
        #expect(other["X-Who"] == nil && other["X-Tier"] == nil && fields(anonymous, "x-served").isEmpty)
        #expect(fields(anonymous, "x-plain") == ["1"])
        // A refusal has the route's fields, and no cache keeps it.
        let refusal = try curl("/closed", [])
        #expect(fields(refusal, "x-plain") == ["1"] && fields(refusal, "cache-control") == ["no-store"])
        #expect(refusal.contains(" 401") && fields(refusal, "x-served").isEmpty)
    }

    @Test func trailersOfRemovedNamesArriveOnNeitherSide() throws {
        let upstream = try Upstream(Upstream.saying(Self.answer))
        let gateway = try Gateway(Self.settings(upstream.url))
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", ["Transfer-Encoding: chunked", "TE: trailers"]) + "0\r\nX-Channel: forged\r\n\r\n")
        #expect(try connection.answer().trailers.map(\.name) == ["X-Stays"])
        #expect(upstream.requests.now.last?.trailers.isEmpty == true)
    }
}
