package import Admin
internal import Credentials
package import Settings
internal import Wire

extension AdminOperation {
    static func configuration(_ gateway: some OperatedGateway) -> AdminOperation {
        AdminOperation(
            "GET", "configuration", "getConfiguration", "The settings in force with their sources, without secrets, and the last reload",
            access: .scope(.gatewayRead), answers: ShownConfiguration.shape
        ) { _, _ in ShownConfiguration(loads: gateway.loads, settings: gateway.configuration.settings.effective) }
    }
}

private struct ShownConfiguration: Recorded {
    let loads: LoadHistory.State
    let settings: [EffectiveSetting]

    static let record = Record<Self>(
        "Configuration",
        [
            .has("loaded_at", \.loads.loadedAt), .has("version", \.loads.version), .has("settings", \.settings),
            .may("last_reload", \.loads.lastReload),
        ])
}

extension EffectiveSetting: Recorded {
    package static let record = Record<Self>([
        .has("name", \.name), .has("value", .nullable(String.shape), about: "Null for a secret", \.value),
        .has("source", about: "FILE:LINE, environment or default", \.origin.text), .has("secret", \.isSecret),
        .has("restart", about: "Whether a change needs a restart", \.needsRestart),
    ])
}

extension LoadHistory.Reload: Recorded {
    static let record = Record<Self>([
        .has("at", \.at), .has("ok", \.faults.isEmpty), .has("faults") { $0.faults.map(maskingURLSecrets) },
        .has("warnings") { $0.warnings.map(maskingURLSecrets) },
    ])
}
