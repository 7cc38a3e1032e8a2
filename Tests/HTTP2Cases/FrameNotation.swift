import Foundation

/// Frames of HTTP/2 in the notation of the case documents, written without the machine that the cases test.
package enum FrameNotation {
    package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    package static let emptySettings: [UInt8] = frame(type: 4, flags: 0, stream: 0, [])

    private static let types = [
        "DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION",
    ]
    private static let codes = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
        "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]
    private static let settings = [
        "HEADER_TABLE_SIZE": 1, "ENABLE_PUSH": 2, "MAX_CONCURRENT_STREAMS": 3, "INITIAL_WINDOW_SIZE": 4, "MAX_FRAME_SIZE": 5,
        "MAX_HEADER_LIST_SIZE": 6,
    ]

    // MARK: writing

    /// The bytes of one frame.
    package static func bytes(_ text: String) throws -> [UInt8] {
        let halves = split(text, at: ":", most: 2)
        var words = split(halves[0], at: " ")
        let payload = halves.count > 1 ? halves[1] : ""
        let name = words.removeFirst()
        switch name {
        case "PREFACE": return preface
        case "BYTES": return try parts(payload, isSettings: false)
        case "REQUESTS":
            let request = try parts("GET", isSettings: false)
            return (0..<(Int(payload) ?? 0)).flatMap { frame(type: 1, flags: 5, stream: 2 * $0 + 1, request) }
        default: break
        }
        guard let type = types.firstIndex(of: name) ?? (name.hasPrefix("TYPE") ? Int(name.dropFirst(4)) : nil) else {
            throw HTTP2CaseFault("\(name) is no type of frame")
        }
        let content = try parts(payload.isEmpty && type == 6 ? "\"opaque..\"" : payload, isSettings: type == 4)
        return try frame(type, words, content)
    }

    private static func frame(_ type: Int, _ words: [String], _ content: [UInt8]) throws -> [UInt8] {
        var flags = type == 1 || type == 5 || type == 9 ? 4 : 0
        var (stream, front, back) = (0, [UInt8](), [UInt8]())
        for word in words {
            let value = String(word.split(separator: "=").last ?? "")
            switch word.split(separator: "=").first ?? "" {
            case "end", "ack": flags |= 1
            case "more": flags &= ~4
            case "reserved": stream |= 1 << 31
            case "flags": flags |= Int(value.dropFirst(2), radix: 16) ?? 0
            case "pad", "claim":
                flags |= 8
                front = [UInt8(value) ?? 0]
                if word.hasPrefix("pad") { back = [UInt8](repeating: 0, count: Int(value) ?? 0) }
            case "depends":
                flags |= 0x20
                front += try part(value, isSettings: false)
            default:
                guard let number = Int(word) else { throw HTTP2CaseFault("\(word) is no flag of a frame") }
                stream |= number
            }
        }
        return frame(type: type, flags: flags, stream: stream, front + content + back)
    }

    private static func frame(type: Int, flags: Int, stream: Int, _ payload: [UInt8]) -> [UInt8] {
        Array(word(payload.count).dropFirst()) + [UInt8(type), UInt8(flags)] + word(stream) + payload
    }

    private static func word(_ value: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(value >> $0 & 255) } }

    private static func parts(_ payload: String, isSettings: Bool) throws -> [UInt8] {
        try split(payload, at: " ").flatMap { try part($0, isSettings: isSettings) }
    }

    private static func part(_ text: String, isSettings: Bool) throws -> [UInt8] {
        if let match = text.wholeMatch(of: /(.+)\[(\d+)(?:\.\.<(\d+)|\.\.\.)\]/) {
            let bytes = try part(String(match.1), isSettings: isSettings)
            return Array(bytes[Int(match.2)!..<(match.3.map { Int($0)! } ?? bytes.count)])
        }
        if text.hasPrefix("\"") { return plain(text) }
        if text.hasPrefix("0x") {
            let digits = Array(text.dropFirst(2))
            return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16)! }
        }
        if let match = text.wholeMatch(of: /(\d+)\/(\d+)(!?)/) {
            return word(Int(match.1)! | (match.3.isEmpty ? 0 : 1 << 31)) + [UInt8(Int(match.2)! - 1)]
        }
        if ["GET", "HEAD", "POST"].contains(text) {
            return field(":method", Array(text.utf8)) + field(":scheme", Array("http".utf8)) + field(":path", [47])
                + field(":authority", Array("test".utf8))
        }
        if let code = codes.firstIndex(of: text) ?? Int(text) { return word(code) }
        guard let sign = text.dropFirst().firstIndex(of: "=") else { throw HTTP2CaseFault("\(text) is no part of a payload") }
        let (name, value) = (String(text[..<sign]), String(text[text.index(after: sign)...]))
        guard isSettings else { return field(name, plain(value)) }
        guard let id = settings[name] ?? Int(name), let number = Int(value) else { throw HTTP2CaseFault("\(text) is no setting") }
        return [UInt8(id >> 8), UInt8(id & 255)] + word(number)
    }

    /// Text, in quotes or not, perhaps so many times.
    private static func plain(_ text: String) -> [UInt8] {
        guard let match = text.wholeMatch(of: /"?(.*?)"?(?:\*(\d+))?/) else { return [] }
        return Array(repeatElement(Array(match.1.utf8), count: match.2.map { Int($0)! } ?? 1).joined())
    }

    /// A literal field without indexing (RFC 7541 §6.2.2).
    private static func field(_ name: String, _ value: [UInt8]) -> [UInt8] {
        [0] + length(name.utf8.count) + Array(name.utf8) + length(value.count) + value
    }

    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 127 else { return [UInt8(count)] }
        return count - 127 < 128 ? [127, UInt8(count - 127)] : [127, UInt8((count - 127) % 128 + 128), UInt8((count - 127) / 128)]
    }

    /// Splits outside quotes, and drops blanks around the pieces.
    static func split(_ text: String, at separator: Character, most: Int = .max) -> [String] {
        var pieces = [""]
        var isQuoted = false
        for character in text {
            if character == "\"" { isQuoted.toggle() }
            if character == separator, !isQuoted, pieces.count < most {
                pieces.append("")
            } else {
                pieces[pieces.count - 1].append(character)
            }
        }
        return pieces.map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }

    // MARK: reading

    /// The whole frames at the start of `bytes` in words, and how many bytes they are.
    package static func describe(_ bytes: [UInt8]) -> (frames: [String], count: Int) {
        var frames: [String] = []
        var start = 0
        while start + 9 <= bytes.count {
            let length = Int(bytes[start]) << 16 | Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
            guard start + 9 + length <= bytes.count else { break }
            frames.append(describe(Array(bytes[start..<start + 9]), Array(bytes[start + 9..<start + 9 + length])))
            start += 9 + length
        }
        return (frames, start)
    }

    private static func describe(_ head: [UInt8], _ payload: [UInt8]) -> String {
        func number(_ bytes: [UInt8], _ offset: Int) -> Int { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        func code(_ number: Int) -> String { codes.indices.contains(number) ? codes[number] : "\(number)" }
        let (type, stream, isFlagged) = (Int(head[3]), number(head, 5), head[4] & 1 != 0)
        guard types.indices.contains(type) else { return "TYPE\(type)" }
        let words =
            switch types[type] {
            case "DATA": ["\(stream)", "\(payload.count)", isFlagged ? "end" : ""]
            case "HEADERS": ["\(stream)", isFlagged ? "end" : ""]
            case "RST_STREAM": ["\(stream)", code(number(payload, 0))]
            case "GOAWAY": ["\(number(payload, 0))", code(number(payload, 4))]
            case "PING": isFlagged ? ["ack", String(decoding: payload, as: UTF8.self)] : []
            case "SETTINGS": isFlagged ? ["ack"] : []
            case "WINDOW_UPDATE": ["\(stream)", "\(number(payload, 0))"]
            default: ["\(stream)"]
            }
        return ([types[type]] + words.filter { !$0.isEmpty }).joined(separator: " ")
    }

    /// Whether a frame in words begins with these words.
    package static func begins(_ frame: String, with words: String) -> Bool { (frame + " ").hasPrefix(words + " ") }
}
