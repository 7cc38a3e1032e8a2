import Foundation
import Testing

/// A page of the documents with its fenced blocks.
struct DocumentPage: CustomTestStringConvertible {
    /// From the root of the package.
    let path: String
    let blocks: [Block]

    struct Block {
        /// The word behind the fence.
        let language: String
        /// The line of the fence, from 1.
        let line: Int
        let lines: [String]
    }

    /// One command with the output that the page prints below it.
    struct Step {
        let line: Int
        let command: String
        let output: [String]
    }

    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// `README.md` and every page below `docs`.
    static func all() throws -> [DocumentPage] {
        let below = FileManager.default.enumerator(atPath: root.appending(path: "docs").path)
        let pages = (below?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(".md") }.map { "docs/" + $0 }.sorted()
        return try (["README.md"] + pages).map { path in
            DocumentPage(path, try String(contentsOf: root.appending(path: path), encoding: .utf8))
        }
    }

    init(_ path: String, _ text: String) {
        self.path = path
        var blocks: [Block] = []
        var open: (language: String, line: Int, lines: [String])?
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).enumerated() {
            if let block = open, line.hasPrefix("```") {
                blocks.append(Block(language: block.language, line: block.line, lines: block.lines))
                open = nil
            } else if open != nil {
                open?.lines.append(line)
            } else if line.hasPrefix("```") {
                open = (String(line.dropFirst(3)), index + 1, [])
            }
        }
        self.blocks = blocks
    }

    var testDescription: String { path }

    /// The lines of its `env` blocks, which belong into the env file of the gateway that the page talks to.
    var settings: [String] { blocks.filter { $0.language == "env" }.flatMap(\.lines) }

    /// The commands of its `console` blocks, in order.
    func steps() throws -> [Step] {
        try blocks.filter { $0.language == "console" }.flatMap { try Self.steps(of: $0, in: path) }
    }

    private static func steps(of block: Block, in path: String) throws -> [Step] {
        var steps: [Step] = []
        var rest = block.lines[...]
        while let first = rest.popFirst() {
            let line = block.line + block.lines.count - rest.count
            guard first.hasPrefix("$ ") else { throw Fault("\(path):\(line): a console block begins with a command: $ …") }
            var command = [String(first.dropFirst(2))]
            while isOpen(command), let next = rest.popFirst() { command.append(next) }
            var output: [String] = []
            while let next = rest.first, !next.hasPrefix("$ ") {
                output.append(next)
                rest.removeFirst()
            }
            steps.append(Step(line: line, command: command.joined(separator: "\n"), output: output))
        }
        return steps
    }

    /// Whether a command goes on in the next line: behind a backslash, and to the end of a here-document.
    private static func isOpen(_ lines: [String]) -> Bool {
        if lines.last?.hasSuffix("\\") == true { return true }
        guard let word = lines.first?.firstMatch(of: /<<'?([A-Z]+)'?/)?.output.1 else { return false }
        return lines.count == 1 || lines.last != String(word)
    }
}

/// Printed output and the output of a page, where `…` stands for any text in a line, and alone for any lines.
enum DocumentOutput {
    static func matches(_ expected: [String], _ printed: [String]) -> Bool {
        wildcard(trimmed(expected), trimmed(printed), any: "…") { line, other in
            wildcard(Array(line), Array(other), any: "…") { $0 == $1 }
        }
    }

    /// Without what a page does not show: carriage returns, spaces at ends, empty lines at the end.
    private static func trimmed(_ lines: [String]) -> [String] {
        var lines = lines.map { line in
            var line = line[...]
            while let last = line.last, last.isWhitespace { line.removeLast() }
            return String(line)
        }
        while lines.last == "" { lines.removeLast() }
        return lines
    }

    private static func wildcard<Element: Equatable>(
        _ pattern: [Element], _ values: [Element], any: Element, _ isSame: (Element, Element) -> Bool
    ) -> Bool {
        var (next, value) = (0, 0)
        // Behind the last wildcard, and where the values that it does not stand for begin.
        var retry: (pattern: Int, value: Int)?
        while value < values.count {
            if next < pattern.count, pattern[next] == any {
                next += 1
                retry = (next, value)
            } else if next < pattern.count, isSame(pattern[next], values[value]) {
                next += 1
                value += 1
            } else if let last = retry {
                retry = (last.pattern, last.value + 1)
                next = last.pattern
                value = last.value + 1
            } else {
                return false
            }
        }
        return pattern[next...].allSatisfy { $0 == any }
    }
}
