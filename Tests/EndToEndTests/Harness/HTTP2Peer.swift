import Foundation

/// A client of HTTP/2 that writes its frames by hand, for what no real client does.
final class HTTP2Peer {
    /// A frame as it came.
    struct Frame: CustomStringConvertible {
        let type: Int
        let flags: Int
        let stream: Int
        let payload: [UInt8]

        var endsStream: Bool { (type == 0 || type == 1) && flags & 1 != 0 }
        /// The word at this offset.
        func word(_ offset: Int) -> Int { payload[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }

        /// Such as `DATA 1`, `RST 1 8`, `GOAWAY 5 11`.
        var description: String {
            switch type {
            case 3: "RST \(stream) \(word(0))"
            case 7: "GOAWAY \(word(0)) \(word(4))"
            default:
                "\(["DATA", "HEADERS", "PRIORITY", "RST", "SETTINGS", "PUSH", "PING", "GOAWAY", "WINDOW", "CONTINUATION"][type]) \(stream)"
            }
        }
    }

    let connection: Connection

    /// Connects and greets, with these settings. `first` leaves with the greeting, so that no timer of the gateway ends between them.
    convenience init(_ gateway: Gateway, settings: [(Int, Int)] = [], first: [UInt8] = []) throws {
        try self.init(port: gateway.port, settings: settings, first: first)
    }

    init(port: Int, settings: [(Int, Int)] = [], first: [UInt8] = [], host: UInt8 = 1) throws {
        connection = try Connection(port: port, host: host)
        let values = settings.flatMap { [UInt8($0.0 >> 8), UInt8($0.0 & 255)] + Self.word($0.1) }
        try connection.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4, 0, 0, values) + first)
    }

    static func word(_ value: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(value >> $0 & 255) } }

    static func frame(_ type: UInt8, _ flags: UInt8, _ stream: Int, _ payload: [UInt8] = []) -> [UInt8] {
        Array(word(payload.count).dropFirst()) + [type, flags] + word(stream) + payload
    }

    /// Fields as literals without an index.
    static func block(_ fields: [(String, String)]) -> [UInt8] {
        var block: [UInt8] = []
        for (name, value) in fields {
            block.append(0)
            for text in [name, value] { block += length(text.utf8.count) + Array(text.utf8) }
        }
        return block
    }

    /// An integer with a prefix of seven bits (RFC 7541 §5.1).
    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 127 else { return [UInt8(count)] }
        return count - 127 < 128 ? [127, UInt8(count - 127)] : [127, UInt8((count - 127) % 128 + 128), UInt8((count - 127) / 128)]
    }

    static func head(_ stream: Int, _ method: String, _ path: String, _ more: [(String, String)] = [], ends: Bool = true) -> [UInt8] {
        frame(1, ends ? 5 : 4, stream, block([(":method", method), (":scheme", "http"), (":path", path), (":authority", "test")] + more))
    }

    func send(_ type: UInt8, _ flags: UInt8, _ stream: Int, _ payload: [UInt8] = []) throws {
        try connection.send(Self.frame(type, flags, stream, payload))
    }

    func ask(_ stream: Int, _ method: String = "GET", _ path: String, _ more: [(String, String)] = [], ends: Bool = true) throws {
        try connection.send(Self.head(stream, method, path, more, ends: ends))
    }

    func widen(_ stream: Int, by count: Int) throws { try send(8, 0, stream, Self.word(count)) }

    func next() throws -> Frame {
        let head = try connection.take(9)
        let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        return Frame(
            type: Int(head[3]), flags: Int(head[4]), stream: head[5..<9].reduce(0) { $0 << 8 | Int($1) },
            payload: try connection.take(count))
    }

    /// All frames up to one that `isLast`.
    @discardableResult
    func take(until isLast: (Frame) -> Bool) throws -> [Frame] {
        var frames: [Frame] = []
        while true {
            frames.append(try next())
            if isLast(frames[frames.count - 1]) { return frames }
        }
    }

    /// The content of the stream's answer, up to its end.
    func content(_ stream: Int) throws -> [UInt8] {
        try take { $0.stream == stream && $0.endsStream }.filter { $0.type == 0 && $0.stream == stream }.flatMap(\.payload)
    }
}
