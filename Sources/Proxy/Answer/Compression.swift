import Gate
import HTTP
import Telemetry
import Wire

/// The stage of a route with `compress=`, behind the filter: compresses content for a client that accepts it.
struct Compression: AnswerStage, ~Copyable {
    /// nil if the answers of this request are left alone.
    private var plan: CompressionPlan?
    private var request = CompressionRequest()
    private var pool: EncoderPool?
    private var encoder: ContentEncoder?
    /// The hash of the client that holds it.
    private var client: UInt64 = 0
    private(set) var role = StageRole.none
    /// Whether the content is an event stream, whose client waits for each event.
    private(set) var isForEvents = false
    /// Whether it has taken content that it may not have handed on.
    private(set) var canFlush = false
    /// Whether it is noted for a flush.
    var isNoted = false
    /// Whether the answer was compressed, or why not; nil if there is none.
    private(set) var outcome: CompressionOutcome?
    /// Fields that it adds to the head.
    private var lines = ByteBuffer()

    /// A request begins on a route with this plan.
    mutating func begin(_ plan: CompressionPlan, _ request: CompressionRequest, _ pool: EncoderPool, client: UInt64) {
        self.plan = plan
        self.request = request
        self.pool = pool
        self.client = client
    }

    mutating func reset() {
        guard plan != nil else { return }
        returnEncoder()
        plan = nil
        pool = nil
        role = .none
        isForEvents = false
        canFlush = false
        isNoted = false
        outcome = nil
        lines.reuse()
    }

    private mutating func returnEncoder() {
        if let encoder = encoder.take() { pool?.give(encoder, isForEvents: isForEvents, client: client) }
    }

    var heldBytes: Int {
        switch encoder {
        case .none: 0
        case .some(let encoder): encoder.heldBytes
        }
    }

    /// The request, as far as the answer depends on it; nil if its answers are left alone.
    var wanted: CompressionRequest? { plan == nil ? nil : request }

    /// Whether the request has entity tags of compressed answers.
    var hasTags: Bool { plan != nil && request.tagCoding != nil }

    /// Whether the answer to come may be compressed.
    var isAsked: Bool { plan != nil && request.coding != .identity }

    // MARK: the head

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) {
        guard let plan else { return }
        if head.status == 304 { return notModified(&head, &bytes) }
        guard head.framing.hasContent || isForHead else { return }
        if let skip = skip(plan, head, bytes.readable) {
            outcome = .skipped(skip)
            return
        }
        isForEvents = head.fields.isOfEvents(bytes.readable)
        let skip = choose(isForHead: isForHead)
        if let skip {
            outcome = .skipped(skip)
        } else if !isForHead {
            outcome = .compressed(CompressedBytes(coding: request.coding))
        }
        change(&head, &bytes, to: skip == nil ? request.coding : nil)
    }

    /// Why such an answer goes out as it is to every client; nil if it may be compressed.
    private func skip(_ plan: CompressionPlan, _ head: borrowing ResponseHead, _ bytes: RawSpan) -> CompressionSkip? {
        if head.status == 206 || head.status == 226 || head.fields.contains(.contentRange) { return .partial }
        guard let type = head.fields.first(.contentType), !head.fields.isRepeated(.contentType) else { return .type }
        guard plan.compresses(bytes[head.fields[type].value].mediaType) else { return .type }
        if !plan.takesEvents, head.fields.isOfEvents(bytes) { return .events }
        if ContentCoding(head.fields, bytes) != .identity { return .coded }
        // An attacker who makes a client ask, and sees the lengths of answers, could guess a secret beside text of his own (BREACH).
        if head.fields.contains(.setCookie) { return .secret }
        if head.fields.lists("no-transform", in: .cacheControl, bytes) { return .noTransform }
        // If the filter shortens it, this is the most that it may have.
        if let length = head.contentLength, length < plan.least && !request.refusesIdentity || length == 0 { return .small }
        return nil
    }

    /// Takes an encoder, if the answer has content; why it cannot.
    private mutating func choose(isForHead: Bool) -> CompressionSkip? {
        guard request.coding != .identity else { return .notAccepted }
        guard !isForHead else { return nil }
        encoder = pool?.take(request.coding, padding: request.padding, isForEvents: isForEvents, client: client)
        guard encoder != nil else { return .busy }
        role = .changes
        return nil
    }

    /// Changes the fields to those of an answer that is compressed, or could have been.
    private mutating func change(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, to coding: ContentCoding?) {
        if !head.fields.lists("accept-encoding", in: .vary, bytes.readable), !head.fields.lists("*", in: .vary, bytes.readable) {
            lines.append("Vary: Accept-Encoding\r\n")
        }
        if let coding {
            lines.append("Content-Encoding: ")
            lines.append(coding.name)
            lines.append("\r\n")
            writeTag(head.fields, bytes.readable, coding)
        }
        head.change(&bytes, adding: lines.readable) { coding == nil || Self.passes($0, $1) }
        lines.removeAll()
    }

    /// The head of an answer without content, to a client that has it: the tag is the one of the client's copy.
    private mutating func notModified(_ head: inout ResponseHead, _ bytes: inout ByteBuffer) {
        if !head.fields.lists("accept-encoding", in: .vary, bytes.readable) { lines.append("Vary: Accept-Encoding\r\n") }
        let coding = request.tagCoding
        if let coding { writeTag(head.fields, bytes.readable, coding) }
        head.change(&bytes, adding: lines.readable) { field, _ in
            coding == nil || field.known != .etag && field.known != .contentLength
        }
        lines.removeAll()
    }

    private mutating func writeTag(_ fields: borrowing FieldTable, _ bytes: RawSpan, _ coding: ContentCoding) {
        guard let index = fields.first(.etag), !fields.isRepeated(.etag) else { return }
        let start = lines.count
        lines.append("ETag: ")
        let name = lines.count
        coding.write(bytes[fields[index].value], into: &lines)
        if lines.count > name { lines.append("\r\n") } else { lines.truncate(to: start) }
    }

    /// Whether a field describes compressed content, too.
    private static func passes(_ field: Field, _ bytes: RawSpan) -> Bool {
        switch field.known {
        case .etag, .acceptRanges, .contentLength, .contentEncoding, .trailer: false
        case .other: !TierFilter.describesContent(bytes[field.name])
        default: true
        }
    }

    // MARK: content

    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) {
        guard !content.isEmpty else { return }
        encode(content, .run, &out)
        canFlush = true
    }

    mutating func flush(into out: inout ByteBuffer) {
        encode(RawSpan(), .flush, &out)
        canFlush = false
        isNoted = false
    }

    mutating func end(into out: inout ByteBuffer) {
        encode(RawSpan(), .finish, &out)
        canFlush = false
        returnEncoder()
    }

    private mutating func encode(_ content: RawSpan, _ step: ContentEncoder.Step, _ out: inout ByteBuffer) {
        let start = out.count
        encoder?.encode(content, step, into: &out)
        guard case .compressed(var bytes)? = outcome else { return }
        bytes.taken += content.byteCount
        bytes.handedOn += out.count - start
        outcome = .compressed(bytes)
    }
}

