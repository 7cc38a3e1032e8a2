import Gate
import HTTP
import Telemetry
import Wire

/// Stored answers as the stages have handed them on, by tier and coding, so that a later hit goes through none. Each worker has its own,
/// beside its part of the entries. Room is made by second chance: answers of which a form was used since the last look stay for another round.
struct PreparedForms {
    /// A stored answer: its key's hash, and its number in the store of the key's home.
    struct Answer: Hashable {
        let hash: LimitKey
        let serial: UInt64

        init(_ entry: CacheEntry) { self.init(hash: entry.key.hash, serial: entry.serial) }

        init(hash: LimitKey, serial: UInt64) { (self.hash, self.serial) = (hash, serial) }
    }

    /// All that the stages of its route decide by.
    struct Choice: Equatable {
        /// nil on a route without a filter.
        var tier: Tier?
        var coding = ContentCoding.identity
        var refusesIdentity = false
    }

    private struct Forms {
        var forms: [PreparedForm] = []
        var bytes = 0
        var wasUsed = false
    }

    private var answers: [Answer: Forms] = [:]
    private var queue: [Answer] = []
    private(set) var bytes = 0
    let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// The most that one form may have.
    var largest: Int { capacity / 8 }

    mutating func use(_ answer: Answer, for choice: Choice) -> PreparedForm? {
        guard let form = answers[answer]?.forms.first(where: { $0.choice == choice }) else { return nil }
        if answers[answer]?.wasUsed == false { answers[answer]?.wasUsed = true }
        return form
    }

    mutating func keep(_ form: PreparedForm, of answer: Answer) {
        // Another request may have been prepared at the same time.
        guard form.size <= largest, answers[answer]?.forms.contains(where: { $0.choice == form.choice }) != true else { return }
        if answers[answer] == nil { queue.append(answer) }
        answers[answer, default: Forms()].forms.append(form)
        answers[answer]?.bytes += form.size
        bytes += form.size
        while bytes > capacity { evict() }
        if queue.count > 2 * answers.count + 64 { queue.removeAll { [answers] in answers[$0] == nil } }
    }

    /// The answer is stored no longer.
    mutating func remove(_ answer: Answer) { bytes -= answers.removeValue(forKey: answer)?.bytes ?? 0 }

    private mutating func evict() {
        let answer = queue.removeFirst()
        guard answers[answer]?.wasUsed == true else { return remove(answer) }
        answers[answer]?.wasUsed = false
        queue.append(answer)
    }
}

/// An answer as the stages have handed it on.
final class PreparedForm {
    let choice: PreparedForms.Choice
    let head: CacheHead
    let content: [UInt8]
    /// The counts of each answer in this form.
    let filtered: FilterCounts?
    let compressed: CompressionOutcome?

    init(
        _ choice: PreparedForms.Choice, _ head: CacheHead, _ content: [UInt8], filtered: FilterCounts?, compressed: CompressionOutcome?
    ) {
        (self.choice, self.head, self.content, self.filtered, self.compressed) = (choice, head, content, filtered, compressed)
    }

    var size: Int { content.count + head.lines.count + 256 }
}

/// A form in the making: a copy of what the stages hand on.
struct FormDraft {
    let choice: PreparedForms.Choice
    private let most: Int
    private var lines: [UInt8] = []
    private(set) var content: [UInt8] = []

    init(_ choice: PreparedForms.Choice, most: Int) { (self.choice, self.most) = (choice, most) }

    mutating func begin(_ head: borrowing ResponseHead, _ bytes: RawSpan) { lines = CacheHead.lines(head.fields, bytes) }

    /// False if it becomes too large.
    mutating func add(_ piece: RawSpan) -> Bool {
        guard content.count + piece.byteCount <= most else { return false }
        content += piece.array
        return true
    }

    func finish(_ head: CacheHead, _ stages: AnswerStages) -> PreparedForm? {
        // With a free encoder it would have another coding.
        if stages.compression.outcome == .skipped(.busy) { return nil }
        let made = CacheHead(status: head.status, lines: lines, length: content.count, receivedAt: head.receivedAt, age: head.age)
        return PreparedForm(choice, made, content, filtered: stages.filter.counts, compressed: stages.compression.outcome)
    }
}
