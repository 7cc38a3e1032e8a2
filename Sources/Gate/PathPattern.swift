internal import Wire

/// The path of a rule, or of its `strip=`, in canonical form: literal bytes and braced names, each of which stands for one
/// segment that is not empty (`/items/{id}/review`).
struct PathPattern: Equatable {
    /// The pieces between the braced names: one more than there are names. Each but the first begins with a slash or is
    /// empty, each but the last ends with one.
    let literals: [[UInt8]]

    /// nil if a brace does not enclose a whole segment, or the name in it has other characters than letters, digits and `_`.
    init?(_ path: [UInt8]) {
        var literals: [[UInt8]] = [[]]
        var rest = path[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "{"):
                let name = rest.prefix { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "_") }
                rest = rest.dropFirst(name.count)
                let isSegment = literals[literals.count - 1].last == UInt8(ascii: "/") && rest.first == UInt8(ascii: "}")
                rest = rest.dropFirst()
                guard isSegment, !name.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: "/") else { return nil }
                literals.append([])
            case UInt8(ascii: "}"): return nil
            default: literals[literals.count - 1].append(byte)
            }
        }
        self.literals = literals
    }

    /// The same with a slash behind it.
    var appendingSlash: PathPattern {
        var literals = literals
        literals[literals.count - 1].append(UInt8(ascii: "/"))
        return PathPattern(literals: literals)
    }

    private init(literals: [[UInt8]]) { self.literals = literals }

    var hasBraces: Bool { literals.count > 1 }

    /// The pattern without the names, `{}` for each: the form that `matchedPrefix(of:by:)` reads.
    var bytes: [UInt8] { Array(literals.joined(separator: Array("{}".utf8))) }

    /// The length in bytes of the prefix of `path`, which is canonical, that `pattern` matches and that ends with a segment; nil for
    /// no match. Allocates nothing. A pattern has no literal brace, so a brace in `path` is an ordinary byte.
    static func matchedPrefix(of path: RawSpan, by pattern: RawSpan) -> Int? {
        var (offset, at) = (0, 0)
        while at < pattern.byteCount {
            if pattern[at] == UInt8(ascii: "{") {
                let end = endOfSegment(path, from: offset)
                guard end > offset else { return nil }
                offset = end
                at += 2
            } else {
                guard offset < path.byteCount, path[offset] == pattern[at] else { return nil }
                offset += 1
                at += 1
            }
        }
        return offset == path.byteCount || path[offset] == UInt8(ascii: "/") ? offset : nil
    }

    /// The end of the segment that begins at `offset`: the next slash or the end of `path`.
    static func endOfSegment(_ path: RawSpan, from offset: Int) -> Int {
        path.firstIndex(of: UInt8(ascii: "/"), from: offset) ?? path.byteCount
    }
}
