import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Fetches answers at the home of their keys. A fetch is an exchange with a client that has no socket: it goes on when the one leaves who
/// asked first, and no client that reads slowly holds it back. Those who wait are sent its head and its content as they come.
extension Worker {
    // MARK: messages

    mutating func handle(_ message: CacheMessage, _ scratch: inout Scratch) {
        switch message {
        case .ask(let order, let seat): asked(order, seat, &scratch)
        case .news(let exchange, let news): received(news, for: exchange, &scratch)
        case .taken(let flight, let seat): if let flight = cache.flights[flight] { taken(flight, seat, &scratch) }
        case .left(let hash, let seat): left(hash, seat, &scratch)
        case .stored(let entry, let serial): cache.put(entry, insteadOf: serial)
        case .dropped(let entries): cache.drop(entries)
        case .invalidated(let target, let time):
            cache.noteChange(of: target, at: time)
            for flight in cache.flights.values where flight.order.key.target == target { flight.mayBeStored = false }
            remove(cache.store.entries(of: target))
        case .select(let selector, let removes, let reply): reply(select(selector, removes: removes))
        }
    }

    /// A request that changes something has succeeded: stored answers to its target are out of date. Its own answer is sent later, so every
    /// worker knows before a client can ask again.
    mutating func invalidate(_ target: UInt64, _ scratch: inout Scratch) {
        // The time of now, not of the turn's beginning: what a home has received until it hears of this may be older than the change.
        let time = turnBegan == nil ? now.monotonic : EventLoop.now().monotonic
        handle(.invalidated(target, at: time), &scratch)
        tellOthers(.invalidated(target, at: time))
    }

    private mutating func select(_ selector: CacheSelector, removes: Bool) -> CacheTotals {
        let chosen = cache.store.entries { selector.matches($0.key, tags: $0.tags) }
        var totals = CacheTotals()
        for entry in chosen where entry.head != nil { totals.add(entry) }
        guard removes else { return totals }
        cache.purged += UInt64(totals.entries)
        // The tags of an answer that is still to come are not known.
        let untagged = CacheSelector(route: selector.route, path: selector.path)
        for flight in cache.flights.values where untagged.matches(flight.order.key, tags: []) { flight.mayBeStored = false }
        remove(chosen)
        return totals
    }

    /// Removes entries of this home at every worker.
    mutating func remove(_ entries: [CacheEntry]) {
        guard !entries.isEmpty else { return }
        for entry in entries { cache.store.remove(entry) }
        cache.drop(entries)
        tellOthers(.dropped(entries))
    }

    func tellOthers(_ message: CacheMessage) {
        for (number, peer) in services.peers.enumerated() where number != id { peer.post(.cache(message)) }
    }

    func tell(_ reader: CacheSeat, _ news: CacheNews) { tell(reader.worker, .news(reader.exchange, news)) }

    // MARK: who waits

    private mutating func asked(_ order: CacheOrder, _ seat: CacheSeat?, _ scratch: inout Scratch) {
        guard order.generation == cache.generation else {
            if let seat { tell(seat, .pass) }
            return
        }
        let entries = cache.entries(order.key)
        var former: CacheEntry?
        var isMarked = false
        for entry in entries where entry.matches(order.lines) {
            let isFresh = entry.state(at: now.monotonic) == .fresh
            guard entry.head != nil else {
                isMarked = isMarked || isFresh
                continue
            }
            former = entry
            guard isFresh else { continue }
            // Another request has brought it meanwhile.
            if let seat { tell(seat, .entry(entry, .hit)) }
            return
        }
        if let flight = cache.flight(for: order, besides: entries) {
            guard let seat else { return }
            return join(flight, CacheFlight.Reader(seat: seat, order: order))
        }
        guard !isMarked else {
            if let seat { tell(seat, .pass) }
            return
        }
        guard seat != nil || cache.flights.count < Self.maxBackground else { return }
        fetch(order, seat, former: former, &scratch)
    }

    /// Fetches under way beside which none begins that no request waits for.
    private static var maxBackground: Int { 256 }

