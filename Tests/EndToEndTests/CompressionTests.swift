import Foundation
import TestThreads
import Testing

/// Compressed answers as curl and a browser read them.
@Suite(.ownThread) struct CompressionTests {
    private static let rows = (0..<300).map { #"{"id":\#($0),"text":"a passage","tier":"\#($0 % 3 == 0 ? "premium" : "free")"}"# }
    private static let list = "[\(rows.joined(separator: ","))]"
    private static let free = "[\(rows.filter { $0.contains("free") }.joined(separator: ","))]"

    private static func gateway(_ upstream: Upstream, _ more: String = "") throws -> Gateway {
        try Gateway(
            """
            TOLLGATE_LISTEN="127.0.0.1:0;h2c"
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_LIST="/list upstream=u auth=optional filter=tier"
            TOLLGATE_ROUTE_ALL="/all upstream=u auth=none compress=on"
            TOLLGATE_ROUTE_PLAIN="/plain upstream=u auth=none"
            TOLLGATE_ROUTE_PAGE="/page upstream=u auth=none"
            \(more)
            """)
    }

    private static let script: Upstream.Script = { request, connection in
        let (type, content) = request.target == "/page" ? ("text/html", "<!doctype html><title>x</title>") : ("application/json", list)
        let head = "HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nETag: \"v1\"\r\nContent-Length: \(content.utf8.count)\r\n\r\n"
        try connection.send(request.method == "HEAD" ? head : head + content)
    }

    @Test func curlReadsEachCodingOverBothProtocols() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Self.gateway(upstream)
        for version in ["--http1.1", "--http1.0", "--http2-prior-knowledge"] {
            for coding in ["zstd", "br", "gzip", "deflate"] {
                for (path, content) in [("/list", Self.free), ("/all", Self.list), ("/plain", Self.list)] {
                    let isCompressed = coding != "deflate" && path != "/plain"
                    let arguments = ["-sS", version, "--compressed", "-H", "Accept-Encoding: \(coding)", "-D", "/dev/stderr"]
                    let got = try run("curl", arguments + ["http://127.0.0.1:\(gateway.port)\(path)"])
                    let head = got.complaints.lowercased()
                    let isRight = got.code == 0 && got.output == content && head.contains("content-encoding: \(coding)\r\n") == isCompressed
                    #expect(isRight, "\(version) \(coding) \(path) \(head)")
                    #expect(head.contains("vary: accept-encoding\r\n") == (path != "/plain"), "\(version) \(coding) \(path)")
                }
            }
        }
        // The answer to HEAD has the same fields.
        for path in ["/list", "/all"] {
            let fields = try ["GET", "HEAD"].map { method in
                let answer = try gateway.ask("\(method) \(path)", ["Accept-Encoding: br"])
                return ["Content-Encoding", "ETag", "Content-Length"].map { answer[$0] }
            }
            #expect(fields[0][0] == "br" && fields[0] == fields[1] && fields[0][1]?.hasSuffix("-br\"") == true, "\(path)")
        }
        #expect(try gateway.metric("tollgate_compress_answers_total", "route=\"list\"", "coding=\"zstd\"") == 3)
        #expect(try gateway.metric("tollgate_compress_skipped_total", "route=\"all\"", "reason=\"not_accepted\"") == 3)
    }

    @Test func aBrowserReadsTheCompressedFilteredList() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Self.gateway(upstream)
        let page = try Page(Browser())
        try page.open("http://127.0.0.1:\(gateway.port)/page")
        let answer = try page.run(
            "fetch('/list').then(async (answer) => ({ body: await answer.text(), coding: answer.headers.get('content-encoding') }))")
        #expect(answer["body"].text == Self.free && ["gzip", "br", "zstd"].contains(answer["coding"].text))
    }

    @Test func offIsOff() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Self.gateway(upstream, "TOLLGATE_COMPRESS=off")
        let answer = try gateway.ask("GET /list", ["Accept-Encoding: gzip"])
        #expect(answer.text == Self.free && answer["Content-Encoding"] == nil)
    }
}
