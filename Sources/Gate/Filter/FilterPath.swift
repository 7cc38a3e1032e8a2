import Wire

/// Position of the tier in an answer: `tier` in any object, or `results[].tier` in the elements of one array.
package struct FilterPath: Sendable, Hashable {
    /// Parse error. `message` continues "… is no filter: ".
    package enum Fault: Error, Equatable, Sendable {
        case emptyName, noField, noArray, badName(String), tooLong(String), tooDeep

        package var message: String {
            switch self {
            case .emptyName: "a name is empty, write a field like tier or a path like results[].tier"
            case .noField: "it ends in an array, name the field of its elements: results[].tier"
            case .noArray: "it has several names and no array, write a field like tier or a path like results[].tier"
            case .badName(let name): "\"\(name)\" has a bracket that does not belong there, an array is written results[]"
            case .tooLong(let name): "\"\(name)\" is longer than \(FilterPath.maxName) bytes"
            case .tooDeep: "it has more than \(FilterPath.maxSteps) steps"
            }
        }
    }

    /// A step from a value to one inside it.
    enum Step: Sendable, Hashable {
        case member(String)
        case element
    }

    static let maxName = 63
    static let maxSteps = 32

    /// From the root to the field; only the field if it may be in any object.
    let steps: [Step]
    /// As written in the settings.
    package let text: String

    package init(parsing text: String) throws(Fault) {
        var steps: [Step] = []
        for (index, part) in text.split(separator: ".", omittingEmptySubsequences: false).enumerated() {
            var name = part
            var arrays = 0
            while name.hasSuffix("[]") {
                name = name.dropLast(2)
                arrays += 1
            }
            if name.isEmpty, arrays == 0 || index > 0 { throw .emptyName }
            guard !name.contains(where: { $0 == "[" || $0 == "]" }) else { throw .badName(String(part)) }
            guard name.utf8.count <= Self.maxName else { throw .tooLong(String(name)) }
            if !name.isEmpty { steps.append(.member(String(name))) }
            steps += Array(repeating: .element, count: arrays)
        }
        guard steps.count <= Self.maxSteps else { throw .tooDeep }
        guard steps.last != .element else { throw .noField }
        guard steps.count == 1 || steps.contains(.element) else { throw .noArray }
        self.steps = steps
        self.text = text
    }

    /// Whether every object with the field is judged.
    package var isAnywhere: Bool { steps.count == 1 }

    /// Number of steps to the judged elements.
    var unitDepth: Int { (steps.lastIndex(of: .element) ?? -1) + 1 }
}