    private func join(_ flight: CacheFlight, _ reader: CacheFlight.Reader) {
        flight.readers.append(reader)
        guard flight.phase == .storing, let head = flight.head else { return }
        begin(flight, flight.readers.count - 1, head)
        for piece in flight.pieces { tell(reader.seat, .content(piece, isPaced: false)) }
    }

    private func begin(_ flight: CacheFlight, _ reader: Int, _ head: CacheHead) {
        flight.readers[reader].hasBegun = true
        let result: CacheResult = flight.former != nil ? .stale : flight.phase == .storing ? .stored : .missed
        tell(flight.readers[reader].seat, .began(head, flight: flight.number, of: flight.order.key.hash, result))
    }

    private mutating func left(_ hash: LimitKey, _ seat: CacheSeat, _ scratch: inout Scratch) {
        for flight in cache.flights(of: hash) {
            guard let place = flight.readers.firstIndex(where: { $0.seat == seat }) else { continue }
            let wasPaused = flight.isPaused
            flight.readers.remove(at: place)
            if flight.readers.isEmpty, !flight.isBackground {
                endFetch(flight.exchange.index, reusable: false)
            } else if wasPaused, !flight.isPaused {
                readOn(flight.exchange.index, &scratch)
            }
        }
    }

    /// A client has taken what was sent to it: the upstream is read on, if it waited for that.
    private mutating func taken(_ flight: CacheFlight, _ seat: CacheSeat, _ scratch: inout Scratch) {
        let wasPaused = flight.isPaused
        for place in flight.readers.indices where flight.readers[place].seat == seat { flight.readers[place].unread = 0 }
        guard wasPaused, !flight.isPaused else { return }
        readOn(flight.exchange.index, &scratch)
    }

    // MARK: the fetch

    /// Asks the upstream, for the one who sits there, or in the place of a stale entry.
    private mutating func fetch(_ order: CacheOrder, _ seat: CacheSeat?, former: CacheEntry?, _ scratch: inout Scratch) {
        guard let pool = upstreams.directory.pool(of: order.upstream),
            let endpoint = upstreams.directory.choose(pool, avoiding: nil, at: now.monotonic)
        else {
            if let seat { tell(seat, substitute(former) ?? .refused(.unavailable(.upstream, retryAfterSeconds: 1))) }
            return
        }
        let flight = CacheFlight(cache.nextSerial(), order, former: former, isBackground: seat == nil, at: now.monotonic)
        if let seat { flight.readers.append(CacheFlight.Reader(seat: seat, order: order)) }
        let client = downstream.openFetch()
        let handle = openExchange(client)
        flight.exchange = handle
        cache.add(flight)
        // It counts for the share of the client that asked first.
        if let client = order.client { exchanges[handle.index].counts.share = downstream.shares.acquire(client) }
        let exchange = handle.index
        let address = upstreams.directory.address(endpoint)
        exchanges[exchange].makeRare().fetch = flight
        exchanges[exchange].request.method = .get
        exchanges[exchange].request.isHeadAlone = true
        exchanges[exchange].record.upstream = upstreams.directory.label(pool, telemetry.labels)
        exchanges[exchange].attempt.begin(
            at: endpoint, isForHTTP2: address.speaksHTTP2 && !upstreams.directory.choseHTTP1(endpoint), isHeadAlone: true,
            hasUnknownLength: false, timeout: order.timeout, retries: order.retries)
        let head = order.head(revalidating: former?.head)
        exchanges[exchange].attempt.replay.append(head)
        exchanges[exchange].attempt.head = order.parts
        exchanges[exchange].attempt.head.length = head.count
        exchanges[exchange].attempt.readdress(to: endpoint, at: address)
        exchanges[exchange].state.forward(isWhole: true)
        upstreams.directory.pools[pool].budget.requestSent()
        dispatch(exchange, &scratch)
    }

