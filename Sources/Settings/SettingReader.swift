internal import Credentials
internal import Gate
internal import Wire

/// The functions of a row: parse its text into a part of the configuration, compare that part, and copy it on reload.
struct SettingReader: Sendable {
    typealias Path<Value> = any WritableKeyPath<Configuration, Value> & Sendable
    typealias Parse<Value> = @Sendable (String) throws(ParseError) -> Value

    let read: @Sendable (inout ConfigurationReader, Setting) -> Void
    /// Whether two configurations have the same value.
    let isSame: @Sendable (Configuration, Configuration) -> Bool
    /// Copies the value from the second configuration to the first.
    let keep: @Sendable (inout Configuration, Configuration) -> Void
    /// The words of a choice.
    private(set) var choices: [String] = []
    private(set) var isNoneIfEmpty = false
    private(set) var isURL = false
    /// The help on the keys of a line; empty for other values.
    private(set) var keys: @Sendable () -> String = { "" }

    init<Value: Equatable & Sendable>(
        _ path: Path<Value>, isSame: @escaping @Sendable (Value, Value) -> Bool = { $0 == $1 },
        _ read: @escaping @Sendable (inout ConfigurationReader, Setting) -> Value?
    ) {
        self.read = { reader, setting in
            if let value = read(&reader, setting) { reader.configuration[keyPath: path] = value }
        }
        self.isSame = { isSame($0[keyPath: path], $1[keyPath: path]) }
        keep = { $0[keyPath: path] = $1[keyPath: path] }
    }

    /// A plain setting.
    static func plain<Value: Equatable>(_ name: String, _ initial: Value, _ form: OptionForm<Value>) -> Self {
        let value = { @Sendable (configuration: Configuration) in configuration.values[name] as? Value ?? initial }
        return Self { reader, setting in
            if let value = reader.parse(setting, form) { reader.configuration.values[name] = value }
        } isSame: {
            value($0) == value($1)
        } keep: {
            $0.values[name] = $1.values[name]
        }
        .changed { $0.choices = form.choices }
    }

    /// A reader of several parts or none, which a reload never compares.
    init(
        _ read: @escaping @Sendable (inout ConfigurationReader, Setting) -> Void,
        isSame: @escaping @Sendable (Configuration, Configuration) -> Bool = { _, _ in true },
        keep: @escaping @Sendable (inout Configuration, Configuration) -> Void = { _, _ in }
    ) {
        self.read = read
        self.isSame = isSame
        self.keep = keep
    }

    /// The reader of a setting that the row of another one reads.
    static let readByAnotherRow = SettingReader { _, _ in }

    /// The reader of a list, which an empty text empties.
    var emptyIsNone: Self { changed { $0.isNoneIfEmpty = true } }

    private func changed(_ change: (inout Self) -> Void) -> Self {
        var reader = self
        change(&reader)
        return reader
    }

    // MARK: values

    static func value<Value: Equatable>(_ path: Path<Value>, _ form: OptionForm<Value>) -> Self {
        Self(path) { $0.parse($1, form) }.changed { $0.choices = form.choices }
    }

    /// A value; nil if the setting is empty.
    static func value<Value: Equatable>(ifSet path: Path<Value?>, _ form: OptionForm<Value>) -> Self {
        Self(path) { reader, setting in .some(reader.text(setting).isEmpty ? nil : reader.parse(setting, form)) }
    }

    static func words<Value: Equatable & Sendable>(
        _ path: Path<[Value]>, allowingCommas: Bool = false, _ parse: @escaping Parse<Value>
    ) -> Self {
        Self(path) { reader, setting in
            reader.words(setting, allowingCommas: allowingCommas).compactMap { reader.parse(setting, $0, parse) }
        }
    }

    /// A single path; a second one is a fault, not part of the first.
    static func oneFile(_ path: Path<String?>) -> Self {
        Self(path) { reader, setting in
            let files = reader.paths(setting)
            if files.count > 1 { reader.fault(setting, "names \(counted(files.count, "file")), put all certificates into one") }
            return .some(files.first)
        }.emptyIsNone
    }

    /// Paths.
    static func files(_ path: Path<[String]>) -> Self { Self(path) { $0.paths($1) }.emptyIsNone }

    // MARK: secrets

    static func secret(_ path: Path<[UInt8]?>) -> Self { Self(path) { .some($0.values.secret($1)?.bytes) } }

