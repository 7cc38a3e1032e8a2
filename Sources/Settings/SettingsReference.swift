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

    /// The keys of route, upstream, trust, internal and admin token lines, for a terminal.
    package static var lines: String {
        let families: [(Setting, String, [LineOption])] = [
            (.route, "[METHODS] [HOST]/PATH key=value …", LineOption.route),
            (.upstream, "URL… key=value …", LineOption.upstream), (.trust, "key=value …", LineOption.trust),
            (.internalCaller, "key=value …", LineOption.internalCaller), (.scopedAdminToken, "key=value …", LineOption.adminToken),
        ]
        return families.map { setting, grammar, options in
            var text = "\(setting.shownName)=\"\(grammar)\"\n"
            for option in options {
                let later = option.stage == .built ? "" : " (not built yet)"
                text += "    \(option.key)=    \(option.values): \(option.doc.replacing("`", with: ""))\(later)\n"
            }
            return text
        }.joined(separator: "\n")
    }

    private static func defaultText(_ setting: Setting) -> String {
        if let shown = setting.shownDefault { return shown }
        return setting.defaultValue.isEmpty ? "" : "`\(setting.defaultValue)`"
    }

    private static func meaning(_ setting: Setting) -> String {
        var text = setting.doc
        if case .choice(let choices) = setting.type { text += " One of `\(choices.joined(separator: "`, `"))`." }
        if setting.isSecret { text += " `\(setting.name)_FILE` reads it from a file." }
        if setting.needsRestart { text += " A change needs a restart." }
        switch setting.stage {
        case .built: break
        case .ignored: text += " *Not built yet: a warning.*"
        case .refused: text += " *Not built yet: refused.*"
        }
        return text
    }

    /// Escapes bars, which would end a table cell.
    private static func escaped(_ text: String) -> String { text.replacing("|", with: "\\|") }
}