    /// The stale answer for one who waits, if it may be used while the upstream fails.
    func substitute(_ former: CacheEntry?) -> CacheNews? {
        // One that was purged is not sent any more.
        guard let former, !former.isDropped else { return nil }
        switch former.state(at: now.monotonic) {
        case .fresh, .usableOnError: return .entry(former, .stale)
        case .stale: return former.errorSeconds > 0 ? .entry(former, .stale) : nil
        case .over: return nil
        }
    }

    /// Takes all that `input` holds of the upstream's answer. `inputEnded`: no more will come.
    mutating func relayFetch(
        _ flight: CacheFlight, _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, inputEnded: Bool,
        _ scratch: inout Scratch
    ) {
        let handle = exchanges.handle(exchange)
        let isStream = upstreams.connections[upstream].isStream
        while exchanges.isCurrent(handle) {
            if isStream, flight.isPaused { break }
            var event = upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits)
            if inputEnded, case .needMore = event { event = upstreams.connections[upstream].http.inputClosed() }
            switch event {
            case .content(let count):
                if flight.phase == .storing || flight.phase == .passing { flight.tail += input.readable.extracting(0..<count).array }
                input.discard(count)
                if flight.tail.count >= 65_536 { handOn(flight) }
            case .needMore:
                handOn(flight)
                // Its content is for no client, and may have no end.
                let isOfUse = !flight.readers.isEmpty || flight.phase != .passing && flight.phase != .ignoring
                return isOfUse ? refreshUpstreamInterest(upstream) : endFetch(exchange, reusable: false)
            case .interim: input.discard(scratch.response.length)
            case .head:
                answerBegan(flight, exchange, input.readable, &scratch)
                guard exchanges.isCurrent(handle) else { return }
                input.discard(scratch.response.length)
            case .trailers(let length): input.discard(length)
            case .end:
                handOn(flight)
                let isReusable = isReusable(upstream, exchange, left: input.count)
                upstreams.directory.answerEnded(exchanges[exchange].attempt.endpoint)
                return complete(flight, exchange, reusable: isReusable)
            case .upgraded: return lost(upstream, .badAnswer, &scratch)
            case .fault:
                return lost(upstream, exchanges[exchange].state.answer == .none ? .badAnswer : .brokenAnswer, &scratch)
            }
        }
        guard exchanges.isCurrent(handle) else { return }
        handOn(flight)
        refreshUpstreamInterest(upstream)
    }

    /// The head has come: decides what becomes of the answer.
    private mutating func answerBegan(_ flight: CacheFlight, _ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        noteHead(exchange, bytes, scratch)
        let status = scratch.response.status
        exchanges[exchange].record.status = status
        telemetry.attemptEnded(&exchanges[exchange].record, status: status, at: now.monotonic)
        exchanges[exchange].state.answerBegan(isHeld: false)
        if status == 304, flight.former != nil {
            flight.phase = .confirmed
            return confirm(flight, bytes, scratch.response)
        }
        if status >= 500, let news = substitute(flight.former) {
            flight.phase = .ignoring
            for reader in flight.readers { tell(reader.seat, news) }
            return flight.readers.removeAll()
        }
        // An event stream has a life of its own, which follows the caller's token.
        if let form = FrameScan.ContentForm(scratch.response, bytes), form == .events {
            mark(flight, status)
            release(flight)
            return endFetch(exchange, reusable: false)
        }
        let judgement = judge(flight, bytes, scratch.response)
        let length = scratch.response.framing.hasContent ? scratch.response.contentLength.map { Int(clamping: $0) } : 0
        let head = CacheHead(
            status: status, lines: CacheHead.lines(scratch.response.fields, bytes), length: length, receivedAt: now.monotonic,
            age: judgement?.age ?? 0)
        flight.head = head
        flight.judgement = judgement
        flight.phase = judgement == nil || (length ?? 0) > cache.store.largest ? .passing : .storing
        if flight.phase == .passing {
            // The answer that was stored is out of date, unless the upstream has failed.
            if status < 500, let former = flight.former { remove([former]) }
            mark(flight, status)
            release(flight) { $0.order === flight.order }
            if flight.readers.isEmpty { return endFetch(exchange, reusable: false) }
        }
        if let vary = judgement?.vary, !vary.isEmpty { sortOut(flight, vary) }
        for place in flight.readers.indices { begin(flight, place, head) }
    }

    func judge(_ flight: CacheFlight, _ bytes: RawSpan, _ head: borrowing ResponseHead) -> CacheJudgement? {
        let delay = Int64(now.monotonic.nanoseconds(since: flight.beganAt) / 1_000_000_000)
        return CacheJudgement(head, bytes, flight.order.rule, isShared: flight.order.isShared, delay: delay, at: now.wall)
    }

    /// The upstream has chosen its answer by fields that some who wait have otherwise: they ask again.
    func sortOut(_ flight: CacheFlight, _ vary: [[UInt8]]) {
        let values = FieldText.values(of: vary, in: flight.order.lines)
        let others = flight.readers.filter { reader in FieldText.values(of: vary, in: reader.order.lines) != values }
        flight.readers.removeAll { reader in others.contains { $0.seat == reader.seat } }
        for reader in others { tell(id, .ask(reader.order, reader.seat)) }
    }

    /// Those who wait forward their requests by themselves, but for some. An answer that is not stored is for the one whose request it was
    /// asked by: it may depend on a field of that.
    func release(_ flight: CacheFlight, but isKept: (CacheFlight.Reader) -> Bool = { _ in false }) {
        for reader in flight.readers where !isKept(reader) { tell(reader.seat, reader.hasBegun ? .cut : .pass) }
        flight.readers.removeAll { !isKept($0) }
    }

    /// Answers to this key are not stored: for a while its requests wait for no other. An error may be over soon.
    private mutating func mark(_ flight: CacheFlight, _ status: Int) {
        guard flight.mayBeStored else { return }
        flight.mayBeStored = false
        guard !flight.isBackground else { return }
        let seconds = status < 400 ? min(Int64(flight.order.rule.freshSeconds ?? 1), 120) : 1
        keep(CacheEntry(mark: flight.order.key, lines: flight.order.lines, seconds: seconds, serial: cache.nextSerial(), at: now.monotonic))
    }

    /// Sends what has come since the last time to those who read along.
    private mutating func handOn(_ flight: CacheFlight) {
        guard !flight.tail.isEmpty else { return }
        let piece = flight.tail
        flight.tail = []
        flight.bytes += piece.count
        if flight.phase == .storing {
            flight.pieces.append(piece)
            cache.fetchedBytes += piece.count
            // All that are under way take no more than what is stored may.
            if flight.bytes > cache.store.largest || cache.fetchedBytes > cache.store.capacity {
                cache.fetchedBytes -= flight.bytes
                flight.phase = .passing
                flight.pieces = []
                mark(flight, 200)
            }
        }
        let isPaced = flight.phase == .passing
        for place in flight.readers.indices {
            if isPaced { flight.readers[place].unread += 1 }
            tell(flight.readers[place].seat, .content(piece, isPaced: isPaced))
        }
        let late = flight.lateReaders
        guard !late.isEmpty else { return }
        for seat in late { tell(seat, .cut) }
        flight.readers.removeAll { late.contains($0.seat) }
    }
}

extension CacheOrder {
    /// The head for the upstream, with the validators of a stored answer.
    fileprivate func head(revalidating stored: CacheHead?) -> [UInt8] {
        guard let stored else { return head }
        let lines = stored.lines
        var out = head
        out.removeLast(2)
        for (name, condition) in [("etag", "If-None-Match: "), ("last-modified", "If-Modified-Since: ")] as [(StaticString, String)] {
            if let value = FieldText.soleValue(of: name, in: lines.rawBytes) { out += Array(condition.utf8) + value + [13, 10] }
        }
        return out + [13, 10]
    }
}

extension Downstream {
    /// A client for a fetch: it has no socket.
    mutating func openFetch() -> ClientIndex {
        let client = clients.acquire().index
        clients[client].isFetch = true
        clients[client].phase = .open
        clients[client].listener = listeners.firstIndex { !$0.isAdmin } ?? 0
        clients[client].http.fetchBegan()
        fetches += 1
        return client
    }
}
