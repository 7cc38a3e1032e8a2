import Foundation

/// Follows a story through a world.
public struct StoryRunner {
    private let world: any StoryWorld
    private var captures: [String: String] = [:]
    /// The words of the latest `fail` or `pass`, filled and as they are written.
    private var attempts: (filled: [String], written: [String])?
    /// Reports a difference from the document: position and description.
    private let report: (String) -> Void

    public init(_ world: any StoryWorld, report: @escaping (String) -> Void) {
        self.world = world
        self.report = report
    }

    /// How many steps were taken; the rest, from one that this world cannot take, is left to others.
    @discardableResult
    public mutating func run(_ story: Story) async throws -> Int {
        for (index, step) in story.steps.enumerated() {
            do {
                try await take(step, "\(story.document):\(step.line): \(step.title)")
            } catch is NotInThisWorld {
                return index
            }
        }
        return story.steps.count
    }

    private mutating func take(_ step: Step, _ place: String) async throws {
        switch step.kind {
        case .exchange(let request, let answer): try await exchange(request, answer, place)
        case .table(let request, let rows):
            for row in rows {
                var found = try await ask(request.replacingOccurrences(of: "@@", with: row.value))
                // In a world whose clock goes on, a limit that was just met may have refilled: then it is met once more.
                for _ in 0..<5 where row.outcome.hasPrefix("429 ") && found.status != 429 {
                    guard let attempts else { break }
                    try await attempt(attempts.filled, attempts.written, place)
                    found = try await ask(request.replacingOccurrences(of: "@@", with: row.value))
                }
                let summary = "\(found.status) \(Self.refusal(found))"
                if summary != row.outcome { report("\(place): \(row.value): \(summary) in place of \(row.outcome)") }
            }
        case .other(let words, let text): try await act(words, text, place)
        }
    }

    // MARK: exchanges

    private mutating func exchange(_ request: String, _ answer: String, _ place: String) async throws {
        let found = try await ask(request)
        var lines = answer.components(separatedBy: "\n")
        let status = lines.removeFirst()
        if String(found.status) != status { return report("\(place): \(found.status) in place of \(status): \(text(found.body))") }
        while let line = lines.first, let colon = line.range(of: ": "), !line.hasPrefix("{") {
            lines.removeFirst()
            let (name, wanted) = (String(line[..<colon.lowerBound]), filled(String(line[colon.upperBound...])))
            let value = found.value(of: name)
            if value != wanted { report("\(place): \(name) is \(value ?? "missing") in place of \(wanted)") }
        }
        if found.value(of: "content-type") != "application/json; charset=utf-8" {
            report("\(place): Content-Type is \(found.value(of: "content-type") ?? "missing")")
        }
        let wanted = lines.joined(separator: "\n")
        if wanted.isEmpty { return found.body.isEmpty ? () : report("\(place): a body came: \(text(found.body))") }
        try compare(wanted, found, place)
    }

    private mutating func compare(_ wanted: String, _ found: StoryAnswer, _ place: String) throws {
        let pattern = try JSONSerialization.jsonObject(with: Data(filled(wanted).utf8))
        guard let value = try? JSONSerialization.jsonObject(with: Data(found.body)) else {
            return report("\(place): the body is no JSON: \(text(found.body))")
        }
        var comparison = JSONPattern(captures: captures, now: world.now, tolerance: world.clockTolerance)
        if let difference = comparison.difference(pattern, value) { report("\(place): \(difference): \(text(found.body))") }
        captures = comparison.captures
    }

    private func ask(_ request: String) async throws -> StoryAnswer {
        var parts = filled(request).components(separatedBy: "\n\n")
        var lines = parts.removeFirst().components(separatedBy: "\n")
        let first = lines.removeFirst().split(separator: " ").map(String.init)
        guard first.count == 2 else { throw StoryFault("\(first) is no method and target") }
        return try await world.ask(first[0], first[1], lines, bytes(parts.joined(separator: "\n\n")))
    }

    /// A body as it is written, with `\xHH` for bytes that a document cannot hold, and `\(text*N)` for `text` N times.
    private func bytes(_ body: String) -> [UInt8] {
        var expanded = body
        while let match = expanded.firstMatch(of: /\\\(([^*]*)\*(\d+)\)/) {
            expanded.replaceSubrange(match.range, with: String(repeating: String(match.1), count: Int(match.2) ?? 0))
        }
        var out: [UInt8] = []
        var rest = Array(expanded.utf8)[...]
        while let byte = rest.popFirst() {
            let escape = rest.prefix(3)
            if byte == UInt8(ascii: "\\"), escape.first == UInt8(ascii: "x"), escape.count == 3,
                let value = UInt8(String(decoding: escape.dropFirst(), as: UTF8.self), radix: 16)
            {
                out.append(value)
                rest = rest.dropFirst(3)
            } else {
                out.append(byte)
            }
        }
        return out
    }

    /// Replaces names in braces by their captured values.
    private func filled(_ text: String) -> String {
        captures.reduce(text) { $0.replacingOccurrences(of: "{\($1.key)}", with: $1.value) }
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Code and message, whatever the envelope.
    private static func refusal(_ answer: StoryAnswer) -> String {
        guard let object = try? JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] else { return "no JSON" }
        let inner = object["error"] as? [String: Any] ?? object
        let code = inner["code"] as? String ?? object["error"] as? String ?? "-"
        let message = inner["message"] as? String ?? object["error"] as? String ?? "-"
        return "\(code) \(message)"
    }

    // MARK: other steps

    private mutating func act(_ words: [String], _ text: String, _ place: String) async throws {
        let filledWords = words.map(filled)
        switch words.first {
        case "wait": try await world.wait(seconds: Int(words[1]) ?? 0)
        case "message": try await take(message: filledWords[1], text, place)
        case "id-token": captures[words[1]] = try await world.idToken(words[2], filled(text))
        case "outside-access", "outside-refresh":
            captures[words[1]] = try await world.outsideToken(String(words[0].dropFirst("outside-".count)), filledWords[2])
        case "keep":
            // `keep NEW OLD`: a second name, before the first is captured anew.
            captures[words[1]] = captures[words[2]]
        case "same", "different":
            let isSame = captures[words[1]] == captures[words[2]]
            if isSame != (words[0] == "same") { report("\(place): \(words[1]) and \(words[2]) are \(isSame ? "the same" : "different")") }
        case "fail", "pass":
            attempts = (filled: filledWords, written: words)
            try await attempt(filledWords, words, place)
        default: try await world.act(filledWords)
        }
    }

    /// `fail N METHOD TARGET BODY`, or `pass` likewise.
    private func attempt(_ filledWords: [String], _ words: [String], _ place: String) async throws {
        let body = Array(filledWords.dropFirst(4).joined(separator: " ").utf8)
        for attempt in 0..<(Int(words[1]) ?? 0) {
            let status = try await world.ask(words[2], words[3], [], body).status
            if (status == 200) != (words[0] == "pass") { return report("\(place): attempt \(attempt) was answered \(status)") }
        }
    }

    /// `code NAME`, `reset NAME` or `nothing`.
    private mutating func take(message recipient: String, _ text: String, _ place: String) async throws {
        let words = text.split(separator: " ").map(String.init)
        switch (words.first, try await world.message(to: recipient)) {
        case ("nothing", nil): break
        case ("code", .code(let code)?): captures[words[1]] = code
        case ("reset", .reset(let token)?): captures[words[1]] = token
        case (_, let message): report("\(place): \(message.map { "\($0)" } ?? "nothing") came to \(recipient)")
        }
    }
}
