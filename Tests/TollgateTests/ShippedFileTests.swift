import Gate
import Telemetry
import Testing
import Wire
import Workbench

@testable import Settings
@testable import tollgate

@Suite struct ShippedFileTests {
    @Test func theDevelopmentSettingsWorkAsTheyAre() throws {
        let loaded = load(try packageFile("config/development.env"), name: "config/development.env")
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        let configuration = try #require(loaded.configuration)
        #expect(configuration.settings.listeners.map(\.address.description) == ["127.0.0.1:8000"])
        #expect(configuration.settings.adminListeners.map(\.address.description) == ["127.0.0.1:9090"])
        #expect(configuration.settings.upstreams.flatMap { $0.bases.map(\.text) } == ["http://127.0.0.1:9001"])
        #expect(Set(configuration.settings.routes.map(\.rule.auth)) == [.none, .optional, .required])
        let whole = load(try packageFile("config/development.env").replacing("\n#TOLLGATE_", with: "\nTOLLGATE_"))
        #expect(whole.findings.faults == [] && whole.findings.warnings == [])
        #expect(whole.configuration?.settings.passkey != nil && whole.configuration?.settings.factor == .offered)
    }

    @Test func theProductionExampleWorksAsItIs() throws {
        let loaded = load(try packageFile("config/production.env.example"))
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
    }

    @Test func theExampleOfKeysWorksAsItIsPrinted() throws {
        let block = try #require(
            try packageFile("docs/api-keys.md").split(separator: "```sh\n").dropFirst().first?.split(separator: "```").first)
        let loaded = load(String(block))
        #expect(loaded.findings.faults == [] && loaded.findings.warnings == [])
        #expect(loaded.configuration?.settings.routes.count == 2)
    }

    @Test func everyLineOfTheProductionExampleIsGoodOnceItCounts() throws {
        let lines = try packageFile("config/production.env.example").split(separator: "\n", omittingEmptySubsequences: false)
        let kept = ["#TOLLGATE_", "#REDIS_", "#SMTP_URL", "#DATABASE_URL", "#OTEL_"]
        let text = lines.map { line in kept.contains { line.hasPrefix($0) } ? line.dropFirst() : line }.joined(separator: "\n")
            .replacing("TOLLGATE_SIGNING_ALGORITHM=ES256", with: "TOLLGATE_SIGNING_ALGORITHM=HS256")
            // A folder, which is read from the disk.
            .replacing("TOLLGATE_MAIL_TEMPLATES=/etc/tollgate/mails", with: "TOLLGATE_MAIL_TEMPLATES=")
        let stores = ["apple-api-key.p8", "google-service-account.json", "stripe-secret", "stripe-api-key", "revenuecat-authorization"]
        let secrets =
            stores.map { "/etc/tollgate/\($0)" } + [
                "/etc/tollgate/admin-token", "/etc/tollgate/jwt-secret", "/etc/tollgate/legacy-secret", "/etc/tollgate/key-secret",
            ]
        var files = Dictionary(uniqueKeysWithValues: secrets.map { ($0, sharedSecret) })
        files["/etc/tollgate/stripe-secret"] = Array("whsec_0123456789abcdef".utf8)
        for name in ["apple-signin.p8", "crm.secret", "hook.secret"] { files["/etc/tollgate/\(name)"] = sharedSecret }
        files["/etc/tollgate/eab-key"] = Array("c2VjcmV0".utf8)
        files["/etc/tollgate/billing-token"] = Array("token-of-billing".utf8)
        let loaded = load(text, files: files)
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        for setting in Setting.all {
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
        let loaded = load(text, files: ["/keys/secret": sharedSecret, "/keys/eddsa.jwks": jwksOfA])
        #expect(loaded.findings.faults == [])
        #expect(loaded.findings.warnings == [])
        #expect(try #require(loaded.configuration).settings.workers == 1)
    }

    @Test(arguments: [
        ("docs/settings.md", "settings", SettingsReference.markdown), ("docs/metrics.md", "metrics", MetricsReference.markdown),
    ])
    func generatedTablesAreCurrent(_ path: String, _ name: String, _ markdown: String) throws {
        let text = try packageFile(path)
        let begin = try #require(text.firstRange(of: "<!-- \(name):begin -->\n"), "\(path) has no <!-- \(name):begin -->")
        let end = try #require(text.firstRange(of: "<!-- \(name):end -->"), "\(path) has no <!-- \(name):end -->")
        #expect(
            String(text[begin.upperBound..<end.lowerBound]) == markdown,
            "put what `tollgate \(name) --markdown` prints between the two marks of \(path)")
    }
}

