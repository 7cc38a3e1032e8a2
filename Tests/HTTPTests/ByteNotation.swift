import Wire

/// Bytes as the case documents write them: line breaks count for nothing, and `\r \n \t \0 \\ \xHH` are what they are in C;
/// `\(text*N)` is `text` N times over.
enum ByteNotation {
    static func bytes(_ text: String) -> [UInt8] {
        var out: [UInt8] = []
        var rest = Substring(text)
        while let character = rest.first {
            rest.removeFirst()
            if character.isNewline { continue }
            if character == "\\" {
                out += escape(&rest)
            } else {
                out += Array(String(character).utf8)
            }
        }
        return out
    }

    private static func escape(_ rest: inout Substring) -> [UInt8] {
        switch rest.removeFirst() {
        case "r": return [13]
        case "n": return [10]
        case "t": return [9]
        case "0": return [0]
        case "\\": return [92]
        case "x":
            let digits = rest.prefix(2)
            rest.removeFirst(2)
            return [UInt8(digits, radix: 16)!]
        case "(":
            let end = rest.firstIndex(of: ")")!
            let inside = rest[..<end]
            rest = rest[rest.index(after: end)...]
            let star = inside.lastIndex(of: "*")!
            let unit = bytes(String(inside[..<star]))
            let times = Int(inside[inside.index(after: star)...])!
            return Array(repeatElement(unit, count: times).joined())
        case let other: fatalError("\\\(other) is no escape of the case documents")
        }
    }

    static func text(_ bytes: [UInt8]) -> String {
        var out = ""
        for byte in bytes {
            switch byte {
            case 13: out += "\\r"
            case 10: out += "\\n"
            case 9: out += "\\t"
            case 0: out += "\\0"
            case 92: out += "\\\\"
            case 32...126: out += String(UnicodeScalar(byte))
            default: out += "\\x" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
            }
        }
        return out
    }
}
