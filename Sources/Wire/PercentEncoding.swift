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
}
