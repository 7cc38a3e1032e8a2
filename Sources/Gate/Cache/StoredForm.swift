import HTTP
package import Wire

/// The form in which a client gets a stored answer (RFC 9110 §13 and §14).
package enum StoredForm: Equatable, Sendable {
    case whole
    case notModified
    /// One part of the content.
    case part(Range<Int>)
    /// The part that is asked for lies behind the content's end.
    case unsatisfiable

    /// - Parameters:
    ///   - conditions: the lines of the request's conditions and range; tags as the upstream knows them.
    ///   - takesParts: whether a part of the content may be sent.
    package init(of head: CacheHead, _ conditions: [UInt8], takesParts: Bool) {
        self = .whole
        guard head.status == 200, !conditions.isEmpty else { return }
        let lines = head.lines
        let tag = FieldText.soleValue(of: "etag", in: lines.rawBytes)
        let modified = FieldText.soleValue(of: "last-modified", in: lines.rawBytes)
        let tags = FieldText.values(of: ("if-none-match" as StaticString).rawBytes, in: conditions.rawBytes)
        if !tags.isEmpty {
            if Self.matches(tags, tag) { self = .notModified }
        } else if let since = FieldText.soleValue(of: "if-modified-since", in: conditions.rawBytes), let modified {
            if let since = HTTPDate.parse(since.rawBytes), let modified = HTTPDate.parse(modified.rawBytes), modified <= since {
                self = .notModified
            }
        }
        guard self == .whole, takesParts, let length = head.length, let range = FieldText.soleValue(of: "range", in: conditions.rawBytes)
        else {
            return
        }
        if let validator = FieldText.soleValue(of: "if-range", in: conditions.rawBytes) {
            // Weak tags do not tell that the bytes are the same.
            guard validator == (validator.first == UInt8(ascii: "\"") ? tag : modified) else { return }
        }
        self = Self.part(range.rawBytes, length) ?? .whole
    }

    /// Whether one of `list` is `tag`, by the weak comparison.
    private static func matches(_ list: [UInt8], _ tag: [UInt8]?) -> Bool {
        if list.rawBytes.equals("*,") { return true }
        guard let tag, let own = EntityTag(tag.rawBytes) else { return false }
        var offset = 0
        while let other = EntityTag(list.rawBytes, from: &offset) {
            if list.rawBytes[other.text].equals(tag.rawBytes[own.text]) { return true }
        }
        return false
    }

    /// A single range of bytes; nil for any other, which is ignored.
    private static func part(_ text: RawSpan, _ length: Int) -> StoredForm? {
        guard text.byteCount > 6, text.extracting(0..<6).equalsIgnoringCase("bytes=") else { return nil }
        let range = text.dropping(6)
        guard let dash = range.firstIndex(of: UInt8(ascii: "-")) else { return nil }
        let first = range.extracting(0..<dash), last = range.dropping(dash + 1)
        if first.byteCount == 0 {
            guard let count = number(last) else { return nil }
            return count == 0 || length == 0 ? .unsatisfiable : .part(max(0, length - count)..<length)
        }
        guard let start = number(first) else { return nil }
        if last.byteCount == 0 { return start < length ? .part(start..<length) : .unsatisfiable }
        guard let end = number(last), end >= start else { return nil }
        return start < length ? .part(start..<min(end + 1, length)) : .unsatisfiable
    }

    /// At most 15 digits.
    private static func number(_ text: RawSpan) -> Int? {
        guard (1...15).contains(text.byteCount) else { return nil }
        var value = 0
        for offset in 0..<text.byteCount {
            guard text[offset].isASCIIDigit else { return nil }
            value = value * 10 + Int(text[offset] - 48)
        }
        return value
    }

    /// Writes the head of the answer in this form, with the empty line.
    package func writeHead(_ head: CacheHead, into out: inout ByteBuffer) {
        let status =
            switch self {
            case .whole: head.status
            case .notModified: 304
            case .part: 206
            case .unsatisfiable: 416
            }
        out.append("HTTP/1.1 ")
        out.append(decimal: status)
        out.append(" ")
        out.append(StatusText.reason(status))
        out.append("\r\n")
        let lines = head.lines
        FieldText.forEach(lines.rawBytes) { name, value in
            // Of a 304, fields about the content are left out (RFC 9110 §15.4.5); a 416 has none.
            let isOfContent = name.byteCount > 8 && name.extracting(0..<8).equalsIgnoringCase("content-")
            if self == .unsatisfiable || self == .notModified && isOfContent { return }
            FieldText.append(name, value, to: &out)
        }
        switch self {
        case .whole: if let length = head.length, head.status != 204 { writeLength(length, &out) }
        case .notModified: break
        case .part(let range):
            out.append("Content-Range: bytes ")
            out.append(decimal: range.lowerBound)
            out.append("-")
            out.append(decimal: range.upperBound - 1)
            out.append("/")
            out.append(decimal: head.length ?? 0)
            out.append("\r\n")
            writeLength(range.count, &out)
        case .unsatisfiable:
            out.append("Content-Range: bytes */")
            out.append(decimal: head.length ?? 0)
            out.append("\r\n")
            writeLength(0, &out)
        }
        out.append("\r\n")
    }

    private func writeLength(_ length: Int, _ out: inout ByteBuffer) {
        out.append("Content-Length: ")
        out.append(decimal: length)
        out.append("\r\n")
    }
}
