/// The source of a setting's value.
package enum Origin: Hashable, Sendable {
    /// A line of an env file, counted from 1; the file is named as on the command line.
    case file(String, line: Int)
    /// An env file as a whole.
    case wholeFile(String)
    /// The process environment.
    case environment
    /// The default.
    case builtIn

    /// The beginning of a fault: `FILE:LINE`, `environment` or `default`.
    package var text: String {
        switch self {
        case .file(let name, let line): "\(name):\(line)"
        case .wholeFile(let name): name
        case .environment: "environment"
        case .builtIn: "default"
        }
    }

    /// The path of a file that a setting names. A relative path in an env file begins at the folder of that file, any other
    /// at the working directory.
    package func path(_ text: String) -> String {
        guard case .file(let name, _) = self, !text.hasPrefix("/"), let slash = name.lastIndex(of: "/") else { return text }
        return String(name[...slash] + (text.hasPrefix("./") ? text.dropFirst(2) : text[...]))
    }
}

/// A fault or warning about the configuration.
package struct Finding: Hashable, Sendable {
    package var origin: Origin
    /// The variable; nil if the line has no readable one.
    package var name: String?
    /// The problem and, after the last comma, what would be right. Never contains a secret.
    package var message: String

    package init(_ origin: Origin, _ name: String?, _ message: String) {
        self.origin = origin
        self.name = name
        self.message = message
    }

    /// `FILE:LINE: NAME: message`, as `tollgate check` prints it.
    package var text: String {
        guard let name else { return "\(origin.text): \(message)" }
        return "\(origin.text): \(name): \(message)"
    }
}

/// The faults and warnings of one load. Loading collects all of them and never stops at the first.
package struct Findings: Sendable {
    package private(set) var faults: [Finding] = []
    package private(set) var warnings: [Finding] = []
    /// All findings, to drop duplicates.
    private var reported: Set<Finding> = []

    package init() {}

    package mutating func fault(_ finding: Finding) {
        if reported.insert(finding).inserted { faults.append(finding) }
    }

    package mutating func warn(_ finding: Finding) {
        if reported.insert(finding).inserted { warnings.append(finding) }
    }

    package mutating func add(_ other: Findings) {
        for finding in other.faults { fault(finding) }
        for finding in other.warnings { warn(finding) }
    }

    /// Both lists in reading order: the files as given, line by line, then the environment, then defaults.
    package func sorted(files: [String]) -> Findings {
        func position(_ index: Int, _ finding: Finding) -> (Int, Int, Int) {
            switch finding.origin {
            case .file(let name, let line): (files.firstIndex(of: name) ?? files.count, line, index)
            case .wholeFile(let name): (files.firstIndex(of: name) ?? files.count, 0, index)
            case .environment: (files.count + 1, 0, index)
            case .builtIn: (files.count + 2, 0, index)
            }
        }
        func stable(_ list: [Finding]) -> [Finding] {
            list.enumerated().sorted { position($0.offset, $0.element) < position($1.offset, $1.element) }.map(\.element)
        }
        var result = self
        result.faults = stable(faults)
        result.warnings = stable(warnings)
        return result
    }
}
