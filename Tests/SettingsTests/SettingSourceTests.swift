import Credentials
import Gate
import Telemetry
import Testing
import Wire

@testable import Settings

@Suite struct SettingSourceTests {
    @Test func withNothingSetTheDefaultsOfTheTableHold() throws {
        let configuration = try #require(load("").configuration)
        #expect(configuration.listeners.map(\.address.description) == ["127.0.0.1:8000"])
        #expect(configuration.tlsListeners == [])
        #expect(configuration.adminListeners.map(\.address.description) == ["127.0.0.1:9090"])
        #expect(configuration.adminToken == nil)
        #expect(configuration.workers == nil)
        #expect(configuration.dataDirectory == "./data")
        #expect(configuration.issuer == "http://localhost:8000")
        #expect(configuration.audience == "tollgate")
        #expect(configuration.signingAlgorithm == .ES256)
        #expect(configuration.clockSkewSeconds == 30)
        #expect(configuration.tiers.names == ["free", "premium"])
        #expect(configuration.tokenCacheEntries == 65_536)
        #expect(configuration.accessLog == .json)
        #expect(configuration.logLevel == .info)
        #expect(configuration.upgradeURL == nil)
    }

    @Test func aLaterFileWinsAndTheEnvironmentWinsOverAll() throws {
        let files = [
            ("one.env", "TOLLGATE_AUDIENCE=one\nTOLLGATE_ISSUER=one\nTOLLGATE_LOG=error"),
            ("two.env", "TOLLGATE_AUDIENCE=two\nTOLLGATE_ISSUER=two"),
        ]
        let configuration = try #require(load(files, environment: [("TOLLGATE_AUDIENCE", "env")]).configuration)
        #expect(configuration.audience == "env")
        #expect(configuration.issuer == "two")
        #expect(configuration.logLevel == .error)
    }

    @Test func anEmptyValueIsTheDefaultAndNoneForAList() throws {
        let text =
            "TOLLGATE_WORKERS=\nTOLLGATE_AUDIENCE=\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_JWT_SECRET=\nTOLLGATE_ADMIN_TOKEN=\nTOLLGATE_CONTRACTS=\nREDIS_URL="
        let configuration = try #require(load(text).configuration)
        #expect(configuration.workers == nil)
        #expect(configuration.audience == "tollgate")
        #expect(configuration.adminListeners == [])
        #expect(configuration.jwtSecret == nil)
        #expect(configuration.adminToken == nil)
    }

    @Test func theIssuerIsThePublicURLUnlessItIsSet() throws {
        let url = "TOLLGATE_PUBLIC_URL=https://api.example.org"
        #expect(try #require(load(url).configuration).issuer == "https://api.example.org")
        #expect(try #require(load(url + "\nTOLLGATE_ISSUER=me").configuration).issuer == "me")
    }

    @Test func aSecretComesFromItsFileWithoutTheLastNewline() throws {
        let secret = Array("0123456789abcdef0123456789abcdef".utf8)
        for ending in [[], [10], [13, 10]] as [[UInt8]] {
            let loaded = load("TOLLGATE_JWT_SECRET_FILE=s", files: ["s": secret + ending])
            #expect(try #require(loaded.configuration).jwtSecret == secret)
        }
        let twice = load("TOLLGATE_JWT_SECRET_FILE=s", files: ["s": secret + [10, 10]])
        #expect(try #require(twice.configuration).jwtSecret == secret + [10])
    }

    @Test func aSecretMayBeAnyBytes() throws {
        let secret = [UInt8](repeating: 0xFF, count: 32)
        #expect(try #require(load("TOLLGATE_JWT_SECRET_FILE=s", files: ["s": secret]).configuration).jwtSecret == secret)
    }