/// A request, as far as the compression of its answer depends on it.
struct CompressionRequest {
    /// The coding that the client likes best.
    var coding = ContentCoding.identity
    /// Whether it refuses content without one.
    var refusesIdentity = false
    /// The coding of the copy that the client has, if its condition names one.
    var tagCoding: ContentCoding?
    /// Letters of a file name.
    var padding: UInt8 = 0

    init() {}

    init(_ fields: borrowing FieldTable, _ bytes: RawSpan, _ plan: CompressionPlan, padding: UInt8) {
        let accepted = AcceptedCodings(fields, bytes)
        if !fields.lists("no-transform", in: .cacheControl, bytes) { coding = accepted.best(of: plan.codings) }
        refusesIdentity = accepted.refusesIdentity
        self.padding = padding
        guard fields.contains(.ifNoneMatch) || fields.contains(.ifMatch) else { return }
        for index in 0..<fields.count where fields[index].known == .ifNoneMatch || fields[index].known == .ifMatch {
            tagCoding = tagCoding ?? ContentCoding.ofTags(bytes[fields[index].value])
        }
    }
}

enum CompressionOutcome: Equatable {
    case compressed(CompressedBytes)
    case skipped(CompressionSkip)
}

/// Bytes of content before and after.
struct CompressedBytes: Equatable {
    let coding: ContentCoding
    var taken = 0
    var handedOn = 0
}

extension FieldTable {
    /// Whether a field with this name lists `word`, which must be lower case.
    func lists(_ word: StaticString, in name: FieldName, _ bytes: RawSpan) -> Bool {
        guard contains(name) else { return false }
        for index in 0..<count where self[index].known == name {
            var elements = ListElements(bytes[self[index].value])
            while let element = elements.next() { if element.equalsIgnoringCase(word) { return true } }
        }
        return false
    }

    /// Whether the content is an event stream.
    func isOfEvents(_ bytes: RawSpan) -> Bool {
        first(.contentType).map { bytes[self[$0].value].mediaType.equalsIgnoringCase("text/event-stream") } ?? false
    }
}

extension RawSpan {
    /// The media type in a value of `Content-Type`, without parameters.
    fileprivate var mediaType: RawSpan {
        @_lifetime(copy self) get {
            var end = firstIndex(of: UInt8(ascii: ";")) ?? byteCount
            while end > 0, self[end - 1] == 0x20 || self[end - 1] == 0x09 { end -= 1 }
            return extracting(0..<end)
        }
    }
}
