/// Percent-encoding (RFC 3986 §2.1).
package enum PercentEncoding {
    /// Decodes `text`; nil if a `%` is not followed by two hexadecimal digits. A `+` stays a `+`.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next()?.hexValue, let low = rest.next()?.hexValue else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    /// Encodes every byte that is not unreserved (RFC 3986 §2.3), so that the result may stand anywhere in a URL.
    package static func encode(_ text: some StringProtocol) -> String {
        var out = ByteBuffer(capacity: text.utf8.count)
        encode(Array(text.utf8).rawBytes, into: &out)
        return out.readable.text
    }

    /// Appends the same of `bytes` to `out`.
    package static func encode(_ bytes: RawSpan, into out: inout ByteBuffer) {
        for offset in 0..<bytes.byteCount {
            let byte = bytes[offset]
            if byte.isUnreserved {
                out.append(byte)
            } else {
                out.append(UInt8(ascii: "%"))
                out.append(digit(byte >> 4))
                out.append(digit(byte & 15))
            }
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }
}

extension UInt8 {
    /// Whether the byte stands for itself anywhere in a URL (RFC 3986 §2.3).
    package var isUnreserved: Bool {
        isASCIILetter || isASCIIDigit || self == UInt8(ascii: "-") || self == UInt8(ascii: ".") || self == UInt8(ascii: "_")
            || self == UInt8(ascii: "~")
    }
}
