import Gate
import HTTP
import Wire

/// The stage of a route with `filter=`: decodes JSON content and removes what is above the caller's tier. In shadow mode it only counts.
struct TierFilter: AnswerStage, ~Copyable {
    /// nil on a route without filters.
    private var plan: FilterPlan?
    private var tier = Tier.lowest
    private(set) var role = StageRole.none
    /// Whether the client's content differs from the upstream's, or would in the answer to GET, which HEAD and 304 describe.
    private var isRewritten = false
    /// Why judging in shadow mode was given up, until it is taken.
    var lapse: FilterFault?
    /// Of an error's head, the lines that stay if its content is replaced: those that tell the client how to go on.
    private var guidance = ByteBuffer()

    /// Fields that it adds to the head.
    private var lines = ByteBuffer()

    /// Judges the content while it is JSON.
    private var json = JSONFilter()
    private var isJSON = false
    private var isUnnamed = false
    /// Why any content at all is refused; nil if it is not.
    private var refusesContent: FilterFault?
    /// Content that is not JSON and passes.
    private var passed = ByteBuffer()
    private var decoder: ContentDecoder?
    /// Coded content that is not decoded yet.
    private var packed = ByteBuffer()
    /// Whether the decoder has more of what it was given.
    private var isFull = false
    /// The piece that was decoded last.
    private var piece = ByteBuffer()

    /// Bytes that are decoded at a time.
    private static var pieceSize: Int { 64 * 1_024 }

    /// A request begins on a route with this plan.
    mutating func begin(_ plan: FilterPlan, _ tier: Tier) {
        self.plan = plan
        self.tier = tier
    }

    mutating func reset() {
        guard plan != nil else { return }
        plan = nil
        role = .none
        isRewritten = false
        lapse = nil
        isJSON = false
        refusesContent = nil
        guidance.reuse()
        lines.reuse()
        stopDecoding()
        piece.reuse()
        passed.reuse()
        json.end()
    }

    private mutating func stopDecoding() {
        decoder = nil
        packed.reuse()
        isFull = false
    }

    // MARK: the pipe's questions

    var mayRefuse: Bool { role == .changes }
    var isWaiting: Bool { isFull || !packed.isEmpty }
    var heldBytes: Int { decoderBytes + passed.count + packed.count + piece.count + json.heldBytes + guidance.count }

    private var decoderBytes: Int {
        switch decoder {
        case .none: 0
        case .some(let decoder): decoder.heldBytes
        }
    }

    /// nil on a route without filters.
    var tierOfCaller: Tier? { plan == nil ? nil : tier }

    /// Counts so far; nil if it judges nothing.
    var counts: FilterCounts? { isJSON ? json.counts : nil }
    var isShadow: Bool { plan?.isShadow ?? false }
    /// Whether elements without a label count as labelled, by `filter-unlabelled=TIER`.
    var labelsTheUnlabelled: Bool { if case .tier? = plan?.unlabelled { true } else { false } }

