internal import Wire

/// The system's reason why a file cannot be read.
package struct UnreadableFile: Error, Sendable {
    package let reason: String
    package init(reason: String) { self.reason = reason }
}

/// The inputs of a load, as values. Only files that settings name are read through `readFile`.
package struct SettingSources: Sendable {
    /// The env files in the order given; later files win.
    package var files: [(name: String, bytes: [UInt8])]
    /// The process environment, which wins over all files.
    package var environment: [(name: String, value: String)]
    /// Reads the file of a secret, a key set or a certificate.
    package var readFile: @Sendable (String) -> Result<[UInt8], UnreadableFile>

    package init(
        files: [(name: String, bytes: [UInt8])], environment: [(name: String, value: String)],
        readFile: @escaping @Sendable (String) -> Result<[UInt8], UnreadableFile>
    ) {
        self.files = files
        self.environment = environment
        self.readFile = readFile
    }
}

/// The effective text of every setting, from the source that wins.
struct SettingValues {
    private var entries: [String: EnvEntry] = [:]
    /// The names of each family, in the order of their first occurrence.
    private var families: [Setting: [String]] = [:]
    private var secrets: [String: (bytes: [UInt8], origin: Origin)] = [:]
    private(set) var findings = Findings()
    /// The ineffective values in files, by variable, where the environment has a different value.
    private(set) var overridden: [String: String] = [:]

    init(_ sources: SettingSources) {
        for file in sources.files {
            let (entries, findings) = EnvFile.parse(file.bytes, name: file.name)
            self.findings.add(findings)
            for entry in entries { add(entry) }
        }
        for (name, value) in sources.environment.sorted(by: { $0.name < $1.name }) where isOurs(name) {
            add(EnvEntry(name: name, value: value, origin: .environment))
        }
        for setting in Setting.all where setting.isSecret { readSecret(setting, sources) }
    }

    /// The setting's entry, or its default. An empty text counts as not set, except where it means "none".
    func entry(_ setting: Setting) -> EnvEntry {
        let unset = EnvEntry(name: setting.name, value: setting.defaultValue, origin: .builtIn)
        guard let entry = entries[setting.name] else { return unset }
        return entry.value.isEmpty && !setting.emptyMeansNone ? unset : entry
    }

    /// The entries of a family, each with the name after the prefix, in lower case.
    func family(_ setting: Setting) -> [(name: String, entry: EnvEntry)] {
        families[setting, default: []].compactMap { name in
            entries[name].map { (name.dropFirst(setting.name.count).lowercased(), $0) }
        }
    }

    /// The effective value of every variable that is set, secrets included; that of a secret's file counts as the secret's.
    var texts: [String: [UInt8]] {
        var texts = secrets.mapValues(\.bytes)
        for (name, entry) in entries where Setting.secretFile(name) == nil && texts[name] == nil { texts[name] = Array(entry.value.utf8) }
        return texts
    }

    /// The value of a secret, from its variable or its file.
    func secret(_ setting: Setting) -> (bytes: [UInt8], origin: Origin)? { secrets[setting.name] }

    private mutating func add(_ entry: EnvEntry) {
        let setting = Setting.named(entry.name)
        guard setting != nil || Setting.secretFile(entry.name) != nil else { return reportUnknown(entry) }
        guard let earlier = entries.updateValue(entry, forKey: entry.name) else {
            if let setting, setting.isFamily { families[setting, default: []].append(entry.name) }
            return
        }
        if entry.origin == .environment, earlier.value != entry.value { overridden[entry.name] = earlier.value }
    }

    /// Reports an unknown name: a fault if it begins with `TOLLGATE_`, a warning if it nearly does or is nearly a name without it, nothing
    /// otherwise.
    private mutating func reportUnknown(_ entry: EnvEntry) {
        if entry.name.uppercased().hasPrefix("TOLLGATE_") {
            let text = "is no setting, the nearest is \(Setting.nearest(to: entry.name))"
            return findings.fault(Finding(entry.origin, entry.name, text))
        }
        let isNear = editDistance(entry.name.prefix(9).uppercased(), "TOLLGATE_") <= 2
        guard let nearest = isNear ? Setting.nearest(to: entry.name) : Setting.slip(entry.name) else { return }
        findings.warn(Finding(entry.origin, entry.name, "is no setting and is ignored, the nearest is \(nearest)"))
    }

    private mutating func readSecret(_ setting: Setting, _ sources: SettingSources) {
        let text = entries[setting.name].flatMap { $0.value.isEmpty ? nil : $0 }
        let file = entries[setting.name + "_FILE"].flatMap { $0.value.isEmpty ? nil : $0 }
        guard let file else {
            if let text { secrets[setting.name] = (Array(text.value.utf8), text.origin) }
            return
        }
        if let text {
            let message = "is set together with \(setting.name) (\(text.origin.text)), keep one of them"
            return findings.fault(Finding(file.origin, file.name, message))
        }
        do {
            secrets[setting.name] = (try SecretFile.read(file.origin.path(file.value), sources), file.origin)
        } catch {
            findings.fault(Finding(file.origin, file.name, error.text))
        }
    }
}

/// A file with one secret.
enum SecretFile {
    /// Reads the file, without a newline at its end.
    static func read(_ path: String, _ sources: SettingSources) throws(ParseError) -> [UInt8] {
        var bytes: [UInt8]
        do {
            bytes = try sources.readFile(path).get()
        } catch {
            throw ParseError("names a file that cannot be read (\(error.reason)), give the path of a readable file")
        }
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard !bytes.isEmpty else { throw ParseError("names an empty file, write the secret into it") }
        return bytes
    }
}

/// Whether a variable of the process environment is ours. Excludes the `TOLLGATE_SERVICE_…` and `TOLLGATE_PORT…` variables that
/// Kubernetes sets for a service named tollgate.
private func isOurs(_ name: String) -> Bool {
    if !name.hasPrefix("TOLLGATE_") { return Setting.named(name) != nil || Setting.secretFile(name) != nil }
    if name == "TOLLGATE_PORT" || name == "TOLLGATE_SERVICE_HOST" || name.hasPrefix("TOLLGATE_SERVICE_PORT") { return false }
    let port = name.dropFirst("TOLLGATE_PORT_".count).utf8.prefix { $0.isASCIIDigit }
    return !(name.hasPrefix("TOLLGATE_PORT_") && !port.isEmpty)
}
