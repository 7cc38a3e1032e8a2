import Gate
import HTTP
import Telemetry
import Wire

/// The end of a fetch: its answer is stored, was confirmed, or has failed.
extension Worker {
    /// The answer is complete.
    mutating func complete(_ flight: CacheFlight, _ exchange: ExchangeIndex, reusable: Bool) {
        var entry: CacheEntry?
        if flight.phase == .storing, let head = flight.head, let judgement = flight.judgement {
            let whole = CacheHead(
                status: head.status, lines: head.lines, length: flight.bytes, receivedAt: head.receivedAt, age: head.age)
            entry = store(flight, whole, judgement, content: Array(flight.pieces.joined()))
        }
        for reader in flight.readers { tell(reader.seat, .ended(entry)) }
        flight.readers.removeAll()
        endFetch(exchange, reusable: reusable)
    }

    /// The upstream has said that the stored answer is still good: it is fresh again, with the fields of the 304.
    mutating func confirm(_ flight: CacheFlight, _ bytes: RawSpan, _ confirmed: borrowing ResponseHead) {
        guard let former = flight.former, let head = former.head else { return }
        let lines = head.lines(freshenedBy: confirmed.fields, bytes)
        var text = ByteBuffer(capacity: lines.count + 64)
        StoredForm.whole.writeHead(
            CacheHead(status: head.status, lines: lines, length: head.length, receivedAt: now.monotonic, age: 0), into: &text)
        var merged = ResponseHead()
        var entry = former
        var limits = settings.headLimits
        limits.headBytes *= 2
        if merged.parse(text.readable, requestMethod: .get, limits: limits) == .complete,
            let judgement = judge(flight, text.readable, merged)
        {
            let fresh = CacheHead(
                status: head.status, lines: lines, length: head.length, receivedAt: now.monotonic, age: judgement.age)
            entry = store(flight, fresh, judgement, content: former.content) ?? former
            sortOut(flight, judgement.vary)
        }
        for reader in flight.readers { tell(reader.seat, .entry(entry, .revalidated)) }
        flight.readers.removeAll()
    }

    /// Stores an answer, unless its entries were removed since it was asked for.
    @discardableResult
    private mutating func store(_ flight: CacheFlight, _ head: CacheHead, _ judgement: CacheJudgement, content: [UInt8]) -> CacheEntry? {
        let values = FieldText.values(of: judgement.vary, in: flight.order.lines)
        let entry = CacheEntry(
            flight.order.key, head, judgement, values: values, content: content, serial: cache.nextSerial(),
            uses: flight.former?.useCount ?? 0)
        guard flight.mayBeStored, entry.size <= cache.store.largest else { return nil }
        keep(entry)
        return entry
    }

    mutating func keep(_ entry: CacheEntry) {
        let (serial, dropped) = cache.keep(entry)
        tellOthers(.stored(entry, insteadOf: serial))
        if !dropped.isEmpty { tellOthers(.dropped(dropped)) }
    }

    /// The upstream has failed, or its answer has broken off.
    mutating func fetchLost(_ flight: CacheFlight, _ exchange: ExchangeIndex, _ refusal: Refusal) {
        let news = substitute(flight.former) ?? .refused(refusal)
        for reader in flight.readers { tell(reader.seat, reader.hasBegun ? .cut : news) }
        flight.readers.removeAll()
        endFetch(exchange, reusable: false)
    }

    /// Ends the exchange of a fetch.
    mutating func endFetch(_ exchange: ExchangeIndex, reusable: Bool) {
        let client = exchanges[exchange].client.index
        releaseUpstream(exchange, reusable: reusable)
        closeExchange(exchange, isComplete: true)
        downstream.close(client)
    }

    /// The exchange of the fetch is over, for whatever reason.
    mutating func fetchEnded(_ flight: CacheFlight) {
        cache.remove(flight)
        cache.fetchedBytes -= flight.heldBytes
        release(flight)
    }
}
