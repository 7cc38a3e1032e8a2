import Gate
import HTTP
import Wire

/// Changes to heads on a filtered route, in both directions, so that no client and no cache gets content of another tier.
struct FilteredFields {
    let plan: FilterPlan
    let tier: Tier
    /// Whether the client's content differs from the upstream's.
    var isRewritten = false

    // MARK: requests

    /// Whether a field is forwarded unchanged. Other types than JSON, ranges and coded content cannot be filtered, and dates do not
    /// differ by tier.
    func passesRequest(_ field: Field, _ bytes: RawSpan, method: Method) -> Bool {
        switch field.known {
        case .accept, .acceptEncoding, .range, .ifRange, .ifModifiedSince, .ifNoneMatch, .ifMatch: false
        // For a method that changes something it is a precondition, which must not be dropped.
        case .ifUnmodifiedSince: method != .get && method != .head
        case .other: !bytes[field.name].equalsIgnoringCase("a-im") && !bytes[field.name].equalsIgnoringCase("accept-charset")
        default: true
        }
    }

    /// Writes the fields that replace the dropped ones.
    func writeRequest(_ fields: borrowing FieldTable, _ bytes: RawSpan, into out: inout ByteBuffer) {
        out.append("Accept: application/json\r\nAccept-Encoding: identity\r\n")
        for index in 0..<fields.count {
            switch fields[index].known {
            case .ifNoneMatch: writeTags("If-None-Match: ", bytes[fields[index].value], keepsOthers: false, &out)
            // A precondition that no tag meets must still fail.
            case .ifMatch: writeTags("If-Match: ", bytes[fields[index].value], keepsOthers: true, &out)
            // The others were copied.
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

    /// Fields without a `FieldName`: digests of the upstream's content, and directives to shared caches.
    private static let dropped: [StaticString] = [
        "content-md5", "digest", "content-digest", "repr-digest", "signature", "signature-input", "surrogate-control",
        "cdn-cache-control",
    ]

    /// Whether the client gets a field unchanged.
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

    /// Writes the fields that replace the dropped ones.
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

    /// Writes the upstream's cache directives, without those for shared caches.
    private func writeCaching(_ value: RawSpan, _ out: inout ByteBuffer) {
        // A quoted string, which holds names of fields, may contain commas. It is rare and not parsed.
        guard value.firstIndex(of: UInt8(ascii: "\"")) == nil else { return out.append(", no-store") }
        var directives = ListElements(value)
        while let directive = directives.next() {
            let isShared =
                directive.isEmpty || directive.equalsIgnoringCase("public") || directive.equalsIgnoringCase("private")
                || directive.equalsIgnoringCase("proxy-revalidate")
                || directive.byteCount > 8 && directive.extracting(0..<9).equalsIgnoringCase("s-maxage=")
            if !isShared {
                out.append(", ")
                out.append(directive)
            }
        }
    }
}