    // MARK: the head

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) throws(FilterFault) {
        guard let plan else { return }
        try prepare(plan, head, bytes.readable, isForHead)
        guard !plan.isShadow else { return }
        writeFields(plan, head.fields, bytes.readable)
        head.change(&bytes, adding: lines.readable) { passes($0, $1) }
        lines.removeAll()
    }

    /// Chooses what becomes of the content.
    private mutating func prepare(
        _ plan: FilterPlan, _ head: borrowing ResponseHead, _ bytes: RawSpan, _ isForHead: Bool
    ) throws(FilterFault) {
        let status = head.status
        if status >= 400 { keepGuidance(head.fields, bytes) }
        let form = ContentForm(head.fields, bytes)
        isRewritten = (isForHead || status == 304) && (form != nil || plan.isStrict)
        // A partial answer cannot be filtered: the tier may be in another part (RFC 9110 §15.3.7, RFC 3229 §10.4.1).
        if status == 206 || status == 226 { return try refuse(.partial) }
        guard head.framing.hasContent, form != nil || plan.isStrict else { return }
        if let form, let coding = ContentCoding(head.fields, bytes) {
            isJSON = true
            isUnnamed = form == .unnamed
            json.begin(plan, tier: tier, isLines: form == .lines, toleratesAnyRoot: status >= 400)
            if coding != .identity { decoder = ContentDecoder(coding) }
        } else {
            let failure: FilterFault = form == nil ? .notJSON : .coding
            if case .length = head.framing { return try refuse(failure) }
            // Without a length, only the content's end shows whether there is any.
            refusesContent = failure
        }
        role = plan.isShadow ? .watches : .changes
        isRewritten = true
    }

    /// The head tells that the answer cannot be filtered.
    private mutating func refuse(_ failure: FilterFault) throws(FilterFault) {
        guard isShadow else { throw failure }
        lapse = failure
    }

    private mutating func keepGuidance(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        for index in 0..<fields.count {
            let known = fields[index].known
            let isAllow = known == .other && bytes[fields[index].name].equalsIgnoringCase("allow")
            guard known == .retryAfter || known == .wwwAuthenticate || isAllow else { continue }
            guidance.append(bytes[fields[index].name])
            guidance.append(": ")
            guidance.append(bytes[fields[index].value])
            guidance.append("\r\n")
        }
    }

    /// Adds `guidance` to the answer in the error's place.
    func addGuidance(to edits: inout FieldEdits) { edits.append(rendered: guidance.readable) }

    /// Fields without a `FieldName`: digests of the upstream's content.
    private static let digests: [StaticString] = [
        "content-md5", "digest", "content-digest", "repr-digest", "signature", "signature-input",
    ]
    /// Directives to shared caches.
    private static let directives: [StaticString] = ["surrogate-control", "cdn-cache-control"]

    /// Whether the field of this name is true of the upstream's content alone.
    static func describesContent(_ name: RawSpan) -> Bool { digests.contains { name.equalsIgnoringCase($0) } }

    private func passes(_ field: Field, _ bytes: RawSpan) -> Bool {
        switch field.known {
        case .etag, .lastModified, .acceptRanges, .contentRange, .cacheControl: return false
        case .contentLength, .contentEncoding, .trailer: return !isRewritten
        case .other:
            let name = bytes[field.name]
            return !Self.describesContent(name) && !Self.directives.contains { name.equalsIgnoringCase($0) }
        default: return true
        }
    }

    /// Writes an entity tag of the tier's own, and that no cache may share the answer.
    private mutating func writeFields(_ plan: FilterPlan, _ fields: borrowing FieldTable, _ bytes: RawSpan) {
        if let index = fields.first(.etag), !fields.isRepeated(.etag) {
            lines.append("ETag: ")
            let name = lines.count
            plan.write(bytes[fields[index].value], for: tier, into: &lines)
            if lines.count > name { lines.append("\r\n") } else { lines.removeAll() }
        }
        lines.append("Vary: Authorization\r\nCache-Control: private")
        for index in 0..<fields.count where fields[index].known == .cacheControl { writeCaching(bytes[fields[index].value]) }
        lines.append("\r\n")
    }

    /// Writes the upstream's cache directives, without those for shared caches.
    private mutating func writeCaching(_ value: RawSpan) {
        // A quoted string, which holds names of fields, may contain commas. It is rare and not parsed.
        guard value.firstIndex(of: UInt8(ascii: "\"")) == nil else { return lines.append(", no-store") }
        var directives = ListElements(value)
        while let directive = directives.next() {
            let isShared =
                directive.isEmpty || directive.equalsIgnoringCase("public") || directive.equalsIgnoringCase("private")
                || directive.equalsIgnoringCase("proxy-revalidate")
                || directive.byteCount > 8 && directive.extracting(0..<9).equalsIgnoringCase("s-maxage=")
            if !isShared {
                lines.append(", ")
                lines.append(directive)
            }
        }
    }

    // MARK: content

    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) throws(FilterFault) {
        guard role == .changes else { return watch(content) }
        try take(content)
        handOn(to: &out)
    }

    mutating func end(into out: inout ByteBuffer) throws(FilterFault) {
        guard role == .changes else { return watch(RawSpan(), isLast: true) }
        while isWaiting { try take(RawSpan()) }
        try finish()
        handOn(to: &out)
    }

    private mutating func finish() throws(FilterFault) {
        guard decoder == nil || decoder!.mayEnd() else { throw .coding }
        if isJSON, !isUnnamed { try json.finish() }
        stopDecoding()
    }

    /// Judges content that passes as it is (`shadow=filter`), and counts.
    private mutating func watch(_ content: RawSpan, isLast: Bool = false) {
        do throws(FilterFault) {
            try take(content)
            discardOutput()
            while isWaiting {
                try take(RawSpan())
                discardOutput()
            }
            if isLast {
                try finish()
                discardOutput()
            }
        } catch {
            lapse = error
            role = .none
            stopDecoding()
            passed.reuse()
            json.end()
        }
    }

    /// Judges content as received, or a bounded piece of what is still coded.
    private mutating func take(_ content: RawSpan) throws(FilterFault) {
        guard decoder != nil else { return try judge(content) }
        packed.append(content)
        var plain = ByteBuffer()
        swap(&plain, &piece)
        plain.removeAll()
        let outcome = decoder!.decode(&packed, room: Self.pieceSize, into: &plain)
        isFull = outcome == .full
        guard outcome != .broken else { throw .coding }
        if !plain.isEmpty { try judge(plain.readable) }
        plain.removeAll()
        swap(&plain, &piece)
    }

    private mutating func judge(_ content: RawSpan) throws(FilterFault) {
        if let refusesContent, !content.isEmpty { throw refusesContent }
        if !isJSON { return passed.append(content) }
        guard isUnnamed else { return try json.feed(content) }
        // All before it is white space, which may come in small pieces.
        passed.append(content)
        guard let first = content.firstOfText else {
            if passed.count > JSONFilter.maxHeld { throw .tooLarge }
            return
        }
        isUnnamed = false
        // An object, an array, or a byte-order mark, which some readers skip.
        if [UInt8(ascii: "{"), UInt8(ascii: "["), 0xEF, 0xFE, 0xFF].contains(first) {
            var begun = ByteBuffer()
            swap(&begun, &passed)
            try json.feed(begun.readable)
        } else if plan?.isStrict != false {
            throw .notJSON
        } else {
            isJSON = false
        }
    }

    // MARK: output

    private mutating func handOn(to out: inout ByteBuffer) {
        guard !isUnnamed else { return }
        if isJSON { json.handOn(to: &out) } else { out.append(passed.readable) }
        passed.removeAll()
    }

    private mutating func discardOutput() {
        if isJSON {
            let count = json.output.byteCount
            json.handOn(count)
        }
        if !isUnnamed { passed.removeAll() }
    }
}

extension RawSpan {
    /// The first byte that is no white space of JSON.
    fileprivate var firstOfText: UInt8? {
        for offset in 0..<byteCount where ![0x20, 0x09, 0x0A, 0x0D].contains(self[offset]) { return self[offset] }
        return nil
    }
}
