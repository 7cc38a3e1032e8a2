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
        Setting.all.map(text).joined()
    }

    private static func text(_ setting: Setting) -> String {
        let value = setting.shownDefault ?? setting.defaultValue
        return setting.shownName + (value.isEmpty ? "" : " (\(value.replacing("`", with: "")))")
            + "\n    \(meaning(setting).replacing("`", with: ""))\n"
    }

    /// The keys of lines with options, for a terminal.
    package static var lines: String {
        Setting.all.map { $0.reader.keys() }.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    /// One setting by its name, or the end of that in any case, in the singular or plural, with the keys of its line; nil for another word.
    package static func setting(_ name: String) -> String? {
        let words = name.uppercased().replacing("-", with: "_")
        let names = [words, "TOLLGATE_\(words)"].flatMap { [$0, "\($0)_", String($0.dropLast()), "\($0.dropLast())_"] }
        return Setting.all.first { names.contains($0.name) }.map { text($0) + ($0.reader.keys().isEmpty ? "" : "\n\($0.reader.keys())") }
    }

    /// A function, since its table names the row of the setting, which may be in the making.
    static func keys<Target: OptionTarget>(_: Target.Type) -> @Sendable () -> String {
        {
            let rows = Target.options.map { "    \($0.key)=    \($0.values): \($0.doc.replacing("`", with: ""))\n" }
            return rows.isEmpty ? "" : "\(Target.family.shownName)=\"\(Target.grammar)\"\n" + rows.joined()
        }
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
