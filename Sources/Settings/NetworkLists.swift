package import Gate
internal import Wire

extension NetworkList {
    /// A network, or a file as `file:F`. In a setting a word that is written like no address is a file, too.
    fileprivate init(_ text: String, at origin: Origin, takesBareFiles: Bool = false) throws(ParseError) {
        let isAddress = text.utf8.allSatisfy { $0.hexValue != nil || ".:/".utf8.contains($0) }
        if text.hasPrefix("file:"), text.count > 5 {
            self.init(networks: [], files: [origin.path(String(text.dropFirst(5)))])
        } else if takesBareFiles, !isAddress, !text.hasPrefix("file:") {
            self.init(networks: [], files: [origin.path(text)])
        } else {
            self.init(networks: [try TypedText.network(text)])
        }
    }

    /// nil for no parts.
    fileprivate init?(joining parts: [NetworkList]) {
        guard !parts.isEmpty else { return nil }
        self.init(networks: parts.flatMap(\.networks), files: parts.flatMap(\.files))
    }
}

extension LineOption {
    /// A list of networks and files of them.
    init(_ key: String, networks path: Path<NetworkList?>, _ doc: String) {
        self.init(key, "10.0.0.0/8,file:F", doc, kind: .list) { line, target in
            let origin = line.context.origin
            let parts = line.list(key) { text throws(ParseError) in try NetworkList(text, at: origin) }
            if let list = NetworkList(joining: parts ?? []) { target[keyPath: path] = list }
        } value: { target, _ in
            target[keyPath: path].map { OptionValue(list: $0.words) }
        }
    }
}

extension SettingReader {
    static func networks(_ path: Path<NetworkList?>) -> Self {
        Self(path) { reader, setting in
            let origin = reader.values.entry(setting).origin
            let parts = reader.words(setting).compactMap { word in
                reader.parse(setting, word) { text throws(ParseError) in try NetworkList(text, at: origin, takesBareFiles: true) }
            }
            return .some(NetworkList(joining: parts))
        }.emptyIsNone
    }
}

extension Configuration {
    /// Every list of networks, with where it stands and its option.
    package var networkLists: [(list: NetworkList, place: Finding)] {
        let general = denyFrom.map { [($0, Finding(origin(of: .denyFrom), Setting.denyFrom.name, ""))] } ?? []
        return general
            + routes.flatMap { route in
                [("deny-from=", route.rule.denyFrom), ("allow-from=", route.rule.allowFrom)].compactMap { key, list in
                    list.map { ($0, Finding(route.origin, route.variable, key)) }
                }
            }
    }
}
