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

    @Test(.enabled(if: PythonTools.hasCodingClient)) func aPythonClientReadsEachCodingOverBothProtocols() throws {
        let upstream = try Upstream(Self.script)
        let authority = try CertificateAuthority(Folder())
        try authority.issue("server", "DNS:localhost")
        let gateway = try Self.gateway(
            upstream,
            """
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT=\(authority.folder.file("server.crt"))
            TOLLGATE_TLS_KEY=\(authority.folder.file("server.key"))
            """)
        let script = """
            import sys
            sys.path.insert(0, sys.argv[1])
            import niquests
            for version in ("2", "1.1"):
                with niquests.Session(disable_http3=True, disable_http2=version == "1.1") as session:
                    for coding in ("zstd", "br", "gzip", "zstd, br, gzip"):
                        answer = session.get(sys.argv[2] + "/list", headers={"Accept-Encoding": coding}, verify=sys.argv[3])
                        print(answer.http_version, answer.headers["Content-Encoding"], answer.text == sys.argv[4])
            """
        let outcome = try run(
            PythonTools.python, ["-c", script, PythonTools.alone, "https://localhost:\(gateway.tlsPort)", authority.file, Self.free])
        let expected = ["20", "11"].flatMap { version in ["zstd", "br", "gzip", "zstd"].map { "\(version) \($0) True" } }
        #expect(outcome.output.split(separator: "\n").map(String.init) == expected, "\(outcome.complaints)")
    }

    /// Streams by hundreds that their client does not read and resets, all from one address.
    @Test func aFloodOfOpenStreamsLeavesCompressionToOthers() throws {
        let upstream = try Upstream { request, connection in
            guard request.target == "/all?held" else { return try Self.script(request, connection) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n")
            _ = connection.takeRest()
        }
        let gateway = try Self.gateway(upstream)
        // Of 64 compressors four fifths for one address.
        let share = 52.0
        var memory: [Int] = []
        for round in 1...4 {
            let peers = try (0..<3).map { _ in try HTTP2Peer(port: gateway.port, settings: [(4, 0)], host: 2) }
            for peer in peers {
                for stream in 0..<90 { try peer.ask(2 * stream + 1, "GET", "/all?held", [("accept-encoding", "br")]) }
                var heads = 0
                try peer.take { frame in
                    if frame.type == 1 { heads += 1 }
                    return heads == 90
                }
            }
            // A worker that is late compresses nothing for a moment.
            try eventually("another address has room") {
                try gateway.ask("GET /all", ["Accept-Encoding: gzip"])["Content-Encoding"] == "gzip"
            }
            memory.append(try gateway.residentKiB)
            for peer in peers { for stream in 0..<90 { try peer.send(3, 0, 2 * stream + 1, HTTP2Peer.word(8)) } }
            try eventually("all are over") { try gateway.metric("tollgate_http_requests_in_flight") == 0 }
            let compressed = try gateway.metric("tollgate_compress_answers_total", "coding=\"br\"")
            let others = try gateway.metric("tollgate_compress_skipped_total", "route=\"all\"", "reason=\"busy\"")
            #expect(compressed > 0 && compressed <= share * Double(round) && compressed + others >= 270 * Double(round))
        }
        #expect(memory[3] - memory[0] < 8 * 1_024, "compressors come back: \(memory)")
    }

    @Test func offIsOff() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Self.gateway(upstream, "TOLLGATE_COMPRESS=off")
        let answer = try gateway.ask("GET /list", ["Accept-Encoding: gzip"])
        #expect(answer.text == Self.free && answer["Content-Encoding"] == nil)
    }
}
