import Wire

/// The text of an API key: `tg_`, 256 random bits as 43 letters and digits, and their checksum as 6 more, by which scanners for secrets
/// and the gateway tell a key from any other text.
package enum APIKeyText {
    package static let prefix: StaticString = "tg_"
    private static let randomLetters = 43
    private static let checkLetters = 6
    package static let count = 3 + randomLetters + checkLetters

    /// A new key.
    package static func make(_ random: RandomBytes) -> String {
        var text = Array("\(prefix)".utf8)
        while text.count < 3 + randomLetters {
            // Of 256 values the last eight would make some letters likelier than others.
            for byte in random(64) where byte < 248 && text.count < 3 + randomLetters { text.append(letter(UInt32(byte) % 62)) }
        }
        let letters = checksum(text.rawBytes)
        for index in 0..<checkLetters { text.append(letters[index]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Whether this is meant as a key, right or wrong.
    package static func isMeant(_ text: RawSpan) -> Bool { text.hasPrefix(prefix.rawBytes) }

    /// Whether it has the form of a key, and its checksum: one that was mistyped or guessed has not.
    package static func isWhole(_ text: RawSpan) -> Bool {
        guard text.byteCount == count, isMeant(text) else { return false }
        for offset in 3..<count where !text[offset].isASCIILetter && !text[offset].isASCIIDigit { return false }
        let letters = checksum(text.extracting(0..<count - checkLetters))
        for index in 0..<checkLetters where letters[index] != text[count - checkLetters + index] { return false }
        return true
    }

    /// CRC-32 (ISO 3309), the highest digit first.
    private static func checksum(_ text: RawSpan) -> InlineArray<6, UInt8> {
        var crc = UInt32.max
        for offset in 0..<text.byteCount {
            crc ^= UInt32(text[offset])
            for _ in 0..<8 { crc = crc & 1 == 0 ? crc >> 1 : crc >> 1 ^ 0xEDB8_8320 }
        }
        crc = ~crc
        var letters = InlineArray<6, UInt8>(repeating: 0)
        for index in (0..<checkLetters).reversed() {
            letters[index] = letter(crc % 62)
            crc /= 62
        }
        return letters
    }

    private static func letter(_ value: UInt32) -> UInt8 {
        switch value {
        case 0..<10: UInt8(ascii: "0") + UInt8(value)
        case 10..<36: UInt8(ascii: "A") + UInt8(value - 10)
        default: UInt8(ascii: "a") + UInt8(value - 36)
        }
    }
}

/// The SHA-256 of an API key, by which it is stored and found.
package struct APIKeyDigest: Hashable, Sendable {
    private let words: InlineArray<4, UInt64>

    /// Of 32 bytes.
    package init?(_ bytes: RawSpan) {
        guard bytes.byteCount == 32 else { return nil }
        words = [bytes.load64(0), bytes.load64(8), bytes.load64(16), bytes.load64(24)]
    }

    package static func == (one: Self, other: Self) -> Bool {
        (one.words[0] ^ other.words[0]) | (one.words[1] ^ other.words[1]) | (one.words[2] ^ other.words[2])
            | (one.words[3] ^ other.words[3])
            == 0
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(words[0]) }
}

/// Digests API keys without an allocation for each. One thread at a time.
package struct APIKeyReader: ~Copyable {
    private var digester = Digester()

    package init() {}

    /// The digest of a key; nil for a text that is none.
    package mutating func digest(of text: RawSpan) -> APIKeyDigest? {
        APIKeyText.isWhole(text) ? APIKeyDigest(digester.digest(text, .sha256)) : nil
    }
}
