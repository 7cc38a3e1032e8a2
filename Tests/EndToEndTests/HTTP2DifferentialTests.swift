import Foundation
import TestThreads
import Testing

/// The requests of `Tests/HTTPTests/Cases` by HTTP/1.1 and by HTTP/2: the same request reaches the upstream, and the same answer the
/// client.
///
/// Not expressible in HTTP/2, and left out: other versions than 1.1, forms of the target other than a path, lines without a colon or
/// with another end than CRLF, more or less than one `Host`, `Transfer-Encoding` other than one `chunked` without a length, and heads
/// that break off.
/// Different by RFC 9113 §8.2.2, and checked to be malformed: fields of the connection, and `TE` with more than `trailers`. Different
/// because HTTP/2 counts pseudo-fields, and 32 bytes for each field: the bounds on a whole head, which `FieldSectionLimitTests` has.
@Suite(.ownThread) struct HTTP2DifferentialTests {
    /// A request of the documents as it is sent by both protocols.
    private struct Request {
        let title: String
        let head: [UInt8]
        let method: String
        /// The fields of HTTP/2, names and values in bytes; pseudo-fields first.
        let fields: [(name: [UInt8], value: [UInt8])]
        let content: [UInt8]
        let isChunked: Bool
        /// Whether it has fields that only HTTP/1.1 has.
        let isOfConnection: Bool

