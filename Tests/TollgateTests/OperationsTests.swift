import Accounts
import Credentials
import Issuers
import System
import Telemetry
import Testing
import Wire
import Workbench

@testable import Admin
@testable import Gate
@testable import Mail
@testable import tollgate

/// The operations of the admin API on the gateway itself, request by request.
@Suite struct OperationsTests {
    /// The API's own operations and those on the gateway.
    @Test func theWholeTableIsReachedAndDescribed() async throws {
        let bench = try OperationsBench()
        let (all, text) = (bench.api.operations, await bench.ask("GET openapi.json").text)
        #expect(Set(all.map(\.name)).count == all.count && Set(all.map { "\($0.method) \($0.path)" }).count == all.count)
        #expect(text.ranges(of: #""operationId":"#).count == all.count)
        for operation in all {
            let path = operation.path.split(separator: "/").map { $0.hasPrefix("{") ? "x" : String($0) }.joined(separator: "/")
            let found = try AdminOperation.find(bench.request("\(operation.method) \(path)"), in: all).operation
            #expect(
                found.name == operation.name && text.contains(#""operationId":"\#(operation.name)""#),
                "\(operation.method) \(operation.path)")
            #expect(!operation.about.isEmpty && (operation.body == nil || operation.method != "GET"), "\(operation.name)")
        }
        let names = OpenAPIDocument.schemas(of: all, tiers: []).map(\.name)
        #expect(Set(names).count == names.count)
        #expect(Set(text.matches(of: /"#\/components\/schemas\/([A-Za-z]+)"/).map { String($0.1) }) == Set(names))
        #expect(text.ranges(of: #""type":"integer""#).count == text.ranges(of: #""type":"integer","minimum":"#).count)
    }

