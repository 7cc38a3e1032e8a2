import Accounts
import Credentials
import MemoryStore
import Storage
import Testing
import Wire

@testable import Admin
@testable import Gate

/// People, keys, limits and the configuration in the admin API, request by request.
@Suite struct AdminPeopleTests {
    private static let address = IPAddress(parsing: "192.0.2.7")

    @Test func peopleAreSearched() async throws {
        let bench = try AdminBench(issuers: [SubjectIssuer(name: "django", hasAccounts: false)])
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        _ = try await bench.open("bob@example.org", 2, from: Self.address)
        let found = await bench.ask("GET users?search=ADA%40")
        #expect(found.text.hasPrefix(#"{"users":[{"id":"\#(ada.text)""#) && !found.text.contains("bob") && found.text.hasSuffix(#""complete":true}"#))
        #expect(await bench.ask("GET users?search=\(ada.text)").text.contains("ada@example.org"))
        #expect(await bench.ask("GET users?search=nobody").text == #"{"users":[],"complete":true}"#)
        _ = await bench.ask("PUT users/django:42/tier", #"{"tier":"premium"}"#)
        #expect(await bench.ask("GET users?search=django%3A42").text.contains(#""tier":"premium""#))
        #expect(await bench.ask("GET users?search=rails%3A42").text == #"{"users":[],"complete":true}"#)
        for query in ["search=", "search=%20", "search=a%0Ab", "search=" + String(repeating: "a", count: 255), "search=%ff"] {
            #expect(await bench.ask("GET users?\(query)").status == 400, "\(query)")
        }
    }

    @Test func aSessionShowsAddressAndEnd() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        let text = await bench.ask("GET users/\(ada.text)").text
        #expect(text.contains(#""device":"phone","address":"192.0.2.7","created_at":""#) && text.contains(#""expires_at":""#))
    }

