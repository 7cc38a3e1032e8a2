import Credentials
import Storage
import System
import Telemetry
import Testing
import Transport
import Wire
import Workbench

@testable import Settings
@testable import tollgate

/// The judgements of `tollgate doctor`: what it says of facts.
@Suite struct DoctorJudgementTests {
    typealias Level = Diagnosis.Level
    private static let now = WallTime(seconds: 1_800_000_000)

    private func levels(_ findings: [Diagnosis]) -> [Level] { findings.map(\.level) }

    // MARK: this machine

    @Test(
        arguments: [
            ([], [], "nothing to compare with"), ([0.4, -1], [Level.ok], "agrees with 0, 1"), ([600], [.fail], "600 s behind of 0"),
            ([-20, -21], [.warn, .warn], "this machine is 20 s ahead of 0"),
            ([-600, 0, 0.5], [.warn], "the clock of 0 is 600 s behind: synchronise it there"),
            ([600, 0, 0], [.warn], "the clock of 0 is 600 s ahead"),
        ] as [([Double], [Level], String)])
    func aClockIsJudgedByTheMajorityOfOthers(_ offsets: [Double], _ expected: [Level], _ text: String) {
        let readings = offsets.enumerated().map { ClockReading(source: "\($0)", offset: $1, uncertainty: 0) }
        let findings = LocalJudgements.clock(readings, skewSeconds: 30)
        #expect(levels(findings) == (expected.isEmpty ? [.ok] : expected) && findings[0].text.contains(text), "\(findings)")
    }

