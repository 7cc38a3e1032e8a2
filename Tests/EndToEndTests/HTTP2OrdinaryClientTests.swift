import Foundation
import TestThreads
import Testing

/// Clients as people use them, also impatient ones, stay below the bounds of HTTP/2: no connection of theirs is ended.
@Suite(.ownThread) struct HTTP2OrdinaryClientTests {
    private static let script: Upstream.Script = { request, connection in
        switch request.target {
        case "/slow": _ = connection.takeRest()
        case "/big":
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            try connection.send([UInt8](repeating: 1, count: 1_000_000))
        case "/page":
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n<title>hi</title>.")
        default: try Upstream.ok(request, connection)
        }
    }

    private func expectNoneEnded(_ gateway: Gateway) throws {
        #expect(try gateway.metric("tollgate_http2_connections_ended_total") == 0)
    }

    @Test func h2loadAndNghttp() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let folder = try Folder()
        try folder.write("content", String(repeating: "x", count: 100_000))
        let base = "http://127.0.0.1:\(gateway.port)"
        let loads: [[String]] = [
            ["-n", "5000", "-c", "10", "-m", "100", "\(base)/x"], ["-n", "200", "-c", "2", "-m", "50", "\(base)/big"],
            ["-n", "200", "-c", "2", "-m", "50", "-d", folder.file("content"), "\(base)/x"],
            // Windows of 1 KiB.
            ["-n", "50", "-c", "1", "-m", "10", "-w", "10", "-W", "10", "\(base)/big"],
        ]
        for load in loads {
            let outcome = try run("h2load", load)
            #expect(outcome.output.contains(" 0 failed, 0 errored"), "\(load): \(outcome.output)")
        }
        let outcome = try run("nghttp", ["-n", "-m", "100", "-w", "14", "\(base)/big"])
        #expect(outcome.code == 0)
        try expectNoneEnded(gateway)
    }

    @Test func curlInParallelThatGivesUp() throws {
        let upstream = try Upstream(Self.script)
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let urls = (0..<60).flatMap { ["-o", "/dev/null", "http://127.0.0.1:\(gateway.port)/\($0 % 2 == 0 ? "slow" : "x")"] }
        for _ in 0..<3 {
            _ = try run("curl", ["-sS", "--http2-prior-knowledge", "--parallel", "--parallel-max", "60", "--max-time", "0.5"] + urls)
        }
        try expectNoneEnded(gateway)
    }

    @Test func aBrowserThatFetchesInParallelAndCancels() throws {
        let (upstream, folder) = (try Upstream(Self.script), try Folder())
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost")
        let gateway = try Gateway(
            HTTP2Tests.settings(upstream) + """

                TOLLGATE_ACCESS_LOG=json
                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT="\(folder.file("one.crt"))"
                TOLLGATE_TLS_KEY="\(folder.file("one.key"))"
                """, folder: folder)
        let page = try Page(try Browser())
        try page.call("Security.setIgnoreCertificateErrors", "\"ignore\":true")
        try page.open("https://localhost:\(gateway.tlsPort)/page")
        let all = "Promise.all(Array.from({length: 300}, (_, n) => fetch(`/x?${n}`).then(answer => answer.text())))"
        #expect(try page.run("\(all).then(texts => texts.filter(text => text === 'ok').length)").number == 300)
        // A page of a hundred images is left; then a search field asks with every key and drops what it asked before.
        let cancelled = { (count: Int, milliseconds: Int) in
            """
            (async () => {
                const controller = new AbortController();
                const all = Array.from({length: \(count)}, () => fetch("/slow", {signal: controller.signal, cache: 'no-store'}).catch(() => 1));
                await new Promise(done => setTimeout(done, \(milliseconds)));
                controller.abort();
                return (await Promise.all(all)).filter(one => one === 1).length;
            })()
            """
        }
        #expect(try page.run(cancelled(100, 3_000)).number == 100)
        for _ in 0..<30 { #expect(try page.run(cancelled(5, 60)).number == 5) }
        #expect(try page.run("fetch('/x').then(answer => answer.text())").text == "ok")
        try expectNoneEnded(gateway)
        let lines = try gateway.accessLog(400)
        #expect(lines.allSatisfy { $0["proto"].text == "HTTP/2" })
        #expect(lines.contains { $0["status"].number == 499 }, "cancelled requests reached the gateway")
    }
}
