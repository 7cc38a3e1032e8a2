package import HTTP
package import Wire

/// Entity tags of compressed answers: `"x"` becomes `W/"x-gzip"`, because the client does not receive the bytes that the tag stands for, and
/// caches keep both forms.
extension ContentCoding {
    /// Appends an upstream's tag as that of its answer in this coding; nothing if it is malformed.
    package func write(_ tag: RawSpan, into out: inout ByteBuffer) {
        guard let inner = EntityTag(tag) else { return }
        out.append("W/\"")
        out.append(tag[inner.text])
        out.append("-")
        out.append(name)
        out.append("\"")
    }

    private static let compressed: [ContentCoding] = [.gzip, .br, .zstd]

    /// The coding whose mark an entity tag has, of those that the gateway compresses by.
    private static func marked(_ text: RawSpan) -> ContentCoding? {
        for coding in compressed {
            let count = coding.name.utf8CodeUnitCount
            guard text.byteCount > count, text[text.byteCount - count - 1] == UInt8(ascii: "-") else { continue }
            if text.dropping(text.byteCount - count).equals(coding.name) { return coding }
        }
        return nil
    }

    /// The text of a tag without the mark of a coding.
    @_lifetime(copy text)
    static func withoutMark(_ text: RawSpan) -> RawSpan {
        guard let coding = marked(text) else { return text }
        return text.extracting(0..<text.byteCount - coding.name.utf8CodeUnitCount - 1)
    }

    /// The coding of the first tag of `list` that has the mark of one.
    package static func ofTags(_ list: RawSpan) -> ContentCoding? {
        var offset = 0
        while let tag = EntityTag(list, from: &offset) {
            if tag.isWeak, let coding = marked(list[tag.text]) { return coding }
        }
        return nil
    }

    /// Appends the tags of `list`, behind each that has the mark of a coding the one that it was made of. The gateway does not remember
    /// whether that was weak, so it appends both forms; and the upstream's own tag may end like a mark.
    package static func restoreTags(_ list: RawSpan, into out: inout ByteBuffer) {
        let start = out.count
        var offset = 0
        while let tag = EntityTag(list, from: &offset) {
            if out.count > start { out.append(", ") }
            out.append(list[tag.whole])
            guard tag.isWeak, marked(list[tag.text]) != nil else { continue }
            let text = withoutMark(list[tag.text])
            out.append(", \"")
            out.append(text)
            out.append("\", W/\"")
            out.append(text)
            out.append("\"")
        }
    }
}
