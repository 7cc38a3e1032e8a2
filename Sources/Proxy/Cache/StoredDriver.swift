import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Answers requests of cached routes: from the index of this worker, or by the home of their key.
extension Worker {
    // MARK: deciding

    /// Prepares the request for its target: an entry, or the upstream. False if there is neither.
    mutating func prepareTarget(_ exchange: ExchangeIndex, upstream: Int, _ bytes: RawSpan, _ scratch: inout Scratch) -> Bool {
        prepareAnswer(exchange, bytes, &scratch)
        let isWhole = exchanges[exchange].request.isHeadAlone
        if scratch.decision.cache != nil, isWhole { return prepareCached(exchange, upstream: upstream, bytes, &scratch) }
        if admission.hasCache, exchanges[exchange].request.check == nil, !scratch.request.method.isSafe {
            noteInvalidation(exchange, upstream: upstream, bytes, scratch)
        }
        guard prepareForward(exchange, upstream: upstream, bytes, &scratch) else { return false }
        exchanges[exchange].state.forward(isWhole: isWhole)
        return true
    }

    /// Notes the target whose stored answers are out of date if the request succeeds.
    @inline(never)
    private mutating func noteInvalidation(
        _ exchange: ExchangeIndex, upstream: Int, _ bytes: RawSpan, _ scratch: borrowing Scratch
    ) {
        var key = ByteBuffer()
        let isTLS = downstream.clients[exchanges[exchange].client.index].peer.isTLS
        _ = admission.writeCacheKey(
            scratch.request, bytes, scratch.decision, upstream: upstream, isTLS: isTLS, generation: 0, into: &key)
        exchanges[exchange].request.invalidates = admission.cacheTarget(key.readable)
    }

    @inline(never)
    private mutating func prepareCached(
        _ exchange: ExchangeIndex, upstream: Int, _ bytes: RawSpan, _ scratch: inout Scratch
    ) -> Bool {
        guard let fields = admission.cachedFields(scratch.decision) else { return false }
        let isGet = scratch.request.method == .get
        var bytesOfKey = ByteBuffer()
        swap(&bytesOfKey, &scratch.cacheKey)
        defer { swap(&bytesOfKey, &scratch.cacheKey) }
        let isTLS = downstream.clients[exchanges[exchange].client.index].peer.isTLS
        let target = admission.writeCacheKey(
            scratch.request, bytes, scratch.decision, upstream: upstream, isTLS: isTLS, generation: cache.generation, into: &bytesOfKey)
        let hash = admission.cacheHash(bytesOfKey.readable)
        let (found, isMarked) = find(hash, bytesOfKey.readable, fields, bytes, scratch)
        let state = found?.state(at: now.monotonic)
        if let found, state == .fresh {
            take(found, .hit, exchange, fields, bytes, &scratch)
            return true
        }
        let isForwardable = prepareForward(exchange, upstream: upstream, bytes, &scratch)
        if let found, state == .stale || state == .usableOnError && !isForwardable {
            if state == .stale, isForwardable, isGet, cache.refreshes(hash, at: now.monotonic) {
                let order = order(exchange, bytesOfKey.readable, hash, target, upstream, fields, bytes, scratch)
                tell(home: hash, .ask(order, nil))
            }
            take(found, .stale, exchange, fields, bytes, &scratch)
            return true
        }
        guard isForwardable else { return false }
        if isGet, !isMarked {
            exchanges[exchange].makeRare().order = order(exchange, bytesOfKey.readable, hash, target, upstream, fields, bytes, scratch)
        } else {
            exchanges[exchange].noteCached(isMarked ? .bypassed : .missed)
        }
        exchanges[exchange].state.forward(isWhole: true)
        return true
    }

    /// The entry for the request, and whether a mark says that it is to be forwarded.
    private func find(
        _ hash: LimitKey, _ key: RawSpan, _ fields: CachedFields, _ bytes: RawSpan, _ scratch: borrowing Scratch
    ) -> (CacheEntry?, isMarked: Bool) {
        var isMarked = false
        var lines: [UInt8]?
        for entry in cache.entries(hash, key) where cache.isCurrent(entry) {
            if !entry.vary.isEmpty {
                let told = lines ?? Self.lines(scratch.request, bytes, scratch.decision, fields)
                lines = told
                guard entry.matches(told) else { continue }
            }
            guard entry.head == nil else { return (entry, false) }
            isMarked = isMarked || entry.state(at: now.monotonic) == .fresh
        }
        return (nil, isMarked)
    }

