internal import Gate
internal import Wire

/// The events of one second, for all listeners: the gateway's numbers, then its new refusals.
struct LiveBeat: Sendable {
    /// `event: now` and the refusals, in the form of an event stream.
    let text: [UInt8]
    /// The refusals in it, and those that were too many.
    let refusals: Int
    let skipped: Int

    /// Refusals of one beat that are told of.
    static let maxRefusals = 50

    /// `found` are the new refusals of each worker.
    init(now: [UInt8], _ found: [NewRefusals]) {
        let newest = found.flatMap(\.stories).sorted { $0.at > $1.at }.prefix(Self.maxRefusals)
        refusals = newest.count
        skipped = found.reduce(0) { $0 + $1.skipped + $1.stories.count } - newest.count
        var out = ByteBuffer(capacity: 8_192)
        out.appendEvent("now") { $0.append(now) }
        for story in newest.reversed() {
            out.appendEvent("refusal") { out in
                JSONWriter.append(to: &out) { ExplainedRefusal.record.write(story, &$0) }
            }
        }
        text = out.readable.array
    }
}

/// One listener's side of the feed: it is sent a whole beat at a time, and none before it has taken the last. Those that it misses
/// are counted.
struct LiveListener: Sendable {
    private var isReady = true
    private var missed = 0

    /// The bytes to send; nil while the last beat is under way.
    mutating func offer(_ beat: LiveBeat) -> [UInt8]? {
        guard isReady else {
            missed += beat.refusals + beat.skipped
            return nil
        }
        isReady = false
        let skipped = missed + beat.skipped
        missed = 0
        guard skipped > 0 else { return beat.text }
        var out = ByteBuffer(capacity: beat.text.count + 64)
        out.appendEvent("skipped") { out in
            JSONWriter.append(to: &out) { json in
                json.beginObject()
                json.field("count", skipped)
                json.endObject()
            }
        }
        out.append(beat.text)
        return out.readable.array
    }

    /// The client has taken all that was sent.
    mutating func taken() { isReady = true }
}

extension ByteBuffer {
    /// Appends an event (HTML standard, "Server-sent events"). The data must be one line, as JSON is.
    mutating func appendEvent(_ name: StaticString, _ data: (inout ByteBuffer) -> Void) {
        append("event: ")
        append(name)
        append("\ndata: ")
        data(&self)
        append("\n\n")
    }
}
