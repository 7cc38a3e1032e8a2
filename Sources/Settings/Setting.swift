internal import Wire

/// A row of the table of settings. Parsing, reload, `check`, help and `docs/settings.md` are all derived from it.
package struct Setting: Sendable {
    /// The variable. A family's name ends in `_` and stands for `NAME_<ANYTHING>`.
    package let name: String
    /// Parses the text into the configuration.
    let reader: SettingReader
    /// The text that applies when the variable is not set; empty for none.
    package let defaultValue: String
    /// The description of the default in the reference, if it is not `defaultValue`.
    package let shownDefault: String?
    /// The meaning in a few sentences, in Markdown.
    package let doc: String
    /// Whether the value is a secret: never printed, and may come from a file named by `<NAME>_FILE`.
    package let isSecret: Bool
    /// Whether a change needs a restart: a reload keeps the running value and logs a warning with the name.
    package let needsRestart: Bool
    /// Whether the name is a prefix, followed by the name of a route, an upstream and so on.
    package let isFamily: Bool

    init(
        _ name: String, _ reader: SettingReader, default defaultValue: String = "", shown: String? = nil,
        secret: Bool = false, restart needsRestart: Bool = false, _ doc: String
    ) {
        self.name = name
        self.reader = reader
        self.defaultValue = defaultValue
        self.shownDefault = shown
        self.doc = doc
        self.isSecret = secret
        self.needsRestart = needsRestart
        self.isFamily = name.hasSuffix("_")
    }

    /// Whether a secret is the URL of a server, with a password or without.
    package var isURL: Bool { reader.isURL }

    /// Whether an empty text means "none" and not "use the default".
    var emptyMeansNone: Bool { isFamily || reader.isNoneIfEmpty }

    /// The name in documents; a family's ends in `<NAME>`.
    package var shownName: String { isFamily ? name + "<NAME>" : name }
}

/// A setting of one value: its row, and the value that its default means.
package struct ValueSetting<Value: Equatable & Sendable>: Sendable {
    package let row: Setting
    let initial: Value

    init(
        _ name: String, _ form: OptionForm<Value>, default defaultValue: String = "", shown: String? = nil, restart: Bool = false,
        _ doc: String
    ) {
        let none = SettingSources(files: [], environment: []) { _ in .failure(UnreadableFile(reason: "")) }
        do throws(ParseError) {
            initial = try form.parse(defaultValue, OptionContext(origin: .builtIn, sources: none))
        } catch {
            preconditionFailure("the default of \(name) \(error.text)")
        }
        row = Setting(name, .plain(name, initial, form), default: defaultValue, shown: shown, restart: restart, doc)
    }
}

extension Setting: Hashable {
    package static func == (left: Setting, right: Setting) -> Bool { left.name == right.name }
    package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension Setting {
    /// The row of a plain setting.
    package static func plain<Value>(_ setting: KeyPath<PlainSettings, ValueSetting<Value>>) -> Setting {
        PlainSettings.rows[keyPath: setting].row
    }

    /// The setting of `variable`; nil if there is none.
    package static func named(_ variable: String) -> Setting? {
        if let exact = byName[variable] { return exact.isFamily ? nil : exact }
        // `TOLLGATE_ADMIN_TOKEN_FILE` is no token named FILE.
        guard secretFile(variable) == nil else { return nil }
        return families.first { variable.utf8.count > $0.name.utf8.count && variable.hasPrefix($0.name) }
    }

    /// The secret `X` whose file `variable` names, if it is `X_FILE`; nil otherwise.
    package static func secretFile(_ variable: String) -> Setting? {
        guard variable.hasSuffix("_FILE"), let setting = byName[String(variable.dropLast(5))] else { return nil }
        return setting.isSecret ? setting : nil
    }

    /// The known name with the smallest edit distance to an unknown one, for messages. That of a setting without `TOLLGATE_`, like
    /// `REDIS_URL`, may have it before.
    package static func nearest(to variable: String) -> String {
        let word = variable.uppercased().prefix(128)
        let bare = word.hasPrefix(prefix) ? word.dropFirst(prefix.count) : nil
        var best = (name: "", distance: Int.max)
        for setting in all {
            var distance = setting.isFamily ? familyDistance(word, setting) : editDistance(word, setting.name)
            if let bare, !setting.name.hasPrefix(prefix) { distance = min(distance, 1 + editDistance(bare, setting.name)) }
            if distance < best.distance { best = (setting.shownName, distance) }
        }
        return best.name
    }

    /// The setting without `TOLLGATE_` that `variable` names but for one slip of the hand or its letters' case; nil if there is none. With
    /// more slips it may well be another program's.
    static func slip(_ variable: String) -> String? {
        guard variable.utf8.count <= 64 else { return nil }
        return bareNames.first { abs($0.utf8.count - variable.utf8.count) <= 1 && editDistance($0, variable.uppercased()) <= 1 }
    }

    private static let prefix = "TOLLGATE_"
    private static let bareNames = all.filter { !$0.name.hasPrefix(prefix) }.flatMap {
        $0.isSecret ? [$0.name, $0.name + "_FILE"] : [$0.name]
    }

    /// The smallest edit distance of a prefix of `word` that ends in an underscore to the family's name. Plus 2: since the rest is
    /// free, a family must be closer than a full name.
    private static func familyDistance(_ word: Substring, _ setting: Setting) -> Int {
        let whole = word + "_"
        let beginnings = whole.indices.filter { whole[$0] == "_" }.map { whole[...$0] }
        return 2 + (beginnings.map { editDistance($0, setting.name) }.min() ?? setting.name.count)
    }

    private static let families = all.filter(\.isFamily)
    private static let byName = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
}
