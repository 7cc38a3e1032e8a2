/// Base64 with the standard alphabet (RFC 4648 §4), as in password hashes. Decodes only the canonical spelling. It allocates:
/// for the control plane.
package enum Base64 {
    /// Decodes `text`, with all of its `=` padding if `isPadded` and with none otherwise; nil if it is not canonical.
    package static func decode(_ text: RawSpan, isPadded: Bool) -> [UInt8]? {
        var count = text.byteCount
        if isPadded {
            guard count % 4 == 0 else { return nil }
            while count > 0, text.byteCount - count < 2, text[count - 1] == UInt8(ascii: "=") { count -= 1 }
        }
        var letters = ByteBuffer(capacity: count)
        for offset in 0..<count {
            switch text[offset] {
            case UInt8(ascii: "+"): letters.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): letters.append(UInt8(ascii: "_"))
            case UInt8(ascii: "-"), UInt8(ascii: "_"): return nil
            case let letter: letters.append(letter)
            }
        }
        return Base64URL.decode(letters.readable)
    }

    /// Encodes `bytes`, with `=` padding if `isPadded`.
    package static func encode(_ bytes: RawSpan, isPadded: Bool) -> String {
        var letters = ByteBuffer()
        Base64URL.encode(bytes, into: &letters)
        var text = ByteBuffer(capacity: letters.count + 2)
        for offset in 0..<letters.count {
            switch letters.readable[offset] {
            case UInt8(ascii: "-"): text.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): text.append(UInt8(ascii: "/"))
            case let letter: text.append(letter)
            }
        }
        while isPadded, text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return text.readable.text
    }
}
