import Wire

/// Parameters as forms and queries write them: `application/x-www-form-urlencoded`.
enum FormText {
    /// In order; nil if one is malformed.
    static func pairs(_ text: [UInt8]) -> [(name: String, value: String)]? {
        var pairs: [(name: String, value: String)] = []
        for pair in text.split(separator: UInt8(ascii: "&")) {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decode(halves[0]), let value = decode(halves.count > 1 ? halves[1] : []) else { return nil }
            pairs.append((name, value))
        }
        return pairs
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> String? {
        let spaced = text.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        // Tokens, which are long, have none.
        guard spaced.contains(UInt8(ascii: "%")) else { return spaced.rawBytes.text }
        guard let bytes = PercentEncoding.decode(spaced) else { return nil }
        return bytes.rawBytes.text
    }
}
