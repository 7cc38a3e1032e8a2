internal import Wire

/// A setting in force, as the operator is shown it.
package struct EffectiveSetting: Hashable, Sendable {
    /// The variable; of a family one with its whole name.
    package var name: String
    /// nil for a secret. User, password and query of URLs are masked.
    package var value: String?
    package var origin: Origin
    package var isSecret: Bool
    package var needsRestart: Bool
}

extension SettingValues {
    /// All settings, in the order of the table; of a family those that are set.
    var effective: [EffectiveSetting] {
        Setting.all.flatMap { setting -> [EffectiveSetting] in
            if setting.isSecret {
                return [setting.effective(setting.name, nil, secret(setting)?.origin ?? .builtIn)]
            }
            let entries = setting.isFamily ? family(setting).map(\.entry) : [entry(setting)]
            // The URL of a version gate is told to clients.
            let mask = setting == .versionGate ? { $0 } : Self.maskingSecrets
            return entries.map { setting.effective($0.name, mask($0.value), $0.origin) }
        }
    }

    /// The line of a route keeps its `sunset-link=`, which clients are told, too.
    private static func maskingSecrets(_ line: String) -> String {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        return words.map { word in
            word.hasPrefix("sunset-link=") && !word.contains("\t") ? String(word) : maskingURLSecrets(String(word))
        }.joined(separator: " ")
    }
}

extension Setting {
    fileprivate func effective(_ name: String, _ value: String?, _ origin: Origin) -> EffectiveSetting {
        EffectiveSetting(name: name, value: value, origin: origin, isSecret: isSecret, needsRestart: needsRestart)
    }
}

extension Configuration {
    /// Shows a setting that a reload did not take as it is in `running`.
    mutating func showEffective(_ setting: Setting, of running: Configuration) {
        let isOfSetting = { (shown: EffectiveSetting) in Setting.named(shown.name) == setting }
        guard let index = effective.firstIndex(where: isOfSetting) else {
            effective += running.effective.filter(isOfSetting)
            return
        }
        effective.removeAll(where: isOfSetting)
        effective.insert(contentsOf: running.effective.filter(isOfSetting), at: index)
    }
}
