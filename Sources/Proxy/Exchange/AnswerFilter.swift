import Gate
import HTTP
import Wire

/// What the filters of a route make of an answer, by its head alone.
enum FilterCourse: Equatable {
    /// It has no content, or none that is JSON.
    case pass
    case judge(ContentForm, ContentCoding)
    /// It passes if there turns out to be no content, else it is refused for this.
    case expectNothing(FilterFailure)
    case refuse(FilterFailure)

    /// What the content is.
    enum ContentForm: Equatable {
        case json
        /// A JSON text in each line.
        case lines
        /// No type is given: what begins like JSON is JSON.
        case unnamed
    }

    init(_ head: borrowing ResponseHead, _ bytes: RawSpan, isStrict: Bool) {
        let form = ContentForm(head.fields, bytes)
        // A part of an answer cannot be judged: the tier may be in another (RFC 9110 §15.3.7, RFC 3229 §10.4.1).
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
}

extension FilterCourse {
    /// Whether there is any content is known at once only where its length is.
    private static func refusal(_ failure: FilterFailure, of head: borrowing ResponseHead) -> Self {
        if case .length = head.framing { .refuse(failure) } else { .expectNothing(failure) }
    }
}

extension FilterCourse.ContentForm {
    /// nil for what says that it is something else. Every type with `json` in its name counts, and every field of several:
    /// some client may go by it.
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

    /// What the client is told, as long as it can be.
    var refusal: Refusal { self == .content(.aboveTier) ? .premiumRequired : .badGateway }
}

/// The filter of one exchange: from the request, which it keeps from asking for what cannot be judged, to the end of the
/// answer.
struct AnswerFilter: ~Copyable {
    /// nil on a route without filters.
    private(set) var plan: FilterPlan?
    private(set) var tier = Tier.lowest

    /// The head for the client, without its end, as long as nothing of the content may go out.
    var head = ByteBuffer()
    /// Whether content goes through here.
    private(set) var isJudging = false
    /// Judges the content, until it turns out not to be JSON.
    private var json = JSONFilter()
    private var isJSON = false
    private var isUnnamed = false
    /// Set where any content at all is refused, and why.
    private var refusesContent: FilterFailure?
    /// What passes unjudged.
    private var passed = ByteBuffer()
    private var decoder: ContentDecoder?
    /// What has come packed and is not unpacked yet.
    private var packed = ByteBuffer()
    private var isFull = false
    /// The piece that was unpacked last.
    private var piece = ByteBuffer()

    /// Bytes that are unpacked at a time.
    private static var pieceSize: Int { 64 * 1_024 }

    /// Makes a used one new: for a route of this plan, or of none.
    mutating func reset(_ plan: FilterPlan? = nil, tier: Tier = .lowest) {
        guard plan != nil || self.plan != nil else { return }
        self.plan = plan
        self.tier = tier
        isJudging = false
        isJSON = false
        refusesContent = nil
        isFull = false
        hasStopped = false
        head.reuse()
        passed.reuse()
        packed.reuse()
        piece.reuse()
        decoder = nil
        json.end()
    }

    /// Begins with the content of an answer of this form.
    mutating func begin(_ form: FilterCourse.ContentForm, _ coding: ContentCoding, status: Int) {
        guard let plan else { return }
        isJudging = true
        isJSON = true
        isUnnamed = form == .unnamed
        json.begin(plan, tier: tier, isLines: form == .lines, toleratesAnyRoot: status >= 400)
        if coding != .identity { decoder = ContentDecoder(coding) }
    }

    /// Begins with an answer that must turn out to have no content.
    mutating func expectNothing(_ failure: FilterFailure) {
        isJudging = true
        refusesContent = failure
    }

    /// Whether the answer is only watched.
    var isShadow: Bool { plan?.isShadow ?? false }
    /// Whether the client gets what comes out of here, and not what went in.
    var isFiltering: Bool { isJudging && !isShadow }
    /// What has been found so far; nil if nothing is judged.
    var counts: FilterCounts? { isJSON ? json.counts : nil }

    /// What becomes of an answer with this head.
    func course(_ head: borrowing ResponseHead, _ bytes: RawSpan) -> FilterCourse {
        guard let plan else { return .pass }
        return FilterCourse(head, bytes, isStrict: plan.isStrict)
    }

    // MARK: content

    /// Whether some of the content has come and is not unpacked yet.
    var isWaiting: Bool { isFull || !packed.isEmpty }

    /// Takes content as it came.
    mutating func take(_ content: RawSpan) throws(FilterFailure) {
        guard decoder == nil else { return packed.append(content) }
        try judge(content)
    }

    /// Unpacks and judges a bounded piece of what waits.
    mutating func unpack() throws(FilterFailure) {
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

    private mutating func judge(_ content: RawSpan) throws(FilterFailure) {
        if let refusesContent, !content.isEmpty { throw refusesContent }
        if !isJSON { return passed.append(content) }
        guard isUnnamed else { return try feed(content) }
        passed.append(content)
        guard let first = passed.readable.firstOfText else {
            if passed.count > JSONFilter.mostHeld { throw .content(.tooLarge) }
            return
        }
        isUnnamed = false
        if Self.beginsJSON(first) {
            var begun = ByteBuffer()
            swap(&begun, &passed)
            try feed(begun.readable)
        } else if plan?.isStrict ?? true {
            throw .notJSON
        } else {
            isJSON = false
        }
    }

    private mutating func feed(_ content: RawSpan) throws(FilterFailure) {
        do throws(FilterFault) {
            try json.feed(content)
        } catch {
            throw .content(error)
        }
    }

    /// An object, an array, or a mark that some readers take off before they read on.
    private static func beginsJSON(_ byte: UInt8) -> Bool {
        [UInt8(ascii: "{"), UInt8(ascii: "["), 0xEF, 0xFE, 0xFF].contains(byte)
    }

    /// The content is over.
    mutating func finish() throws(FilterFailure) {
        guard decoder == nil || decoder!.mayEnd() else { throw .coding }
        guard isJSON, !isUnnamed else { return }
        do throws(FilterFault) {
            try json.finish()
        } catch {
            throw .content(error)
        }
    }

    // MARK: output

    /// How many bytes may go to the client now.
    var ready: Int { isUnnamed ? 0 : isJSON ? json.output.byteCount : passed.count }

    /// Moves what may go to the client to `out`; answers how much it was.
    mutating func handOn(to out: inout ByteBuffer, isChunked: Bool) -> Int {
        let count = ready
        guard count > 0 else { return 0 }
        if !isJSON {
            out.appendContent(passed.readable, chunked: isChunked)
            passed.removeAll()
        } else {
            out.appendContent(json.output, chunked: isChunked)
            json.handOn(count)
        }
        return count
    }

    /// Forgets what would go to the client, where it goes there unfiltered.
    mutating func discardOutput() {
        passed.removeAll()
        let count = json.output.byteCount
        json.handOn(count)
    }

    /// Watches no further.
    mutating func stopWatching() {
        decoder = nil
        packed = ByteBuffer()
        passed = ByteBuffer()
        isFull = false
        hasStopped = true
    }
    private(set) var hasStopped = false
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