    /// A new operation is added here.
    @Test func aTokenWithAScopeOpensItsOperationsAlone() async throws {
        let bench = try OperationsBench()
        let operations = bench.api.operations.dropFirst(AdminOperation.own.count)
        let (open, closed): (Set, Set) = (
            [
                "getKeys", "getLimits", "getConfiguration", "getCache", "listRoutes", "explain", "getSplit", "listMaintenance", "listApps",
                "listCertificates",
            ],
            ["rotateKeys", "purgeCache", "getOutbox", "setSplit", "resetSplit", "setMaintenance", "endMaintenance", "renewCertificate"]
        )
        #expect(Set(operations.map(\.name)) == open.union(closed))
        for scope in AdminScope.allCases {
            var refused: Set<String> = []
            for operation in operations {
                let answer = await bench.ask("\(operation.method) \(operation.path)", "{}", token: "a-token-with-\(scope.rawValue)")
                if answer.status == 403, answer.text.contains(#""code":"FORBIDDEN","#) { refused.insert(operation.name) }
                #expect(answer.status != 401, "\(scope) \(operation.name)")
            }
            #expect(refused == (scope == .gatewayRead ? closed : open.union(closed)), "\(scope)")
        }
        let refused = await bench.ask("POST keys/rotate", token: "a-token-with-users:read").text
        #expect(refused.contains("This needs the admin token, the token for-usersRead"))
    }

    @Test func maintenanceIsSetShownAndEnded() async throws {
        let bench = try OperationsBench()
        let nothing = #"{"maintenance":[]}"#
        #expect(await bench.ask("GET maintenance").text == nothing)
        let body = #"{"until":"2027-01-15T08:00:01Z","message":"Zurück um zehn","allow":["192.0.2.7/24","2001:db8::1"]}"#
        let set = await bench.ask("PUT maintenance/r", body)
        #expect(
            set.text
                == #"{"maintenance":[{"scope":"r","since":"2027-01-15T08:00:00.000Z","until":"2027-01-15T08:00:01.000Z","message":"Zurück um zehn","allow":["192.0.2.0/24","2001:db8::1/128"]}]}"#
        )
        #expect(await bench.ask("PUT maintenance/all", "").text.contains(#"{"scope":"all","since":"2027-01-15T08:00:00.000Z","allow":[]}"#))
        #expect(
            await bench.ask("PUT maintenance/contracts", "{}").text.contains(
                #"{"scope":"contracts","since":"2027-01-15T08:00:00.000Z","allow":[]}"#))
        for scope in ["r", "all", "contracts", "contracts"] { _ = await bench.ask("DELETE maintenance/\(scope)") }
        #expect(await bench.ask("GET maintenance").text == nothing)
        let wrong: [(path: String, body: String, status: Int, text: String)] = [
            ("none", "{}", 404, "No route has this name"), ("r", #"{"until":"2027-01-15T08:00:00Z"}"#, 400, "lie in the future"),
            ("r", #"{"until":"22:00"}"#, 400, "until must be a time"), ("r", #"{"mesage":"x"}"#, 400, "no member mesage"),
            ("r", #"{"message":"a\nb"}"#, 400, "no control characters"), ("r", #"{"message":""}"#, 400, "1 to 500 bytes"),
            ("r", #"{"message":"\#(String(repeating: "é", count: 251))"}"#, 400, "1 to 500 bytes"),
            ("r", #"{"allow":"192.0.2.7"}"#, 400, "a list of strings"), ("r", #"{"allow":["x",1]}"#, 400, "a list of strings"),
            ("r", #"{"allow":["all"]}"#, 400, "is none"), ("r", "[]", 400, "JSON object"),
        ]
        for (path, body, status, text) in wrong {
            let answer = await bench.ask("PUT maintenance/\(path)", body)
            #expect(answer.status == status && answer.text.contains(text), "\(body): \(answer.text)")
        }
        #expect(await bench.ask("GET maintenance").text == nothing)
    }

    /// Days are added up, and users who came on two of them count once.
    @Test func theCensusOfAppsIsShown() async throws {
        func use(_ day: Int64, _ gate: String, _ version: String, _ requests: UInt64, users: Range<UInt64>) -> AppUse {
            var sketch = UserSketch()
            for user in users { sketch.add(user &* 0x9E37_79B9_7F4A_7C15) }
            return AppUse(AppUse.Key(day: day, gate: gate, version: version), requests: requests, users: sketch)
        }
        let uses = [
            use(1, "ios", "4.2", 3, users: 0..<3), use(2, "ios", "4.2", 4, users: 1..<4), use(2, "-", "none", 9, users: 0..<1),
            use(2, "android", "4.2", 7, users: 0..<7),
        ]
        let bench = try OperationsBench { $0.uses = uses }
        let rows = [
            #"{"gate":"-","version":"none","requests":9,"users":1}"#, #"{"gate":"android","version":"4.2","requests":7,"users":7}"#,
            #"{"gate":"ios","version":"4.2","requests":7,"users":4}"#,
        ]
        #expect(await bench.ask("GET apps").text == #"{"apps":[\#(rows.joined(separator: ","))]}"#)
        #expect(ShownApps([]).text.hasPrefix("No request of the last seven days") && ShownApps(uses).text.contains("ios"))
    }

    @Test func theRoutesAreListedResolved() async throws {
        let bench = try OperationsBench()
        let text = await bench.ask("GET routes").text
        #expect(text.hasPrefix(#"{"routes":[{"name":"r","#))
        #expect(text.contains(#""endpoints":[{"name":"password-register","mount":"password@/api/v1""#))
        #expect(await bench.ask("HEAD routes").status == 200)
        #expect(await bench.ask("GET routes?x=1").status == 400)
        #expect(await bench.ask("POST explain", #"{"method":"GET"}"#).status == 400)
    }

    @Test func keysAreShownAndRotated() async throws {
        let now = WallTime(seconds: 1_800_000_000)
        var ring = try SigningKeyRing.generate(.ES256, now: now)
        try ring.rotate(to: .ES256, lifetimeSeconds: 100, now: now)
        let expired = try SigningKeyRing.generate(.ES256, now: now)
        var away = KeyStatus(name: "away")
        away.nextFetchAt = WallTime(seconds: 1_800_000_000)
        (away.failures, away.fetches, away.problem) = (3, 3, "https://i/keys: the answer has the status 500")
        let (shown, status) = (ring, away)
        let bench = try OperationsBench("TOLLGATE_TRUST_AWAY=\"issuer=https://i audience=any jwks=https://i/keys\"\n") {
            ($0.ring, $0.keyStatuses, $0.rotation) = (shown, [status], .success(shown))
        }
        let text = await bench.ask("GET keys").text
        let kids = ring.entries.map { $0.key.kid ?? "" }
        #expect(text.hasPrefix(#"{"own":[{"kid":"\#(kids[0])","alg":"ES256","state":"current","created_at":""#))
        #expect(text.contains(#""kid":"\#(kids[1])","alg":"ES256","state":"next""#))
        #expect(
            text.contains(#""state":"retired","created_at":""#)
                && text.contains(#""ends_at":"\#(ISO8601.text(WallTime(seconds: now.seconds + 100)))""#))
        #expect(
            text.hasSuffix(
                #""issuers":[{"name":"away","issuer":"https://i","jwks_url":"https://i/keys","keys":0,"next_fetch_at":"2027-01-15T08:00:00.000Z","fetches":3,"failures":3,"last_fault":"https://i/keys: the answer has the status 500"}]}"#
            ))
        let rotated = await bench.ask("POST keys/rotate")
        #expect(rotated.status == 200 && rotated.text.hasPrefix(#"{"own":[{"kid":"\#(kids[0])""#))
        for (refusal, status, says) in [
            (RotationRefusal.secret, 409, "TOLLGATE_JWT_SECRET"), (.underWay, 409, "Another rotation"),
            (.failed("no disk"), 503, "no disk"),
        ] {
            let bench = try OperationsBench { ($0.ring, $0.rotation) = (expired, .failure(refusal)) }
            let answer = await bench.ask("POST keys/rotate")
            #expect(answer.status == status && answer.text.contains(says))
        }
        #expect(await bench.ask("GET keys/rotate").status == 405)
        #expect(try await OperationsBench().ask("GET keys").text == #"{"own":[],"issuers":[]}"#)
    }

    @Test func limitsAndTheirRedisAreShown() async throws {
        let hot = HotKey(
            key: LimitedKey(route: "r", policy: "r", limit: "5/m", by: .session, issuer: "tollgate", key: "ada\"<b>"), refused: 7)
        let settings =
            "TOLLGATE_UPSTREAM_V=http://v\nTOLLGATE_ROUTE_L=\"/l upstream=v limit=9/m limit=5/m+by=address shadow=limit\"\n"
            + "TOLLGATE_RATE_LIMIT_FAILURE=open\nREDIS_URL=redis://127.0.0.1:1\n"
        let bench = try OperationsBench(settings) {
            $0.hottest = [hot]
            $0.checks.add("redis", .degraded, "down")
        }
        let text = await bench.ask("GET limits").text
        #expect(
            text.contains(
                #"{"route":"l","policy":"l.2","limit":"5/m+by=address","key":"address","failure":"open","shadow":true}],"hottest_since":""#)
        )
        #expect(
            text.contains(
                #""hottest":[{"route":"r","policy":"r","limit":"5/m","by":"session","key":"ada\"<b>","kind":"user","issuer":"tollgate","refused":7}]"#
            ))
        #expect(text.hasSuffix(#""redis":{"configured":true,"topology":"one server","state":"degraded","reason":"down"}}"#))
        #expect(try await OperationsBench().ask("GET limits").text.hasSuffix(#""hottest":[],"redis":{"configured":false}}"#))
    }

    @Test func theConfigurationIsShown() async throws {
        let time = WallTime(seconds: 1_800_000_000)
        let bench = try OperationsBench("TOLLGATE_LOG=error\n") {
            $0.loads = LoadHistory.State(loadedAt: time, version: 2, lastReload: LoadHistory.Reload(at: time, faults: ["a.env:3: no"]))
        }
        let text = await bench.ask("GET configuration").text
        #expect(text.hasPrefix(#"{"loaded_at":"2027-01-15T08:00:00.000Z","version":2,"settings":[{"name":""#))
        #expect(text.contains(#"{"name":"TOLLGATE_LOG","value":"error","source":"a.env:1","secret":false,"restart":"#))
        #expect(text.contains(#"{"name":"TOLLGATE_ADMIN_TOKEN","value":null,"source":"default","secret":true,"restart":"#))
        #expect(text.hasSuffix(#"],"last_reload":{"at":"2027-01-15T08:00:00.000Z","ok":false,"faults":["a.env:3: no"],"warnings":[]}}"#))
    }

    private func message(_ channel: String, _ to: String, _ body: OutgoingMessage.Body, _ secret: MessageSecret) -> OutboxEntry {
        OutboxEntry(
            OutgoingMessage(id: "id", kind: channel, recipient: to, body: body, secret: secret, usefulSeconds: 600),
            at: WallTime(seconds: 1_800_000_000))
    }

    @Test func theNewestMessageOfTheOutboxComesFirst() async throws {
        let folder = try TemporaryFolder()
        let outbox = Outbox(dataDirectory: folder.path)
        let letter = Letter(subject: "Reset", blocks: [.text("Go")], signature: "A")
        try outbox.add(message("reset", "ada@example.org", .mail(letter), .link("https://a.example/reset")))
        try outbox.add(message("sign-in", "+15555550123", .sms("123456"), .code("123456")))
        let settings = "TOLLGATE_DATA_DIR=\(folder.path)\nSMTP_URL=smtp://127.0.0.1:1\nTOLLGATE_MAIL_FROM=a@example.org\n"
        let answer = try await OperationsBench(settings).ask("GET outbox")
        let time = #""at":"2027-01-15T08:00:00.000Z""#
        #expect(
            answer.text == #"{"channels":["sms"],"messages":["#
                + #"{\#(time),"channel":"sms","kind":"sign-in","to":"+15555550123","text":"123456","code":"123456"},"#
                + #"{\#(time),"channel":"mail","kind":"reset","to":"ada@example.org","subject":"Reset","text":"Go\n\n-- \nA\n","#
                + #""link":"https://a.example/reset"}]}"#)
    }

    @Test func anOutboxThatCannotBeReadIsSaid() async throws {
        let folder = try TemporaryFolder()
        try FileBytes.makeDirectory(folder.path + "/outbox.jsonl", mode: 0o700)
        let answer = try await OperationsBench("TOLLGATE_DATA_DIR=\(folder.path)\n").ask("GET outbox")
        #expect(answer.status == 503 && answer.text.contains("is a directory"))
    }
}
