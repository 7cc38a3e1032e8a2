@testable import HTTP
import Wire

/// A connection to an upstream in a test: frames as an upstream writes them, and what the client's machine makes of them.
struct HTTP2ClientLine: ~Copyable {
    var machine = HTTP2Core.client()
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    var input = ByteBuffer()
    var output = ByteBuffer()
    var section = FieldSection()
    var head = ResponseHead()
    /// Events and content in order, such as `head 1 200 length(5)`, `content 1 hello`.
    var events: [String] = []
    /// Releases a stream when it is over, as the driver does.
    var releases = true
    /// Takes content as it comes.
    var takes = true

    /// `greeted`: the upstream's SETTINGS have come.
    init(greeted: Bool = true) {
        machine.start(into: &output)
        guard greeted else { return }
        receive(HTTP2Bytes.settings())
        events = []
        output.removeAll()
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

    /// A second has passed: resets abandoned streams, the oldest first, as the driver does.
    mutating func resetAbandoned() {
        machine.refillResets()
        for stream in machine.abandoned { _ = machine.resetAbandoned(StreamID(number: stream.number), into: &output) }
    }

    private mutating func run() {
        while true {
            let event = machine.next(&input, &section, &head, HeadLimits(), at: now, into: &output)
            switch event {
            case .needMore: return
            case .interim(let id): events.append("interim \(id.number) \(head.status)")
            case .head(let id): events.append("head \(id.number) \(head.status) \(head.framing)")
            case .content(let id, let count):
                note(content: input.readable.extracting(0..<count).text, id)
                input.discard(count)
                if takes { machine.consumed(count, of: id, into: &output) }
            case .trailers(let id):
                events.append("trailers \(id.number) \(section.head.text.split(separator: "\r\n").joined(separator: "|"))")
            case .end(let id): over("end \(id.number)", id)
            case .reset(let id, let code): over("reset \(id.number) \(code.text)", id)
            case .badAnswer(let id, let fault): over("bad \(id.number) \(fault.text)", id)
            case .roomGrew(let id): events.append("room \(id.number)")
            case .settings: events.append("settings \(machine.maxStreams)")
            case .wentAway(let code): events.append("away \(code.text)")
            case .fault(let fault): events.append("fault \(fault.text)")
            case .unreadable, .malformed: events.append("an event of a server")
            }
        }
    }

    private mutating func over(_ event: String, _ id: StreamID) {
        events.append(event)
        if releases { machine.release(id, into: &output) }
    }

    /// Content that arrives in pieces is noted as one.
    private mutating func note(content: String, _ id: StreamID) {
        if let last = events.last, last.hasPrefix("content \(id.number) ") {
            events[events.count - 1] = last + content
        } else {
            events.append("content \(id.number) \(content)")
        }
    }

    /// Sends a request's head; nil if the connection takes no more.
    @discardableResult
    mutating func send(_ line: String = "GET /", _ fields: [String] = [], ends: Bool = true) -> UInt32? {
        let text = "\(line) HTTP/1.1\r\nHost: a.example\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
        return machine.sendRequest(Array(text.utf8).rawBytes, isSecure: false, endsStream: ends, owner: 7, into: &output)?.stream.number
    }

    /// Sends content of a request; returns how many bytes the windows allow.
    mutating func send(_ stream: UInt32, content: String, ends: Bool = false) -> Int {
        machine.sendContent(Array(content.utf8).rawBytes, isLast: ends, on: StreamID(number: stream), into: &output)
    }

    /// The frames that were written since the last call, such as `HEADERS 1 end`, `RST 1 cancel`.
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

extension HTTP2Bytes {
    /// The head of an answer.
    static func answer(_ stream: UInt32, _ status: String = "200", _ more: [(String, String)] = [], ends: Bool = false) -> [UInt8] {
        frame(.headers, ends ? 0x5 : 0x4, stream, block([(":status", status)] + more))
    }

    /// A field section without pseudo-fields that ends the stream.
    static func trailers(_ stream: UInt32, _ fields: [(String, String)], ends: Bool = true) -> [UInt8] {
        frame(.headers, ends ? 0x5 : 0x4, stream, block(fields))
    }

    static func goAway(_ last: UInt32, _ code: HTTP2ErrorCode = .noError) -> [UInt8] {
        frame(.goAway, 0, 0, word(last) + word(code.rawValue))
    }
}
