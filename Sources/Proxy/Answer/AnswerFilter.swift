import Gate
import HTTP
import Wire

/// How the route's filters treat an answer, decided by its head.
enum FilterCourse: Equatable {
    /// It has no JSON content.
    case pass
    case judge(ContentForm, ContentCoding)
    /// It passes if it turns out to have no content; otherwise it is refused for this.
    case expectNothing(FilterFailure)
    case refuse(FilterFailure)

    /// The form of the content.
    enum ContentForm: Equatable {
        case json
        /// A JSON text in each line.
        case lines
        /// Without a type: content that begins like JSON is JSON.
        case unnamed
    }

    init(_ head: borrowing ResponseHead, _ bytes: RawSpan, isStrict: Bool) {
        let form = ContentForm(head.fields, bytes)
        // A partial answer cannot be filtered: the tier may be in another part (RFC 9110 §15.3.7, RFC 3229 §10.4.1).
        if head.status == 206 || head.status == 226 {
            self = .refuse(.partial)
        } else if !head.framing.hasContent {
            self = .pass
        } else if let form {
            guard let coding = ContentCoding(head.fields, bytes) else {
                self = Self.refusal(.coding, of: head)
                return
            }
            self = .judge(form, coding)
        } else {
            self = isStrict ? Self.refusal(.notJSON, of: head) : .pass
        }
    }

    /// Without a length, only the content's end shows whether there is any.
    private static func refusal(_ failure: FilterFailure, of head: borrowing ResponseHead) -> Self {
        if case .length = head.framing { .refuse(failure) } else { .expectNothing(failure) }
    }
}

extension FilterCourse.ContentForm {
    /// nil for any other type. Every type with `json` in its name counts, and every one of several fields, because clients differ in
    /// which they use.
    init?(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard fields.contains(.contentType) else {
            self = .unnamed
            return
        }
        var found: Self?
        for index in 0..<fields.count where fields[index].known == .contentType {
            let value = bytes[fields[index].value]
            let type = value.extracting(0..<(value.firstIndex(of: UInt8(ascii: ";")) ?? value.byteCount))
            if type.isEmpty { found = found ?? .unnamed }
            if type.mentions("ndjson") || type.mentions("jsonl") {
                found = found == .json ? .json : .lines
            } else if type.mentions("json") {
                found = .json
            }
        }
        guard let found else { return nil }
        self = found
    }
}

/// Why an answer to a filtered route was refused or cut.
enum FilterFailure: Error, Equatable {
    case partial, coding, notJSON
    case content(FilterFault)

    /// The word for the log.
    var text: StaticString {
        switch self {
        case .partial: "filter_partial"
        case .coding: "filter_coding"
        case .notJSON: "filter_not_json"
        case .content(.broken): "filter_broken"
        case .content(.tooLarge): "filter_too_large"
        case .content(.noList): "filter_no_list"
        case .content(.aboveTier): "filter_above_tier"
        }
    }

    /// The refusal of an answer with this status, while the client has received none of it. An error that is not JSON keeps its status,
    /// whatever its label says.
    func refusal(status: Int) -> Refusal {
        switch self {
        case .content(.aboveTier): .premiumRequired
        case .notJSON where status >= 400, .content(.broken) where status >= 400: .upstreamError(status: UInt16(clamping: status))
        case .partial, .coding, .notJSON, .content(.broken), .content(.tooLarge), .content(.noList): .badGateway
        }
    }
}

/// The filter of one exchange: what the route asks of its answer, and the content that is judged.
struct AnswerFilter: ~Copyable {
    /// nil on a route without filters.
    private(set) var plan: FilterPlan?
    private(set) var tier = Tier.lowest
    /// Whether content goes through here.
    private(set) var isJudging = false
    /// The status of the answer.
    private(set) var status = 0
    /// The head for the client, without its end, until some of the content may go out.
    var head = ByteBuffer()
    /// Of an error's head, the lines that stay if its content is replaced: those that tell the client how to go on.
    private var guidance = ByteBuffer()
    /// Made for the first answer that is judged, and kept with its buffers: most exchanges have none.
    private var content: JudgedContent?

