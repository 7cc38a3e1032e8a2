internal import Wire

/// Text in the headers of mails: whatever it holds, it stays one line's worth of one header.
enum HeaderText {
    /// Unstructured text such as a subject: as it is, or in encoded words.
    static func unstructured(_ text: String) -> String {
        isPlain(text) && !text.contains("=?") ? text : encodedWords(text)
    }

    /// A name before an address: a few plain words, in quotes, or in encoded words.
    static func phrase(_ text: String) -> String {
        guard isPlain(text), !text.contains("=?") else { return encodedWords(text) }
        let isAtoms = text.utf8.allSatisfy { $0.isAtomByte || $0 == UInt8(ascii: " ") }
        return isAtoms ? text : quoted(text[...])
    }

    /// A quoted string (RFC 5322 §3.2.4).
    static func quoted(_ text: Substring) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    /// Visible ASCII and spaces, short enough for one line.
    private static func isPlain(_ text: String) -> Bool {
        text.utf8.count <= 200 && text.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
    }

    /// The most letters between the frame of an encoded word, which may have 75 in all (RFC 2047 §2).
    private static let longestWord = 63

    /// `=?utf-8?Q?…?=`, as many as it takes, each on a line of its own and none with half a character.
    private static func encodedWords(_ text: String) -> String {
        var words: [String] = []
        var word = ""
        for scalar in text.unicodeScalars {
            let letters = Array(String(scalar).utf8).map(encoded).joined()
            if word.utf8.count + letters.utf8.count > longestWord {
                words.append(word)
                word = ""
            }
            word += letters
        }
        words.append(word)
        return words.map { "=?utf-8?Q?\($0)?=" }.joined(separator: "\r\n ")
    }

    /// One byte in the `Q` encoding, by the strictest of its rules (RFC 2047 §5.3).
    private static func encoded(_ byte: UInt8) -> String {
        if byte == UInt8(ascii: " ") { return "_" }
        if byte.isASCIILetter || byte.isASCIIDigit { return String(Unicode.Scalar(byte)) }
        let digits = String(byte, radix: 16, uppercase: true)
        return digits.utf8.count < 2 ? "=0" + digits : "=" + digits
    }
}

extension UInt8 {
    /// Whether it may stand in an address or a name without quotes (RFC 5322 §3.2.3, RFC 6532 §3.2).
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
