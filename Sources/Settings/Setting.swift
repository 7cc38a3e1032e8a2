/// What the text of a setting must be.
package enum SettingType: Hashable, Sendable {
    /// Listen addresses separated by spaces.
    case addresses
    /// File paths separated by spaces.
    case files
    case folder
    case text
    case url
    case count(ClosedRange<Int>)
    /// A duration; the bounds are milliseconds.
    case duration(ClosedRange<UInt64>)
    case choice([String])
    /// `N/s`, `N/m`, `N/h` or `N/d`, `+burst=N` behind it or not.
    case rate
    /// Words separated by spaces.
    case words
    /// CIDRs or single addresses, separated by spaces.
    case networks
    /// Contracts and where they are mounted, separated by spaces.
    case mounts
    /// One line of a grammar of its own: a route, an upstream and so on.
    case line
}

/// Whether this version does what a setting asks for.
package enum SettingStage: Hashable, Sendable {
    case built
    /// Known, not built yet, and harmless to leave out: a warning.
    case ignored
    /// Known, not built yet, and unsafe to leave out: a fault, unless the value is empty or begins with one of these.
    case refused(exceptPrefixes: [String])
}

/// A row of the one table of settings, which is all there is to one: parsing, reload, `check`, `--help` and `docs/settings.md` come from it.
package struct Setting: Sendable {
    /// The variable. A family's ends in `_` and stands for `NAME_<ANYTHING>`.
    package let name: String
    package let type: SettingType
    /// What reads the text into the configuration.
    let reader: SettingReader
    /// The text that holds when the variable is not set; empty for none.
    package let byDefault: String
    /// What the reference prints as the default where that is no text.
    package let shownDefault: String?
    /// One sentence for people, in Markdown.
    package let doc: String
    /// Whether the value may come from a file named by `<NAME>_FILE`, and is never printed.
    package let isSecret: Bool
    package let stage: SettingStage
    /// Whether only a restart changes it: a reload keeps the value that runs and names the setting in a warning.
    package let needsRestart: Bool
    /// Whether the name is a prefix, and what follows it the name of a route, an upstream and so on.
    package let isFamily: Bool

    init(
        _ name: String, _ type: SettingType, _ reader: SettingReader, default byDefault: String = "", shown: String? = nil, secret: Bool = false,
        stage: SettingStage = .built, restart needsRestart: Bool = false, _ doc: String
    ) {
        self.name = name
        self.type = type
        self.reader = reader
        self.byDefault = byDefault
        self.shownDefault = shown
        self.doc = doc
        self.isSecret = secret
        self.stage = stage
        self.needsRestart = needsRestart
        self.isFamily = name.hasSuffix("_")
    }

    /// The name as documents write it: a family's with `<NAME>` behind it.
    package var shownName: String { isFamily ? name + "<NAME>" : name }
}

extension Setting: Hashable {
    package static func == (left: Setting, right: Setting) -> Bool { left.name == right.name }
    package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension Setting {
    /// The setting that `variable` sets; nil when there is none.
    package static func named(_ variable: String) -> Setting? {
        if let exact = byName[variable] { return exact.isFamily ? nil : exact }
        return families.first { variable.hasPrefix($0.name) && variable.count > $0.name.count }
    }

    /// The setting whose value `variable` names a file with: `X` for `X_FILE`, for secrets only.
    package static func secretFile(_ variable: String) -> Setting? {
        guard variable.hasSuffix("_FILE"), let setting = byName[String(variable.dropLast(5))] else { return nil }
        return setting.isSecret ? setting : nil
    }

    /// The known name that is spelled most like an unknown one, a family's with `<NAME>`.
    package static func nearest(to variable: String) -> String {
        let word = variable.uppercased().prefix(128)
        var best = (name: "", distance: Int.max)
        for setting in all {
            let distance = setting.isFamily ? familyDistance(word, setting) : editDistance(word, setting.name)
            if distance < best.distance { best = (setting.shownName, distance) }
        }
        return best.name
    }

    /// How far the beginning of `word`, up to some underscore, is from a family's. What follows is free to choose, so a
    /// family must come closer than a whole name.
    private static func familyDistance(_ word: Substring, _ setting: Setting) -> Int {
        let whole = word + "_"
        let beginnings = whole.indices.filter { whole[$0] == "_" }.map { whole[...$0] }
        return 2 + (beginnings.map { editDistance($0, setting.name) }.min() ?? setting.name.count)
    }

    private static let families = all.filter(\.isFamily)
    private static let byName = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
}
