import Gate
import HTTP
import Wire

/// Changes to the heads of requests on a filtered route, so that upstreams answer with content that `TierFilter` can judge.
struct FilteredFields {
    let plan: FilterPlan
    let tier: Tier

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

    /// The form in which content can be filtered.
    static let form: StaticString = "Accept: application/json\r\nAccept-Encoding: identity\r\n"

    /// Writes the fields that replace the dropped ones.
    func writeRequest(_ fields: borrowing FieldTable, _ bytes: RawSpan, into out: inout ByteBuffer) {
        out.append(Self.form)
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
}
