internal import Accounts
internal import Admin
internal import Settings
internal import System
internal import Wire

/// `tollgate doctor`: looks at the deployment of a configuration and says what to mend. It changes nothing.
struct DoctorCommand {
    /// The time for all probes, which run side by side.
    private static let milliseconds: UInt64 = 10_000

    let loader: ConfigurationLoader
    let now: WallTime
    func run(json: Bool) -> CommandResult {
        let loaded = loader.load(now: now)
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        let local = LocalProbes(configuration: configuration, loader: loader, now: now)
        let reports: [ProbeReport]
        do {
            let gateway = ProbeRun.Probe(name: "gateway") { local.gateway }
            let stores = CommandStores(configuration)
            let probes = StoreProbes(configuration: configuration, stores: try stores.stores(), now: now)
            reports = try ProbeRun.all([gateway] + RemoteProbes.all(configuration) + probes.all, milliseconds: Self.milliseconds)
            stores.stop()
        } catch {
            return .failed("\(error)")
        }
        // An expired certificate is a warning of `check` and a finding here.
        let warnings = loaded.findings.warnings.filter { $0.name != Setting.tlsCert.name }
        var findings = warnings.map { Diagnosis.warn("configuration", $0.text) }
        if warnings.isEmpty { findings.append(.ok("configuration", "is accepted by `tollgate check`")) }
        findings += reports.first?.findings ?? []
        findings += LocalJudgements.clock(reports.flatMap(\.clocks), skewSeconds: configuration.settings.clockSkewSeconds)
        findings += LocalJudgements.combinations(configuration) + LocalJudgements.examples(configuration.settings.effective)
        findings += StoreJudgements.sandbox(configuration.settings)
        findings += local.findings + reports.dropFirst().flatMap(\.findings)
        return json ? Self.report(findings) : Self.describe(findings)
    }

    private static func exitCode(_ findings: [Diagnosis]) -> Int32 { findings.contains { $0.level == .fail } ? 1 : 0 }

    private static func describe(_ findings: [Diagnosis]) -> CommandResult {
        let lines = findings.map { finding in
            finding.level.rawValue + String(repeating: " ", count: 6 - finding.level.rawValue.count)
                + "\(finding.subject): \(finding.text)\n"
        }
        let (fails, warnings) = (findings.count { $0.level == .fail }, findings.count { $0.level == .warn })
        let sum = fails + warnings == 0 ? "All is well." : "\(counted(fails, "failure")), \(counted(warnings, "warning"))."
        return CommandResult(output: lines.joined() + "\n\(sum)\n", exitCode: exitCode(findings))
    }

    private static func report(_ findings: [Diagnosis]) -> CommandResult {
        let finding = Record<Diagnosis>([.has("level", \.level.rawValue), .has("subject", \.subject), .has("text", \.text)])
        let record = Record<[Diagnosis]>([.has("ok") { exitCode($0) == 0 }, .has("findings", .array(finding.shape)) { $0 }])
        return .json(exitCode: exitCode(findings)) { record.write(findings, &$0) }
    }
}
