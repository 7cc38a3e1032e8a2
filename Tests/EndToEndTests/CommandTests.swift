import Foundation
import TestThreads
import Testing

/// What people and scripts ask of the binary besides serving.
@Suite(.ownThread) struct CommandTests {
    @Test func everyCommandExplainsItself() throws {
        let commands = [
            ["serve"], ["check"], ["explain"], ["token", "mint"], ["token", "inspect"], ["keys", "list"], ["keys", "rotate"],
            ["keys", "jwks"], ["user", "list"], ["user", "show"], ["user", "create"], ["user", "set-tier"], ["user", "revoke"],
            ["user", "delete"], ["actor", "grant"], ["actor", "revoke"], ["pin"], ["outbox"], ["echo"], ["settings"],
            ["purchases", "list"], ["purchases", "show"], ["purchases", "sync"], ["purchases", "replay"],
        ]
        let all = try Tollgate.run(["--help"])
        #expect(all.code == 0)
        for command in commands {
            let help = try Tollgate.run(command + ["--help"])
            #expect(help.code == 0, "\(command)")
            #expect(help.output.contains(command.joined(separator: " ")))
            #expect(all.output.contains(command.joined(separator: " ")))
        }
        for wrong in [[], ["serv"], ["check", "--nonsense"], ["token", "mint"], ["explain", "GET"], ["echo"]] {
            let outcome = try Tollgate.run(wrong)
            #expect(outcome.code == 2, "\(wrong)")
            #expect(outcome.output.isEmpty)
            #expect(!outcome.complaints.isEmpty)
        }
        #expect(try Tollgate.run(["serv"]).complaints.contains("serve"))
        #expect(try JSON(Tollgate.run(["settings", "--json"]).output).array.count > 20)
    }

