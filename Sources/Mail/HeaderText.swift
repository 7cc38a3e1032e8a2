internal import Wire

/// Encoder of text in mail headers. The result never ends the header, whatever the input (header injection).
enum HeaderText {
    /// Unstructured text (RFC 5322 §3.2.5) such as a subject: unchanged, or as encoded words (RFC 2047).
    static func unstructured(_ text: String) -> String {
        isPlain(text) && !text.contains("=?") ? text : encodedWords(text)
    }

    /// A display name (RFC 5322 §3.2.5): plain words, a quoted string, or encoded words.
    static func phrase(_ text: String) -> String {
        guard isPlain(text), !text.contains("=?") else { return encodedWords(text) }
        let isAtoms = text.utf8.allSatisfy { $0.isAtomByte || $0 == UInt8(ascii: " ") }
        return isAtoms ? text : quoted(text[...])
    }

    /// A quoted string (RFC 5322 §3.2.4).
    static func quoted(_ text: Substring) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    /// Whether it is printable ASCII of at most 200 bytes.
    private static func isPlain(_ text: String) -> Bool {
        text.utf8.count <= 200 && text.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
    }

    /// The maximum length of an encoded word without its frame; 75 with it (RFC 2047 §2).
    private static let maxWord = 63

    /// Encoded words `=?utf-8?Q?…?=`, one on each folded line, none with an incomplete scalar.
    private static func encodedWords(_ text: String) -> String {
        var words: [String] = []
        var word = ""
        for scalar in text.unicodeScalars {
            let letters = Array(String(scalar).utf8).map(encoded).joined()
            if word.utf8.count + letters.utf8.count > maxWord {
                words.append(word)
                word = ""
            }
            word += letters
        }
        words.append(word)
        return words.map { "=?utf-8?Q?\($0)?=" }.joined(separator: "\r\n ")
    }

    /// A byte in the `Q` encoding, by its strictest rule, that for phrases (RFC 2047 §5 (3)).
    private static func encoded(_ byte: UInt8) -> String {
        if byte == UInt8(ascii: " ") { return "_" }
        if byte.isASCIILetter || byte.isASCIIDigit { return String(Unicode.Scalar(byte)) }
        let digits = String(byte, radix: 16, uppercase: true)
        return digits.utf8.count < 2 ? "=0" + digits : "=" + digits
    }
}

extension UInt8 {
    /// Whether it is `atext`, which needs no quotes in an address or a name (RFC 5322 §3.2.3, RFC 6532 §3.2).
    var isAtomByte: Bool {
        switch self {
        case 0x80...: true
        case UInt8(ascii: "!"), 0x23...0x27, UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "/"),
            UInt8(ascii: "="), UInt8(ascii: "?"), 0x5E...0x60, 0x7B...0x7E:
            true
        default: isASCIILetter || isASCIIDigit
        }
    }
}
