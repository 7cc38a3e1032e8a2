import Gate
import HTTP
import System
import Testing
import Transport
import Wire

@testable import Proxy

/// One connection of a server of HTTP/2 that reads and writes its frames by hand.
final class HTTP2Upstream {
    struct Frame: CustomStringConvertible {
        let type: Int
        let flags: Int
        let stream: Int
        let payload: [UInt8]

        var endsStream: Bool { (type == 0 || type == 1) && flags & 1 != 0 }
        var text: String { String(decoding: payload, as: UTF8.self) }
        func word(_ offset: Int) -> Int { payload[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }

        /// Such as `DATA 1`, `RST 1 8`, `GOAWAY 0 0`.
        var description: String {
            switch type {
            case 3: "RST \(stream) \(word(0))"
            case 7: "GOAWAY \(word(0)) \(word(4))"
            default:
                "\(["DATA", "HEADERS", "PRIORITY", "RST", "SETTINGS", "PUSH", "PING", "GOAWAY", "WINDOW", "CONTINUATION"][type]) \(stream)"
            }
        }
    }

    static let (data, headers, reset, settings, ping, goAway, windowUpdate) = (0, 1, 3, 4, 6, 7, 8)

    let line: Line
    private var waiting: [UInt8] = []
    private var gathered: [UInt8]?
    private var decoder = HPACKDecoder()

    /// Reads the preface and, unless `settings` is nil, greets.
    init(_ line: Line, settings: [(Int, Int)]? = []) throws {
        self.line = line
        let preface = try take(24)
        guard preface == Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) else { throw TestFault("no preface: \(preface)") }
        if let settings { try greet(settings) }
    }

    func greet(_ settings: [(Int, Int)] = []) throws {
        try send(Self.settings, 0, 0, settings.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 255)] + Self.word($0.1) })
    }

    static func word(_ value: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(value >> $0 & 255) } }

    static func frame(_ type: Int, _ flags: Int, _ stream: Int, _ payload: [UInt8] = []) -> [UInt8] {
        word(payload.count).dropFirst() + [UInt8(type), UInt8(flags)] + word(stream) + payload
    }

    func send(_ type: Int, _ flags: Int, _ stream: Int, _ payload: [UInt8] = []) throws {
        let frame = Self.frame(type, flags, stream, payload)
        if gathered == nil { try line.send(frame) } else { gathered! += frame }
    }

    /// Sends the frames of `body` at once.
    func atOnce(_ body: () throws -> Void) throws {
        gathered = []
        try body()
        try line.send(gathered!)
        gathered = nil
    }

    /// Fields as literals without an index.
    func sendHead(_ stream: Int, _ fields: [(String, String)], ends: Bool = false) throws {
        var block: [UInt8] = []
        for (name, value) in fields {
            block.append(0)
            for text in [name, value] { block += [UInt8(text.utf8.count)] + Array(text.utf8) }
        }
        try send(Self.headers, ends ? 5 : 4, stream, block)
    }

    func sendData(_ stream: Int, _ text: String, ends: Bool = false) throws { try send(Self.data, ends ? 1 : 0, stream, Array(text.utf8)) }

    func answer(_ stream: Int, _ content: String = "ok", status: Int = 200) throws {
        try sendHead(stream, [(":status", "\(status)"), ("content-length", "\(content.utf8.count)")])
        try sendData(stream, content, ends: true)
    }

    func sendReset(_ stream: Int, _ code: HTTP2ErrorCode) throws { try send(Self.reset, 0, stream, Self.word(Int(code.rawValue))) }

    func sendGoAway(last: Int, _ code: HTTP2ErrorCode = .noError) throws {
        try send(Self.goAway, 0, 0, Self.word(last) + Self.word(Int(code.rawValue)))
    }

    private func take(_ count: Int) throws -> [UInt8] {
        while waiting.count < count {
            guard let bytes = try line.receive() else { throw TestFault("the gateway has closed the connection") }
            waiting += bytes
        }
        defer { waiting.removeFirst(count) }
        return Array(waiting.prefix(count))
    }

    /// Whether a frame has come, or comes within this time.
    func isReady(milliseconds: Int32) -> Bool { !waiting.isEmpty || line.isReady(milliseconds: milliseconds) }

    func next() throws -> Frame {
        let head = try take(9)
        let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        return Frame(
            type: Int(head[3]), flags: Int(head[4]), stream: head[5..<9].reduce(0) { $0 << 8 | Int($1) }, payload: try take(count))
    }

    /// The next frame of this type; others are passed over.
    func next(_ type: Int) throws -> Frame {
        while true {
            let frame = try next()
            if frame.type == type { return frame }
        }
    }

    /// The next request, as a head of HTTP/1.1.
    func request() throws -> (stream: Int, head: String, ends: Bool) {
        let frame = try next(Self.headers)
        return (frame.stream, try head(frame), frame.endsStream)
    }

    func head(_ frame: Frame, as kind: FieldSectionKind? = nil) throws -> String {
        var section = FieldSection()
        let (block, kind) = (frame.payload, kind ?? .request(hasContent: !frame.endsStream))
        try decoder.decode(block.rawBytes, as: kind, into: &section)
        if let fault = section.fault { throw TestFault("the request is malformed: \(fault)") }
        return String(decoding: section.head.array, as: UTF8.self)
    }

    /// The content of the stream's request up to its end; without content if its head ended it.
    func content(_ stream: Int) throws -> String {
        var content: [UInt8] = []
        while true {
            let frame = try next()
            guard frame.stream == stream, frame.type == Self.data || frame.type == Self.headers else { continue }
            if frame.type == Self.data { content += frame.payload }
            if frame.endsStream { return String(decoding: content, as: UTF8.self) }
        }
    }

    /// Whether the gateway closes the connection; GOAWAY and the like may come before.
    func isClosed() throws -> Bool {
        while true {
            do { _ = try next() } catch let fault as TestFault { return fault.description != "nothing happened" }
        }
    }
}

