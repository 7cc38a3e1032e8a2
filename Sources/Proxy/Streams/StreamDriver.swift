import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Opens streams, drives their clocks and notices what ends them: the token's expiry, the end of the session, the loss of the tier.
///
/// Ordinary short answers are not touched: an event stream or a tunnel opens with its head, a gRPC call or any other answer when a
/// sweep finds that it has become long.
extension Worker {
    /// Milliseconds between two sweeps.
    private static var sweepInterval: UInt64 { 1_000 }
    /// Milliseconds after which a gRPC call is a stream, and any other answer.
    private static var longCall: UInt64 { 1_000 }
    private static var longAnswer: UInt64 { 60_000 }
    /// An ordinary answer that is younger may still end by itself when its session ends. Milliseconds.
    private static var shortAnswer: UInt64 { 500 }
    /// Tiers and accounts that one sweep looks up.
    private static var maxLookUps: Int { 64 }

    // MARK: opening

    /// The answer, whose head was written, is a stream from here on; returns whether the exchange still exists. It does not if the
    /// session has ended since the request was decided about, or the gateway is draining.
    @discardableResult
    mutating func openStream(_ exchange: ExchangeIndex, _ kind: StreamKind, _ scratch: inout Scratch) -> Bool {
        let handle = exchanges.handle(exchange)
        leaveRequests(exchange)
        // A stream that a retry has begun would hold its part of the budget until it ends.
        release(.retry, exchange)
        let live = LongAnswer(
            kind, exchanges[exchange].life, exchanges[exchange].request.streamRule,
            isReadable: !exchanges[exchange].answer.frames.isNone,
            at: now.monotonic)
        streams.add(handle, live)
        exchanges[exchange].makeRare().live = live
        // HTTP/2 has its own PING.
        let upstream = exchanges[exchange].attempt.upstream.index
        if live.heartbeat != nil, !upstreams.connections[upstream].isStream {
            upstreams.connections[upstream].connection.socket.keepAlive()
        }
        telemetry.streamOpened(&exchanges[exchange].record, kind, at: now.monotonic)
        if phase != .serving, kind.endsWithDrain {
            endStream(exchange, .drain, &scratch)
        } else {
            checkStream(exchange, lookUps: 0, &scratch)
        }
        guard exchanges.isCurrent(handle) else { return false }
        advanceStream(exchange, &scratch)
        return exchanges.isCurrent(handle)
    }

    /// Reads from the head of an upstream's answer whether its frames can be followed, and whether it is a stream.
    mutating func followAnswer(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ head: borrowing ResponseHead) -> FrameScan.ContentForm? {
        let isCompressed = exchanges[exchange].answer.isOfCompressedEvents
        guard isCompressed || exchanges[exchange].answer.course != .changed, let form = FrameScan.ContentForm(head, bytes) else {
            return nil
        }
        let takesTrailers = downstream.clients[exchanges[exchange].client.index].isStream
        exchanges[exchange].answer.follow(FrameScan(form, head, bytes, takesTrailers: takesTrailers, isCodedBehind: isCompressed))
        return form
    }

    // MARK: clocks

    mutating func expireStreamTimers(_ scratch: inout Scratch) {
        streams.timers.expire(now.monotonic, into: &scratch.due)
        for index in scratch.due.indices where !streams.timers.isSet(scratch.due[index]) {
            let exchange = ExchangeIndex(number: UInt32(scratch.due[index]))
            guard exchanges[exchange].rare?.live != nil else { continue }
            resumingClient(of: exchange, &scratch) { $0.advanceStream(exchange, &$1) }
        }
        if !scratch.due.isEmpty { scratch.due.removeAll(keepingCapacity: true) }
    }

    /// Does what is due for a stream, and sets its timer.
    mutating func advanceStream(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let handle = exchanges.handle(exchange)
        if let cutAt = exchanges[exchange].rare?.live?.cutAt, cutAt <= now.monotonic { return cutStream(exchange, &scratch) }
        // The clock of a stream whose end waits for a gap stands still.
        while exchanges.isCurrent(handle), exchanges[exchange].rare?.live?.end == nil,
            let action = exchanges[exchange].rare?.live?.clock?.advance(to: now.wall), action != .nothing
        {
            act(on: action, exchange, &scratch)
        }
        guard exchanges.isCurrent(handle) else { return }
        sendHeartbeatIfDue(exchange, &scratch)
        if exchanges.isCurrent(handle) { setStreamTimer(exchange) }
    }

    private mutating func act(on action: StreamClock.Action, _ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        switch action {
        case .nothing: break
        case .ask: askAboutSession(exchange)
        case .warn(let seconds): warn(exchange, seconds, &scratch)
        case .end: endStream(exchange, .tokenExpired, &scratch)
        }
    }

    private mutating func askAboutSession(_ exchange: ExchangeIndex) {
        guard let session = exchanges[exchange].life?.extendingSession else { return }
        let (handle, mailbox) = (exchanges.handle(exchange), mailbox)
        services.sessionExpiry(session) { mailbox.post(.sessionExpires(handle, $0)) }
    }

    /// The newest token of the stream's session is valid until then.
    mutating func learnedExpiry(_ exchange: Handle<Exchange>, _ newest: Int64?, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(exchange), exchanges[exchange.index].rare?.live?.end == nil else { return }
        resumingClient(of: exchange.index, &scratch) { worker, scratch in
            guard let action = worker.exchanges[exchange.index].rare?.live?.clock?.answered(newest, at: worker.now.wall) else { return }
            worker.act(on: action, exchange.index, &scratch)
            if worker.exchanges.isCurrent(exchange) { worker.advanceStream(exchange.index, &scratch) }
        }
    }