    /// The lines by which the upstream may choose its answer: those of the client that it gets, and those about the caller.
    private static func lines(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, _ fields: CachedFields
    ) -> [UInt8] {
        var out = ByteBuffer(capacity: 512)
        for index in 0..<head.fields.count {
            let field = head.fields[index]
            guard !field.endsHere, fields.passes(field, bytes) else { continue }
            FieldText.append(bytes[field.name], bytes[field.value], to: &out)
        }
        out.append(decision.requestEdits.http1.extracting(0..<(decision.cache?.told ?? 0)))
        return out.readable.array
    }

    /// The order for the home, from the head that was written for the upstream.
    private func order(
        _ exchange: ExchangeIndex, _ key: RawSpan, _ hash: LimitKey, _ target: Int, _ upstream: Int, _ fields: CachedFields,
        _ bytes: RawSpan, _ scratch: borrowing Scratch
    ) -> CacheOrder {
        let rule = admission.cacheRule(scratch.decision)
        return CacheOrder(
            key: CacheKey(
                bytes: key.array, hash: hash, target: admission.cacheTarget(key.extracting(0..<target)),
                route: admission.policy.rules[scratch.decision.routeIndex].name, path: bytes[scratch.request.path].array,
                generation: cache.generation),
            generation: cache.generation, rule: rule, isShared: fields.isShared,
            lines: Self.lines(scratch.request, bytes, scratch.decision, fields), head: exchanges[exchange].attempt.replay.readable.array,
            parts: exchanges[exchange].attempt.head, upstream: upstream, timeout: exchanges[exchange].attempt.timeout,
            retries: exchanges[exchange].attempt.retriesLeft,
            conditions: conditions(bytes, scratch.request, scratch.decision),
            client: exchanges[exchange].counts.share.map { downstream.shares[$0].key })
    }

    /// The lines of the request's conditions and range, as far as the gateway answers them; tags as the upstream knows them.
    private func conditions(_ bytes: RawSpan, _ head: borrowing RequestHead, _ decision: borrowing Decision) -> [UInt8] {
        let wanted = [FieldName.ifNoneMatch, .ifModifiedSince, .range, .ifRange]
        guard wanted.contains(where: { head.fields.contains($0) }) else { return [] }
        var out = ByteBuffer(capacity: 128)
        if let plan = admission.filter(decision), !plan.isShadow {
            FilteredFields(plan: plan, tier: decision.tier ?? .lowest).writeRequest(head.fields, bytes, into: &out)
            return out.readable.array
        }
        for index in 0..<head.fields.count where wanted.contains(head.fields[index].known) {
            if head.fields[index].known == .ifNoneMatch, ContentCoding.ofTags(bytes[head.fields[index].value]) != nil {
                out.append("If-None-Match: ")
                ContentCoding.restoreTags(bytes[head.fields[index].value], into: &out)
                out.append("\r\n")
                continue
            }
            FieldText.append(bytes[head.fields[index].name], bytes[head.fields[index].value], to: &out)
        }
        return out.readable.array
    }

    /// The request will be answered from an entry.
    private mutating func take(
        _ entry: CacheEntry, _ result: CacheResult, _ exchange: ExchangeIndex, _ fields: CachedFields, _ bytes: RawSpan,
        _ scratch: inout Scratch
    ) {
        let conditions = conditions(bytes, scratch.request, scratch.decision)
        read(entry, result, conditions, isHead: scratch.request.method == .head, takesParts: !fields.isFiltered, exchange)
        exchanges[exchange].state.collect(isWhole: true)
    }

    private mutating func read(
        _ entry: CacheEntry, _ result: CacheResult, _ conditions: [UInt8], isHead: Bool, takesParts: Bool, _ exchange: ExchangeIndex
    ) {
        guard let head = entry.head else { preconditionFailure("a mark is no answer") }
        entry.noteUse()
        let form = StoredForm(of: head, conditions, takesParts: takesParts && !isHead)
        let choice = form == .whole && !isHead ? exchanges[exchange].answer.stages?.choice : nil
        if let choice, let prepared = cache.forms.use(PreparedForms.Answer(entry), for: choice) {
            exchanges[exchange].answer.skipStages()
            exchanges[exchange].answer.source = .stored(StoredReading(entry, prepared, result))
            return
        }
        let reading = StoredReading(entry, head, form, result, hasContent: !isHead)
        // A copy is worth its memory once others have asked for the answer, too.
        if let choice, entry.useCount > 1 { reading.prepare(FormDraft(choice, most: cache.forms.largest)) }
        exchanges[exchange].answer.source = .stored(reading)
    }