    @Test func theAuditLogSaysWhoDidWhat() async throws {
        let bench = try AdminBench()
        let ada = try await bench.open("ada@example.org", 1, from: Self.address)
        _ = await bench.ask("PUT users/\(ada.text)/tier", #"{"tier":"premium"}"#)
        let text = await bench.ask("GET audit").text
        #expect(text.contains(#""event":"tier-changed","user":"\#(ada.text)","email":"ada@example.org","actor":"admin-api","detail":"premium"}"#))
        #expect(text.contains(#""event":"account-opened","user":"\#(ada.text)","email":"ada@example.org","session":"\#(UUID(random: (2, 1)).text)","actor":"user","address":"192.0.2.7","detail":"password"}"#))
        #expect(await bench.ask("GET audit?user=\(ada.text)&limit=1").text.components("\"event\"") == 1)
        _ = await bench.ask("DELETE users/\(ada.text)")
        let left = await bench.ask("GET audit?user=\(ada.text)").text
        #expect(left.contains("account-deleted") && !left.contains("192.0.2.7") && !left.contains("ada@"))
        #expect(await bench.ask("GET audit?user=\(UUID(random: (9, 9)).text)").text == #"{"events":[]}"#)
        let bad = [("user=ada", 404), ("before=x", 400), ("limit=0", 400), ("limit=1001", 400), ("since=x", 400)]
        for (query, status) in bad { #expect(await bench.ask("GET audit?\(query)").status == status, "\(query)") }
        #expect(await bench.ask("DELETE audit").status == 405)
    }

    @Test func keysAreShownAndRotated() async throws {
        let now = WallTime(seconds: 1_800_000_000)
        var ring = try SigningKeyRing.generate(.ES256, now: now)
        try ring.rotate(to: .ES256, lifetimeSeconds: 100, now: now)
        let expired = try SigningKeyRing.generate(.ES256, now: now)
        var away = OutsideKeys(name: "away", issuer: "https://i", keys: 0)
        away.url = "https://i/keys"
        away.nextFetchAt = WallTime(seconds: 1_800_000_000)
        away.failures = 3
        away.fetches = 3
        away.lastFault = "https://i/keys: the answer has the status 500"
        let shown = ring
        let bench = try AdminBench(AdminBench.controls(ring: ring, outside: [away], rotate: { () throws(RotationRefusal) -> SigningKeyRing in shown }))
        let text = await bench.ask("GET keys").text
        let kids = ring.entries.map { $0.key.kid ?? "" }
        #expect(text.hasPrefix(#"{"own":[{"kid":"\#(kids[0])","alg":"ES256","state":"current","created_at":""#))
        #expect(text.contains(#""kid":"\#(kids[1])","alg":"ES256","state":"next""#))
        #expect(text.contains(#""state":"retired","created_at":""#) && text.contains(#""ends_at":"\#(ISO8601.text(WallTime(seconds: now.seconds + 100)))""#))
        #expect(
            text.hasSuffix(
                #""issuers":[{"name":"away","issuer":"https://i","jwks_url":"https://i/keys","keys":0,"next_fetch_at":"2027-01-15T08:00:00.000Z","fetches":3,"failures":3,"last_fault":"https://i/keys: the answer has the status 500"}]}"#))
        let rotated = await bench.ask("POST keys/rotate")
        #expect(rotated.status == 200 && rotated.text.hasPrefix(#"{"own":[{"kid":"\#(kids[0])""#))
        for (refusal, status, says) in [
            (RotationRefusal.secret, 409, "TOLLGATE_JWT_SECRET"), (.underWay, 409, "Another rotation"), (.failed("no disk"), 503, "no disk"),
        ] {
            let bench = try AdminBench(AdminBench.controls(ring: expired, rotate: { () throws(RotationRefusal) -> SigningKeyRing in throw refusal }))
            let answer = await bench.ask("POST keys/rotate")
            #expect(answer.status == status && answer.text.contains(says))
        }
        #expect(await bench.ask("GET keys/rotate").status == 405)
        #expect(try await AdminBench().ask("GET keys").text == #"{"own":[],"issuers":[]}"#)
    }

    @Test func limitsAndTheirRedisAreShown() async throws {
        let line = LimitLine(route: "r", policy: "r.2", limit: "5/m+by=address", by: "address", failure: "open", isShadowed: true)
        let hot = HotKey(key: LimitedKey(route: "r", policy: "r", limit: "5/m", by: .session, issuer: "tollgate", key: "ada\"<b>"), refused: 7)
        let bench = try AdminBench(
            AdminBench.controls(limits: [line], hottest: [hot], redis: RedisState(topology: "single", state: "degraded", reason: "down")))
        let text = await bench.ask("GET limits").text
        #expect(text.hasPrefix(#"{"policies":[{"route":"r","policy":"r.2","limit":"5/m+by=address","key":"address","failure":"open","shadow":true}],"hottest_since":""#))
        #expect(text.contains(#""hottest":[{"route":"r","policy":"r","limit":"5/m","by":"session","key":"ada\"<b>","kind":"user","issuer":"tollgate","refused":7}]"#))
        #expect(text.hasSuffix(#""redis":{"configured":true,"topology":"single","state":"degraded","reason":"down"}}"#))
        #expect(try await AdminBench().ask("GET limits").text.hasSuffix(#""hottest":[],"redis":{"configured":false}}"#))
    }

    @Test func theConfigurationIsShown() async throws {
        let settings = [
            ShownConfiguration.Setting(name: "TOLLGATE_LOG", value: "info", source: "a.env:3", isSecret: false, needsRestart: false),
            ShownConfiguration.Setting(name: "TOLLGATE_ADMIN_TOKEN", value: nil, source: "default", isSecret: true, needsRestart: false),
        ]
        let time = WallTime(seconds: 1_800_000_000)
        let reload = ShownConfiguration.Reload(at: time, faults: ["a.env:3: no"], warnings: [])
        let bench = try AdminBench(
            AdminBench.controls(configuration: ShownConfiguration(loadedAt: time, version: 2, settings: settings, lastReload: reload)))
        #expect(
            await bench.ask("GET configuration").text
                == #"{"loaded_at":"2027-01-15T08:00:00.000Z","version":2,"settings":[{"name":"TOLLGATE_LOG","value":"info","source":"a.env:3","secret":false,"restart":false},{"name":"TOLLGATE_ADMIN_TOKEN","value":null,"source":"default","secret":true,"restart":false}],"last_reload":{"at":"2027-01-15T08:00:00.000Z","ok":false,"faults":["a.env:3: no"],"warnings":[]}}"#)
    }

    @Test func theNewestMessageOfTheOutboxComesFirst() async throws {
        let time = WallTime(seconds: 1_800_000_000)
        var letter = ShownOutbox.Message(at: time, channel: "mail", kind: "reset", to: "ada@example.org", subject: "Reset", text: "Go")
        letter.link = "https://a.example/reset"
        var sms = ShownOutbox.Message(at: time, channel: "sms", kind: "sign-in", to: "+15555550123", subject: nil, text: "123456")
        sms.code = "123456"
        let shown = ShownOutbox(channels: ["sms"], messages: [letter, sms])
        var controls = AdminBench.controls()
        controls.outbox = { .success(shown) }
        let answer = try await AdminBench(controls).ask("GET outbox")
        #expect(
            answer.text == #"{"channels":["sms"],"messages":["#
                + #"{"at":"\#(ISO8601.text(time))","channel":"sms","kind":"sign-in","to":"+15555550123","text":"123456","code":"123456"},"#
                + #"{"at":"\#(ISO8601.text(time))","channel":"mail","kind":"reset","to":"ada@example.org","subject":"Reset","text":"Go","#
                + #""link":"https://a.example/reset"}]}"#)
    }

    @Test func anOutboxThatCannotBeReadIsSaid() async throws {
        var controls = AdminBench.controls()
        controls.outbox = { .failure(ShownOutbox.Fault("The outbox cannot be read: it is a folder")) }
        let answer = try await AdminBench(controls).ask("GET outbox")
        #expect(answer.status == 503 && answer.text.contains("it is a folder"))
    }
}

extension String {
    /// How often `text` occurs.
    fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}
