import Gate
import Testing
import Transport
import Wire

@testable import tollgate

@Suite struct ShippedFileTests {
    @Test func theDevelopmentSettingsWorkAsTheyAre() throws {
        let loaded = load(try packageFile("config/development.env"), name: "config/development.env")
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        let configuration = try #require(loaded.configuration)
        #expect(configuration.listeners.map(\.address.description) == ["127.0.0.1:8000"])
        #expect(configuration.adminListeners.map(\.address.description) == ["127.0.0.1:9090"])
        #expect(configuration.upstreams.flatMap { $0.bases.map(\.text) } == ["http://127.0.0.1:9001"])
        #expect(Set(configuration.routes.map(\.rule.auth)) == [.none, .optional, .required])
    }

    @Test func theProductionExampleWorksAsItIs() throws {
        let loaded = load(try packageFile("config/production.env.example"))
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
    }

    @Test func everyLineOfTheProductionExampleIsGoodOnceItCounts() throws {
        let lines = try packageFile("config/production.env.example").split(separator: "\n", omittingEmptySubsequences: false)
        let kept = ["#TOLLGATE_", "#REDIS_", "#SMTP_URL", "#DATABASE_URL"]
        let text = lines.map { line in kept.contains { line.hasPrefix($0) } ? line.dropFirst() : line }.joined(separator: "\n")
            .replacing("TOLLGATE_SIGNING_ALGORITHM=ES256", with: "TOLLGATE_SIGNING_ALGORITHM=HS256")
        let secrets = ["/etc/tollgate/admin-token", "/etc/tollgate/jwt-secret", "/etc/tollgate/legacy-secret", "/etc/tollgate/key-secret"]
        let loaded = load(text, files: Dictionary(uniqueKeysWithValues: secrets.map { ($0, TrustLineTests.secret) }))
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        for setting in Setting.all where setting.stage == .built {
            #expect(text.contains("\n\(setting.name)"), "config/production.env.example leaves out \(setting.name)")
        }
    }

    /// The env file of the benchmark, as `shared/bench` fills it in.
    @Test(arguments: [
        "TOLLGATE_ROUTE_BENCH=\"/* upstream=bench auth=none body-limit=64MiB\"",
        "TOLLGATE_TRUST_BENCH=\"issuer=https://bench.invalid audience=bench secret-file=/keys/secret algorithms=HS256\"\nTOLLGATE_ROUTE_BENCH=\"/* upstream=bench auth=required\"",
        "TOLLGATE_TRUST_BENCH=\"issuer=https://bench.invalid audience=bench jwks=/keys/eddsa.jwks algorithms=EdDSA\"\nTOLLGATE_ROUTE_BENCH=\"/* upstream=bench auth=required limit=1000000/m\"",
    ])
    func theBenchmarksSettingsAreRead(_ lines: String) throws {
        let text = """
            # Our own gateway, as shared/interface.md describes it.
            TOLLGATE_LISTEN=127.0.0.1:18000
            TOLLGATE_LISTEN_TLS=127.0.0.1:18443
            TOLLGATE_TLS_CERT=/keys/tls.crt
            TOLLGATE_TLS_KEY=/keys/tls.key
            TOLLGATE_ADMIN_LISTEN=127.0.0.1:18090
            TOLLGATE_ADMIN_TOKEN=bench-admin-token
            TOLLGATE_WORKERS=1
            TOLLGATE_DATA_DIR=/d/data
            TOLLGATE_CONTRACTS=
            TOLLGATE_ACCESS_LOG=off
            TOLLGATE_UPSTREAM_BENCH="http://127.0.0.1:19001"
            \(lines)
            """
        let loaded = load(text, files: ["/keys/secret": TrustLineTests.secret, "/keys/eddsa.jwks": TrustLineTests.jwks])
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        #expect(try #require(loaded.configuration).workers == 1)
    }

    @Test func theTableOfTheREADMEIsTheTableOfTheSettings() throws {
        let text: String
        do {
            text = try packageFile("README.md")
        } catch {
            Issue.record("README.md is missing: it carries the table of settings between <!-- settings:begin --> and <!-- settings:end -->")
            return
        }
        let begin = try #require(text.firstRange(of: "<!-- settings:begin -->"), "README.md has no <!-- settings:begin -->")
        let end = try #require(text.firstRange(of: "<!-- settings:end -->"), "README.md has no <!-- settings:end -->")
        let table = text[begin.upperBound..<end.lowerBound].drop { $0.isNewline }
        let isSame = String(table) == SettingsReference.markdown || String(table) == SettingsReference.markdown + "\n"
        #expect(isSame, "put what `tollgate settings --markdown` prints between the two marks of README.md")
    }
}

@Suite struct SettingTableTests {
    @Test func everyRowSaysWhatItIsAndHasANameOfItsOwn() {
        #expect(Set(Setting.all.map(\.name)).count == Setting.all.count)
        for setting in Setting.all {
            #expect(setting.doc.hasSuffix(".") || setting.doc.hasSuffix(".)"), "\(setting.name)")
            #expect(Setting.named(setting.isFamily ? setting.name + "X" : setting.name) == setting)
        }
    }

    @Test func everyDefaultIsAValueThatItsOwnTypeTakes() throws {
        let text = Setting.all.filter { !$0.isFamily && $0.stage == .built && !$0.byDefault.isEmpty }
            .map { "\($0.name)=\"\($0.byDefault)\"" }.joined(separator: "\n")
        #expect(faults(text) == [])
    }

    @Test func theReferenceNamesEveryRow() {
        for setting in Setting.all {
            #expect(SettingsReference.markdown.contains("| `\(setting.shownName)` |"))
            #expect(SettingsReference.plain.contains(setting.shownName))
        }
        #expect(SettingsReference.markdown.split(separator: "\n").count == Setting.all.count + 2)
    }
}
