import Gate
import HTTP
import Wire

/// The working memory of one turn of the loop: buffers and parsed heads that belong to no connection.
struct Scratch: ~Copyable {
    /// Where bytes are received; moved out while a connection works on them.
    private var input = ByteBuffer(capacity: AdaptiveReadSize.most + 64 * 1_024)
    /// Where the bytes for a client are put together. Empty between two answers.
    var output = ByteBuffer(capacity: 64 * 1_024)
    var request = RequestHead()
    /// The field section of HTTP/2 that was decoded last. Its head is moved out while a request begins.
    var section = FieldSection()
    /// The head of the request that a check describes, and what was parsed from it; that of the check stays in `request` until it is decided
    /// about.
    var described = ByteBuffer()
    var describedRequest = RequestHead()
    /// The body of a refusal while it is written.
    var refusal = ByteBuffer(capacity: 512)
    var response = ResponseHead()
    /// The head of an answer of HTTP/2 whose stream has its turn later, and the stream's end, whose input begins with it: as it came last
    /// of those that were read, it need not be parsed again.
    var heldResponse = ResponseHead()
    var heldEnd = Handle<UpstreamConnection>.none
    /// The bytes of `response` while stages change it: those that it was parsed from, and the lines that were added.
    var changedHead = ByteBuffer(capacity: 1_024)
    /// The field block of an answer's head for a client of HTTP/2, and lines of the gateway's own for it, while it is written.
    var block = ByteBuffer(capacity: 1_024)
    var lines = ByteBuffer(capacity: 512)
    private let encoder = HPACKEncoder()
    /// The key of a request on a cached route, and a piece of a stored answer.
    var cacheKey = ByteBuffer()
    var piece = ByteBuffer()
    var trailers = FieldTable()
    var decision = Decision()
    /// `traceparent` (W3C Trace Context) for the upstream of the request that was decided about last.
    var traceparent = ByteBuffer(capacity: 64)
    var due: [Int] = []
    /// A large buffer that is not in use, for when a connection has kept `input` or `output`.
    private var spare = ByteBuffer()

    static var minSpare: Int { 64 * 1_024 }

    /// Moves out the buffer to receive into, with the bytes that a connection has kept at its front. `putBack` must follow.
    mutating func takeInput(behind kept: inout ByteBuffer) -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &input)
        if taken.capacity == 0 { swap(&taken, &spare) }
        if !kept.isEmpty {
            taken.append(kept.readable)
            kept = ByteBuffer()
        }
        return taken
    }

    mutating func putBack(_ buffer: consuming ByteBuffer) {
        buffer.removeAll()
        input = buffer
    }

    /// Begins with bytes for another client in `output`.
    mutating func beginOutput() {
        precondition(output.isEmpty, "bytes for another client would be mixed in")
        prepareOutput()
    }

    /// Moves out the buffer to write into, which is empty. `putBackOutput` must follow.
    mutating func takeOutput() -> ByteBuffer {
        beginOutput()
        var taken = ByteBuffer()
        swap(&taken, &output)
        return taken
    }

    /// Gives `output` memory, if a client's queue has kept its own.
    mutating func prepareOutput() {
        if output.capacity == 0 { swap(&output, &spare) }
    }

    mutating func putBackOutput(_ buffer: consuming ByteBuffer) {
        buffer.removeAll()
        output = buffer
    }

    /// Completes `block` by the fields of `lines`.
    mutating func encodeLines() {
        guard !lines.isEmpty else { return }
        var whole = ByteBuffer()
        swap(&whole, &block)
        encoder.lines(lines.readable, into: &whole)
        swap(&whole, &block)
    }

    /// Puts the held head into `response`, if the input of this end begins with it.
    mutating func takeHead(of end: Handle<UpstreamConnection>) -> Bool {
        guard heldEnd == end else { return false }
        heldEnd = .none
        swap(&response, &heldResponse)
        return true
    }

    /// Keeps the memory of a large buffer that is used up; frees that of any other.
    mutating func recycle(_ buffer: inout ByteBuffer) {
        if spare.capacity == 0, buffer.capacity >= Self.minSpare {
            buffer.removeAll()
            swap(&spare, &buffer)
        } else {
            buffer = ByteBuffer()
        }
    }
}
