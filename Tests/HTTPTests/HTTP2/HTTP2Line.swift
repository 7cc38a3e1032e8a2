@testable import HTTP
import Wire

/// A client's connection in a test: frames as a client writes them, and what the server's machine makes of them.
struct HTTP2Line: ~Copyable {
    var machine: HTTP2Core
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    var input = ByteBuffer()
    var output = ByteBuffer()
    var section = FieldSection()
    var head = RequestHead()
    /// Events and content in order, such as `head 1 GET /`, `content 1 hello`.
    var events: [String] = []
    /// Releases a stream when it is reset, as the driver does.
    var releases = true

    init(greeted: Bool = true, _ bounds: HTTP2Bounds = HTTP2Bounds()) {
        machine = .server(bounds)
        if greeted {
            receive(HTTP2Bytes.preface + HTTP2Bytes.settings())
            output.removeAll()
        }
    }

    /// Takes bytes in pieces of so many, or all at once, and runs the machine.
    mutating func receive(_ bytes: [UInt8], in pieces: Int = .max) {
        var rest = bytes[...]
        while !rest.isEmpty {
            input.append(Array(rest.prefix(pieces)))
            rest = rest.dropFirst(pieces)
            run()
        }
    }

    private mutating func run() {
        while true {
            let event = machine.next(&input, &section, &head, HeadLimits(), at: now, into: &output)
            switch event {
            case .needMore: return
            case .head(let id):
                let path = section.head[head.path].text
                events.append("head \(id.number) \(section.head[head.methodText].text) \(path)\(head.framing.hasContent ? " +" : "")")
            case .unreadable(let id, let fault): events.append("unreadable \(id.number) \(fault.status)")
            case .malformed(let fault): events.append("malformed \(fault.text)")
            case .content(let id, let count):
                note(content: input.readable.extracting(0..<count).text, id)
                input.discard(count)
            case .trailers(let id):
                events.append("trailers \(id.number) \(section.head.text.split(separator: "\r\n").joined(separator: "|"))")
            case .end(let id): events.append("end \(id.number)")
            case .reset(let id, _):
                events.append("reset \(id.number)")
                if releases { machine.release(id, into: &output) }
            case .roomGrew(let id): events.append("room \(id.number)")
            case .fault(let fault): events.append("fault \(fault.text)")
            case .interim, .badAnswer, .settings, .wentAway: events.append("an event of a client")
            }
        }
    }

    /// Content that arrives in pieces is noted as one.
    private mutating func note(content: String, _ id: StreamID) {
        if let last = events.last, last.hasPrefix("content \(id.number) ") {
            events[events.count - 1] = last + content
        } else {
            events.append("content \(id.number) \(content)")
        }
    }

    /// Answers the stream with a head and content, as the driver does.
    mutating func answer(_ stream: UInt32, _ content: String = "", status: Int = 200) {
        let id = StreamID(number: stream)
        var head = ByteBuffer()
        head.append("HTTP/1.1 \(status) Text\r\nContent-Type: text/plain\r\n\r\n")
        _ = machine.sendHead(head.readable, on: id, into: &output)
        let sent = machine.sendContent(Array(content.utf8).rawBytes, isLast: true, on: id, into: &output)
        if sent == content.utf8.count {
            machine.sendEnd(on: id, into: &output)
            machine.release(id, into: &output)
        }
    }

    /// The frames that were written since the last call, such as `HEADERS 1`, `DATA 1 5 end`, `GOAWAY 1 protocol_error`.
    mutating func sent() -> [String] {
        defer {
            output.removeAll()
            machine.outputLeaves()
        }
        return HTTP2Bytes.describe(output.readable.array)
    }

    mutating func takeEvents() -> [String] {
        defer { events = [] }
        return events
    }
}

/// Frames in bytes.
enum HTTP2Bytes {
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    static func frame(_ type: HTTP2FrameType, _ flags: UInt8 = 0, _ stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        var out = ByteBuffer()
        HTTP2FrameHeader(length: payload.count, type: type, flags: flags, stream: stream).write(into: &out)
        out.append(payload)
        return out.readable.array
    }