    // MARK: asking

    /// Asks the home of the request's key for the answer, if the request is for an answer that may be stored; returns whether.
    mutating func asksHome(_ exchange: ExchangeIndex) -> Bool {
        guard let order = exchanges[exchange].rare?.order else { return false }
        let seat = CacheSeat(worker: id, exchange: exchanges.handle(exchange))
        guard tell(home: order.key.hash, .ask(order, seat)) else {
            exchanges[exchange].rare?.order = nil
            exchanges[exchange].noteCached(.missed)
            return false
        }
        exchanges[exchange].wait(for: .fetch(order.key.hash))
        return true
    }

    func home(of hash: LimitKey) -> Int { services.peers.isEmpty ? id : Int(hash.high % UInt64(services.peers.count)) }

    @discardableResult
    func tell(home hash: LimitKey, _ message: CacheMessage) -> Bool { tell(home(of: hash), message) }

    @discardableResult
    func tell(_ worker: Int, _ message: CacheMessage) -> Bool {
        (services.peers.isEmpty ? mailbox : services.peers[worker]).post(.cache(message))
    }

    /// The client of a request that waits for a fetch, or reads along, has gone.
    @inline(never)
    mutating func leaveFetch(_ exchange: ExchangeIndex) {
        let seat = CacheSeat(worker: id, exchange: exchanges.handle(exchange))
        if case .fetch(let hash) = exchanges[exchange].wait { tell(home: hash, .left(hash, seat)) }
        guard case .stored(let reading) = exchanges[exchange].answer.source, let source = reading.source, !reading.isOver else { return }
        tell(source.home, .left(source.hash, seat))
    }

    // MARK: answering

    /// The home has news for a request.
    mutating func received(_ news: CacheNews, for handle: Handle<Exchange>, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(handle) else {
            // It has left before the fetch knew of it.
            if case .began(_, _, let hash, _) = news { tell(home: hash, .left(hash, CacheSeat(worker: id, exchange: handle))) }
            return
        }
        let exchange = handle.index
        let client = exchanges[exchange].client
        if case .stored(let reading) = exchanges[exchange].answer.source {
            reading.add(news)
            pumpStored(handle, &scratch)
            return resumeClient(client, &scratch)
        }
        guard exchanges.resume(handle, from: .fetch) != nil, let order = exchanges[exchange].rare?.order.take() else { return }
        let isFiltered = exchanges[exchange].answer.stages != nil
        switch news {
        case .entry(let entry, let result):
            read(entry, result, order.conditions, isHead: false, takesParts: !isFiltered, exchange)
            beginStored(handle, &scratch)
        case .began(let head, let flight, let hash, let result):
            let form = StoredForm(of: head, order.conditions, takesParts: false)
            exchanges[exchange].answer.source = .stored(StoredReading(head, form, result, home: home(of: hash), flight: flight, hash: hash))
            beginStored(handle, &scratch)
        case .refused(let refusal):
            exchanges[exchange].noteCached(.missed)
            answer(exchange, with: refusal, &scratch)
        case .pass, .content, .ended, .cut:
            exchanges[exchange].noteCached(.missed)
            exchanges[exchange].resumeTarget()
            dispatch(exchange, &scratch)
        }
        resumeClient(client, &scratch)
    }

    /// Sends the head of an answer that is stored, or being fetched, and what there is of its content.
    mutating func beginStored(_ handle: Handle<Exchange>, _ scratch: inout Scratch) {
        let exchange = handle.index
        guard case .stored(let reading) = exchanges[exchange].answer.source else { return }
        exchanges[exchange].state.produce()
        let (left, age) = reading.times(at: now.monotonic)
        exchanges[exchange].noteCached(reading.result, secondsLeft: left)
        if reading.source == nil || age > 0 { exchanges[exchange].buffers.answerEdits.add("Age", decimal: Int(max(0, age))) }
        var head = ByteBuffer(capacity: reading.head.lines.count + 256)
        reading.form.writeHead(reading.head, into: &head)
        // The upstream's head was within the limit, and has lost fields since.
        var limits = settings.headLimits
        limits.headBytes += 256
        guard scratch.response.parse(head.readable, requestMethod: exchanges[exchange].request.method, limits: limits) == .complete else {
            return answer(exchange, with: .badGateway, &scratch)
        }
        scratch.prepareOutput()
        do throws(FilterFault) {
            try passHead(exchange, head.readable, follows: false, &scratch)
        } catch {
            return refuseAnswer(exchange, error, &scratch)
        }
        pumpStored(handle, &scratch)
    }