    @Test func aSlowAnswerIsNoWrongClock() {
        #expect(levels(LocalJudgements.clock([ClockReading(source: "a", offset: 4, uncertainty: 3)], skewSeconds: 30)) == [.ok])
        let (start, end) = (
            Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: Self.now),
            Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: WallTime(seconds: Self.now.seconds + 4))
        )
        let reading = ClockReading(source: "a", theirs: Double(Self.now.seconds) + 2, resolution: 1, from: start, to: end)
        #expect(reading.offset == 0 && reading.uncertainty == 2.5 && reading.difference == 0)
    }

    private func certificate(_ days: Int64, from: Int64 = -10, isForHost: Bool = true, chainFault: String? = nil) -> CertificateFacts {
        CertificateFacts(
            path: "a.crt", startsAt: WallTime(seconds: Self.now.seconds + from * 86_400),
            expiresAt: WallTime(seconds: Self.now.seconds + days * 86_400),
            isForHost: isForHost, chainFault: chainFault)
    }

    @Test func certificatesAreJudgedByExpiryChainAndName() {
        func judge(_ facts: CertificateFacts..., host: String? = "api.example.org") -> [Diagnosis] {
            LocalJudgements.certificates(facts, host: host, now: Self.now)
        }
        #expect(levels(judge(certificate(60))) == [.ok])
        #expect(judge(certificate(5)).first?.text.hasPrefix("expires in 5 days") == true && levels(judge(certificate(5))) == [.warn])
        #expect(levels(judge(certificate(0))) == [.fail] && levels(judge(certificate(-1))) == [.fail])
        #expect(levels(judge(certificate(60, from: 1))) == [.fail])
        #expect(levels(judge(certificate(60, chainFault: "unable to get local issuer certificate"))) == [.ok, .warn])
        #expect(levels(judge(certificate(60, isForHost: false))) == [.ok, .fail])
        // Any one of several may have the name, and without https in the public URL none needs it.
        #expect(levels(judge(certificate(60, isForHost: false), certificate(60))) == [.ok, .ok])
        #expect(levels(judge(certificate(60, isForHost: false), host: nil)) == [.ok])
    }

    @Test(arguments: [(0o600, Level.ok), (0o640, .ok), (0o440, .ok), (0o644, .fail), (0o602, .fail), (0o660, .warn)] as [(UInt32, Level)])
    func aFileWithASecretIsForItsOwnerAndGroup(_ mode: UInt32, _ level: Level) {
        #expect(LocalJudgements.secretFile("a", mode: mode).level == level)
    }

    @Test func aFileThatCannotBeSeenIsNamed() {
        #expect(
            LocalJudgements.secretFile("a", mode: nil, reason: "Permission denied").text
                == "cannot be looked at (Permission denied): run doctor as the user of the gateway")
    }

    @Test(
        arguments: [(10, 100_000, Level.fail), (100, 100_000, .warn), (1_000, 1_000_000, .warn), (10_000, 100_000, .ok)]
            as [(UInt64, UInt64, Level)])
    func aFullDiskIsSeenBefore(_ free: UInt64, _ total: UInt64, _ level: Level) {
        #expect(LocalJudgements.space(FileSystemSpace(free: free << 20, total: total << 20), of: "d").level == level)
    }

    @Test(arguments: [
        ("admin-of-the-shop-1", Level.fail), ("x7Gk2", .fail), ("abababababababababab", .fail), ("q8Zr1mVb0Lk3Wd9TyE", .ok),
    ])
    func anAdminTokenIsNotToBeGuessed(_ token: String, _ level: Level) {
        #expect(LocalJudgements.adminToken(Array(token.utf8)).level == level)
    }

    // MARK: settings

    @Test(
        arguments: [
            (
                "TOLLGATE_PUBLIC_URL=https://a.test\nTOLLGATE_TRUSTED_PROXIES=::1\nTOLLGATE_CONTRACTS=\"dlauth@/ password@/api/v1\"",
                ["mail"]
            ),
            ("TOLLGATE_PUBLIC_URL=https://a.test\nTOLLGATE_CONTRACTS=password@/api/v1", ["load balancer"]),
            ("TOLLGATE_CONTRACTS=dlauth@/", []),
            ("TOLLGATE_PUBLIC_URL=https://a.test\nTOLLGATE_LISTEN=127.0.0.1:8000;proxy\nTOLLGATE_CONTRACTS=", []),
            (
                "TOLLGATE_PUBLIC_URL=https://a.test\nTOLLGATE_TRUSTED_PROXIES=::1\nTOLLGATE_CONTRACTS=dlauth@/\nSMTP_URL=smtp://a.test\nTOLLGATE_MAIL_FROM=a@a.test",
                []
            ),
            ("REDIS_URL=redis://h", ["accounts"]), ("REDIS_URL=redis://h\nTOLLGATE_CONTRACTS=", []),
            ("REDIS_URL=redis://h\nDATABASE_URL=sqlite:///a", ["accounts"]), ("REDIS_URL=redis://h\nDATABASE_URL=postgres://h/a", []),
        ] as [(String, [String])])
    func settingsThatDoNotGoTogetherAreWarnedOf(_ text: String, _ subjects: [String]) {
        let findings = LocalJudgements.combinations(load(text + "\n").partial)
        #expect(findings.map(\.subject) == subjects && findings.allSatisfy { $0.level == .warn }, "\(findings)")
    }

    @Test(
        arguments: [
            ("TOLLGATE_PUBLIC_URL=https://gateway.test\nTOLLGATE_MAIL_FROM=\"myexample.org <a@b.test>\"", nil),
            ("TOLLGATE_MAIL_FROM=\"Example <no-reply@example.com>\"", "in TOLLGATE_MAIL_FROM (example.com)"),
            ("TOLLGATE_UPSTREAM_U=\"http://10.0.0.11:9001 timeout=3s\"", "in TOLLGATE_UPSTREAM_U (10.0.0.11:9001)"),
            ("TOLLGATE_UPSTREAM_U=http://10.0.0.11:80", nil),
        ] as [(String, String?)])
    func addressesOfTheExampleFileAreNamed(_ text: String, _ place: String?) {
        let findings = LocalJudgements.examples(load(text + "\n").partial.settings.effective)
        #expect(
            findings.isEmpty == (place == nil)
                && findings.allSatisfy { $0.text == "are those of the example file, \(place ?? ""): write your own" }, "\(findings)")
    }

    @Test func everyAddressThatTheExampleFileSetsIsNamed() throws {
        let findings = LocalJudgements.examples(load(try packageFile("config/production.env.example")).partial.settings.effective)
        #expect(
            findings.count == 1 && ["TOLLGATE_PUBLIC_URL (", "TOLLGATE_UPSTREAM_CONTENT ("].allSatisfy { findings[0].text.contains($0) },
            "\(findings)")
    }

    private func readiness(_ state: Readiness.State = .ready) -> Readiness {
        var readiness = Readiness()
        readiness.add("redis", state, state == .ready ? nil : "away")
        return readiness
    }

    @Test func theRunningGatewayIsComparedWithTheFile() {
        let running = LocalJudgements.Running(version: Version.text, runsSettings: true)
        #expect(levels(LocalJudgements.gateway("a", .success(readiness()), running)) == [.ok, .ok])
        #expect(levels(LocalJudgements.gateway("a", .success(readiness(.degraded)), nil)) == [.warn])
        #expect(levels(LocalJudgements.gateway("a", .success(readiness(.unready)), nil)) == [.fail])
        #expect(levels(LocalJudgements.gateway("a", .failure(ReadinessProbe.Fault(text: "refused")), running)) == [.fail])
        let other = LocalJudgements.Running(version: "0.0.1", runsSettings: false)
        let findings = LocalJudgements.gateway("a", .success(readiness()), other)
        #expect(levels(findings) == [.ok, .warn, .warn] && findings[1].text.contains("runs version 0.0.1"))
        // The settings that differ are named, where the record tells.
        func text(_ names: [String]) -> String {
            let running = LocalJudgements.Running(version: Version.text, runsSettings: false, different: names)
            return LocalJudgements.gateway("a", .success(readiness()), running)[1].text
        }
        #expect(text([]).hasPrefix("runs with other settings than these: reload it"))
        #expect(text(["TOLLGATE_LOG"]).hasPrefix("runs with other settings than these, in TOLLGATE_LOG: reload it"))
        #expect(
            text((1...7).map { "TOLLGATE_ROUTE_\($0)" }).contains(
                "in TOLLGATE_ROUTE_1, TOLLGATE_ROUTE_2, TOLLGATE_ROUTE_3, TOLLGATE_ROUTE_4, TOLLGATE_ROUTE_5 and 2 more: "))
    }

    @Test func descriptorsAreMeasuredByTheSettingThatNeedsThem() {
        var settings = Configuration()
        (settings.maxConnections, settings.maxRequests) = (10_000, 1_000)
        settings.origins["TOLLGATE_MAX_CONNECTIONS"] = .environment
        func judge(_ descriptors: Int) -> Diagnosis {
            LocalJudgements.descriptors(
                LoadLimits(settings, workers: 2, descriptors: descriptors), settings, descriptors: descriptors, isOwn: false)
        }
        #expect(judge(1_048_576).level == .ok)
        let few = judge(1_024)
        #expect(few.level == .warn && few.text.contains("raise the hard limit to 24096"))
        // As much as it says is enough.
        #expect(judge(24_096).level == .ok)
        settings.origins = [:]
        #expect(judge(1_024).level == .ok)
    }

    // MARK: other servers

    @Test(
        arguments: [(200, true, Level.ok), (404, true, .fail), (404, false, .ok), (503, false, .warn), (nil, false, .ok)]
            as [(Int?, Bool, Level)])
    func anUpstreamIsJudgedByItsAnswer(_ status: Int?, _ isHealthCheck: Bool, _ level: Level) {
        #expect(RemoteJudgements.upstream("u", "http://h", status: status, isHealthCheck: isHealthCheck).level == level)
    }

    @Test(arguments: [
        (
            "connect to 127.0.0.1:1: connection refused",
            "cannot be reached: connect to 127.0.0.1:1: connection refused; start it, or correct its address"
        ),
        ("WRONGPASS invalid username-password pair or user is disabled.", "correct user and password in X"),
        ("NOAUTH Authentication required.", "give X its password"),
        ("ERR AUTH <password> called without any password configured", "correct user and password in X"),
        ("FATAL:  password authentication failed for user \"a\"", "correct user and password in X"),
        ("fe_sendauth: no password supplied", "give X its password"),
        ("FATAL:  role \"a\" does not exist", "correct user and password in X"),
        ("FATAL:  database \"a\" does not exist", "create that database, or correct its name in X"),
        (
            "FATAL:  no pg_hba.conf entry for host \"::1\", user \"a\", database \"b\", no encryption",
            "let this machine in by its pg_hba.conf"
        ),
    ])
    func aServerThatRefusesTheLoginIsNotSaidToBeAway(_ reason: String, _ text: String) {
        let finding = RemoteJudgements.closed("redis", "h", reason, setting: "X")
        #expect(
            finding.level == .fail && finding.text.contains(text) && finding.text.contains("start it") == text.contains("start it"),
            "\(finding)")
    }

    @Test(
        arguments: [
            (200, Level.ok), (202, .ok), (401, .fail), (403, .fail), (404, .fail), (415, .fail), (429, .warn), (503, .warn), (500, .fail),
            (301, .fail),
        ] as [(Int, Level)])
    func aCollectorIsJudgedByItsAnswer(_ status: Int, _ level: Level) {
        #expect(RemoteJudgements.collector("http://c/v1/traces", status: status).level == level)
    }

    private static let key =
        #"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"1"}"#

    @Test(arguments: [
        (200, "{\"keys\":[\(key)]}", "ES256", [Level.ok], "1 usable key for ES256"),
        (200, "{\"keys\":[\(key)]}", "RS256", [.fail], "has keys for ES256 and the line accepts RS256"),
        (404, "", "ES256", [.fail], "answers 404"), (200, "<html>", "ES256", [.fail], "no usable keys"),
        (200, "{\"keys\":[\(key),{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}", "ES256", [.ok, .warn], "1 usable key"),
    ])
    func aKeySetMustHaveKeysForTheAlgorithms(_ status: Int, _ body: String, _ algorithm: String, _ expected: [Level], _ text: String) throws
    {
        let algorithms = AlgorithmSet(try #require(SigningAlgorithm(name: algorithm)))
        let findings = RemoteJudgements.keySet("i", "https://i/jwks", status: status, body: Array(body.utf8), algorithms: algorithms)
        #expect(levels(findings) == expected && findings[0].text.contains(text), "\(findings)")
    }

    @Test func keysOverPlainHTTPAreAWarningUnlessTheyStayHere() {
        for (url, level) in [("http://i/jwks", Level.warn), ("http://127.0.0.1:1/jwks", .ok)] {
            #expect(
                RemoteJudgements.keySet("i", url, status: 200, body: Array("{\"keys\":[\(Self.key)]}".utf8), algorithms: .asymmetric).map(
                    \.level) == [level])
        }
    }

    @Test(arguments: [
        (RemoteJudgements.Redis(version: "7.0.15", policy: "noeviction", maxMemory: 1, role: "master"), [Level.ok], "is version 7.0.15"),
        (RemoteJudgements.Redis(), [.ok], "not shown to this user"),
        (RemoteJudgements.Redis(version: "6.0.16"), [.fail], "run 6.2 or newer"),
        (RemoteJudgements.Redis(policy: "allkeys-lru", maxMemory: 1), [.warn], "maxmemory-policy allkeys-lru"),
        (RemoteJudgements.Redis(policy: "allkeys-lru", maxMemory: 0), [.ok], ""),
        (RemoteJudgements.Redis(role: "slave"), [.fail], "is a replica"),
        (RemoteJudgements.Redis(missingRights: ["+time", "+evalsha"]), [.fail], "lacks +time +evalsha"),
        (
            RemoteJudgements.Redis(fault: "NOAUTH Authentication required."), [.fail],
            "answers no command (NOAUTH Authentication required.): give REDIS_URL its password"
        ),
        (
            RemoteJudgements.Redis(fault: "WRONGPASS invalid username-password pair"), [.fail],
            "(WRONGPASS invalid username-password pair): correct user and password in REDIS_URL"
        ),
        (RemoteJudgements.Redis(fault: "it did not answer"), [.fail], "answers no command (it did not answer): correct its address"),
        (
            RemoteJudgements.Redis(clusterFault: "ERR This instance has cluster support disabled"), [.fail],
            "is no node of a cluster (ERR This instance has cluster support disabled): write redis://"
        ),
        (RemoteJudgements.Redis(clusterState: "fail"), [.fail], "the cluster is fail"),
        (RemoteJudgements.Redis(clusterState: "ok", clusterSlots: 16_000), [.fail], "knows 16000 of 16384"),
        (RemoteJudgements.Redis(clusterState: "ok", clusterSlots: 16_384), [.ok], ""),
    ])
    func aRedisIsJudgedByWhatItTells(_ facts: RemoteJudgements.Redis, _ expected: [Level], _ text: String) {
        let findings = RemoteJudgements.redis("r:6379", facts)
        #expect(levels(findings) == expected && findings[0].text.contains(text), "\(findings)")
    }

    @Test func databasesAreJudgedBySchemaRoleAndJournal() {
        func judge(_ version: Int64?, isStandby: Bool = false, journal: String? = nil) -> [Level] {
            var facts = StoreInspection(version: version, newest: 6)
            (facts.isStandby, facts.journalMode) = (isStandby, journal)
            return levels(RemoteJudgements.database("d", facts))
        }
        #expect(judge(6) == [.ok] && judge(5) == [.warn] && judge(7) == [.fail] && judge(nil) == [.warn])
        #expect(judge(6, isStandby: true) == [.fail] && judge(6, journal: "wal") == [.ok] && judge(6, journal: "delete") == [.warn])
    }

    @Test func keySecretsAreEqualIfOneOpensWhatTheOtherSealed() {
        let (ours, theirs) = (Array("the secret of this gateway, 32 b.".utf8), Array("the secret of other gateways, 32b".utf8))
        let sealed = [
            (name: "signing keys", bytes: SealedBox(secret: ours, label: "tollgate shared keys").seal([1, 2, 3], as: "signing keys"))
        ]
        #expect(RemoteJudgements.keySecret(sealed, ours).level == .ok)
        #expect(RemoteJudgements.keySecret(sealed, theirs).level == .fail && RemoteJudgements.keySecret(sealed, nil).level == .fail)
        #expect(RemoteJudgements.keySecret([], ours).level == .ok && RemoteJudgements.keySecret([], nil).level == .warn)
    }

    @Test func aRecordOfTheRunningProcessTellsWhetherSettingsAreTheSame() throws {
        let (settings, same, other) = (
            load("TOLLGATE_LOG=debug\n").partial.settings, load("# moved\nTOLLGATE_LOG=debug\n", name: "b.env").partial.settings,
            load("TOLLGATE_LOG=info\n").partial.settings
        )
        let key = [UInt8](repeating: 7, count: 32)
        // As an older version left it.
        let text =
            #"{"process":"42","version":"1","key":"\#(Base64URL.encode(key.rawBytes))","settings":"\#(settings.fingerprint(key: key))"}"#
        let record = try #require(RunningRecord(parsing: Array(text.utf8)))
        #expect(record.process == 42 && record.runs(settings) == true && record.runs(same) == true && record.runs(other) == false)
        #expect(record.differing(from: other) == [])
        #expect(RunningRecord(parsing: Array("{}".utf8)) == nil && RunningRecord(parsing: []) == nil)
    }

    @Test func aRecordNamesTheSettingsThatDifferAndHoldsNoValue() throws {
        let running = load("TOLLGATE_LOG=debug\nTOLLGATE_WORKERS=1\nTOLLGATE_AUDIENCE=shop\nTOLLGATE_ADMIN_TOKEN=q8Zr1mVb0Lk3Wd9TyE\n")
            .partial.settings
        let bytes = RunningRecord.bytes(running, process: 42)
        let text = String(decoding: bytes, as: UTF8.self)
        for secret in ["debug", "shop", "q8Zr1mVb0Lk3Wd9TyE"] { #expect(!text.contains(secret)) }
        let record = try #require(RunningRecord(parsing: bytes))
        #expect(record.process == 42 && record.runs(running) == true && record.differing(from: running) == [])
        let file = load("TOLLGATE_LOG=info\nTOLLGATE_WORKERS=1\nTOLLGATE_TIERS=\"a b\"\nTOLLGATE_ADMIN_TOKEN=q8Zr1mVb0Lk3Wd9TyF\n").partial
            .settings
        #expect(record.runs(file) == false)
        #expect(record.differing(from: file) == ["TOLLGATE_ADMIN_TOKEN", "TOLLGATE_AUDIENCE", "TOLLGATE_LOG", "TOLLGATE_TIERS"])
    }

    @Test func settingsThatAReloadKeepsCountAsTheyRun() {
        let running = load("TOLLGATE_WORKERS=1\nTOLLGATE_LOG=info\n").partial.settings
        var loaded = load("TOLLGATE_WORKERS=2\nTOLLGATE_LOG=debug\n").partial.settings
        let file = loaded
        #expect(loaded.keepUnchangeable(of: running) == ["TOLLGATE_WORKERS"])
        let key: [UInt8] = [1]
        #expect(loaded.fingerprint(key: key) != file.fingerprint(key: key))
        #expect(loaded.fingerprint(key: key) == load("TOLLGATE_WORKERS=1\nTOLLGATE_LOG=debug\n").partial.settings.fingerprint(key: key))
    }
}
