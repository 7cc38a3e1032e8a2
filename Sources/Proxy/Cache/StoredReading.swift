import Gate
import HTTP
import Telemetry
import Wire

/// A stored answer, or one that is being fetched, on its way to one client.
final class StoredReading {
    let head: CacheHead
    let form: StoredForm
    let result: CacheResult
    /// The worker that fetches it, and the number of the fetch; nil for an entry.
    let source: (home: Int, flight: UInt64, hash: LimitKey)?
    private var pieces: [[UInt8]] = []
    private var piece = 0
    private var offset = 0
    /// Bytes that are still to be sent of an entry.
    private var left = Int.max
    /// Whether no more of it will come, and whether something is missing.
    private(set) var isOver = false
    private(set) var isCut = false
    private var asksForMore = false
    private var entry: CacheEntry?
    private var taken = 0
    /// The form of an entry in which it is sent, if that was prepared before.
    private(set) var prepared: PreparedForm?
    /// The entry as the stages hand it on, to be kept as a form.
    private var draft: FormDraft?

    /// Bytes that are sent at a time.
    private static let most = 32 * 1_024

    /// An entry; `hasContent`: the answer to HEAD has none.
    init(_ entry: CacheEntry, _ head: CacheHead, _ form: StoredForm, _ result: CacheResult, hasContent: Bool) {
        (self.entry, self.head, self.form, self.result, source, isOver) = (entry, head, form, result, nil, true)
        guard hasContent else { return }
        switch form {
        case .whole: pieces = [entry.content]
        case .part(let range): (pieces, offset, left) = ([entry.content], range.lowerBound, range.count)
        case .notModified, .unsatisfiable: break
        }
    }

    /// An entry, in a form that was prepared of it.
    init(_ entry: CacheEntry, _ prepared: PreparedForm, _ result: CacheResult) {
        (self.entry, self.prepared, head, form, self.result, source) = (entry, prepared, prepared.head, .whole, result, nil)
        (isOver, pieces) = (true, [prepared.content])
    }

    /// An answer whose content follows.
    init(_ head: CacheHead, _ form: StoredForm, _ result: CacheResult, home: Int, flight: UInt64, hash: LimitKey) {
        (self.head, self.form, self.result, source) = (head, form, result, (home, flight, hash))
    }

    func add(_ news: CacheNews) {
        switch news {
        case .content(let bytes, let isPaced):
            asksForMore = asksForMore || isPaced
            if form == .whole { pieces.append(bytes) }
        case .ended(let entry):
            isOver = true
            guard let entry, form == .whole else { return }
            // From here on it reads what the cache holds, and keeps no memory of its own.
            (self.entry, pieces, piece, offset) = (entry, [entry.content], 0, taken)
        case .cut: (isOver, isCut) = (true, true)
        case .entry, .began, .pass, .refused: break
        }
    }

    // MARK: forms

    func prepare(_ draft: FormDraft) { self.draft = draft }

    /// The stages have handed on this head.
    func headMade(_ head: borrowing ResponseHead, _ bytes: RawSpan) { draft?.begin(head, bytes) }

    /// The stages have handed on this piece of content.
    func contentMade(_ piece: RawSpan) { if draft?.add(piece) == false { draft = nil } }

    /// The form that the stages have made, all of it, with the answer that it is of.
    func formMade(by stages: AnswerStages) -> (PreparedForms.Answer, PreparedForm)? {
        guard let entry, let form = draft.take()?.finish(head, stages) else { return nil }
        return (PreparedForms.Answer(entry), form)
    }

    // MARK: content

    /// Bytes that are kept for this client, or for it and few others.
    var heldBytes: Int {
        let made = draft?.content.count ?? 0
        if let entry { return made + (entry.isDropped && !isEmpty ? (prepared?.content ?? entry.content).count : 0) }
        return isOver || asksForMore ? pieces.reduce(0) { $0 + $1.count } : 0
    }

    /// Seconds for which an entry is still fresh, and how old the answer is.
    func times(at now: MonotonicTime) -> (left: Int64, age: Int64) { (entry?.secondsLeft(at: now) ?? 0, head.age(at: now)) }

    /// Whether all that has come was taken.
    var isEmpty: Bool { left == 0 || piece == pieces.count }

    /// Moves some content into `out`, which is empty; false if there is none.
    func take(into out: inout ByteBuffer) -> Bool {
        while !isEmpty {
            let bytes = pieces[piece]
            let count = min(bytes.count - offset, left, Self.most)
            if count > 0 { out.append(bytes.rawBytes.extracting(offset..<offset + count)) }
            offset += count
            left -= count
            taken += count
            if offset == bytes.count {
                // It is free as soon as it was taken: others may read the same.
                pieces[piece] = []
                (piece, offset) = (piece + 1, 0)
            }
            if count > 0 { return true }
        }
        return false
    }

    /// Whether the home waits to hear that all was taken. Asked once.
    func takesMore() -> Bool {
        guard asksForMore, isEmpty, !isOver else { return false }
        asksForMore = false
        return true
    }
}