        init?(_ title: String, _ bytes: [UInt8]) {
            self.title = title
            guard let end = bytes.indices.first(where: { bytes[$0...].starts(with: [13, 10, 13, 10]) }) else { return nil }
            head = Array(bytes[..<(end + 4)])
            var lines = String(bytes[..<end].map { Character(UnicodeScalar($0)) }).components(separatedBy: "\r\n")
            guard let first = lines.removeFirst().wholeMatch(of: /([^ ]+) ([\/*][^ ]*) HTTP\/1\.1/) else { return nil }
            method = String(first.1)
            var host: String?
            var rest: [(String, String)] = []
            var (chunked, ofConnection, length) = (false, false, 0)
            for line in lines {
                guard let colon = line.firstIndex(of: ":") else { return nil }
                let name = line[..<colon].lowercased()
                let value = line[line.index(after: colon)...].trimmingCharacters(in: [" ", "\t"])
                switch name {
                case "host":
                    guard host == nil else { return nil }
                    host = value
                    continue
                case "transfer-encoding":
                    guard value.lowercased() == "chunked", !chunked else { return nil }
                    chunked = true
                    continue
                case "content-length": length = Int(value) ?? 0
                case "connection", "keep-alive", "upgrade", "proxy-connection": ofConnection = true
                case "te" where value.lowercased() != "trailers": ofConnection = true
                default: break
                }
                rest.append((name, value))
            }
            guard let host, !chunked || !rest.contains(where: { $0.0 == "content-length" }) else { return nil }
            isChunked = chunked
            isOfConnection = ofConnection
            content = chunked ? Array("hello".utf8) : Array(repeating: 120, count: (0...100).contains(length) ? length : 0)
            let all = [(":method", method), (":scheme", "http"), (":path", String(first.2)), (":authority", host)] + rest
            fields = all.map { (Self.bytes($0.0), Self.bytes($0.1)) }
        }

        private static func bytes(_ text: String) -> [UInt8] { text.unicodeScalars.map { UInt8($0.value) } }

        /// Whether a length was announced that is not sent.
        var isCutShort: Bool { fields.contains { $0.name == Array("content-length".utf8) && $0.value != [48] } && content.isEmpty }
    }

    /// What came of a request: the upstream's lines, and the client's.
    private struct Outcome: Equatable {
        var request: [String] = []
        var answer: [String] = []
    }

    @Test func requestsMeanTheSame() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Answer: a, b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nok"))
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        let requests = try Self.documents().flatMap { try Self.requests(of: $0) }
        #expect(requests.count > 200, "the documents hold requests: \(requests.count)")
        var refused = 0
        for each in requests {
            do {
                let first = try outcome(upstream) { try Self.ask(each, gateway) }
                let second = try outcome(upstream) { try Self.askByHTTP2(each, gateway) }
                if first.answer.first == "400" { refused += 1 }
                if each.isOfConnection {
                    #expect(second == Outcome(answer: ["400"]), "\(each.title)")
                } else {
                    #expect(first == second, "\(each.title)")
                }
            } catch {
                Issue.record("\(each.title): \(error)")
            }
        }
        #expect(refused > 50 && requests.count - refused > 50)
    }

    private static func documents() throws -> [String] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appending(path: "HTTPTests/Cases")
        return try ["request-lines", "request-fields", "request-framing", "targets"].map {
            try String(contentsOf: folder.appending(path: "\($0).md"), encoding: .utf8)
        }
    }

    /// The requests that HTTP/2 can express, by the documents' rules: a block, and a table whose first cells stand for `@@`.
    private static func requests(of document: String) throws -> [Request] {
        var (found, title, template, isInside): ([Request], String, String?, Bool) = ([], "", nil, false)
        for line in document.components(separatedBy: "\n") {
            if isInside {
                if line == "```" { isInside = false } else { template? += line }
                if !isInside, let text = template, !text.contains("@@"), let request = Request(title, try unescaped(text)) {
                    found.append(request)
                }
            } else if line.hasPrefix("#") {
                title = line
            } else if line.hasPrefix("```") {
                isInside = true
                template = line == "```request" ? "" : nil
            } else if line.hasPrefix("| `"), let text = template {
                let value = line.split(separator: "|")[0].trimmingCharacters(in: .whitespaces).dropFirst().dropLast()
                let request = Request("\(title): \(value)", try unescaped(text.replacing("@@", with: value)))
                if let request { found.append(request) }
            }
        }
        return found
    }

    /// The documents' notation of bytes, but for repeated text.
    private static func unescaped(_ text: String) throws -> [UInt8] {
        let escapes: [Character: UInt8] = ["r": 13, "n": 10, "t": 9, "0": 0, "\\": 92]
        var (bytes, rest) = ([UInt8](), Substring(text))
        while let character = rest.popFirst() {
            guard character == "\\", let escape = rest.popFirst() else {
                bytes += Array(String(character).utf8)
                continue
            }
            if let byte = escapes[escape] {
                bytes.append(byte)
            } else if escape == "x" {
                bytes.append(UInt8(rest.prefix(2), radix: 16) ?? 0)
                rest = rest.dropFirst(2)
            } else if escape == "(", let match = rest.prefixMatch(of: /(.*?)\*(\d+)\)/) {
                bytes += Array(repeatElement(try unescaped(String(match.1)), count: Int(match.2) ?? 0).joined())
                rest = rest[match.range.upperBound...]
            }
        }
        return bytes
    }

    // MARK: asking

    private func outcome(_ upstream: Upstream, _ ask: () throws -> [String]) throws -> Outcome {
        let before = upstream.requests.now.count
        let answer = try ask()
        // A request is recorded before it is answered.
        let request = upstream.requests.now.dropFirst(before).flatMap { Self.comparable($0.startLine, $0.fields, $0.body) }
        return Outcome(request: request, answer: answer)
    }

    private static func ask(_ each: Request, _ gateway: Gateway) throws -> [String] {
        let connection = try gateway.connect()
        try connection.send(each.head)
        if !each.content.isEmpty { try connection.send(each.isChunked ? Array("5\r\nhello\r\n0\r\n\r\n".utf8) : each.content) }
        if each.isCutShort { connection.finishSending() }
        let answer = try connection.answer(to: each.method)
        guard answer.status != 400 else { return ["400"] }
        return comparable("\(answer.status)", answer.fields, answer.status == 200 ? answer.body : [])
    }

    private static func askByHTTP2(_ each: Request, _ gateway: Gateway) throws -> [String] {
        let peer = try HTTP2Peer(gateway)
        let block = each.fields.flatMap { name, value -> [UInt8] in [0] + length(name.count) + name + length(value.count) + value }
        var pieces = stride(from: 0, to: max(block.count, 1), by: 16_000).map { Array(block[$0..<min($0 + 16_000, block.count)]) }
        let last = pieces.removeLast()
        let ends: UInt8 = each.content.isEmpty && !each.isCutShort ? 1 : 0
        for (index, piece) in pieces.enumerated() { try peer.send(index == 0 ? 1 : 9, index == 0 ? ends : 0, 1, piece) }
        try peer.send(pieces.isEmpty ? 1 : 9, (pieces.isEmpty ? ends : 0) | 4, 1, last)
        if !each.content.isEmpty { try peer.send(0, 1, 1, each.content) }
        if each.isCutShort { try peer.send(0, 1, 1) }
        let frames = try peer.take { $0.stream == 1 && ($0.endsStream || $0.type == 3) || $0.type == 7 }
        guard let head = frames.last(where: { $0.type == 1 }), frames.last?.endsStream == true else { return ["400"] }
        let fields = try HTTP2Fields(head.payload)
        guard fields[":status"] != "400" else { return ["400"] }
        let content = frames.filter { $0.type == 0 }.flatMap(\.payload)
        return comparable(fields[":status"] ?? "", fields.fields, fields[":status"] == "200" ? content : [])
    }

    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 127 else { return [UInt8(count)] }
        return count - 127 < 128 ? [127, UInt8(count - 127)] : [127, UInt8((count - 127) % 128 + 128), UInt8((count - 127) / 128)]
    }

    /// A message without what differs from request to request, names in lower case, fields sorted.
    private static func comparable(_ first: String, _ fields: [(name: String, value: String)], _ body: [UInt8]) -> [String] {
        let volatile = ["date", "x-request-id", "traceparent", "connection", "via", ":status", "content-length"]
        let lines = fields.map { ($0.name.lowercased(), $0.value) }.filter { !volatile.contains($0.0) }.map { "\($0.0): \($0.1)" }
        return [first] + lines.sorted() + [text(of: body)]
    }
}
