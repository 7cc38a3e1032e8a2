public import Foundation

/// The steps of one app in order. A value captured in one step can be used in later ones.
public struct Story: Sendable, CustomStringConvertible {
    public var document: String
    public var title: String
    public var steps: [Step]

    public var description: String { "\(document): \(title)" }
}

/// One block of a document.
public struct Step: Sendable {
    public var kind: Kind
    /// The nearest heading above it.
    public var title: String
    /// Where its block begins.
    public var line: Int

    public enum Kind: Sendable {
        /// A request and the expected response.
        case exchange(request: String, answer: String)
        /// A request in which `@@` stands for each first cell in turn, and each answer's status, code and message.
        case table(request: String, rows: [Row])
        /// Any other block: the words after its fence, and its content.
        case other(words: [String], text: String)
    }

    public struct Row: Sendable {
        public var value: String
        public var outcome: String
        public var line: Int
    }
}

/// Reads stories from a Markdown document. The README beside the documents describes the format.
public enum StoryReader {
    /// The stories of every document in `folder`, in the order of their names.
    public static func all(in folder: URL) throws -> [Story] {
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return try files.filter { $0.pathExtension == "md" && $0.lastPathComponent != "README.md" }
            .sorted { $0.path < $1.path }
            .flatMap { try stories(String(contentsOf: $0, encoding: .utf8), document: $0.lastPathComponent) }
    }

    static func stories(_ text: String, document: String) throws -> [Story] {
        var reading = Reading(text, document)
        try reading.readAll()
        return reading.stories
    }

    private struct Reading {
        let lines: [Substring]
        let document: String
        var next = 0
        var stories: [Story] = []
        var title = ""
        /// A request that waits for its answer or its table.
        var request: (text: String, line: Int)?

        init(_ text: String, _ document: String) {
            lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            self.document = document
        }

        mutating func readAll() throws {
            while next < lines.count {
                let line = lines[next]
                next += 1
                if line.hasPrefix("## ") {
                    try finishTable()
                    title = String(line.dropFirst(3))
                    stories.append(Story(document: document, title: title, steps: []))
                } else if line.hasPrefix("### ") {
                    try finishTable()
                    title = String(line.dropFirst(4))
                } else if line.hasPrefix("```") {
                    try readBlock(String(line.dropFirst(3)), at: next)
                } else if line.hasPrefix("| `") {
                    try readRow(line, at: next)
                }
            }
            try finishTable()
        }

        private mutating func readBlock(_ info: String, at line: Int) throws {
            var content: [Substring] = []
            while next < lines.count, lines[next] != "```" {
                content.append(lines[next])
                next += 1
            }
            next += 1
            let text = content.joined(separator: "\n")
            switch info {
            case "request":
                try finishTable()
                request = (text, line)
            case "answer":
                guard let request else { throw StoryFault("\(document):\(line): an answer to no request") }
                add(.exchange(request: request.text, answer: text), request.line)
                self.request = nil
            default: add(.other(words: info.split(separator: " ").map(String.init), text: text), line)
            }
        }

        private mutating func readRow(_ line: Substring, at number: Int) throws {
            guard let request, request.text.contains("@@") else {
                throw StoryFault("\(document):\(number): a row without a request that has @@ in it")
            }
            // A bar inside the value's code span is part of the value.
            guard let end = line.range(of: "` | ", options: .backwards) else { throw StoryFault("\(document):\(number): no second cell") }
            let value = String(line[line.index(line.startIndex, offsetBy: 3)..<end.lowerBound])
            let outcome = line[end.upperBound...].trimmingCharacters(in: CharacterSet(charactersIn: " |"))
            let row = Step.Row(value: value, outcome: outcome, line: number)
            if case .table(_, var rows)? = stories.last?.steps.last?.kind, stories.last?.steps.last?.line == request.line {
                rows.append(row)
                stories[stories.count - 1].steps[stories[stories.count - 1].steps.count - 1].kind = .table(
                    request: request.text, rows: rows)
            } else {
                add(.table(request: request.text, rows: [row]), request.line)
            }
        }

        /// A request that is neither answered nor followed by a table was forgotten.
        private mutating func finishTable() throws {
            defer { request = nil }
            guard let request else { return }
            if case .table? = stories.last?.steps.last?.kind, stories.last?.steps.last?.line == request.line { return }
            throw StoryFault("\(document):\(request.line): a request without an answer")
        }

        private mutating func add(_ kind: Step.Kind, _ line: Int) {
            stories[stories.count - 1].steps.append(Step(kind: kind, title: title, line: line))
        }
    }
}

/// A fault of a document, or a difference between document and world.
public struct StoryFault: Error, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}
