import Gate
import HTTP
import Wire

/// The answer under way: its source, and its way through the stages to the client. Drivers ask it what becomes of head, content and
/// trailers, and no stage. Most answers have none: `course` tells, and all else about stages lies behind a reference.
struct AnswerPipe {
    enum Source {
        /// The upstream of the attempt, if any.
        case upstream
        /// A handler of the gateway, which sends it in parts.
        case handler(LocalStream)
        /// The cache: an entry, or a fetch under way.
        case stored(StoredReading)
    }

    /// How content gets from the source to the client.
    enum Course {
        /// As it is. The kernel may move it.
        case direct
        /// As it is, but a stage or the scan of frames sees it.
        case watched
        /// The client gets what the stages hand on, so no length, no trailers and no frames are known.
        case changed
    }

    var source = Source.upstream
    private(set) var course = Course.direct
    /// nil on a route without any.
    fileprivate(set) var stages: AnswerStages?
    /// The place between the frames of an answer that has any.
    var frames = FrameScan.none
    var readSize = AdaptiveReadSize()

    // MARK: events

    /// An answer begins with this head, whose fields the stages change. `isForHead`: as the answer to HEAD it has no content, and describes
    /// that of GET.
    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) throws(FilterFault) {
        try stages?.chain.head(&head, &bytes, isForHead: isForHead)
        chooseCourse()
    }

    /// The frames of the content are followed from here on.
    mutating func follow(_ frames: FrameScan) {
        self.frames = frames
        chooseCourse()
    }

    /// Gives content to the stages, or shows it to those that watch; without any, they go on with what waits.
    mutating func content(_ content: RawSpan) throws(FilterFault) {
        guard let stages, stages.chain.role != .none else { return }
        try stages.chain.content(content, into: &stages.ready)
        // One that watches may have stopped.
        if course == .watched { chooseCourse() }
    }

    /// The source pauses: the stages hand on what they keep only because more might follow.
    func flush() throws(FilterFault) {
        guard let stages else { return }
        try stages.chain.flush(into: &stages.ready)
    }

    /// The content is complete.
    func end() throws(FilterFault) {
        guard let stages, stages.chain.role != .none else { return }
        try stages.chain.end(into: &stages.ready)
    }

    /// The answer comes in a form that the stages have made before.
    mutating func skipStages() {
        stages?.reset()
        stages = nil
    }

    /// The exchange is over.
    func ended() {
        if case .handler(let stream) = source { stream.ended() }
        stages?.reset()
    }

    private mutating func chooseCourse() {
        switch stages?.chain.role ?? .none {
        case .none: course = frames.isNone ? .direct : .watched
        case .watches: course = .watched
        case .changes: course = .changed
        }
    }

    // MARK: questions

    /// Whether the head is held back, as the answer may still be refused.
    var holdsHead: Bool { course == .changed && stages?.chain.mayRefuse == true }

    /// Whether content was received that the stages have not worked on yet.
    var isWaiting: Bool { course == .changed && stages?.chain.isWaiting == true }

    /// Whether the stages may hold content that `flush` would hand on.
    var canFlush: Bool { course == .changed && stages?.chain.canFlush == true }

    /// Whether it is an event stream that is changed by compression alone, so that events of the gateway's own may be put between others.
    var isOfCompressedEvents: Bool { course == .changed && stages?.compression.isForEvents == true && !isFilteredByTier }

    /// Whether the answer goes through stages, or has done so before it was stored.
    var mayHaveStages: Bool {
        if case .stored = source { return true }
        return stages != nil
    }

    /// The form of a stored answer in which it is sent.
    private var prepared: PreparedForm? { if case .stored(let reading) = source { reading.prepared } else { nil } }

    /// The counts of the filter, and whether the content is compressed.
    var filterCounts: FilterCounts? { stages?.filter.counts ?? prepared?.filtered }
    var compressionOutcome: CompressionOutcome? { stages?.compression.outcome ?? prepared?.compressed }

    /// Whether the caller's tier decides about its content.
    var isFilteredByTier: Bool { stages?.filter.role == .changes }

    /// Bytes of head and content that wait in it.
    var heldBytes: Int {
        var bytes = stages.map { $0.chain.heldBytes + $0.heldHead.count + $0.ready.count } ?? 0
        if case .stored(let reading) = source { bytes += reading.heldBytes }
        return bytes
    }
}

/// The stages of an answer, in order, with what they have let go. Made for the first answer of an exchange that has any, and kept with its
/// buffers.
final class AnswerStages {
    fileprivate(set) var chain = StageChain(TierFilter(), Compression())
    /// The one among them that decides by tier.
    var filter: TierFilter {
        _read { yield chain.first }
        _modify { yield &chain.first }
    }
    /// The last one.
    var compression: Compression {
        _read { yield chain.rest }
        _modify { yield &chain.rest }
    }
    /// All that they decide by; nil in shadow mode, where each answer is judged.
    var choice: PreparedForms.Choice? {
        guard !filter.isShadow else { return nil }
        let request = compression.wanted
        return PreparedForms.Choice(
            tier: filter.tierOfCaller, coding: request?.coding ?? .identity, refusesIdentity: request?.refusesIdentity ?? false)
    }
    /// The head for the client, without its end, while it is held back.
    var heldHead = ByteBuffer()
    /// Content that they have handed on, for the client.
    var ready = ByteBuffer()

    /// Compresses content that does not come from the source, or that ends here.
    func insert(_ content: RawSpan) {
        compression.content(content, into: &ready)
        compression.flush(into: &ready)
    }

    /// Ends content to which only compression belongs.
    func endInserted() { compression.end(into: &ready) }

    fileprivate func reset() {
        chain.reset()
        heldHead.reuse()
        // As much as the filter keeps of its own, with which it may exchange memory.
        ready.reuse(upTo: 65_536)
    }
}

extension Exchange {
    /// The stages of its answer, to be told what to do.
    mutating func openStages() -> AnswerStages {
        let stages = buffers.stages ?? AnswerStages()
        buffers.stages = stages
        answer.stages = stages
        return stages
    }
}
