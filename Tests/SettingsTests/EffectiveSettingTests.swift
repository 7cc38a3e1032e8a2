import Testing

@testable import Settings

/// The settings in force, as the operator is shown them.
@Suite struct EffectiveSettingTests {
    private func shown(_ configuration: Configuration) -> [String: EffectiveSetting] {
        Dictionary(uniqueKeysWithValues: configuration.effective.map { ($0.name, $0) })
    }

    @Test func eachSettingIsShownWithItsSource() throws {
        let loaded = load(
            [("a.env", "TOLLGATE_LOG=debug\n" + oneRoute), ("b.env", "\nTOLLGATE_LOG=error\nTOLLGATE_HEADER_TIMEOUT=5s\n")],
            environment: [("TOLLGATE_HEADER_TIMEOUT", "6s")])
        let shown = shown(loaded.partial)
        #expect(shown["TOLLGATE_LOG"]?.value == "error" && shown["TOLLGATE_LOG"]?.origin.text == "b.env:2")
        #expect(shown["TOLLGATE_HEADER_TIMEOUT"]?.value == "6s" && shown["TOLLGATE_HEADER_TIMEOUT"]?.origin.text == "environment")
        #expect(shown["TOLLGATE_IDLE_TIMEOUT"]?.value == "75s" && shown["TOLLGATE_IDLE_TIMEOUT"]?.origin.text == "default")
        #expect(shown["TOLLGATE_ROUTE_R"]?.value == "/r/* upstream=u" && shown["TOLLGATE_ROUTE_R"]?.origin.text == "a.env:3")
        #expect(shown["TOLLGATE_ROUTE_"] == nil)
        for setting in Setting.all where !setting.isFamily {
            #expect(
                shown[setting.name]?.isSecret == setting.isSecret && shown[setting.name]?.needsRestart == setting.needsRestart,
                "\(setting.name)")
        }
    }

    @Test func noSecretHasAValue() {
        let secrets = Setting.all.filter(\.isSecret)
        #expect(secrets.count >= 8)
        let marker = "MARKER-of-more-than-thirty-two-bytes"
        let environment = secrets.map { ($0.name, $0.isURL ? "https://u:\(marker)@h/\(marker)" : marker) }
        let direct = load([("a.env", oneRoute)], environment: environment).partial
        let files = secrets.map { ($0.name + "_FILE", "/\($0.name)") }
        let byFile = load(
            [("a.env", oneRoute)], environment: files,
            files: Dictionary(uniqueKeysWithValues: secrets.map { ("/" + $0.name, Array(marker.utf8)) })
        ).partial
        for configuration in [direct, byFile] {
            for secret in secrets {
                #expect(shown(configuration)[secret.name]?.value == nil && shown(configuration)[secret.name]?.origin.text == "environment")
            }
            #expect(!configuration.effective.contains { $0.value?.contains("MARKER") == true })
        }
    }

    /// A reload does not take what needs a restart, and shows what is in force.
    @Test func aSettingThatNeedsARestartIsShownAsItRuns() throws {
        let running = load("TOLLGATE_WORKERS=2\nTOLLGATE_LOG=info\n" + oneRoute).partial
        var next = load("TOLLGATE_LOG=debug\nTOLLGATE_WORKERS=3\n" + oneRoute).partial
        let count = next.effective.count
        #expect(next.keepUnchangeable(of: running) == ["TOLLGATE_WORKERS"])
        #expect(shown(next)["TOLLGATE_WORKERS"]?.value == "2" && shown(next)["TOLLGATE_WORKERS"]?.origin.text == "a.env:1")
        #expect(shown(next)["TOLLGATE_LOG"]?.value == "debug")
        #expect(next.effective.count == count && next.effective.map(\.name) == running.effective.map(\.name))
    }

    /// Such as `jwks=https://host/keys?key=SECRET`.
    @Test func theQueryOfAURLIsMasked() {
        let trust = "TOLLGATE_TRUST_T=\"audience=a jwks=https://i/k?key=MARKER tier-from=lookup tier-url=https://i/t?token=MARKER\"\n"
        let settings = load("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/?key=MARKER\n" + trust + oneRoute).partial
        #expect(shown(settings)["TOLLGATE_TRUST_T"]?.value == "audience=a jwks=https://i/k?*** tier-from=lookup tier-url=https://i/t?***")
        #expect(!settings.effective.contains { $0.value?.contains("MARKER") == true })
    }

    /// The link is in each response.
    @Test func theLinkOfASunsetIsShown() {
        let line = "/r/* upstream=u sunset=2096-03-01  sunset-link=https://example.org/ends?of=r"
        let upstream = "TOLLGATE_UPSTREAM_U=\"http://u:8000\"\n"
        let settings = load(
            upstream + "TOLLGATE_ROUTE_R=\"\(line)\"\nTOLLGATE_ROUTE_S=\"/s\tsunset-link=https://s/\tx=https://s/?MARKER\"\n"
        ).partial
        #expect(shown(settings)["TOLLGATE_ROUTE_R"]?.value == line)
        #expect(shown(settings)["TOLLGATE_ROUTE_S"]?.value?.contains("MARKER") == false)
    }
}