/// The unit of systemd.
@Suite struct ServiceUnitTests {
    private func lines(_ key: String) throws -> [String] {
        try packageFile("deploy/systemd/tollgate.service").split(separator: "\n").filter { $0.hasPrefix(key + "=") }.map {
            String($0.dropFirst(key.count + 1))
        }
    }

    /// A reload cannot change settings of the process environment.
    @Test func theSettingsComeFromTheEnvFileAloneSoThatAReloadChangesThem() throws {
        #expect(try lines("EnvironmentFile") == [])
        #expect(try lines("PassEnvironment") == [])
        for word in try lines("Environment").flatMap({ $0.split(separator: " ") }) {
            let setting = try #require(Setting.named(String(word.prefix { $0 != "=" })))
            #expect(setting.needsRestart, "\(setting.name)")
        }
        let commands = try lines("ExecStartPre") + lines("ExecStart") + lines("ExecReload").filter { $0.contains("tollgate") }
        #expect(commands.count == 3)
        for command in commands { #expect(command.hasSuffix(" --env-file /etc/tollgate/tollgate.env"), "\(command)") }
    }
}

@Suite struct SettingTableTests {
    @Test func everyRowThatNeedsARestartIsDocumentedSo() {
        for setting in Setting.all { #expect(SettingsReference.plain.contains("A change needs a restart.") || !setting.needsRestart) }
    }

    @Test func aReloadKeepsSettingsThatNeedARestartAndAppliesTheRest() throws {
        let before = oneRoute + "TOLLGATE_CONTRACTS=\n"
        let running = try #require(load(before).configuration)
        let values: [(name: String, value: String)] = [
            ("TOLLGATE_LISTEN", "127.0.0.1:8000;proxy"), ("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:9091"), ("TOLLGATE_WORKERS", "3"),
            ("TOLLGATE_CHECK_LISTEN", "127.0.0.1:8001"),
            ("TOLLGATE_DATA_DIR", "/elsewhere"), ("REDIS_URL", "redis://127.0.0.1"), ("TOLLGATE_RATE_LIMIT_FAILURE", "closed"),
            ("TOLLGATE_REDIS_TIMEOUT", "50ms"),
            ("TOLLGATE_TOKEN_CACHE", "9"), ("DATABASE_URL", "sqlite:///other.db"), ("TOLLGATE_DATABASE_URL", "sqlite:///own.db"),
            ("TOLLGATE_DATABASE_SCHEMA", "another"),
            ("TOLLGATE_KEY_SECRET", String(repeating: "k", count: 32)),
            ("TOLLGATE_ACCESS_LOG", "off"),
        ]
        for (name, value) in values {
            var changed = try #require(load(before + "TOLLGATE_AUDIENCE=new\n\(name)=\(value)").configuration, "\(name)")
            #expect(changed.keepUnchangeable(of: running) == [name])
            #expect(changed.settings.audience == "new")
            #expect(changed.keepUnchangeable(of: running) == [], "\(name) has the value that runs")
        }
        #expect(
            Set(values.map(\.name)).union([
                "TOLLGATE_LISTEN_TLS", "TOLLGATE_ACME", "TOLLGATE_ACME_HTTP_LISTEN", "DATABASE_URL_DIRECT", "TOLLGATE_DATABASE_URL_DIRECT",
            ])
                == Set(Setting.all.filter(\.needsRestart).map(\.name)))
        // The same settings on other lines are the same settings.
        var moved = try #require(load("\n\n# moved\n" + before).configuration)
        #expect(moved.keepUnchangeable(of: running) == [])
    }

