import Foundation

/// One protocol case: bytes, and what must come of them.
struct ProtocolCase {
    /// The kind of message: `request`, `response GET`, `body chunked`, `proxy`…
    var kind: String
    var title: String
    var bytes: [UInt8]
    /// The whole outcome, or words that its first line must hold.
    var outcome: Outcome

    enum Outcome {
        case exactly(String)
        case words([String])
    }
}

/// A Markdown document of protocol cases.
///
/// A case is a fenced block whose info string is its kind, under a heading that names it, followed by a block `outcome`.
/// Or a block with `@@` in it is followed by a table: each row's first cell stands for `@@`, its second holds words of
/// the outcome's first line.
struct CaseDocument {
    var name: String
    var cases: [ProtocolCase]

    /// The documents of `Cases`, or of a folder in it.
    static func all(in subfolder: String = "") throws -> [CaseDocument] {
        let folder = Bundle.module.resourceURL!.appendingPathComponent("Cases").appendingPathComponent(subfolder)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        let documents = files.filter { $0.pathExtension == "md" && $0.lastPathComponent != "README.md" }
        return try documents.sorted { $0.path < $1.path }.map { file in
            let text = try String(contentsOf: file, encoding: .utf8)
            return CaseDocument(name: file.lastPathComponent, cases: Reader(text).cases())
        }
    }

    private struct Reader {
        var lines: ArraySlice<Substring>
        var title = ""
        var kind = ""
        var template = ""
        var found: [ProtocolCase] = []

        init(_ text: String) {
            lines = text.split(separator: "\n", omittingEmptySubsequences: false)[...]
        }

        consuming func cases() -> [ProtocolCase] {
            while let line = lines.popFirst() {
                if line.hasPrefix("#") {
                    title = line.drop { $0 == "#" || $0 == " " }.description
                } else if line.hasPrefix("```") {
                    let info = String(line.dropFirst(3))
                    readBlock(info)
                } else if line.hasPrefix("| `") {
                    readRow(line)
                }
            }
            return found
        }

        private mutating func readBlock(_ info: String) {
            var content: [Substring] = []
            while let line = lines.popFirst(), line != "```" { content.append(line) }
            let text = content.joined(separator: "\n")
            if info == "outcome" {
                add(title, template, .exactly(text))
            } else {
                (kind, template) = (info, text)
            }
        }

        private mutating func readRow(_ line: Substring) {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let value = String(cells[0].dropFirst().dropLast())
            let words = cells[1].split(separator: " ").map { $0.trimmingCharacters(in: ["`"]) }
            add("\(title): \(value)", template.replacingOccurrences(of: "@@", with: value), .words(words))
        }

        private mutating func add(_ title: String, _ text: String, _ outcome: ProtocolCase.Outcome) {
            found.append(ProtocolCase(kind: kind, title: title, bytes: ByteNotation.bytes(text), outcome: outcome))
        }
    }
}