    private mutating func setStreamTimer(_ exchange: ExchangeIndex) {
        guard let live = exchanges[exchange].rare?.live else { return }
        // The sweep looks at the clock too, in case the wall clock jumps.
        var next = MonotonicTime(nanoseconds: .max)
        if let cutAt = live.cutAt {
            next = cutAt
        } else if live.end == nil {
            if let heartbeat = live.heartbeat { next = live.movedAt.advanced(milliseconds: heartbeat) }
            if let clock = live.clock { next = min(next, now.monotonic(at: clock.nextAt)) }
        }
        if next.nanoseconds < .max { streams.timers.set(exchange.id, deadline: next) }
    }

    // MARK: sessions and tiers

    /// Looks through all answers, for those that have become long and those whose session or tier is gone.
    private mutating func sweepStreams(_ scratch: inout Scratch) {
        streams.sweepAt = now.monotonic.advanced(milliseconds: Self.sweepInterval)
        streams.awaitsLookUps = false
        guard exchanges.count > 0 else { return }
        var lookUps = Self.maxLookUps
        for exchange in exchanges.indices where exchanges[exchange].isAnswering {
            resumingClient(of: exchange, &scratch) { worker, scratch in
                if worker.exchanges[exchange].rare?.live == nil { return worker.openIfLong(exchange, &scratch) }
                let handle = worker.exchanges.handle(exchange)
                lookUps -= worker.checkStream(exchange, lookUps: lookUps, &scratch)
                if worker.exchanges.isCurrent(handle) { worker.advanceStream(exchange, &scratch) }
            }
        }
    }

    mutating func sweepStreamsIfDue(_ scratch: inout Scratch) {
        if streams.sweepAt <= now.monotonic { sweepStreams(&scratch) }
    }

    /// Opens a stream for an answer that has become long, or that must end before it has.
    private mutating func openIfLong(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let age = now.monotonic.nanoseconds(since: exchanges[exchange].record.startedAt) / 1_000_000
        let kind = exchanges[exchange].streamKind
        if age >= (kind == .grpc ? Self.longCall : Self.longAnswer) {
            openStream(exchange, kind, &scratch)
        } else if let life = exchanges[exchange].life,
            case .over = admission.state(of: life, isFiltered: exchanges[exchange].answer.isFilteredByTier, at: now.wall)
        {
            guard kind == .grpc || age >= Self.shortAnswer else {
                streams.sweepAt = min(streams.sweepAt, now.monotonic.advanced(milliseconds: Self.shortAnswer))
                return
            }
            openStream(exchange, kind, &scratch)
        }
    }

    /// Ends the stream if its session or its tier is gone. Looks up what is not known, if it may; returns how many it looked up.
    @discardableResult
    private mutating func checkStream(_ exchange: ExchangeIndex, lookUps: Int, _ scratch: inout Scratch) -> Int {
        guard let life = exchanges[exchange].life, exchanges[exchange].rare?.live?.end == nil else { return 0 }
        let state = admission.state(of: life, isFiltered: exchanges[exchange].answer.isFilteredByTier, at: now.wall)
        switch state {
        case .live: return 0
        case .over(.sessionEnded): endStream(exchange, .sessionEnded, &scratch)
        case .over(.tierLost): endStream(exchange, .tier, &scratch)
        case .lacksTier, .lacksSubject, .lacksAccount:
            guard lookUps > 0, let user = admission.user(lackedBy: life, exchanges[exchange].note, state) else { return 0 }
            streams.awaitsLookUps = true
            if state == .lacksSubject { services.lookUpSubject(user) } else { services.lookUpUser(user) }
            return 1
        }
        return 0
    }

    /// Runs `body`. If it ends the exchange, the client's next request is read.
    mutating func resumingClient(
        of exchange: ExchangeIndex, _ scratch: inout Scratch, _ body: (inout Worker, inout Scratch) -> Void
    ) {
        let (handle, client) = (exchanges.handle(exchange), exchanges[exchange].client)
        body(&self, &scratch)
        if !exchanges.isCurrent(handle) { resumeClient(client, &scratch) }
    }
}

extension Exchange {
    /// Whether the client has been sent some of an upstream's answer, or calls by gRPC, whose answers may begin late.
    fileprivate var isAnswering: Bool {
        if rare?.live != nil { return true }
        if case .stored = answer.source { return state.phase == .producing && state.answer == .started }
        guard state.phase == .relaying, rare?.fetch == nil else { return false }
        return state.answer == .started || state.answer == .none && request.dialect == .grpc
    }

    /// The kind of stream that its answer may become.
    fileprivate var streamKind: StreamKind {
        if case .messages = answer.frames { return .grpc }
        return state.answer == .none ? .grpc : .http
    }
}

extension Moment {
    /// The monotonic time at which the wall clock will show `time`, if it is not set.
    fileprivate func monotonic(at time: WallTime) -> MonotonicTime {
        let (wait, overflows) = time.microseconds.subtractingReportingOverflow(wall.microseconds)
        guard !overflows, wait < 1 << 52 else { return MonotonicTime(nanoseconds: .max) }
        return MonotonicTime(nanoseconds: monotonic.nanoseconds + UInt64(max(wait, 0)) * 1_000)
    }
}
