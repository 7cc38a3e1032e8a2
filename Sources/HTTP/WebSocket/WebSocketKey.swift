package import Wire

/// `Sec-WebSocket-Key` and the answer to it (RFC 6455 §4.2.2).
package enum WebSocketKey {
    /// Whether the value is base64 of 16 bytes.
    static func isValid(_ value: RawSpan) -> Bool {
        guard value.byteCount == 24, value[22] == UInt8(ascii: "="), value[23] == UInt8(ascii: "=") else { return false }
        for offset in 0..<22 {
            let byte = value[offset]
            guard byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/") else { return false }
        }
        return true
    }

    /// Writes a key of 16 random bytes.
    package static func write(_ high: UInt64, _ low: UInt64, into out: inout ByteBuffer) {
        var bytes = ByteBuffer(capacity: 16)
        bytes.append(lowBytes: high, count: 8)
        bytes.append(lowBytes: low, count: 8)
        out.append(base64: bytes.readable)
    }

    /// The value of `Sec-WebSocket-Accept` for a key; `sha1` hashes the bytes that it is given.
    static func accept(_ key: RawSpan, sha1: (RawSpan) -> [UInt8]) -> ByteBuffer {
        var text = ByteBuffer(capacity: 64)
        text.append(key)
        text.append("258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        let digest = sha1(text.readable)
        text.removeAll()
        text.append(base64: digest.rawBytes)
        return text
    }
}

extension ByteBuffer {
    /// Appends base64 with padding (RFC 4648 §4).
    fileprivate mutating func append(base64 bytes: RawSpan) {
        let start = count
        Base64URL.encode(bytes, into: &self)
        for offset in start..<count {
            if readable[offset] == UInt8(ascii: "-") { set(UInt8(ascii: "+"), at: offset) }
            if readable[offset] == UInt8(ascii: "_") { set(UInt8(ascii: "/"), at: offset) }
        }
        while (count - start) % 4 != 0 { append(UInt8(ascii: "=")) }
    }
}
