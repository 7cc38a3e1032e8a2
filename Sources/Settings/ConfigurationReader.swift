internal import Wire

/// The outcome of reading the settings.
package struct LoadedSettings: Sendable {
    /// What could be read. Only without faults does it say what the operator meant.
    package var partial: Configuration
    package var findings: Findings
}

/// Reads a configuration out of its sources.
package enum Settings {
    /// Reads all settings; reports every fault and every warning, in reading order. Pure, but for `readFile`.
    package static func load(_ sources: SettingSources) -> LoadedSettings {
        var reader = ConfigurationReader(sources)
        reader.readAll()
        return LoadedSettings(partial: reader.configuration, findings: reader.findings.sorted(files: sources.files.map(\.name)))
    }
}

/// One reading of all settings: row by row, then what only several of them together can tell.
struct ConfigurationReader {
    let sources: SettingSources
    let values: SettingValues
    var findings: Findings
    var configuration = Configuration()

    init(_ sources: SettingSources) {
        self.sources = sources
        values = SettingValues(sources)
        findings = values.findings
        configuration.overridden = values.overridden
        for setting in Setting.all where !setting.isFamily {
            configuration.origins[setting.name] =
                setting.isSecret ? values.secret(setting)?.origin : values.entry(setting).origin
        }
    }

    mutating func readAll() {
        for setting in Setting.all where setting.stage == .built { setting.reader.read(&self, setting) }
        readUnbuilt()
        if configuration.issuer.isEmpty { configuration.issuer = configuration.publicURL }
        checkSecrets()
        checkListeners()
        checkInternals()
        checkIssuers()
        resolveRoutes()
        checkUse()
    }
}

// MARK: - One row each

extension ConfigurationReader {
    mutating func fault(_ setting: Setting, _ message: String) {
        let entry = values.entry(setting)
        findings.fault(Finding(entry.origin, entry.name, message))
    }

    /// Without the value, which is a secret.
    mutating func secretFault(_ setting: Setting, _ message: String) {
        findings.fault(Finding(configuration.origin(of: setting), setting.name, message))
    }

    func text(_ setting: Setting) -> String { values.entry(setting).value }

    func words(_ setting: Setting) -> [String] {
        text(setting).split(whereSeparator: { $0 == " " || $0 == "\t" }).map(String.init)
    }

    /// `text` of a setting as `read` takes it, or a fault that shows it.
    mutating func take<Value>(
        _ setting: Setting, _ text: String, _ read: (String) throws(ParseError) -> Value
    ) -> Value? {
        do {
            return try read(text)
        } catch {
            fault(setting, "\(quoted(text)) \(error.text)")
            return nil
        }
    }

    mutating func count(_ setting: Setting) -> Int? {
        guard case .count(let range) = setting.type else { preconditionFailure("\(setting.name) is no count") }
        return take(setting, text(setting)) { text throws(ParseError) in try TypedText.count(text, range) }
    }

    /// Milliseconds.
    mutating func duration(_ setting: Setting) -> UInt64? {
        guard case .duration(let range) = setting.type else { preconditionFailure("\(setting.name) is no duration") }
        return take(setting, text(setting)) { text throws(ParseError) in try TypedText.duration(text, range) }
    }

    mutating func url(_ setting: Setting) -> String? {
        let text = text(setting)
        guard !text.isEmpty else { return nil }
        return take(setting, text) { text throws(ParseError) in try TypedText.webURL(text) }
    }

    /// The well-named entries of a family: what a name becomes in logs, headers and files is plain.
    mutating func family(_ setting: Setting) -> [(name: String, entry: EnvEntry)] {
        values.family(setting).filter { name, entry in
            let suffix = entry.name.utf8.dropFirst(setting.name.utf8.count)
            let isPlain = suffix.count <= 64 && suffix.allSatisfy { byte in
                byte.isASCIIDigit || byte == UInt8(ascii: "_") || (65...90).contains(byte)
            }
            if !isPlain {
                let message = "has a name with more than capitals, digits and _, write one like \(setting.name)MY_API"
                findings.fault(Finding(entry.origin, entry.name, message))
            }
            return isPlain
        }
    }
}
