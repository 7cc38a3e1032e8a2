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
        let digits = Array("0123456789ABCDEF".utf8)
        var out = ByteBuffer(capacity: text.utf8.count)
        for byte in text.utf8 {
            if byte.isUnreserved {
                out.append(byte)
            } else {
                out.append(UInt8(ascii: "%"))
                out.append(digits[Int(byte >> 4)])
                out.append(digits[Int(byte & 15)])
            }
        }
        return out.readable.text
    }
}

extension UInt8 {
    fileprivate var isUnreserved: Bool {
        isASCIILetter || isASCIIDigit || self == UInt8(ascii: "-") || self == UInt8(ascii: ".") || self == UInt8(ascii: "_")
            || self == UInt8(ascii: "~")
    }
}
