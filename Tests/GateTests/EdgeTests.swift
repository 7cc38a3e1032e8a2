import HTTP
import Testing
import Wire

@testable import Gate

/// Routes that are retired, closed for maintenance, or ask for the version of the app.
@Suite struct EdgeTests {
    @Test func versionsAreComparedByTheirNumbers() {
        let ordered = ["0", "1", "4.2", "4.9", "4.10", "4.10.0.1", "5", "20261127103000", "18446744073709551615"]
        let versions = ordered.map { AppVersion($0) }
        #expect(versions.allSatisfy { $0 != nil } && versions.compactMap(\.self).sorted() == versions.compactMap(\.self))
        let equal = [
            ["4.2", "4.2.0", "v4.2", "V4.2", "4.2-beta.7", "4.2+build.9", "04.002"], ["4", "4.0.0.0.0.0.0.0", "v4-"],
            ["99999999999999999999", "18446744073709551615"],
        ]
        #expect(equal.allSatisfy { Set($0.map { AppVersion($0) }).count == 1 })
        let none = [
            "", "v", ".", "4.", ".4", "4..2", "4.2beta", "4,2", "-4", "4 2", " 4", "4.2.1.0.0.0.0.0.1", "４", "vv4", "\u{0}",
            "1" + String(repeating: "0", count: 128),
        ]
        #expect(none.filter { AppVersion($0) != nil } == [])
        #expect(["4", "v4.2.0", "4.2.1-x", "0.0"].map { AppVersion($0)?.text } == ["4.0", "4.2", "4.2.1", "0.0"])
    }

    @Test func anyBytesAreAVersionOrNone() {
        var random = SplitMix64(seed: 37)
        let alphabet = Array("0123456789..vV-+x \0\u{FF}".utf8)
        var found = 0
        for round in 0..<20_000 as Range<UInt64> {
            let count = random.next() % (round % 20 == 0 ? 200 : 8)
            let bytes = (0..<count).map { _ in alphabet[Int(random.next() % UInt64(alphabet.count))] }
            guard let version = AppVersion(bytes.rawBytes) else { continue }
            found += 1
            #expect(AppVersion(version.text) == version)
        }
        #expect(found > 1_000)
    }

    // MARK: gates

    private static func harness(_ app: AppMode, shadow: ShadowSet = []) throws -> AdmissionHarness {
        var ios = VersionGate(name: "ios")
        (ios.least, ios.warned, ios.url) = (AppVersion("4.2"), AppVersion("4.5"), "https://apps.test/ios")
        ios.platform = VersionGate.Platform(field: "X-App-Platform", value: "ios")
        var android = ios
        (android.name, android.least, android.warned, android.url) = ("android", AppVersion("7"), nil, nil)
        android.platform?.value = "android"
        var rule = GateTests.rule("api", "/*", auth: .none)
        (rule.app, rule.shadow, rule.cors) = (app, shadow, CORSRule(.any))
        return AdmissionHarness(try Policy(rules: [rule], trust: AdmissionHarness.trust(), versionGates: [ios, android]))
    }

    @Test(arguments: [AppMode.optional, .required])
    func theFirstGateOfThePlatformDecides(_ app: AppMode) throws {
        let harness = try Self.harness(app)
        let old = "426 APP_UPDATE_REQUIRED", none = app == .required ? old : "0 ", warned = "0 X-App-Update: recommended; min=4.5"
        let cases: [(fields: [String], expected: String)] = [
            (["X-App-Platform: ios", "X-App-Version: 4.1.9"], old), (["X-App-Platform: iOS", "x-app-version: 4.2"], warned),
            (["X-App-Platform: ios", "X-App-Version: v4.5-rc1"], "0 "), (["X-App-Platform: ios", "X-App-Version: 4.10"], "0 "),
            (["X-App-Platform: android", "X-App-Version: 4.10"], old), (["X-App-Platform: android", "X-App-Version: 7.0.1"], "0 "),
            (["X-App-Platform: ios"], none), (["X-App-Platform: ios", "X-App-Version: latest"], none),
            (["X-App-Platform: ios", "X-App-Version: 4.5", "X-App-Version: 9"], none), (["X-App-Platform: web", "X-App-Version: 1"], none),
            (["X-App-Platform: ios", "X-App-Platform: android", "X-App-Version: 9"], none), (["X-App-Version: 9"], none), ([], none),
        ]
        for (fields, expected) in cases {
            let judged = harness.ask((["GET /x HTTP/1.1", "Host: h"] + fields).joined(separator: "\n"))
            let update = judged.answerLines.first { $0.hasPrefix("X-App-Update") } ?? ""
            #expect("\(judged.status) \(judged.code)\(update)" == expected, "\(fields)")
        }
        let lines = harness.ask("GET /x HTTP/1.1\nHost: h\nOrigin: https://a.test").answerLines
        #expect(lines.contains { $0.hasSuffix(", X-App-Update") && $0.hasPrefix("Access-Control-Expose-Headers") })
    }

