/// Percent-encoding (RFC 3986 §2.1).
package enum PercentEncoding {
    /// The bytes that `text` stands for; nil if a `%` has not two hexadecimal digits behind it. A `+` stays one.
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
