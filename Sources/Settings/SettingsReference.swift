internal import Wire

/// The reference of settings, generated from their table.
package enum SettingsReference {
    /// The table of `docs/settings.md`.
    package static var markdown: String {
        var text = "| variable | default | meaning |\n|---|---|---|\n"
        for setting in Setting.all {
            text += "| `\(setting.shownName)` | \(defaultText(setting)) | \(escaped(meaning(setting))) |\n"
        }
        return text
    }

    /// The reference for a terminal.
    package static var plain: String {
        var text = ""
        for setting in Setting.all {
            let value = setting.shownDefault ?? setting.defaultValue
            text += setting.shownName + (value.isEmpty ? "" : " (\(value.replacing("`", with: "")))") + "\n"
            text += "    " + meaning(setting).replacing("`", with: "") + "\n"
        }
        return text
    }

    /// The keys of lines with options, for a terminal.
    package static var lines: String {
        [
            keys(RouteDeclaration.self, "[METHODS] [HOST]/PATH key=value …"), keys(UpstreamDeclaration.self, "URL… key=value …"),
            keys(TrustDeclaration.self), keys(ResourceDeclaration.self), keys(InternalDeclaration.self), keys(VersionGateDeclaration.self),
            keys(ProviderDeclaration.self),
            keys(AdminTokenDeclaration.self),
            keys(ProductDeclaration.self), keys(AppleStoreDeclaration.self), keys(GoogleStoreDeclaration.self),
            keys(StripeStoreDeclaration.self), keys(RevenueCatStoreDeclaration.self),
        ].joined(separator: "\n")
    }

    private static func keys<Target: OptionTarget>(_: Target.Type, _ grammar: String = "key=value …") -> String {
        let rows = Target.options.map { "    \($0.key)=    \($0.values): \($0.doc.replacing("`", with: ""))\n" }
        return "\(Target.family.shownName)=\"\(grammar)\"\n" + rows.joined()
    }

    private static func defaultText(_ setting: Setting) -> String {
        if let shown = setting.shownDefault { return shown }
        return setting.defaultValue.isEmpty ? "" : "`\(setting.defaultValue)`"
    }

    private static func meaning(_ setting: Setting) -> String {
        var text = setting.doc
        let choices = setting.reader.choices
        if !choices.isEmpty { text += " One of `\(choices.joined(separator: "`, `"))`." }
        if setting.isSecret { text += " `\(setting.name)_FILE` reads it from a file." }
        if setting.needsRestart { text += " A change needs a restart." }
        return text
    }

    /// Escapes bars, which would end a table cell.
    private static func escaped(_ text: String) -> String { text.replacing("|", with: "\\|") }
}
