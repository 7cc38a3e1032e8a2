import Foundation

/// A case of the documents in `Documents`: what a client sends, and the frame that must come of it.
package struct HTTP2Case: Sendable {
    package enum Step: Sendable, Equatable {
        case send([UInt8])
        /// Wait for a frame of the server's that begins with these words.
        case wait(String)
    }

    package var name: String
    package var title: String
    package var steps: [Step]
    package var outcome: String
    /// Whether the connection is greeted before.
    package var isGreeted: Bool

    /// All cases, in the order of the documents.
    package static func all() throws -> [HTTP2Case] { try loaded.get() }

    private static let loaded = Result { try load() }

    private static func load() throws -> [HTTP2Case] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Documents")
        return try ["generic", "frames", "messages", "hpack"].flatMap { name in
            let text = try String(contentsOf: folder.appending(path: "\(name).md"), encoding: .utf8)
            return try text.split(separator: "\n").filter { $0.hasPrefix("| ") && $0.contains(" | `") }.map(HTTP2Case.init(row:))
        }
    }

    private init(row: Substring) throws {
        let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 4 else { throw HTTP2CaseFault("a row needs four cells: \(row)") }
        (name, title) = (cells[0], cells[1])
        outcome = cells[3].trimmingCharacters(in: ["`"])
        let frames = FrameNotation.split(cells[2].trimmingCharacters(in: ["`"]), at: ";")
        isGreeted = !frames[0].hasPrefix("PREFACE") && !frames[0].hasPrefix("BYTES")
        // Frames that follow each other are sent at once: the answer to one must not come before the next has left.
        var steps: [Step] = []
        for frame in frames {
            if frame.hasPrefix("await ") {
                steps.append(.wait(String(frame.dropFirst(6))))
            } else if case .send(let bytes)? = steps.last {
                steps[steps.count - 1] = .send(bytes + (try FrameNotation.bytes(frame)))
            } else {
                steps.append(.send(try FrameNotation.bytes(frame)))
            }
        }
        self.steps = steps
    }

    /// Checks the frames that a server has sent until the outcome came; returns the fault.
    package func fault(in frames: [String]) -> String? {
        if outcome != "closed", !frames.contains(where: { FrameNotation.begins($0, with: outcome) }) {
            return "\(name), \(title): \(outcome) did not come, but \(frames)"
        }
        let unwanted = frames.filter { frame in
            let isError = frame.hasPrefix("RST_STREAM") || frame.hasPrefix("GOAWAY") && !frame.hasSuffix("NO_ERROR")
            return (isError && outcome != "closed" || frame.hasPrefix("PING ack")) && !FrameNotation.begins(frame, with: outcome)
        }
        return unwanted.isEmpty ? nil : "\(name), \(title): \(unwanted) should not have come"
    }
}

/// A document that cannot be read.
package struct HTTP2CaseFault: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
