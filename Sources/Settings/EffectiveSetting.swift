/// A setting in force, as the operator is shown it.
package struct EffectiveSetting: Hashable, Sendable {
    /// The variable; of a family one with its whole name.
    package var name: String
    /// nil for a secret. User and password of URLs are masked.
    package var value: String?
    package var origin: Origin
    package var isSecret: Bool
    package var needsRestart: Bool
}

extension SettingValues {
    /// All settings, in the order of the table; of a family those that are set.
    var effective: [EffectiveSetting] {
        Setting.all.filter { $0.stage == .built }.flatMap { setting -> [EffectiveSetting] in
            if setting.isSecret {
                return [setting.effective(setting.name, nil, secret(setting)?.origin ?? .builtIn)]
            }
            let entries = setting.isFamily ? family(setting).map(\.entry) : [entry(setting)]
            return entries.map { setting.effective($0.name, maskingUserInformation($0.value), $0.origin) }
        }
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

/// `text` with `***` for the user information of each URL in it (RFC 3986 §3.2.1), also where its password has characters that a URL
/// cannot have there.
package func maskingUserInformation(_ text: String) -> String {
    var out = Substring(), rest = text[...]
    while let scheme = rest.firstRange(of: "://") {
        out += rest[..<scheme.upperBound]
        rest = rest[scheme.upperBound...]
        let url = rest.prefix { !" \t\"'".contains($0) }
        let authority = url.prefix { !"/?#,".contains($0) }
        // A colon that begins no port begins a password.
        let password = authority.lastIndex(of: ":").map { authority[authority.index(after: $0)...] }
        let isCut = password.map { !$0.allSatisfy(\.isNumber) } ?? false
        guard let at = (authority.contains("@") || !isCut ? authority : url).lastIndex(of: "@") else { continue }
        out += "***"
        rest = rest[at...]
    }
    return String(out + rest)
}