    @Test func aTooOldAppIsToldWhereTheUpdateIs() throws {
        let harness = try Self.harness(.required)
        let policy = harness.admission.policy
        let refusals = [Refusal.appUpdateRequired(gate: 0), .appUpdateRequired(gate: 1), .appUpdateRequired(gate: VersionGate.none)]
        #expect(refusals.map { policy.extras(of: $0).map { "\($0.name)=\($0.value)" } } == [["url=https://apps.test/ios"], [], []])
        #expect(refusals.map { policy.upgradeProtocol(of: $0) } == ["app/4.2", "app/7.0", "app"])
        #expect(GRPCStatus(refusals[0]) == .failedPrecondition && policy.upgradeProtocol(of: .gone) == nil)
        let judged = harness.ask("GET /x HTTP/1.1\nHost: h\nX-App-Platform: ios\nX-App-Version: 4.1")
        #expect(judged.verdict == .refuse(refusals[0]))
        let step = judged.explanation.steps.first { $0.name == "app" }?.text
        #expect(step == "version 4.1, gate ios: at least 4.2 is needed, app=required")
        #expect(judged.explanation.steps.map(\.name) == ["client", "path", "route", "cors", "app", "verdict"])
    }

    /// An update does not help an app that does not say which one it is.
    @Test func aRequestWithoutAVersionIsToldWhichFieldToSend() throws {
        let harness = try Self.harness(.required)
        for (fields, sentence) in [
            ("X-App-Platform: ios", "The request must name the version of the app in X-App-Version, like 4.2."),
            ("X-App-Platform: ios\nX-App-Version: latest", "The request must name the version of the app in X-App-Version, like 4.2."),
            ("X-App-Version: 9", "The request must name a known platform of the app in X-App-Platform."),
            ("X-App-Platform: ios\nX-App-Version: 4.1", "This version of the app is too old. Install the update."),
        ] {
            let judged = harness.ask("GET /x HTTP/1.1\nHost: h\n" + fields)
            #expect(judged.explanation.step("verdict") == "refused: 426 APP_UPDATE_REQUIRED, \(sentence)", "\(fields)")
        }
    }

    @Test func shadowModeCountsAndLetsPass() throws {
        let harness = try Self.harness(.required, shadow: .app)
        for fields in ["", "\nX-App-Platform: ios\nX-App-Version: 1"] {
            let judged = harness.ask("GET /x HTTP/1.1\nHost: h" + fields)
            #expect(judged.status == 0 && judged.shadowed == .app)
        }
        #expect(harness.ask("GET /x HTTP/1.1\nHost: h\nX-App-Platform: ios\nX-App-Version: 5").shadowed == [])
    }

    // MARK: maintenance

    private static func closed(_ all: [Maintenance], _ change: (inout RouteRule) -> Void = { _ in }) throws -> AdmissionHarness {
        var rule = GateTests.rule("api", "/*", auth: .required)
        (rule.maintenance, rule.cors) = (all, CORSRule(.any))
        change(&rule)
        return try AdmissionHarness(
            [rule], internals: [InternalCaller(name: "cron", keySHA256: InternalCaller.digest(hex: Self.keyDigest))])
    }
    /// Of `secret`.
    private static let keyDigest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

    /// A page of another origin may send the fields that the route asks for.
    @Test func aPreflightAllowsTheFieldsOfTheAppAndTheKey() throws {
        var rule = GateTests.rule("api", "/*", auth: .requiredOrKey)
        rule.cors = CORSRule(.any)
        rule.app = .required
        var gate = VersionGate(name: "ios")
        gate.platform = VersionGate.Platform(field: "X-App-Platform", value: "ios")
        let policy = try Policy(rules: [rule], trust: AdmissionHarness.trust(), versionGates: [gate])
        let asked = AdmissionHarness(policy).ask(
            "OPTIONS /x HTTP/1.1\nHost: h\nOrigin: https://a.test\nAccess-Control-Request-Method: GET")
        let allowed = try #require(asked.answerLines.first { $0.hasPrefix("Access-Control-Allow-Headers: ") })
        #expect(allowed.hasSuffix(", X-App-Version, X-App-Platform, X-Api-Key"))
    }

    /// Before the token, and with the fields by which pages of other origins read the answer.
    @Test func aClosedRouteAnswers503UntilItsEnd() throws {
        let end = WallTime(microseconds: AdmissionHarness.now.wall.microseconds + 90_500_000)
        let harness = try Self.closed([Maintenance(until: end, message: "Back at ten.")])
        let judged = harness.ask("GET /x HTTP/1.1\nHost: h\nOrigin: https://a.test\nAuthorization: Bearer nonsense")
        #expect(judged.status == 503 && judged.code == "MAINTENANCE" && judged.headers == ["Retry-After: 91"])
        #expect(judged.answerLines.contains("Access-Control-Allow-Origin: *") && judged.auth == .notLooked)
        #expect(judged.explanation.steps.last?.text == "refused: 503 MAINTENANCE, Back at ten.")
        let preflight = harness.ask("OPTIONS /x HTTP/1.1\nHost: h\nOrigin: https://a.test\nAccess-Control-Request-Method: GET")
        #expect(preflight.verdict == .answer(status: 204))
        for (left, seconds) in [(90_000_000, 1), (90_499_999, 1), (0, 91)] as [(Int64, Int)] {
            harness.now.wall = WallTime(microseconds: AdmissionHarness.now.wall.microseconds + left)
            #expect(harness.ask("GET /x HTTP/1.1\nHost: h").headers == ["Retry-After: \(seconds)"], "\(left)")
        }
        harness.now.wall = end
        #expect(harness.ask("GET /x HTTP/1.1\nHost: h").status == 401)
    }

