import Credentials
import Issuers
import Settings
import System
import TestThreads
import Testing
import Wire
import Workbench

@testable import tollgate

/// Commands as a shell sees them: words in, two texts and an exit code out.
@Suite(.ownThread) struct CommandTests {
    private let folder: TemporaryFolder
    private let start = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_800_000_000))

    init() throws {
        folder = try TemporaryFolder()
        let text = """
            TOLLGATE_DATA_DIR=\(folder.path)
            TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001
            TOLLGATE_INTERNAL_CRON=cidr=10.0.0.0/8
            TOLLGATE_ROUTE_OPEN="/open/* upstream=u auth=none"
            TOLLGATE_ROUTE_ME="GET /me upstream=u limit=5/m"
            TOLLGATE_ROUTE_GOLD="GET /gold upstream=u tier=premium"
            TOLLGATE_ROUTE_JOB="/job upstream=u auth=internal"
            """
        try FileBytes.write(Array(text.utf8), to: folder.path + "/a.env")
    }

    private func run(_ words: String..., later: Int64 = 0, input: String = "") -> CommandResult {
        var now = start
        now.wall = WallTime(seconds: start.wall.seconds + later)
        let runner = CommandRunner(environment: [], now: now, readInput: { input })
        return runner.run(words + ["--env-file", folder.path + "/a.env"])
    }

    private func token(_ words: String...) -> String {
        let runner = CommandRunner(environment: [], now: start, readInput: { "" })
        return String(runner.run(["token", "mint", "--env-file", folder.path + "/a.env"] + words).output.dropLast())
    }

    @Test func checkPrintsTheRoutesAndEndsWell() {
        let result = run("check")
        #expect(result.exitCode == 0)
        #expect(result.errorOutput == "")
        let rows = result.output.split(separator: "\n").map { $0.split(separator: " ") }
        #expect(rows.contains(["me", "GET", "/me", "u", "required", "5/m", "by", "user"]))
        #expect(rows.contains(["password-login", "POST", "/api/v1/auth/login", "password@/api/v1", "none"]))
        #expect(rows.contains(["web-page", "GET,HEAD", "/web/*", "password@/api/v1", "none"]))
        #expect(rows.contains(["web-end-session", "DELETE", "/web/api/sessions/*", "password@/api/v1", "required"]))
        #expect(result.output.hasSuffix("The configuration is good: 4 routes, 1 upstream, 0 outside issuers.\n"))
    }

    @Test func checkPrintsEveryFaultAndExitsWithTwo() throws {
        try FileBytes.write(Array("TOLLGATE_LOGS=x\nTOLLGATE_LOG=x".utf8), to: folder.path + "/b.env")
        let result = run("check", "--env-file", folder.path + "/b.env")
        #expect(result.exitCode == 2)
        #expect(result.output == "")
        #expect(result.errorOutput.split(separator: "\n").count == 2)
        let json = run("check", "--json", "--env-file", folder.path + "/b.env")
        #expect(json.exitCode == 2)
        #expect(
            json.output.contains(
                #""ok":false,"faults":[{"file":"\#(folder.path)/b.env","line":1,"name":"TOLLGATE_LOGS","message":"is no setting, the nearest is TOLLGATE_LOG"}"#
            ))
    }

    @Test func aMissingEnvFileIsWrongUsage() {
        let result = run("check", "--env-file", folder.path + "/gone.env")
        #expect(result.exitCode == 2)
        #expect(
            result.errorOutput
                == "\(folder.path)/gone.env: cannot be read (no such file or directory), give the path of an env file\nnext: `tollgate init FILE` writes one\n"
        )
    }

    @Test func anEnvFileThatIsTooLongIsSaidToBe() throws {
        let path = folder.path + "/long.env"
        try FileBytes.write([UInt8](repeating: UInt8(ascii: "\n"), count: (16 << 20) + 1), to: path)
        let result = run("check", "--env-file", path)
        #expect(result.exitCode == 2)
        #expect(result.errorOutput == "\(path): cannot be read (it is longer than 16777216 bytes), give the path of an env file\n")
    }

    private func writeCertificateSettings(_ more: String) throws {
        try FileBytes.write(Array(PinFixtures.leaf.utf8), to: folder.path + "/a.crt")
        try FileBytes.write(Array(PinFixtures.leafKey.utf8), to: folder.path + "/a.key")
        let lines = """
            TOLLGATE_DATA_DIR=\(folder.path)
            TOLLGATE_LISTEN_TLS=127.0.0.1:8443
            TOLLGATE_TLS_CERT=\(folder.path)/a.crt
            TOLLGATE_TLS_KEY=\(folder.path)/a.key
            TOLLGATE_ACME=https://ca.test/dir
            TOLLGATE_PUBLIC_URL=https://API.example.com
            TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001
            TOLLGATE_ROUTE_A="www.example.com/a upstream=u"
            TOLLGATE_ROUTE_B="a.b.example.com/b upstream=u"
            \(more)
            """
        try FileBytes.write(Array(lines.utf8), to: folder.path + "/b.env")
    }

    /// Only where the names are not written out.
    @Test func namesThatAFilesCertificateHasAreNotOrdered() throws {
        for (more, names) in [("", "a.b.example.com"), ("TOLLGATE_ACME_NAMES=api.example.com", "api.example.com")] {
            try writeCertificateSettings(more)
            let shown = run("check", "--env-file", folder.path + "/b.env")
            #expect(shown.output.contains("certificates    \(names)\n"), "\(shown)")
        }
    }

    @Test func anOrderIsNotedWhereNoGatewayRuns() throws {
        try writeCertificateSettings("")
        let result = run("certificates", "renew", "a.b.example.com", "--env-file", folder.path + "/b.env")
        #expect(
            result.exitCode == 0 && result.output == "It is noted.\n" && result.errorOutput.contains("no gateway of this database runs"))
    }

    @Test func unusableCertificatesAreFaultsWithTheirLine() throws {
        let text = "TOLLGATE_LISTEN_TLS=127.0.0.1:8443\nTOLLGATE_TLS_CERT=\(folder.path)/c\nTOLLGATE_TLS_KEY=\(folder.path)/k"
        try FileBytes.write(Array(text.utf8), to: folder.path + "/b.env")
        let result = run("check", "--env-file", folder.path + "/b.env")
        #expect(result.exitCode == 2)
        #expect(result.errorOutput.hasPrefix("\(folder.path)/b.env:2: TOLLGATE_TLS_CERT: "))
    }

    private static let (noFile, noPEM) = (
        "cannot read $/none: no such file or directory",
        "$/a.env holds no authority's certificate (no certificate or crl found); it should be PEM text with -----BEGIN CERTIFICATE-----"
    )
    private static let orders =
        "TOLLGATE_LISTEN_TLS=127.0.0.1:0\nTOLLGATE_ACME=https://ca.test/dir\nTOLLGATE_ACME_NAMES=a.example.org\nTOLLGATE_ACME_CHALLENGE=dns\n"
    private static let filesOfTLS = [
        (
            orders + "TOLLGATE_ACME_DNS=exec:/bin/true\nTOLLGATE_ACME_CA=$/none",
            "TOLLGATE_ACME_CA: \(noFile), give a PEM file of the CA's certificate"
        ),
        (orders + "TOLLGATE_ACME_DNS=exec:/bin/true\nTOLLGATE_ACME_CA=$/a.env", "TOLLGATE_ACME_CA: \(noPEM)"),
        (
            orders + "TOLLGATE_ACME_DNS=exec:$/none",
            "TOLLGATE_ACME_DNS: cannot run $/none (no such file or directory), give the path of an executable file"
        ),
        (
            orders + "TOLLGATE_ACME_DNS=exec:$/a.env",
            "TOLLGATE_ACME_DNS: cannot run $/a.env (permission denied), give the path of an executable file"
        ),
        (orders + "TOLLGATE_ACME_DNS=exec:$", "TOLLGATE_ACME_DNS: cannot run $ (is a directory), give the path of an executable file"),
        ("TOLLGATE_TLS_CERT=$/none\nTOLLGATE_TLS_KEY=$/none", "TOLLGATE_TLS_CERT: \(noFile), give PEM files of a certificate and its key"),
        (
            "TOLLGATE_TLS_CERT=$/a.env\nTOLLGATE_TLS_KEY=$/a.env",
            "TOLLGATE_TLS_CERT: $/a.env holds no certificate; it should be PEM text with -----BEGIN CERTIFICATE-----"
        ),
        ("TOLLGATE_TLS_CLIENT_CA=$/none", "TOLLGATE_TLS_CLIENT_CA: \(noFile), give a PEM file of the CA's certificate"),
        ("TOLLGATE_TLS_CLIENT_CA=$/a.env", "TOLLGATE_TLS_CLIENT_CA: \(noPEM)"),
        (
            "TOLLGATE_UPSTREAM_V=https://v tls-ca=$/none",
            "TOLLGATE_UPSTREAM_V: tls-ca= is of no use: \(noFile), give a PEM file of the CA's certificate"
        ),
        ("TOLLGATE_UPSTREAM_V=https://v tls-ca=$/a.env", "TOLLGATE_UPSTREAM_V: tls-ca= is of no use: \(noPEM)"),
        (
            "SMTP_URL=smtps://h?tls-ca=$/none\nTOLLGATE_MAIL_FROM=a@b.test",
            "SMTP_URL: tls-ca= is of no use: \(noFile), give a PEM file of the CA's certificate"
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\nOTEL_EXPORTER_OTLP_CERTIFICATE=$/none",
            "OTEL_EXPORTER_OTLP_CERTIFICATE: \(noFile), give a PEM file of the CA's certificate"
        ),
        ("OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\nOTEL_EXPORTER_OTLP_CERTIFICATE=$/a.env", "OTEL_EXPORTER_OTLP_CERTIFICATE: \(noPEM)"),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\nOTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=$/none\nOTEL_EXPORTER_OTLP_CLIENT_KEY=$/none",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: \(noFile), give PEM files of a certificate and its key"
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\nOTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE=$/none",
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: needs OTEL_EXPORTER_OTLP_CLIENT_KEY, the file of its key, too"
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\nOTEL_EXPORTER_OTLP_CLIENT_KEY=$/none",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY: needs OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, the file of its certificate, too"
        ),
    ]

    @Test(arguments: filesOfTLS) func aFileOfTLSThatIsOfNoUseIsNamedOnce(_ lines: String, _ fault: String) throws {
        let words = { (text: String) in text.replacing("$", with: folder.path) }
        try FileBytes.write(Array(words(lines).utf8), to: folder.path + "/b.env")
        let result = run("check", "--env-file", folder.path + "/b.env")
        #expect(result.exitCode == 2 && result.errorOutput.contains(": \(words(fault))\n"), "\(result)")
    }

    /// They may be meant for other programs.
    @Test func theFileOfACollectorsAuthorityCountsOnlyBesideACollector() throws {
        try FileBytes.write(Array("OTEL_EXPORTER_OTLP_CERTIFICATE=/none".utf8), to: folder.path + "/b.env")
        #expect(run("check", "--env-file", folder.path + "/b.env").exitCode == 0)
    }

    @Test func aMintedTokenIsAcceptedAndRefusedOnceExpired() {
        let token = token("--sub", "ada", "--tier", "premium", "--ttl", "10m", "--claim", "role=x")
        let good = run("token", "inspect", token)
        #expect(good.exitCode == 0)
        #expect(good.output.contains(#""sub":"ada""#) && good.output.contains(#""role":"x""#))
        #expect(good.output.contains("verdict  accepted"))
        let late = run("token", "inspect", token, "--json", later: 700)
        #expect(late.exitCode == 1)
        #expect(late.output.contains(#""accepted":false,"reason":"expired""#))
        #expect(run("token", "inspect", "-", input: token + "\n").exitCode == 0)
    }

    @Test func aTokenOfADeviceKeySaysThatItNeedsAProof() throws {
        let configuration = try #require(load("TOLLGATE_DATA_DIR=\(folder.path)\n" + oneRoute).configuration)
        let key = try KeyStore.open(IssuersPlan(configuration), now: start.wall).active
        var claims = TokenClaims(
            issuer: configuration.settings.issuer, audience: configuration.settings.audience, subject: "ada", issuedAt: start.wall.seconds,
            expiresAt: start.wall.seconds + 600)
        for isBound in [true, false] {
            claims.deviceKey = isBound ? String(repeating: "A", count: 43).withRawBytes { KeyThumbprint(base64url: $0) } : nil
            let token = try key.issue(claims)
            let shown = run("token", "inspect", token)
            #expect(shown.exitCode == 0 && shown.output.contains("each request needs a proof of the key in cnf (DPoP)") == isBound)
            #expect(run("token", "inspect", token, "--json").output.contains(#""needs_proof":\#(isBound)"#))
        }
    }

    @Test func aForgedTokenIsRefused() {
        var token = token("--sub", "ada")
        token = String(token.dropLast(4)) + (token.hasSuffix("AAAA") ? "BBBB" : "AAAA")
        let result = run("token", "inspect", token)
        #expect(result.exitCode == 1)
        #expect(result.output.contains("refused: bad_signature") || result.output.contains("refused: malformed"))
        #expect(run("token", "inspect", "nonsense").exitCode == 1)
    }

    @Test func mintingChecksItsArguments() {
        let cases: [([String], String)] = [
            (["--sub", "a", "--ttl", "8d"], "--ttl \"8d\" is out of range, write a duration from 1s to 7d"),
            (["--sub", "a", "--tier", "gold"], "--tier \"gold\" names no tier, the tiers are free, premium"),
            (["--sub", "a", "--claim", "x"], "--claim \"x\" is no claim, write --claim NAME=VALUE"),
            (["--sub", "a", "--claim", "exp=1"], "--claim exp is set by Tollgate or given twice, choose another name"),
            (["--sub", ""], "--sub is empty or longer than 256 bytes, give the id of a user"),
        ]
        let runner = CommandRunner(environment: [], now: start, readInput: { "" })
        for (words, message) in cases {
            let result = runner.run(["token", "mint", "--env-file", folder.path + "/a.env"] + words)
            #expect(result.exitCode == 2)
            #expect(result.errorOutput.hasPrefix("tollgate: \(message)\n"))
        }
    }

    @Test func explainWalksARequestToItsVerdict() {
        let open = run("explain", "POST", "http://localhost:8000/open//x?y=1")
        #expect(open.exitCode == 0)
        #expect(open.output.contains("path      /open//x becomes /open/x"))
        #expect(open.output.contains("verdict   passes, to the upstream u (http://127.0.0.1:9001)"))
        #expect(run("explain", "GET", "/me").output.contains("refused: 401 UNAUTHORIZED"))
        let me = run("explain", "GET", "/me", "--token", token("--sub", "ada"))
        #expect(me.output.contains("identity  user ada of tollgate, tier free, by ES256"))
        #expect(me.output.contains("X-User-Id: ada"))
        #expect(run("explain", "GET", "/gold", "--token", token("--sub", "ada")).output.contains("refused: 403 PREMIUM_REQUIRED"))
        #expect(run("explain", "GET", "/nowhere").output.contains("refused: 404 NOT_FOUND"))
        #expect(run("explain", "GET", "/job").output.contains("refused: 403"))
        #expect(
            run("explain", "GET", "/job", "--from", "10.1.2.3").output.contains("verdict  passes")
                || run("explain", "GET", "/job", "--from", "10.1.2.3").output.contains("passes, to the upstream u"))
    }

    /// A backend that verifies tokens itself must be told that the gateway removes them.
    @Test func explainSaysWhereAPlainAddressLeads() throws {
        let lines = "TOLLGATE_LISTEN=\"127.0.0.1:8080;redirect=8443 127.0.0.1:8081\"\nTOLLGATE_DENY_FROM=192.0.2.0/24\n" + oneRoute
        try FileBytes.write(Array(lines.utf8), to: folder.path + "/b.env")
        func walk(_ url: String, from: String = "127.0.0.1") -> String {
            run("explain", "GET", url, "--from", from, "--env-file", folder.path + "/b.env").output
        }
        let led = walk("http://a.test:8080/r/x?y")
        #expect(led.contains("redirect  127.0.0.1:8080;redirect=8443 leads each request to HTTPS at port 8443, whatever its route"))
        #expect(led.contains("verdict   answered by the gateway itself: 308") && !led.contains("\nroute "))
        #expect(walk("http://a.test:8080/r/x", from: "192.0.2.1").contains("refused: 403 ADDRESS_DENIED"))
        for url in ["http://a.test:8081/r/x", "http://a.test/r/x", "https://a.test:8080/r/x", "/r/x"] {
            #expect(walk(url).contains("refused: 401"), "\(url)")
        }
    }

    @Test func anAPIKeyIsInspected() {
        let key = APIKeyText.make(SecureRandom.bytes)
        let right = run("token", "inspect", key), wrong = run("token", "inspect", key.dropLast() + (key.hasSuffix("a") ? "b" : "a"))
        #expect(right.exitCode == 0 && right.output.contains("its checksum is right") && !right.output.contains(key))
        #expect(wrong.exitCode == 1 && wrong.output.contains("its checksum is wrong"))
        #expect(run("token", "inspect", key, "--json").output.contains(#"{"kind":"api_key","checksum_right":true}"#))
    }

    @Test func checkWarnsOfARouteThatIsPastItsSunset() throws {
        for (day, isPast) in [("2027-01-15", true), ("2027-01-16", false)] {
            let line = "TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\nTOLLGATE_ROUTE_R=\"/r upstream=u sunset=\(day)\"\n"
            try FileBytes.write(Array(line.utf8), to: folder.path + "/b.env")
            let said = run("check", "--env-file", folder.path + "/b.env").errorOutput
            #expect(said.contains("has sunset=, which is past, so every request gets 410") == isPast, "\(day): \(said)")
        }
    }

    @Test func explainAndCheckSayWhetherTheUpstreamGetsTheBearer() throws {
        try FileBytes.write(Array("TOLLGATE_ROUTE_KEPT=\"/kept upstream=u forward=authorization\"".utf8), to: folder.path + "/b.env")
        let token = token("--sub", "ada")
        func explained(_ path: String) -> String {
            run("explain", "GET", path, "--token", token, "--env-file", folder.path + "/b.env").output
        }
        #expect(
            explained("/me").contains(
                "bearer    Authorization is removed before the upstream; forward=authorization on the route keeps it\n"))
        #expect(explained("/kept").contains("bearer    Authorization passes to the upstream: forward=authorization\n"))
        #expect(explained("/open/x").contains("Authorization passes to the upstream as it came: auth=none does not look at it\n"))
        #expect(!explained("/gold").contains("bearer"))
        let text = run("check", "--env-file", folder.path + "/b.env").output
        #expect(
            text.contains("\nAuthorization is removed before the upstream, except on kept (forward=authorization), open (auth=none).\n"))
        let json = run("check", "--json", "--env-file", folder.path + "/b.env").output
        #expect(json.contains(#""path":"/me","upstream":"u","auth":"required""#) && json.contains(#""authorization":"removed""#))
        #expect(json.contains(#""authorization":"forwarded""#))
    }

    @Test func checkNamesTheRoutesThatRefuseSpellingsOfStricterOnes() throws {
        for (paths, isNamed) in [("", true), (" paths=exact", false)] {
            let lines = "TOLLGATE_UPSTREAM_W=\"http://127.0.0.1:9009\(paths)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=w auth=none\""
            try FileBytes.write(Array(lines.utf8), to: folder.path + "/b.env")
            let text = run("check", "--env-file", folder.path + "/b.env").output
            #expect(
                text.contains(
                    "only in case, the last slash or blanks at the end are refused with 400, unless the upstream has paths=exact:\n  all: ")
                    == isNamed)
            let json = run("check", "--json", "--env-file", folder.path + "/b.env").output
            #expect(json.contains(#""refused_spellings":[{"route":"all","stricter":["#) == isNamed)
        }
    }

    @Test func explainAnswersInJSONAndForMalformedRequestsToo() {
        let json = run("explain", "GET", "/gold", "--json").output
        #expect(json.contains(#""passes":false,"status":401,"code":"UNAUTHORIZED"}"#))
        #expect(run("explain", "G T", "/me").exitCode == 0)
        #expect(run("explain", "G T", "/me").output.contains("refused: 400"))
        #expect(run("explain", "GET", "ftp://x").exitCode == 2)
        #expect(run("explain", "GET", "/me", "--from", "here").exitCode == 2)
        #expect(run("explain", "GET", "/me", "--header", "X: a\r\nY: b").exitCode == 2)
    }

    @Test func explainMakesNoKeys() {
        _ = run("explain", "GET", "/me")
        #expect(run("keys", "list").output.hasPrefix("There are no keys yet"))
    }

    @Test func keysAreListedRotatedAndPublished() {
        let token = token("--sub", "ada")
        let before = run("keys", "list", "--json").output
        #expect(before.contains(#""state":"current""#) && before.contains(#""state":"next""#))
        #expect(run("keys", "rotate").exitCode == 0)
        #expect(run("keys", "list").output.contains("retired"))
        #expect(run("token", "inspect", token).exitCode == 0)
        let jwks = run("keys", "jwks").output
        #expect(jwks.hasPrefix(#"{"keys":["#))
        #expect(!jwks.contains(#""d":"#))
    }

    @Test func aSharedSecretIsNotRotated() throws {
        try FileBytes.write(Array("TOLLGATE_JWT_SECRET=0123456789abcdef0123456789abcdef".utf8), to: folder.path + "/b.env")
        let result = run("keys", "rotate", "--env-file", folder.path + "/b.env")
        #expect(result.exitCode == 2)
        #expect(run("keys", "list", "--env-file", folder.path + "/b.env").output.contains("(shared secret)"))
    }

    @Test func theEchoReturnsTheRequest() {
        let answer = EchoAnswer.render(
            method: "POST", target: "/a?b=\"1\"", headers: [("X-A", "1"), ("Host", "h"), ("x-a", "2")],
            body: Array("hé".utf8).rawBytes)
        let text = answer.rawBytes.text
        #expect(
            text.hasPrefix(
                #"{"method":"POST","target":"/a?b=\"1\"","path":"/a","query":"b=\"1\"","headers":{"x-a":"1, 2","host":"h"},"raw_headers":[["X-A","1"],["Host","h"],["x-a","2"]],"body":"hé","body_bytes":3}"#
            ))
    }
}