    /// The URL of a server, unparsed.
    static func secretText(_ path: Path<String?>) -> Self {
        Self(path) { .some($0.values.secret($1).map { String(decoding: $0.bytes, as: UTF8.self) }) }.changed { $0.isURL = true }
    }

    static func secretURL(_ path: Path<String?>) -> Self {
        Self(path) { reader, setting in
            guard let bytes = reader.values.secret(setting)?.bytes else { return .some(nil) }
            do throws(ParseError) {
                return try TypedText.webURL(String(decoding: bytes, as: UTF8.self))
            } catch {
                reader.secretFault(setting, error.text)
                return .some(nil)
            }
        }.changed { $0.isURL = true }
    }

    // MARK: lines

    /// Listeners, compared by their text without its origin.
    static func listeners(_ path: Path<[ListenerDeclaration]>, allowing options: [ListenerOption]) -> Self {
        Self(path, isSame: { $0.map(\.text) == $1.map(\.text) }) { reader, setting in
            let (listeners, found) = ListenerLine.parse(reader.values.entry(setting), allowing: options)
            reader.findings.add(found)
            return listeners
        }.emptyIsNone
    }

    /// A family of lines.
    static func lines<Declaration: OptionTarget>(_ path: Path<[Declaration]>) -> Self {
        Self { reader, setting in
            for (name, entry) in reader.family(setting) {
                let context = OptionContext(origin: entry.origin, tiers: reader.configuration.tiers, sources: reader.sources)
                var line = OptionLine(entry, Declaration.self, context)
                if let declaration = Declaration(&line, name: name) { reader.configuration[keyPath: path].append(declaration) }
                reader.findings.add(line.findings)
            }
        }
        .changed { $0.keys = SettingsReference.keys(Declaration.self) }
    }

    /// A line on its own; none if it is empty.
    static func line<Declaration: OptionTarget>(_ path: Path<Declaration?>) -> Self {
        Self { reader, setting in
            let entry = reader.values.entry(setting)
            guard !entry.value.isEmpty else { return }
            let context = OptionContext(origin: entry.origin, tiers: reader.configuration.tiers, sources: reader.sources)
            var line = OptionLine(entry, Declaration.self, context)
            reader.configuration[keyPath: path] = Declaration(&line, name: "")
            reader.findings.add(line.findings)
        }
        .changed { $0.keys = SettingsReference.keys(Declaration.self) }
    }

    /// A family whose values another target parses.
    static func entries(_ path: Path<[EnvEntry]>) -> Self {
        Self { reader, setting in
            reader.configuration[keyPath: path] += reader.family(setting).map(\.entry).filter { !$0.value.isEmpty }
        }
    }

    // MARK: one setting each

    static let maxSessions = SettingReader(\.maxSessions) { reader, setting in
        let tiers = reader.configuration.tiers
        return reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try TypedText.countByTier(text, 1...100_000, tiers)
        }
    }

    static let factor = SettingReader(\.factor) { reader, setting in
        let tiers = reader.configuration.tiers
        return reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try FactorChoice(text, tiers) }
    }

    static let scopes = SettingReader(\.tierScopes) { reader, setting in
        let (words, tiers) = (reader.words(setting), reader.configuration.tiers)
        return reader.parse(setting, reader.text(setting)) { _ throws(ParseError) in try TypedText.scopesByTier(words, tiers) }
    }.emptyIsNone

    static let cors = SettingReader(\.cors) { reader, setting in
        reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try CORSOptions.choice(ofSetting: text) }
    }

    static let tiers = SettingReader(\.tiers) { reader, setting in
        do throws(TierList.Fault) {
            return try TierList(reader.words(setting))
        } catch {
            reader.fault(setting, error.message)
            return nil
        }
    }

    /// Pairs of certificates and the keys of `TOLLGATE_TLS_KEY`.
    static let certificates = SettingReader { reader, setting in
        let certificates = reader.paths(setting), keys = reader.paths(.tlsKey)
        if certificates.count != keys.count {
            let message =
                "names \(counted(keys.count, "file")) and TOLLGATE_TLS_CERT \(counted(certificates.count, "file")), give one key for each certificate"
            reader.fault(keys.isEmpty ? setting : .tlsKey, keys.isEmpty ? "has no key beside it, set TOLLGATE_TLS_KEY" : message)
        }
        let origin = reader.values.entry(setting).origin
        reader.configuration.tlsPairs = zip(certificates, keys).map { TLSPairDeclaration(certificate: $0, key: $1, origin: origin) }
    }.emptyIsNone
}