    @Test func retryAfterIsBounded() throws {
        for (until, seconds) in [(nil, 60), (WallTime(microseconds: .max), 86_400)] as [(WallTime?, Int)] {
            #expect(try Self.closed([Maintenance(until: until)]).ask("GET /x HTTP/1.1\nHost: h").headers == ["Retry-After: \(seconds)"])
        }
    }

    @Test func internalCallersAndAllowedNetworksPass() throws {
        let network = try #require(CIDR(parsing: "198.51.100.0/24"))
        let harness = try Self.closed([Maintenance(), Maintenance(allowed: [network])])
        let alone = try Self.closed([Maintenance(allowed: [network])])
        let cases: [(AdmissionHarness, fields: String, from: String, status: UInt16)] = [
            (harness, "", "192.0.2.7", 503), (harness, "\nX-Internal-Key: secret", "192.0.2.7", 401),
            (harness, "\nX-Internal-Key: wrong", "192.0.2.7", 503),
            (harness, "\nX-Internal-Key: secret\nX-Internal-Key: secret", "192.0.2.7", 503), (harness, "", "198.51.100.9", 503),
            (alone, "", "198.51.100.9", 401), (alone, "\nX-Forwarded-For: 198.51.100.9", "192.0.2.7", 503),
        ]
        for (harness, fields, from, status) in cases {
            #expect(harness.ask("GET /x HTTP/1.1\nHost: h" + fields, from: from).status == status, "\(fields) \(from)")
        }
    }

    @Test func theMessageIsTheOperators() throws {
        let policy = try Self.closed([Maintenance(message: "\"Zurück\" um zehn")]).admission.policy
        let refusal = Refusal.maintenance(route: 0, number: 0, retryAfterSeconds: 60)
        var body = ByteBuffer()
        policy.envelopes[.problem].writeBody(refusal, requestID: RawSpan(), message: policy.message(of: refusal), into: &body)
        #expect(body.readable.text.contains(#""detail":"\"Zurück\" um zehn","code":"MAINTENANCE""#))
        var edits = FieldEdits()
        refusal.addFields(policy, in: .grpc, to: &edits)
        #expect(
            edits.http1.text
                == "grpc-status: 14\r\ngrpc-message: \"Zur%C3%BCck\" um zehn\r\ngrpc-retry-pushback-ms: 60000\r\n")
        for other in [
            Refusal.maintenance(route: 9, number: 0, retryAfterSeconds: 1), .maintenance(route: 0, number: 1, retryAfterSeconds: 1), .gone,
        ] {
            #expect(policy.message(of: other) == nil)
        }
    }

    // MARK: sunset

    @Test func aRouteIsGoneFromItsSunsetOn() throws {
        let sunset = WallTime(seconds: AdmissionHarness.now.wall.seconds + 10)
        let harness = try Self.closed([]) { rule in
            (rule.sunset, rule.deprecated, rule.sunsetLink) = (sunset, WallTime(seconds: 1_700_000_000), "https://docs.test/end")
            rule.auth = .none
        }
        #expect(harness.ask("GET /x HTTP/1.1\nHost: h").status == 0)
        harness.now.wall = sunset
        let gone = harness.ask("GET /x HTTP/1.1\nHost: h\nOrigin: https://a.test")
        #expect(gone.status == 410 && gone.code == "GONE" && gone.explanation.steps.map(\.name).suffix(2) == ["sunset", "verdict"])
        #expect(gone.answerLines.contains { $0.hasPrefix("Access-Control-Expose-Headers") && $0.hasSuffix("Deprecation, Sunset, Link") })
        var edits = FieldEdits()
        harness.admission.policy.plans[0].answerFields?.apply(to: &edits, requestID: RawSpan(), user: RawSpan(), tier: "")
        #expect(
            edits.http1.text
                == "Deprecation: @1700000000\r\nSunset: Fri, 15 Jan 2027 08:00:10 GMT\r\nLink: <https://docs.test/end>; rel=\"deprecation\"\r\nLink: <https://docs.test/end>; rel=\"sunset\"\r\n"
        )
        #expect(edits.removesByName && GRPCStatus(.gone) == .unimplemented)
        let (sunsetName, link): (StaticString, StaticString) = ("SUNSET", "link")
        #expect(edits.removes(.other, sunsetName.rawBytes) && !edits.removes(.other, link.rawBytes))
    }
}
