internal import Wire

/// The result of loading the settings.
package struct LoadedSettings: Sendable {
    /// The configuration; incomplete if `findings` has faults.
    package var partial: Configuration
    package var findings: Findings
}

/// The loader of settings.
package enum Settings {
    /// Loads all settings and reports every fault and warning, in reading order. Pure except for `sources.readFile`.
    package static func load(_ sources: SettingSources) -> LoadedSettings {
        var reader = ConfigurationReader(sources)
        reader.readAll()
        return LoadedSettings(partial: reader.configuration, findings: reader.findings.sorted(files: sources.files.map(\.name)))
    }
}

/// One load of all settings: row by row, then the checks across rows.
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
        configuration.texts = values.texts
        configuration.effective = values.effective
        for setting in Setting.all where !setting.isFamily {
            configuration.origins[setting.name] =
                setting.isSecret ? values.secret(setting)?.origin : values.entry(setting).origin
        }
    }

    mutating func readAll() {
        for setting in Setting.all { setting.reader.read(&self, setting) }
        if configuration.issuer.isEmpty { configuration.issuer = configuration.publicURL }
        checkSecrets()
        checkProxies()
        checkNetworks()
        checkListeners()
        checkStrictTransport()
        checkFactor()
        checkProofs()
        checkRevocationLists()
        checkInternals()
        checkIssuers()
        checkPurchases()
        resolveRoutes()
        resolveResources()
        checkSignedIdentities()
        checkAcme()
        checkUse()
        checkAttributes()
        checkScopes()
        checkApps()
        checkPasskeys()
        resolveAttestations()
    }
}

// MARK: - One row each

extension ConfigurationReader {
    mutating func fault(_ setting: Setting, _ message: String) {
        let entry = values.entry(setting)
        findings.fault(Finding(entry.origin, entry.name, message))
    }

    mutating func warn(_ setting: Setting, _ message: String) {
        let entry = values.entry(setting)
        findings.warn(Finding(entry.origin, entry.name, message))
    }

    /// Reports a fault of a secret, without its value.
    mutating func secretFault(_ setting: Setting, _ message: String) {
        findings.fault(Finding(configuration.origin(of: setting), setting.name, message))
    }

    func text(_ setting: Setting) -> String { values.entry(setting).value }

    func words(_ setting: Setting, allowingCommas: Bool = false) -> [String] {
        text(setting).split { $0 == " " || $0 == "\t" || (allowingCommas && $0 == ",") }.map(String.init)
    }

    /// The words of a setting, each a path.
    func paths(_ setting: Setting) -> [String] { words(setting).map(values.entry(setting).origin.path) }

    /// Parses `text`, a setting's value or a part of it; on an error reports a fault that quotes it and returns nil.
    mutating func parse<Value>(
        _ setting: Setting, _ text: String, _ read: (String) throws(ParseError) -> Value
    ) -> Value? {
        do {
            return try read(text)
        } catch {
            fault(setting, "\(quoted(text)) \(error.text)")
            return nil
        }
    }

    mutating func parse<Value>(_ setting: Setting, _ form: OptionForm<Value>) -> Value? {
        let context = OptionContext(origin: values.entry(setting).origin, tiers: configuration.tiers, sources: sources)
        return parse(setting, text(setting)) { text throws(ParseError) in try form.parse(text, context) }
    }

    /// The entries of a family with valid names. Names are used in logs, headers and files, so only capitals, digits and `_` are
    /// allowed, up to 64.
    mutating func family(_ setting: Setting) -> [(name: String, entry: EnvEntry)] {
        values.family(setting).filter { name, entry in
            let suffix = entry.name.utf8.dropFirst(setting.name.utf8.count)
            let isPlain =
                suffix.count <= 64
                && suffix.allSatisfy { byte in
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