    /// Resets the filter for a route with this plan, or without filters.
    mutating func reset(_ plan: FilterPlan? = nil, tier: Tier = .lowest) {
        guard plan != nil || self.plan != nil else { return }
        self.plan = plan
        self.tier = tier
        isJudging = false
        head.reuse()
        guidance.reuse()
        content?.reset()
    }

    /// Begins with the content of an answer of this form.
    mutating func begin(_ form: FilterCourse.ContentForm, _ coding: ContentCoding) {
        guard let plan else { return }
        judge().begin(plan, tier: tier, form, coding, status: status)
    }

    /// Begins with an answer that must have no content.
    mutating func expectNothing(_ failure: FilterFailure) { judge().refusesContent = failure }

    private mutating func judge() -> JudgedContent {
        isJudging = true
        if let content { return content }
        let made = JudgedContent()
        content = made
        return made
    }

    /// Whether the answer is judged in shadow mode only.
    var isShadow: Bool { plan?.isShadow ?? false }
    /// Whether the client gets the filter's output.
    var isFiltering: Bool { isJudging && !isShadow }
    /// The content under judgement.
    private var judged: JudgedContent? { isJudging ? content : nil }
    /// Counts so far; nil if nothing is judged.
    var counts: FilterCounts? { judged?.counts }
    /// Bytes of head and content that wait here.
    var bufferedBytes: Int { head.count + (content?.bufferedBytes ?? 0) }
    /// Whether content was received that is not decoded yet.
    var isWaiting: Bool { judged?.isWaiting ?? false }
    /// Whether judging in shadow mode was given up.
    var hasStopped: Bool { judged?.hasStopped ?? false }
    /// Bytes that may go to the client now.
    var ready: Int { judged?.ready ?? 0 }

    /// The course for an answer with this head.
    mutating func course(_ head: borrowing ResponseHead, _ bytes: RawSpan) -> FilterCourse {
        guard let plan else { return .pass }
        status = head.status
        if status >= 400 { keepGuidance(head.fields, bytes) }
        return FilterCourse(head, bytes, isStrict: plan.isStrict)
    }

    /// Adds `guidance` to the answer in the error's place.
    func addGuidance(to edits: inout FieldEdits) { edits.append(rendered: guidance.readable) }

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

    /// Adds content as received.
    func feed(_ content: RawSpan) throws(FilterFailure) { try judged?.feed(content) }

    /// Decodes and judges a bounded piece of what waits.
    func unpack() throws(FilterFailure) { try judged?.unpack() }

    /// The content is over.
    func finish() throws(FilterFailure) { try judged?.finish() }

    /// Moves content that may go to the client to `out`; returns how many bytes.
    func handOn(to out: inout ByteBuffer, isChunked: Bool) -> Int { judged?.handOn(to: &out, isChunked: isChunked) ?? 0 }

    /// Drops the filtered content, where the client gets the unfiltered.
    func discardOutput() { judged?.discardOutput() }

    /// Stops judging.
    func stopWatching() { judged?.stopWatching() }
}

/// Decodes, judges and buffers the content of an answer.
private final class JudgedContent {
    private var isStrict = false
    /// Judges the content while it is JSON.
    private var json = JSONFilter()
    private var isJSON = false
    private var isUnnamed = false
    /// Why any content at all is refused; nil if it is not.
    var refusesContent: FilterFailure?
    /// Content that is not JSON and passes.
    private var passed = ByteBuffer()
    private var decoder: ContentDecoder?
    /// Coded content that is not decoded yet.
    private var packed = ByteBuffer()
    private var isFull = false
    /// The piece that was decoded last.
    private var piece = ByteBuffer()
    private(set) var hasStopped = false

    /// Bytes that are decoded at a time.
    private static var pieceSize: Int { 64 * 1_024 }

    /// Forgets the answer; buffers that it has grown are freed.
    func reset() {
        isJSON = false
        refusesContent = nil
        isFull = false
        hasStopped = false
        passed.reuse()
        packed.reuse()
        piece.reuse()
        decoder = nil
        json.end()
    }

