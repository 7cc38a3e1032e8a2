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

    /// A reader of several parts or none, which a reload never compares.
    init(_ read: @escaping @Sendable (inout ConfigurationReader, Setting) -> Void) {
        self.read = read
        isSame = { _, _ in true }
        keep = { _, _ in }
    }

    /// The reader of a setting that the row of another one reads.
    static let readByAnotherRow = SettingReader { _, _ in }

    // MARK: texts

    static func text(_ path: Path<String>) -> Self { Self(path) { $0.text($1) } }

    /// A path.
    static func folder(_ path: Path<String>) -> Self {
        Self(path) { reader, setting in reader.values.entry(setting).origin.path(reader.text(setting)) }
    }

    static func words<Value: Equatable & Sendable>(_ path: Path<[Value]>, _ parse: @escaping Parse<Value>) -> Self {
        Self(path) { reader, setting in reader.words(setting).compactMap { reader.parse(setting, $0, parse) } }
    }

    /// A single path. The setting's type allows several, so that a second one is a fault and not part of the first.
    static func oneFile(_ path: Path<String?>) -> Self {
        Self(path) { reader, setting in
            let files = reader.paths(setting)
            if files.count > 1 { reader.fault(setting, "names \(counted(files.count, "file")), put all certificates into one") }
            return .some(files.first)
        }
    }

    static func choice<Value: Equatable & Sendable>(
        _ path: Path<Value>, _ value: @escaping @Sendable (String) -> Value?
    ) -> Self {
        Self(path) { reader, setting in
            guard case .choice(let choices) = setting.type else { preconditionFailure("\(setting.name) is no choice") }
            return reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try TypedText.choice(text, choices) }
                .flatMap(value)
        }
    }

    static func url(_ path: Path<String>) -> Self { Self(path) { $0.url($1) } }
    static func url(_ path: Path<String?>) -> Self { Self(path) { .some($0.url($1)) } }
    static func linkURL(_ path: Path<String?>) -> Self { Self(path) { .some($0.url($1, TypedText.linkURL)) } }

    // MARK: numbers

    static func count(_ path: Path<Int>) -> Self { Self(path) { $0.count($1) } }

    /// A number; nil if the setting is empty.
    static func count(_ path: Path<Int?>) -> Self {
        Self(path) { reader, setting in .some(reader.text(setting).isEmpty ? nil : reader.count(setting)) }
    }

    /// A number for each tier.
    static func countByTier(_ path: Path<[Int]>, _ range: ClosedRange<Int>) -> Self {
        Self(path) { reader, setting in
            let tiers = reader.configuration.tiers
            return reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try TypedText.countByTier(text, range, tiers) }
        }
    }

    static func percentage(_ path: Path<Int>) -> Self { Self(path) { $0.percentage($1) } }
    static func size(_ path: Path<Int>) -> Self { Self(path) { $0.size($1) } }

    static func milliseconds(_ path: Path<UInt32>) -> Self { Self(path) { $0.duration($1).map { UInt32($0) } } }
    static func seconds(_ path: Path<Int64>) -> Self { Self(path) { $0.duration($1).map { Int64($0 / 1000) } } }

    static func rate(_ path: Path<LimitRate>) -> Self {
        Self(path) { reader, setting in reader.parse(setting, reader.text(setting), TypedText.rate) }
    }

    // MARK: secrets

    static func secret(_ path: Path<[UInt8]?>) -> Self { Self(path) { .some($0.values.secret($1)?.bytes) } }

    static func secretText(_ path: Path<String?>) -> Self {
        Self(path) { .some($0.values.secret($1).map { String(decoding: $0.bytes, as: UTF8.self) }) }
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
        }
    }

    // MARK: lines

    /// Listeners, compared by their text without its origin.
    static func listeners(_ path: Path<[ListenerDeclaration]>, allowing options: [ListenerOption]) -> Self {
        Self(path, isSame: { $0.map(\.text) == $1.map(\.text) }) { reader, setting in
            let (listeners, found) = ListenerLine.parse(reader.values.entry(setting), allowing: options)
            reader.findings.add(found)
            return listeners
        }
    }

    /// A family of lines with one grammar. `parse` gets the entry and the name after the prefix, and returns nil for none.
    static func lines<Declaration>(
        _ path: Path<[Declaration]>,
        _ parse: @escaping @Sendable (EnvEntry, String, borrowing ConfigurationReader) -> (Declaration?, Findings)
    ) -> Self {
        Self { reader, setting in
            for (name, entry) in reader.family(setting) {
                let (declaration, found) = parse(entry, name, reader)
                reader.findings.add(found)
                if let declaration { reader.configuration[keyPath: path].append(declaration) }
            }
        }
    }

    /// A family whose values another target parses.
    static func entries(_ path: Path<[EnvEntry]>) -> Self {
        lines(path) { entry, _, _ in (entry.value.isEmpty ? nil : entry, Findings()) }
    }

    // MARK: one setting each

    static let cors = SettingReader(\.cors) { reader, setting in
        reader.parse(setting, reader.text(setting)) { text throws(ParseError) in try CORSOptions.choice(ofSetting: text) }
    }

    static let databaseSchema = SettingReader(\.databaseSchema) { reader, setting in
        reader.parse(setting, reader.text(setting), TypedText.schemaName)
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
            let message = "names \(counted(keys.count, "file")) and TOLLGATE_TLS_CERT \(counted(certificates.count, "file")), give one key for each certificate"
            reader.fault(keys.isEmpty ? setting : .tlsKey, keys.isEmpty ? "has no key beside it, set TOLLGATE_TLS_KEY" : message)
        }
        let origin = reader.values.entry(setting).origin
        reader.configuration.tlsPairs = zip(certificates, keys).map { TLSPairDeclaration(certificate: $0, key: $1, origin: origin) }
    }
}