    static func word(_ value: UInt32) -> [UInt8] {
        [
            UInt8(truncatingIfNeeded: value >> 24), UInt8(truncatingIfNeeded: value >> 16), UInt8(truncatingIfNeeded: value >> 8),
            UInt8(truncatingIfNeeded: value),
        ]
    }

    static func settings(_ entries: [(UInt16, UInt32)] = []) -> [UInt8] {
        frame(.settings, 0, 0, entries.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 255)] + word($0.1) })
    }

    /// Fields as HPACK literals without an index and without Huffman coding.
    static func block(_ fields: [(String, String)]) -> [UInt8] {
        fields.flatMap { [0] + text($0.0) + text($0.1) }
    }

    private static func text(_ text: String) -> [UInt8] {
        let count = text.utf8.count
        guard count >= 127 else { return [UInt8(count)] + Array(text.utf8) }
        var rest = count - 127
        var out: [UInt8] = [127]
        while rest >= 128 {
            out.append(UInt8(rest % 128 + 128))
            rest /= 128
        }
        return out + [UInt8(rest)] + Array(text.utf8)
    }

    static func request(_ method: String = "GET", _ path: String = "/", _ more: [(String, String)] = []) -> [UInt8] {
        block([(":method", method), (":scheme", "http"), (":path", path), (":authority", "a.example")] + more)
    }

    /// A whole request without content.
    static func get(_ stream: UInt32, _ path: String = "/") -> [UInt8] { frame(.headers, 0x5, stream, request("GET", path)) }

    /// The head of a request with content to come.
    static func post(_ stream: UInt32, _ more: [(String, String)] = []) -> [UInt8] {
        frame(.headers, 0x4, stream, request("POST", "/", more))
    }

    static func data(_ stream: UInt32, _ content: String, ends: Bool = false) -> [UInt8] {
        frame(.data, ends ? 1 : 0, stream, Array(content.utf8))
    }

    static func reset(_ stream: UInt32, _ code: HTTP2ErrorCode = .cancel) -> [UInt8] { frame(.resetStream, 0, stream, word(code.rawValue)) }
    static func window(_ stream: UInt32, _ increment: UInt32) -> [UInt8] { frame(.windowUpdate, 0, stream, word(increment)) }
    static func ping(_ text: String = "12345678", ack: Bool = false) -> [UInt8] { frame(.ping, ack ? 1 : 0, 0, Array(text.utf8)) }

    /// Each frame in words.
    static func describe(_ bytes: [UInt8]) -> [String] {
        var out: [String] = []
        var rest = bytes[...]
        while rest.count >= 9 {
            let header = HTTP2FrameHeader(Array(rest.prefix(9)).rawBytes)
            let payload = Array(rest.dropFirst(9).prefix(header.length))
            out.append(describe(header, payload))
            rest = rest.dropFirst(9 + header.length)
        }
        return rest.isEmpty ? out : out + ["rest \(rest.count)"]
    }

    private static func describe(_ header: HTTP2FrameHeader, _ payload: [UInt8]) -> String {
        func number(_ offset: Int) -> UInt32 { payload.rawBytes.bigEndian32(offset) }
        func code(_ offset: Int) -> String { HTTP2ErrorCode(rawValue: number(offset)).map { $0.text.description } ?? "?" }
        let end = header.flags & 1 != 0 ? " end" : ""
        guard let type = HTTP2FrameType(rawValue: header.type) else { return "TYPE\(header.type)" }
        switch type {
        case .data: return "DATA \(header.stream) \(payload.count)\(end)"
        case .headers: return "HEADERS \(header.stream)\(end)\(header.flags & 4 == 0 ? " more" : "")"
        case .continuation: return "CONTINUATION \(header.stream)\(header.flags & 4 == 0 ? " more" : "")"
        case .resetStream: return "RST \(header.stream) \(code(0))"
        case .settings: return header.flags & 1 != 0 ? "SETTINGS ack" : "SETTINGS \(payload.count)"
        case .ping: return "PING\(header.flags & 1 != 0 ? " ack" : "")"
        case .goAway: return "GOAWAY \(number(0)) \(code(4))"
        case .windowUpdate: return "WINDOW \(header.stream) \(number(0))"
        case .priority, .pushPromise: return "\(type)"
        }
    }
}