extension SteppedWorker {
    /// The next connection of `listener`, greeted, with the first request on its way.
    mutating func acceptHTTP2(_ listener: Socket, settings: [(Int, Int)] = []) throws -> HTTP2Upstream {
        let line = try accept(listener)
        try turn(untilReadable: line)
        let upstream = try HTTP2Upstream(line, settings: settings)
        try turn(untilReadable: line)
        return upstream
    }
}

/// A worker in front of an upstream with `http2=on`, which is the test's listener.
struct HTTP2Bench {
    let worker: RunningWorker
    let upstream: Socket

    init(
        settings: WorkerSettings = WorkerSettings(), probes: Bool = false, _ adjust: (inout UpstreamSettings) -> Void = { _ in },
        healthChanged: @escaping @Sendable (String, UpstreamAddress, Bool) -> Void = { _, _, _ in }
    ) throws {
        upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        worker = try RunningWorker(
            [Self.rule], upstreams: [Self.snapshot([upstream.localAddress()], adjust)], settings: settings, probes: probes,
            healthChanged: healthChanged)
    }

    static let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)

    static func snapshot(_ addresses: [SocketAddress], _ adjust: (inout UpstreamSettings) -> Void = { _ in }) -> UpstreamSnapshot {
        var snapshot = RunningWorker.upstream("back", addresses, adjust)
        snapshot.addresses = addresses.map { UpstreamAddress(address: $0, speaksHTTP2: true) }
        return snapshot
    }

    func client(_ request: String? = nil) throws -> Line {
        let line = try Line(to: worker.address)
        if let request { try line.send(request) }
        return line
    }

    /// A client that has asked for this path.
    func ask(_ path: String) throws -> Line { try client("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n") }

    func accept(_ settings: [(Int, Int)]? = []) throws -> HTTP2Upstream {
        try HTTP2Upstream(Line(acceptedFrom: upstream), settings: settings)
    }

    /// Whether no further connection is opened for a moment.
    var opensNoMore: Bool { !Line(upstream).isReady(milliseconds: 50) }

    /// Whether everything is given back once the clients have gone.
    func isAtRest() -> Bool { worker.census(where: \.isAtRest).isAtRest }

    func end() {
        worker.stop()
        upstream.close()
    }
}