    @Test func aSecretAndItsFileTogetherAreAFault() {
        let text = "TOLLGATE_ADMIN_TOKEN_FILE=s\nTOLLGATE_ADMIN_TOKEN=0123456789abcdef\n" + oneRoute
        #expect(
            faults(text, files: ["s": [65]]) == [
                "a.env:1: TOLLGATE_ADMIN_TOKEN_FILE: is set together with TOLLGATE_ADMIN_TOKEN (a.env:2), keep one of them"
            ])
        let across = load(
            "TOLLGATE_ADMIN_TOKEN_FILE=s\n" + oneRoute, environment: [("TOLLGATE_ADMIN_TOKEN", "0123456789abcdef")], files: ["s": [65]])
        #expect(
            across.findings.faults.map(\.text) == [
                "a.env:1: TOLLGATE_ADMIN_TOKEN_FILE: is set together with TOLLGATE_ADMIN_TOKEN (environment), keep one of them"
            ])
    }

    @Test func aTokenWithScopesIsReadFromItsFile() throws {
        let lines = "TOLLGATE_ADMIN_TOKEN_FILE=a\nTOLLGATE_ADMIN_TOKEN_CI='token-file=s scope=tier,users:read'\n" + oneRoute
        let (admin, good) = (Array("the-admin-tokens".utf8), Array("0123456789abcdef".utf8))
        let settings = try #require(load(lines, files: ["a": admin, "s": good + [10]]).configuration)
        #expect(settings.adminToken == admin)
        #expect(settings.scopedAdminTokens.map(\.token) == [ScopedToken(name: "ci", bytes: good, scopes: [.tier, .usersRead])])
        let name = "a.env:2: TOLLGATE_ADMIN_TOKEN_CI: "
        let table: [([UInt8], String)] = [
            (Array("0123456789abcde".utf8), #""token-file=s" holds a token that is easy to guess, use 16 characters or more"#),
            (
                Array("0123456789 abcdef".utf8),
                #""token-file=s" holds characters that a bearer token must not, use visible ASCII characters without spaces"#
            ),
            (admin, "has the token of TOLLGATE_ADMIN_TOKEN, give each its own"),
        ]
        for (bytes, message) in table { #expect(faults(lines, files: ["a": admin, "s": bytes]) == [name + message]) }
        let twice = lines + "\nTOLLGATE_ADMIN_TOKEN_CD='token-file=s scope=delete'"
        #expect(faults(twice, files: ["a": admin, "s": good]).count == 1)
        #expect(faults("TOLLGATE_ADMIN_TOKEN_CI=\n" + oneRoute) == [])
    }

    @Test func anEmptySecretFileIsAFault() {
        #expect(
            faults("TOLLGATE_ADMIN_TOKEN_FILE=s\n" + oneRoute, files: ["s": [10]]) == [
                "a.env:1: TOLLGATE_ADMIN_TOKEN_FILE: names an empty file, write the secret into it"
            ])
    }

    @Test func onlySecretsComeFromFiles() {
        #expect(faults("TOLLGATE_LOG_FILE=s\n" + oneRoute) == ["a.env:1: TOLLGATE_LOG_FILE: is no setting, the nearest is TOLLGATE_LOG"])
    }

    @Test func theEnvironmentOfOthersIsNoneOfOurs() {
        let environment = [
            ("PATH", "/bin"), ("HOME", "/"), ("TOLLGATE_SERVICE_HOST", "10.0.0.1"), ("TOLLGATE_SERVICE_PORT", "80"),
            ("TOLLGATE_SERVICE_PORT_HTTP", "80"), ("TOLLGATE_PORT", "tcp://10.0.0.1:80"), ("TOLLGATE_PORT_80_TCP", "x"),
            ("TOLLGATE_PORT_80_TCP_ADDR", "x"), ("tollgate_x", "y"),
        ]
        let findings = load(oneRoute, environment: environment).findings
        #expect(findings.faults == [])
        #expect(findings.warnings == [])
    }

    @Test func anUnknownNameInTheEnvironmentIsAFault() {
        let loaded = load(oneRoute, environment: [("TOLLGATE_PORTS", "1")])
        #expect(loaded.findings.faults.count == 1)
        #expect(
            loaded.findings.faults.first?.text.hasPrefix("environment: TOLLGATE_PORTS: is no setting, the nearest is TOLLGATE_") == true)
    }
}
