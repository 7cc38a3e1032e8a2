import Gate
import Transport
import Wire

/// The answers that hold content which their stages have not handed on, while their source pauses.
struct UnflushedAnswers: ~Copyable {
    /// Milliseconds that content may wait for more.
    static let patience: UInt64 = 5

    fileprivate var noted = UniqueArray<Handle<Exchange>>()
    /// When they are flushed; nil if there are none.
    fileprivate(set) var dueAt: MonotonicTime?

    /// How long the loop may wait, at most `longest` milliseconds.
    func millisecondsToNext(_ now: MonotonicTime, longest: Int32) -> Int32 {
        guard let dueAt else { return longest }
        return min(longest, Int32(clamping: (dueAt.nanoseconds(since: now) + 999_999) / 1_000_000))
    }
}

/// Hands on what compression would keep for a better result: a client never waits long for bytes that the gateway has.
extension Worker {
    /// The source of an answer whose stages change it has no more for now: an event is handed on at once, other content soon.
    mutating func flushOrNote(_ exchange: ExchangeIndex) throws(FilterFault) {
        guard exchanges[exchange].answer.canFlush, let stages = exchanges[exchange].answer.stages else { return }
        if stages.compression.isForEvents { return try exchanges[exchange].answer.flush() }
        guard !stages.compression.isNoted else { return }
        stages.compression.isNoted = true
        unflushed.noted.append(exchanges.handle(exchange))
        unflushed.dueAt = unflushed.dueAt ?? now.monotonic.advanced(milliseconds: UnflushedAnswers.patience)
    }

    mutating func flushAnswersIfDue(_ scratch: inout Scratch) {
        guard let dueAt = unflushed.dueAt, dueAt <= now.monotonic else { return }
        unflushed.dueAt = nil
        var due = UniqueArray<Handle<Exchange>>()
        swap(&due, &unflushed.noted)
        for index in due.indices where exchanges.isCurrent(due[index]) {
            let exchange = due[index].index
            guard exchanges[exchange].answer.stages?.compression.isNoted == true, exchanges[exchange].answer.canFlush else { continue }
            resumingClient(of: exchange, &scratch) { $0.flushAnswer(exchange, &$1) }
        }
        // Those that were noted meanwhile keep their place.
        if unflushed.noted.isEmpty {
            due.removeAll()
            swap(&due, &unflushed.noted)
        }
    }

    private mutating func flushAnswer(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        scratch.prepareOutput()
        do throws(FilterFault) {
            try exchanges[exchange].answer.flush()
            exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
            _ = sendGathered(exchanges.handle(exchange), &scratch)
        } catch {
            refuseAnswer(exchange, error, &scratch)
        }
    }
}
