import Foundation

/// An HTTP/1.1 message as this end of a connection read it: a plain reader, strict about where messages end.
struct Message: Sendable, CustomStringConvertible {
    var startLine = ""
    var fields: [(name: String, value: String)] = []
    var body: [UInt8] = []
    var trailers: [(name: String, value: String)] = []
    /// 1xx answers that came before it.
    var interim: [Message] = []
    /// The head as it came.
    var head: [UInt8] = []

    init(head: [UInt8]) {
        self.head = head
        var lines = EndToEndTests.text(of: head).components(separatedBy: "\r\n")
        startLine = lines.removeFirst()
        fields = Self.fields(lines)
    }

    static func fields(_ lines: [String]) -> [(name: String, value: String)] {
        lines.filter { !$0.isEmpty }.map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(parts[0]), parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : "")
        }
    }

    var status: Int { Int(startLine.split(separator: " ").dropFirst().first ?? "") ?? 0 }
    var method: String { String(startLine.split(separator: " ").first ?? "") }
    var target: String { String(startLine.split(separator: " ").dropFirst().first ?? "") }
    var text: String { EndToEndTests.text(of: body) }

    func all(_ name: String) -> [String] { fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value) }

    /// The value of the one field of this name; nil without it, all values together if it came more than once.
    subscript(_ name: String) -> String? {
        let values = all(name)
        return values.isEmpty ? nil : values.joined(separator: " | ")
    }

    /// Its head, for messages.
    var description: String { EndToEndTests.text(of: head) + "and \(body.count) bytes" }

    var isChunked: Bool { self["Transfer-Encoding"]?.lowercased() == "chunked" }
}

extension Connection {
    /// Reads one answer. `method` is what was asked with.
    func answer(to method: String = "GET") throws -> Message {
        var interim: [Message] = []
        while true {
            var message = Message(head: try take(through: "\r\n\r\n"))
            if (100..<200).contains(message.status) {
                interim.append(message)
                continue
            }
            message.interim = interim
            if method == "HEAD" || message.status == 204 || message.status == 304 { return message }
            if message.isChunked {
                try takeChunks(into: &message)
            } else if let length = message["Content-Length"] {
                guard let count = Int(length) else { throw Fault("no length: \(length)") }
                message.body = try take(count)
            } else {
                let (bytes, end) = takeRest()
                guard end == .orderly else { throw Fault("\(end) in an answer without a length") }
                message.body = bytes
            }
            return message
        }
    }

    /// Reads one request with its body.
    func request() throws -> Message {
        var message = Message(head: try take(through: "\r\n\r\n"))
        try takeBody(of: &message)
        return message
    }

    /// Reads the body that belongs to a request's head.
    func takeBody(of message: inout Message) throws {
        if message.isChunked {
            try takeChunks(into: &message)
        } else if let length = message["Content-Length"].flatMap({ Int($0) }) {
            message.body = try take(length)
        }
    }

    private func takeChunks(into message: inout Message) throws {
        while true {
            let line = text(of: try take(through: "\r\n")).trimmingCharacters(in: .whitespacesAndNewlines)
            guard let size = Int(line, radix: 16) else { throw Fault("no chunk size: \(line)") }
            guard size > 0 else { break }
            message.body += try take(size)
            guard try take(2) == [13, 10] else { throw Fault("no end of a chunk") }
        }
        while true {
            let line = text(of: try take(through: "\r\n")).trimmingCharacters(in: .whitespacesAndNewlines)
            guard !line.isEmpty else { return }
            message.trailers += Message.fields([line])
        }
    }

    /// Sends one request without a body, or with one under `Content-Length`, and reads its answer.
    @discardableResult
    func ask(_ methodAndTarget: String, _ fields: [String] = [], body: [UInt8]? = nil) throws -> Message {
        try send(Array(requestHead(methodAndTarget, fields, length: body?.count).utf8) + (body ?? []))
        return try answer(to: String(methodAndTarget.prefix { $0 != " " }))
    }
}

/// The head of a request, `Host: test` included unless `fields` have one.
func requestHead(_ methodAndTarget: String, _ fields: [String] = [], length: Int? = nil) -> String {
    var lines = ["\(methodAndTarget) HTTP/1.1"]
    if !fields.contains(where: { $0.lowercased().hasPrefix("host:") }) { lines.append("Host: test") }
    lines += fields
    if let length { lines.append("Content-Length: \(length)") }
    return lines.joined(separator: "\r\n") + "\r\n\r\n"
}