    /// Position-independent, nothing writable executable, and all tables of the loader read-only before the first request (full RELRO).
    @Test func theProgramIsHardened() throws {
        let program = try Tollgate.binary.get()
        let (dynamic, segments) = (
            try mustRun("readelf", ["--wide", "--dynamic", program]), try mustRun("readelf", ["--wide", "--segments", program])
        )
        #expect(
            dynamic.contains("BIND_NOW") && dynamic.contains(/FLAGS_1.* NOW/) && dynamic.contains(/FLAGS_1.* PIE/)
                && segments.contains("GNU_RELRO"))
        let stack = segments.split(separator: "\n").first { $0.contains("GNU_STACK") } ?? ""
        #expect(stack.contains(" RW ") && !segments.contains(" RWE "))
    }

    @Test func checkPrintsTheRoutes() throws {
        let folder = try Folder()
        let file = try folder.write(
            "a.env",
            "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_CONTRACTS=\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9\nTOLLGATE_ROUTE_FEED=\"GET,HEAD api.test/feed/* upstream=u auth=optional limit=free:60/m,premium:600/m filter=tier filter-unlabelled=premium strip=/feed\"\n"
        )
        let plain = try Tollgate.run(["check", "--env-file", file])
        #expect(plain.code == 0)
        for word in ["feed", "GET,HEAD", "api.test/feed/*", "optional", "http://127.0.0.1:9"] { #expect(plain.output.contains(word)) }
        let json = try JSON(Tollgate.run(["check", "--json", "--env-file", file]).output)
        #expect(json["ok"].bool == true)
        #expect(json["routes"][0]["path"].text == "/feed/*")
        #expect(json["routes"][0]["methods"].array.compactMap(\.text) == ["GET", "HEAD"])
        let filter = json["routes"][0]
        #expect(
            filter["filter"].array.compactMap(\.text) == ["tier"] && filter["filter_unlabelled"].text == "premium"
                && filter["strip"].text == "/feed")
        let bad = try folder.write("b.env", "TOLLGATE_ROUTE_FEED=\"/feed\"\nTOLLGATE_CONTRACTS=\n")
        let faults = try Tollgate.run(["check", "--json", "--env-file", bad])
        #expect(faults.code == 2)
        #expect(try JSON(faults.output)["ok"].bool == false)
    }

    @Test func explainSaysWhatReallyHappens() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_JWT_SECRET=\(String(repeating: "s", count: 40))
            TOLLGATE_INTERNAL_HERE="cidr=127.0.0.0/8"
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_OPEN="GET,HEAD /open/* upstream=u auth=none"
            TOLLGATE_ROUTE_MAYBE="/maybe/* upstream=u auth=optional"
            TOLLGATE_ROUTE_MUST="/must/* upstream=u limit=1000/s"
            TOLLGATE_ROUTE_PREMIUM="/premium upstream=u tier=premium"
            TOLLGATE_ROUTE_CLAIMS="/claims upstream=u claims=role=editor"
            TOLLGATE_ROUTE_INSIDE="/inside upstream=u auth=internal"
            """)
        let expired = try IssuerKey(.hs256(secret: String(repeating: "s", count: 40)))
            .token(#"{"iss":"http://localhost:8000","aud":"tollgate","sub":"ada","exp":\#(unixNow - 100)}"#)
        let tokens: [String?] = [
            nil, String(try gateway.bearer("--sub", "ada").dropFirst(22)),
            String(try gateway.bearer("--sub", "eva", "--tier", "premium", "--claim", "role=editor").dropFirst(22)), expired, "a.b.c",
        ]
        let requests = [
            "GET /open/x", "POST /open/x", "GET /maybe/x?y=z", "GET /must/x", "GET /premium", "GET /claims", "GET /inside", "GET /none",
            "GET /open/../must/x", "GET /must/%2e%2e/open/x", "GET /open/%2F", "GET /..", "DELETE /open/x", "GET //open///x",
        ]
        let connection = try gateway.connect()
        for request in requests {
            for token in tokens {
                let words = request.split(separator: " ").map(String.init)
                let explained = try gateway.command(["explain"] + words + (token.map { ["--token", $0] } ?? []) + ["--json"])
                #expect(explained.code == 0)
                let json = try JSON(explained.output)
                let real = try connection.ask(request, token.map { ["Authorization: Bearer \($0)"] } ?? [])
                #expect(json["passes"].bool == (real.status == 200), "\(request) \(token ?? "-")")
                #expect((json["status"].int ?? 200) == real.status, "\(request) \(token ?? "-")")
                if real.status != 200, let body = try? JSON(real.text) {
                    #expect(json["code"].text == body["error"]["code"].text ?? body["code"].text)
                }
            }
        }
        let plain = try gateway.command(["explain", "GET", "http://test/must/x", "--from", "192.0.2.1"])
        #expect(plain.code == 0)
        #expect(plain.output.contains("401"))
    }

    @Test func tokensAreMintedAndInspected() throws {
        for algorithm in ["ES256", "EdDSA", "RS256", "HS256"] {
            let upstream = try Upstream()
            let gateway = try Gateway(
                "TOLLGATE_SIGNING_ALGORITHM=\(algorithm)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u\"")
            let minted = try JSON(gateway.command(["token", "mint", "--sub", "ada", "--ttl", "5m", "--json"]).output)
            #expect(minted["algorithm"].text == algorithm)
            let token = try #require(minted["token"].text)
            #expect(try gateway.ask("GET /x", ["Authorization: Bearer \(token)"]).status == 200, "\(algorithm)")
            let good = try gateway.command(["token", "inspect", "-", "--json"], input: token + "\n")
            #expect(good.code == 0)
            let said = try JSON(good.output)
            #expect(said["accepted"].bool == true)
            #expect(said["payload"]["sub"].text == "ada")
            #expect(said["header"]["alg"].text == algorithm)
            let bad = try gateway.command(["token", "inspect", String(token.dropLast(8)) + "AAAAAAAA", "--json"])
            #expect(bad.code == 1)
            #expect(try JSON(bad.output)["reason"].text == "bad_signature")
            #expect(try gateway.command(["token", "inspect", "nonsense"]).code == 1)
        }
        let gateway = try Gateway("")
        #expect(try gateway.command(["token", "mint", "--sub", "ada", "--tier", "gold"]).code == 2)
        #expect(try gateway.command(["token", "mint", "--sub", "ada", "--ttl", "soon"]).code == 2)
        #expect(try gateway.command(["token", "mint", "--sub", "ada", "--claim", "sub=eva"]).code == 2)
    }

    @Test func keysRotateWhileTheGatewayRuns() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u\"")
        var bearers = [try gateway.bearer("--sub", "ada")]
        let connection = try gateway.connect()
        #expect(try connection.ask("GET /x", [bearers[0]]).status == 200)
        let states = { try JSON(gateway.command(["keys", "list", "--json"]).output).array.compactMap { $0["state"].text } }
        #expect(try states().filter { $0 == "current" }.count == 1)
        for _ in 0..<2 {
            #expect(try gateway.command(["keys", "rotate"]).code == 0)
            bearers.append(try gateway.bearer("--sub", "ada"))
            try eventually("the new key is known", seconds: 15) { try connection.ask("GET /x", [bearers.last ?? ""]).status == 200 }
            for bearer in bearers { #expect(try connection.ask("GET /x", [bearer]).status == 200) }
        }
        #expect(Set(bearers.map { $0.prefix(120) }).count == 3, "each was signed by another key")
        #expect(try states().sorted().filter { $0 == "retired" }.count == 2)
        let published = try gateway.ask("GET /.well-known/jwks.json")
        #expect(published.status == 200)
        let printed = try JSON(gateway.command(["keys", "jwks"]).output)
        try eventually("the published keys are those printed") {
            let kids = { (set: JSON) in set["keys"].array.compactMap { $0["kid"].text }.sorted() }
            return try kids(JSON(gateway.ask("GET /.well-known/jwks.json").text)) == kids(printed)
        }
        #expect(printed["keys"].array.count >= 3)
        #expect(!published.text.contains("\"d\""), "no private half is published")
    }

    @Test func echoAnswersWithWhatItReceived() throws {
        let echo = try Subprocess(Tollgate.binary.get(), ["echo", "--listen", "127.0.0.1:0"])
        let line = try echo.output.wait(for: "echo's address", until: { !$0.isEmpty })[0]
        let port = try #require(Int(line.split(separator: ":").last ?? ""))
        let connection = try Connection(port: port)
        let answer = try JSON(connection.ask("POST /a/b?c=d", ["X-A: 1", "x-a: 2"], body: Array("hello".utf8)).text)
        #expect(answer["method"].text == "POST")
        #expect(answer["path"].text == "/a/b")
        #expect(answer["query"].text == "c=d")
        #expect(answer["headers"]["x-a"].text == "1, 2")
        #expect(answer["body"].text == "hello")
        #expect(answer["body_bytes"].int == 5)
        echo.signal(SIGTERM)
        #expect(try echo.exitCode(seconds: 20) == 0)
    }

    @Test func theDevelopmentConfigurationIsGood() throws {
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let outcome = try Tollgate.run(["check", "--env-file", root.path + "/config/development.env"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
    }
}
