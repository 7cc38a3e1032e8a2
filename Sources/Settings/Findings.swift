/// Where the text of a setting was written.
package enum Origin: Hashable, Sendable {
    /// A line of an env file, counted from 1; the name is as the file was named on the command line.
    case file(String, line: Int)
    /// An env file as such.
    case wholeFile(String)
    case environment
    /// Nowhere: the setting has its default.
    case builtIn

    /// How a fault begins: `FILE:LINE`, `environment` or `default`.
    package var text: String {
        switch self {
        case .file(let name, let line): "\(name):\(line)"
        case .wholeFile(let name): name
        case .environment: "environment"
        case .builtIn: "default"
        }
    }
}

/// One thing that is wrong with the configuration, or worth a warning.
package struct Finding: Hashable, Sendable {
    package var origin: Origin
    /// The variable; nil when a line has none that can be read.
    package var name: String?
    /// What is wrong and, after the last comma, what would be right. Never holds the value of a secret.
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

/// What reading a configuration has found so far: everything is reported at once, so nothing stops at the first fault.
package struct Findings: Sendable {
    package private(set) var faults: [Finding] = []
    package private(set) var warnings: [Finding] = []
    /// What was said is not said again.
    private var said: Set<Finding> = []

    package init() {}

    package mutating func fault(_ finding: Finding) {
        if said.insert(finding).inserted { faults.append(finding) }
    }

    package mutating func warn(_ finding: Finding) {
        if said.insert(finding).inserted { warnings.append(finding) }
    }

    package mutating func add(_ other: Findings) {
        for finding in other.faults { fault(finding) }
        for finding in other.warnings { warn(finding) }
    }

    /// Both lists in reading order: the files as they were given, line by line, then the environment.
    package func sorted(files: [String]) -> Findings {
        func place(_ index: Int, _ finding: Finding) -> (Int, Int, Int) {
            switch finding.origin {
            case .file(let name, let line): (files.firstIndex(of: name) ?? files.count, line, index)
            case .wholeFile(let name): (files.firstIndex(of: name) ?? files.count, 0, index)
            case .environment: (files.count + 1, 0, index)
            case .builtIn: (files.count + 2, 0, index)
            }
        }
        func stable(_ list: [Finding]) -> [Finding] {
            list.enumerated().sorted { place($0.offset, $0.element) < place($1.offset, $1.element) }.map(\.element)
        }
        var result = self
        result.faults = stable(faults)
        result.warnings = stable(warnings)
        return result
    }
}
