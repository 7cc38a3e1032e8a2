import Gate
import HTTP
import Wire

/// The part of a stage in the content of the answer under way.
enum StageRole: Comparable {
    /// Content does not go through it.
    case none
    /// It sees the content, which goes on as it is.
    case watches
    /// It takes content and hands on other content, whose length is not known in advance.
    case changes
}

/// A step of an answer on its way to the client: it sees the head as the stages before it have left it, may change it, may look at the
/// content or change that, and may refuse the answer. It knows no socket, no protocol and no other stage; `AnswerStages` lists them, and drivers ask the pipe.
protocol AnswerStage: ~Copyable {
    /// Set by `head`. Without a role a stage gets no content; with `watches` it adds nothing to `out`, waits for nothing, and does not throw.
    var role: StageRole { get }
    /// Whether it may refuse the answer until it hands on content: so long, the head is held back.
    var mayRefuse: Bool { get }
    /// Whether it has content to work on that it has received. `content` with no bytes goes on with it.
    var isWaiting: Bool { get }
    /// Whether it may hold content that `flush` would hand on.
    var canFlush: Bool { get }
    /// Bytes that it holds.
    var heldBytes: Int { get }

    /// An answer begins with this head, whose fields it may change. `isForHead`: as the answer to HEAD it has no content, and describes
    /// that of GET.
    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) throws(FilterFault)
    /// Takes content and appends to `out` what may go on, of a bounded amount of it.
    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) throws(FilterFault)
    /// The source pauses: appends what was kept only because more might follow.
    mutating func flush(into out: inout ByteBuffer) throws(FilterFault)
    /// The content is complete: appends all that may still go on.
    mutating func end(into out: inout ByteBuffer) throws(FilterFault)
    /// The exchange is over: forgets the answer, and frees buffers that it has grown.
    mutating func reset()
}

extension AnswerStage where Self: ~Copyable {
    var mayRefuse: Bool { false }
    var isWaiting: Bool { false }
    var canFlush: Bool { false }

    func flush(into out: inout ByteBuffer) {}
    func end(into out: inout ByteBuffer) {}
}

/// Two stages, or a stage and a chain of others, as one stage: the content that the first hands on goes to the rest.
struct StageChain<First: AnswerStage & ~Copyable, Rest: AnswerStage & ~Copyable>: AnswerStage, ~Copyable {
    var first: First
    var rest: Rest
    private var between = ByteBuffer()

    init(_ first: consuming First, _ rest: consuming Rest) {
        self.first = first
        self.rest = rest
    }

    var role: StageRole { max(first.role, rest.role) }
    var mayRefuse: Bool { first.mayRefuse || rest.mayRefuse }
    var isWaiting: Bool { first.isWaiting || rest.isWaiting }
    var canFlush: Bool { first.canFlush || rest.canFlush }
    var heldBytes: Int { first.heldBytes + between.count + rest.heldBytes }

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) throws(FilterFault) {
        try first.head(&head, &bytes, isForHead: isForHead)
        try rest.head(&head, &bytes, isForHead: isForHead)
    }

    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) throws(FilterFault) {
        switch first.role {
        case .none: return try rest.content(content, into: &out)
        case .changes where rest.role == .none: return try first.content(content, into: &out)
        // Content that waits in the rest is older.
        case .changes where rest.isWaiting && content.isEmpty: return try rest.content(content, into: &out)
        case .changes:
            try first.content(content, into: &between)
            try handOn(to: &out)
        case .watches:
            try first.content(content, into: &between)
            if rest.role != .none { try rest.content(content, into: &out) }
        }
    }

    mutating func flush(into out: inout ByteBuffer) throws(FilterFault) {
        guard rest.role != .none else { return try first.flush(into: &out) }
        if first.canFlush {
            try first.flush(into: &between)
            try handOn(to: &out)
        }
        if rest.canFlush { try rest.flush(into: &out) }
    }

    mutating func end(into out: inout ByteBuffer) throws(FilterFault) {
        guard rest.role != .none else { return try first.end(into: &out) }
        if first.role != .none { try first.end(into: &between) }
        try handOn(to: &out)
        try rest.end(into: &out)
    }

    private mutating func handOn(to out: inout ByteBuffer) throws(FilterFault) {
        guard !between.isEmpty else { return }
        var content = ByteBuffer()
        swap(&content, &between)
        try rest.content(content.readable, into: &out)
        if rest.role == .watches { out.append(content.readable) }
        content.removeAll()
        swap(&content, &between)
    }

    mutating func reset() {
        first.reset()
        rest.reset()
        between.reuse(upTo: 65_536)
    }
}