    /// Sends the content that has come, as far as the client takes it.
    mutating func pumpStored(_ handle: Handle<Exchange>, _ scratch: inout Scratch) {
        let exchange = handle.index
        guard case .stored(let reading) = exchanges[exchange].answer.source, exchanges[exchange].state.phase == .producing else { return }
        scratch.prepareOutput()
        var piece = ByteBuffer()
        swap(&piece, &scratch.piece)
        defer {
            piece.removeAll()
            swap(&piece, &scratch.piece)
        }
        do throws(FilterFault) {
            while true {
                if exchanges[exchange].answer.isWaiting {
                    guard try changeWaiting(handle, &scratch) else { return }
                    if exchanges[exchange].answer.isWaiting { break }
                }
                guard hasRoom(.answer, exchange), reading.take(into: &piece) else { break }
                pumpAnswer(exchange, piece.count, of: &piece, &scratch)
                guard exchanges.isCurrent(handle) else { return }
                if exchanges[exchange].answer.course == .changed {
                    exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
                    guard sendGathered(handle, &scratch) else { return }
                }
            }
            guard reading.isOver, reading.isEmpty, !exchanges[exchange].answer.isWaiting else {
                if exchanges[exchange].answer.course == .changed {
                    try flushOrNote(exchange)
                    exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
                }
                guard sendGathered(handle, &scratch) else { return }
                if let source = reading.source, hasRoom(.answer, exchange), reading.takesMore() {
                    tell(source.home, .taken(flight: source.flight, CacheSeat(worker: id, exchange: handle)))
                }
                return
            }
            guard !reading.isCut else {
                guard sendGathered(handle, &scratch) else { return }
                return exchanges[exchange].state.answer == .started
                    ? cutAnswer(exchange, &scratch) : answer(exchange, with: .badGateway, &scratch)
            }
            try endStored(exchange, &scratch)
        } catch {
            refuseAnswer(exchange, error, &scratch)
        }
    }

    /// Keeps what the stages have made of an entry.
    private mutating func keepForm(_ exchange: ExchangeIndex) {
        guard case .stored(let reading) = exchanges[exchange].answer.source, let stages = exchanges[exchange].answer.stages,
            let (answer, form) = reading.formMade(by: stages)
        else { return }
        cache.forms.keep(form, of: answer)
    }

    private mutating func endStored(_ exchange: ExchangeIndex, _ scratch: inout Scratch) throws(FilterFault) {
        try endChanged(exchange, &scratch)
        if exchanges[exchange].answer.course == .changed { keepForm(exchange) }
        if exchanges[exchange].answer.course == .watched {
            try exchanges[exchange].answer.end()
            noteLapse(exchange)
        }
        downstream.clients[exchanges[exchange].client.index].http.sendEnd(into: &scratch.output)
        endAnswer(exchange, &scratch)
    }
}

extension Exchange {
    /// Notes how the request is answered, and tells the client (RFC 9211).
    fileprivate mutating func noteCached(_ result: CacheResult, secondsLeft: Int64 = 0) {
        record.cached = result
        buffers.answerEdits.begin("Cache-Status")
        buffers.answerEdits.append("tollgate; ")
        switch result {
        case .hit: buffers.answerEdits.append("hit; ttl=")
        case .stored: buffers.answerEdits.append("fwd=miss; stored")
        case .missed: buffers.answerEdits.append("fwd=miss")
        case .stale: buffers.answerEdits.append("fwd=stale")
        case .revalidated: buffers.answerEdits.append("fwd=stale; fwd-status=304")
        case .bypassed: buffers.answerEdits.append("fwd=bypass")
        }
        if result == .hit { buffers.answerEdits.append(decimal: UInt64(clamping: secondsLeft)) }
        buffers.answerEdits.end()
    }
}