    func begin(_ plan: FilterPlan, tier: Tier, _ form: FilterCourse.ContentForm, _ coding: ContentCoding, status: Int) {
        isStrict = plan.isStrict
        isJSON = true
        isUnnamed = form == .unnamed
        json.begin(plan, tier: tier, isLines: form == .lines, toleratesAnyRoot: status >= 400)
        if coding != .identity { decoder = ContentDecoder(coding) }
    }

    var counts: FilterCounts? { isJSON ? json.counts : nil }
    var bufferedBytes: Int { passed.count + packed.count + piece.count }
    var isWaiting: Bool { isFull || !packed.isEmpty }

    func feed(_ content: RawSpan) throws(FilterFailure) {
        guard decoder == nil else { return packed.append(content) }
        try judge(content)
    }

    func unpack() throws(FilterFailure) {
        guard decoder != nil else { return }
        var plain = ByteBuffer()
        swap(&plain, &piece)
        plain.removeAll()
        let outcome = decoder!.decode(&packed, room: Self.pieceSize, into: &plain)
        isFull = outcome == .full
        guard outcome != .broken else { throw .coding }
        if !plain.isEmpty { try judge(plain.readable) }
        swap(&plain, &piece)
    }

    private func judge(_ content: RawSpan) throws(FilterFailure) {
        if let refusesContent, !content.isEmpty { throw refusesContent }
        if !isJSON { return passed.append(content) }
        guard isUnnamed else { return try feedJSON(content) }
        // All before it is white space, which may come in small pieces.
        passed.append(content)
        guard let first = content.firstOfText else {
            if passed.count > JSONFilter.mostHeld { throw .content(.tooLarge) }
            return
        }
        isUnnamed = false
        if Self.beginsJSON(first) {
            var begun = ByteBuffer()
            swap(&begun, &passed)
            try feedJSON(begun.readable)
        } else if isStrict {
            throw .notJSON
        } else {
            isJSON = false
        }
    }

    private func feedJSON(_ content: RawSpan) throws(FilterFailure) {
        do throws(FilterFault) {
            try json.feed(content)
        } catch {
            throw .content(error)
        }
    }

    /// An object, an array, or a byte-order mark, which some readers skip.
    private static func beginsJSON(_ byte: UInt8) -> Bool {
        [UInt8(ascii: "{"), UInt8(ascii: "["), 0xEF, 0xFE, 0xFF].contains(byte)
    }

    func finish() throws(FilterFailure) {
        guard decoder == nil || decoder!.mayEnd() else { throw .coding }
        guard isJSON, !isUnnamed else { return }
        do throws(FilterFault) {
            try json.finish()
        } catch {
            throw .content(error)
        }
    }

    // MARK: output

    var ready: Int { isUnnamed ? 0 : isJSON ? json.outputCount : passed.count }

    func handOn(to out: inout ByteBuffer, isChunked: Bool) -> Int {
        let count = ready
        guard count > 0 else { return 0 }
        if !isJSON {
            out.appendContent(passed.readable, chunked: isChunked)
            passed.removeAll()
        } else {
            json.appendOutput(to: &out, chunked: isChunked)
            json.handOn(count)
        }
        return count
    }

    func discardOutput() {
        passed.removeAll()
        json.handOn(json.outputCount)
    }

    func stopWatching() {
        decoder = nil
        packed = ByteBuffer()
        passed = ByteBuffer()
        isFull = false
        hasStopped = true
    }
}

extension JSONFilter {
    fileprivate var outputCount: Int { output.byteCount }

    fileprivate func appendOutput(to out: inout ByteBuffer, chunked: Bool) { out.appendContent(output, chunked: chunked) }
}

extension RawSpan {
    /// Whether `word`, which must be lower case, occurs in any case.
    fileprivate func mentions(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard byteCount >= count else { return false }
        return (0...byteCount - count).contains { extracting($0..<$0 + count).equalsIgnoringCase(word) }
    }

    /// The first byte that is no white space of JSON.
    fileprivate var firstOfText: UInt8? {
        for offset in 0..<byteCount where ![0x20, 0x09, 0x0A, 0x0D].contains(self[offset]) { return self[offset] }
        return nil
    }
}