    @Test func certificatesStayWithTheListenersThatNeedThem() throws {
        let tls = "TOLLGATE_LISTEN_TLS=127.0.0.1:8443\nTOLLGATE_TLS_CERT=a.crt\nTOLLGATE_TLS_KEY=a.key\n"
        let running = try #require(load(oneRoute + tls).configuration)
        var without = try #require(load(oneRoute).configuration)
        #expect(without.keepUnchangeable(of: running) == ["TOLLGATE_LISTEN_TLS"])
        #expect(without.settings.tlsListeners.count == 1 && without.settings.tlsPairs.map(\.certificate) == ["a.crt"])
        var renamed = try #require(load(oneRoute + tls.replacing("a.", with: "b.")).configuration)
        #expect(renamed.keepUnchangeable(of: running) == [])
        #expect(renamed.settings.tlsPairs.map(\.certificate) == ["b.crt"])
    }

    @Test func ineffectiveChangesOfEnvFilesAreReported() throws {
        let environment = [(name: "TOLLGATE_AUDIENCE", value: "pinned"), (name: "TOLLGATE_ADMIN_TOKEN", value: "a-token-that-is-pinned")]
        let read = { (text: String) in try #require(load(oneRoute + text, environment: environment).configuration) }
        let running = try read("TOLLGATE_AUDIENCE=first")
        for (text, expected) in [
            ("TOLLGATE_AUDIENCE=first", []), ("", []), ("TOLLGATE_AUDIENCE=pinned", []),
            ("TOLLGATE_AUDIENCE=second", ["TOLLGATE_AUDIENCE"]),
            ("TOLLGATE_AUDIENCE=second\nTOLLGATE_ADMIN_TOKEN=another-admin-token", ["TOLLGATE_ADMIN_TOKEN", "TOLLGATE_AUDIENCE"]),
        ] {
            var next = try read(text)
            #expect(next.settings.keepOverridden(of: running.settings) == expected, "\(text)")
            #expect(next.settings.keepOverridden(of: running.settings) == [])
        }
    }

    @Test func everyRowHasADescriptionAndAUniqueName() {
        #expect(Set(Setting.all.map(\.name)).count == Setting.all.count)
        for setting in Setting.all {
            #expect(setting.doc.hasSuffix(".") || setting.doc.hasSuffix(".)"), "\(setting.name)")
            #expect(Setting.named(setting.isFamily ? setting.name + "X" : setting.name) == setting)
        }
    }

    @Test func everyDefaultIsAValueThatItsOwnTypeTakes() throws {
        let text = Setting.all.filter { !$0.isFamily && !$0.defaultValue.isEmpty }
            .map { "\($0.name)=\"\($0.defaultValue)\"" }.joined(separator: "\n")
        #expect(faults(text) == [])
    }

    @Test func theReferenceNamesEveryRow() {
        for setting in Setting.all {
            #expect(SettingsReference.markdown.contains("| `\(setting.shownName)` |"))
            #expect(SettingsReference.plain.contains(setting.shownName))
        }
        #expect(SettingsReference.markdown.split(separator: "\n").count == Setting.all.count + 2)
    }

    @Test func theMetricsAreListedByTheirCommand() {
        let names = MetricsReference.rows.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(names.contains("tollgate_build_info") && names.contains("tollgate_http_requests_total"))
        let runner = CommandRunner(environment: [], now: Moment(monotonic: moment(0), wall: WallTime(seconds: 0)), readInput: { "" })
        for (words, shown) in [
            ([], "tollgate_bus_connected{carrier} (gauge)"), (["--markdown"], "| `tollgate_bus_connected` | gauge | `carrier` |"),
            (["--json"], #""name":"tollgate_bus_connected","type":"gauge","labels":["carrier"]"#),
        ] {
            let result = runner.run(["metrics"] + words)
            #expect(result.exitCode == 0)
            #expect(result.output.contains(shown), "\(words)")
            #expect(names.allSatisfy(result.output.contains), "\(words)")
        }
    }
}
