package import Wire

/// The value of `grpc-message`: text in which bytes outside of 0x20 to 0x7E, and `%`, are percent-encoded.
package enum GRPCMessage {
    /// Appends `text` in that form.
    package static func append(_ text: RawSpan, to out: inout ByteBuffer) {
        for offset in 0..<text.byteCount {
            let byte = text[offset]
            if byte >= 0x20, byte <= 0x7E, byte != UInt8(ascii: "%") {
                out.append(byte)
            } else {
                out.append(UInt8(ascii: "%"))
                out.append(digit(byte >> 4))
                out.append(digit(byte & 15))
            }
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") - 10 + value
    }
}
