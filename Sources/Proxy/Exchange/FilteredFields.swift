import Gate
import HTTP
import Wire

/// What changes in heads on a filtered route, in both directions: nobody is told of, or served, what another tier gets.
struct FilteredFields {
    let plan: FilterPlan
    let tier: Tier
    /// Whether the content of the answer is another than the upstream's.
    var isRewritten = false

    // MARK: requests

    /// Whether the upstream gets a field as it came. Other types than JSON, parts and packed content cannot be judged, dates
    /// are every tier's.
    func passesRequest(_ field: Field, _ bytes: RawSpan, method: Method) -> Bool {
        switch field.known {
        case .accept, .acceptEncoding, .range, .ifRange, .ifModifiedSince, .ifNoneMatch, .ifMatch: false
        // To a change it is a condition that must not fall away.
        case .ifUnmodifiedSince: method != .get && method != .head
        case .other: !bytes[field.name].equalsIgnoringCase("a-im") && !bytes[field.name].equalsIgnoringCase("accept-charset")
        default: true
        }
    }

    /// Writes what takes their place.
    func writeRequest(_ fields: borrowing FieldTable, _ bytes: RawSpan, into out: inout ByteBuffer) {
        out.append("Accept: application/json\r\nAccept-Encoding: identity\r\n")
        for index in 0..<fields.count {
            switch fields[index].known {
            case .ifNoneMatch: writeTags("If-None-Match: ", bytes[fields[index].value], keepsOthers: false, &out)
            // A condition that no tag can meet must stay one.
            case .ifMatch: writeTags("If-Match: ", bytes[fields[index].value], keepsOthers: true, &out)
            // The others were copied as they came.
            default: break
            }
        }
    }

    private func writeTags(_ name: StaticString, _ list: RawSpan, keepsOthers: Bool, _ out: inout ByteBuffer) {
        let start = out.count
        out.append(name)
        let isAny = list.equals("*")
        if isAny { out.append("*") }
        guard isAny || plan.restore(list, for: tier, keepsOthers: keepsOthers, into: &out) else {
            guard keepsOthers else { return out.truncate(to: start) }
            out.append(list)
            return out.append("\r\n")
        }
        out.append("\r\n")
    }

    // MARK: answers

    /// Names that the table of known ones lacks: digests of the upstream's content, and words to caches between.
    private static let dropped: [StaticString] = [
        "content-md5", "digest", "content-digest", "repr-digest", "signature", "signature-input", "surrogate-control",
        "cdn-cache-control",
    ]

    /// Whether the client gets a field as it came.
    func passesAnswer(_ field: Field, _ bytes: RawSpan) -> Bool {
        switch field.known {
        case .etag, .lastModified, .acceptRanges, .contentRange, .cacheControl: return false
        case .contentLength, .contentEncoding, .trailer: return !isRewritten
        case .other:
            let name = bytes[field.name]
            return !Self.dropped.contains { name.equalsIgnoringCase($0) }
        default: return true
        }
    }

    /// Writes what takes their place.
    func writeAnswer(_ fields: borrowing FieldTable, _ bytes: RawSpan, into out: inout ByteBuffer) {
        if let index = fields.first(.etag), !fields.isRepeated(.etag) {
            let start = out.count
            out.append("ETag: ")
            let name = out.count
            plan.write(bytes[fields[index].value], for: tier, into: &out)
            if out.count > name { out.append("\r\n") } else { out.truncate(to: start) }
        }
        out.append("Vary: Authorization\r\nCache-Control: private")
        for index in 0..<fields.count where fields[index].known == .cacheControl { writeCaching(bytes[fields[index].value], &out) }
        out.append("\r\n")
    }

    /// What the upstream says to caches, but for what it says to shared ones.
    private func writeCaching(_ value: RawSpan, _ out: inout ByteBuffer) {
        // Commas in quotes would have to be told from others; what is quoted are names of fields, and rare.
        guard value.firstIndex(of: UInt8(ascii: "\"")) == nil else { return out.append(", no-store") }
        var start = 0
        while start < value.byteCount {
            let end = value.firstIndex(of: UInt8(ascii: ","), from: start) ?? value.byteCount
            let directive = value.extracting(start..<end).trimmed
            let isShared =
                directive.isEmpty || directive.equalsIgnoringCase("public") || directive.equalsIgnoringCase("private")
                || directive.equalsIgnoringCase("proxy-revalidate")
                || directive.byteCount > 8 && directive.extracting(0..<9).equalsIgnoringCase("s-maxage=")
            if !isShared {
                out.append(", ")
                out.append(directive)
            }
            start = end + 1
        }
    }
}

extension RawSpan {
    /// Without blanks around it.
    fileprivate var trimmed: RawSpan {
        @_lifetime(copy self) get {
            var (start, end) = (0, byteCount)
            while start < end, self[start] == 0x20 || self[start] == 0x09 { start += 1 }
            while end > start, self[end - 1] == 0x20 || self[end - 1] == 0x09 { end -= 1 }
            return extracting(start..<end)
        }
    }
}
