import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// One worker's view of the bounds on load.
struct WorkerLoad {
    /// Requests under way that count: none of the admin listeners, and no streams.
    var requests: WorkerSlots
    /// Whether heads and bodies take too much memory, as of the last count.
    var isShortOfMemory = false
    /// Whether they take so much that clients that hold nothing get no more either.
    var isOutOfMemory = false
    /// The count under way.
    var counting = BufferCount()
    /// Whether a count has begun and has not ended.
    var isCounting: Bool { counting.clients > 0 }
    let bounds: LoadBounds
    /// Bytes that this worker counted last, and when it counts next.
    private var buffered = 0
    private var countsAt = MonotonicTime(nanoseconds: 0)
    /// When the control plane may next be told of each reason.
    private var reportsAt = OverloadReason.allCases.map { _ in MonotonicTime(nanoseconds: 0) }

    /// Milliseconds between two counts of the memory, and while it is short.
    private static let countInterval: UInt64 = 500
    private static let shortInterval: UInt64 = 100
    /// Milliseconds between two reports of the same reason, shorter than the quiet that ends a period.
    private static let reportInterval: UInt64 = 1_000

    init(_ bounds: LoadBounds) {
        self.bounds = bounds
        requests = WorkerSlots(bounds.requests)
    }

    /// Bytes of all workers, with those that the count under way has found in this one.
    var bytesOfAll: Int { bounds.bufferedBytes - buffered + counting.bytes }

    func isCountDue(_ now: MonotonicTime) -> Bool { now >= countsAt }

    /// Adopts this worker's count, which is complete. Memory that was short is so until a tenth of the limit is free.
    mutating func counted(_ bytes: Int, within limit: Int, at now: MonotonicTime) {
        counting = BufferCount()
        let total = bounds.buffered(changedBy: bytes - buffered)
        buffered = bytes
        isShortOfMemory = total > (isShortOfMemory ? limit / 10 * 9 : limit)
        isOutOfMemory = total / 2 > limit
        countsAt = now.advanced(milliseconds: isShortOfMemory ? Self.shortInterval : Self.countInterval)
    }

    /// Whether this shed is reported to the control plane: at most one a second for each bound.
    mutating func reports(_ reason: OverloadReason, at now: MonotonicTime) -> Bool {
        guard now >= reportsAt[reason.rawValue] else { return false }
        reportsAt[reason.rawValue] = now.advanced(milliseconds: Self.reportInterval)
        return true
    }
}

/// Sheds load before the gateway breaks: each new request, connection and local request has its bound.
extension Worker {
    // MARK: requests

    /// Takes the slot of a request for its client, by its parsed head; the bound that was reached if there is none.
    mutating func takeSlot(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ head: borrowing RequestHead) -> OverloadReason? {
        joinClient(exchange, bytes, head)
        if let reason = lacksMemory(exchange) ?? takeRequest(exchange) {
            guard reason == .share, joinCaller(exchange, bytes, head) else { return reason }
            if let reason = lacksMemory(exchange) ?? takeRequest(exchange) { return reason }
        }
        exchanges[exchange].counts.holdsSlot = true
        return nil
    }

    /// Counts the request for its client and for all.
    @inline(__always)
    private mutating func takeRequest(_ exchange: ExchangeIndex) -> OverloadReason? {
        guard let share = exchanges[exchange].counts.share else { return nil }
        if !downstream.shares.takeReserved(share) {
            let taken = load.requests.countOfAll
            let mayTake = downstream.shares.takeRequest(
                share, taken: taken, limit: settings.maxRequests, chunk: settings.requestChunk, settings.clientShare)
            guard mayTake else { return taken < settings.maxRequests ? .share : .requests }
        }
        guard load.requests.take(within: settings.maxRequests, chunk: settings.requestChunk) else {
            downstream.shares.releaseRequest(share, chunk: settings.requestChunk)
            return .requests
        }
        return nil
    }

    /// The request is over, or has become a stream.
    mutating func releaseSlot(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].counts.holdsSlot, let share = exchanges[exchange].counts.share else { return }
        exchanges[exchange].counts.holdsSlot = false
        downstream.shares.releaseRequest(share, chunk: settings.requestChunk)
        load.requests.release(chunk: settings.requestChunk)
    }

    /// The answer lasts, and would hold the room of requests that do not: it counts among the streams, of which there may be as many as
    /// connections. Beyond its client's share of them it goes on counting as a request.
    mutating func leaveRequests(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].counts.holdsSlot, !exchanges[exchange].counts.isLong, let share = exchanges[exchange].counts.share else {
            return
        }
        let held = downstream.shares[share].streams
        guard downstream.longAnswers < settings.maxClients,
            settings.clientShare.allows(held: held, taken: downstream.longAnswers, limit: settings.maxClients)
        else { return }
        downstream.longAnswers += 1
        downstream.shares[share].streams += 1
        exchanges[exchange].counts.isLong = true
        releaseSlot(exchange)
    }

    // MARK: clients

    /// Finds for whom the request counts: its connection's client, or behind a trusted proxy the one that the proxy names.
    @inline(__always)
    private mutating func joinClient(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ head: borrowing RequestHead) {
        let client = exchanges[exchange].client.index
        if let share = downstream.clients[client].share {
            downstream.shares.retain(share)
            exchanges[exchange].counts.share = share
        } else {
            let address = admission.clientAddress(head, bytes, peer: downstream.clients[client].peer)
            exchanges[exchange].counts.share = downstream.shares.acquire(ClientKey(address.address))
        }
    }

    /// The request's address holds its share: a request of an internal caller counts for that caller instead. False if it has none.
    private mutating func joinCaller(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ head: borrowing RequestHead) -> Bool {
        let peer = downstream.clients[exchanges[exchange].client.index].peer
        guard let caller = admission.internalCaller(head, bytes, peer: peer) else { return false }
        leaveClient(exchange)
        exchanges[exchange].counts.share = downstream.shares.acquire(ClientKey(caller: caller))
        return true
    }

    /// The exchange has ended, and counts for no client any more.
    @inline(__always)
    mutating func leaveClient(_ exchange: ExchangeIndex) {
        guard let share = exchanges[exchange].counts.share.take() else { return }
        if exchanges[exchange].counts.isLong {
            exchanges[exchange].counts.isLong = false
            downstream.longAnswers -= 1
            downstream.shares[share].streams -= 1
        }
        downstream.shares.release(share)
    }

    // MARK: the gateway's own endpoints

    /// Whether requests to the gateway's own endpoints have reached their bound. Checked once the head is parsed, so that the body of a
    /// request that will be refused is not read. All but refreshes and documents give way to proxying: the last tenth of the requests is not for them.
    func isFull(_ kind: LocalKind) -> Bool {
        kind == .other && load.requests.countOfAll - 1 >= max(settings.maxRequests * 9 / 10, 1)
            || load.bounds.local(kind).count >= settings.maxLocalRequests
    }

    /// Takes the slot of a request to one of the gateway's own endpoints, which is whole: then its handler takes it, and works on without
    /// a client. The bound that was reached if there is none.
    mutating func takeLocalSlot(_ exchange: ExchangeIndex, _ kind: LocalKind) -> OverloadReason? {
        guard let share = exchanges[exchange].counts.share else { return nil }
        if isFull(kind) { return .local }
        let (budget, limit) = (load.bounds.local(kind), settings.maxLocalRequests)
        guard downstream.shares.take(share, .local(kind), taken: budget.count, limit: limit, settings.clientShare) else { return .share }
        guard budget.take(upTo: 1, within: limit) == 1 else {
            downstream.shares.refund(share, .local(kind))
            return .local
        }
        return nil
    }

    /// The handler has answered.
    mutating func releaseLocalSlot(_ slot: LocalSlot) {
        load.bounds.local(slot.kind).release(1)
        downstream.shares.refund(slot.share, .local(slot.kind))
        downstream.shares.release(slot.share)
    }

    /// The request is refused because of this bound.
    mutating func noteShed(_ exchange: ExchangeIndex, _ reason: OverloadReason) {
        exchanges[exchange].record.error = reason.cause
        noteShed(reason)
    }

    /// Counts load that was shed, and tells the control plane of it once in a while.
    mutating func noteShed(_ reason: OverloadReason) {
        telemetry.metrics.shed(reason)
        if load.reports(reason, at: now.monotonic) { services.shed(reason) }
    }

    // MARK: connections

    /// Counts a connection for its client. False if that holds its share of the worker's connections already.
    mutating func countConnection(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        let address = downstream.clients[client].peer.address
        guard !downstream.listeners[downstream.clients[client].listener].isAdmin, !admission.trusts(address) else { return true }
        let share = downstream.shares.acquire(ClientKey(address))
        if !mayConnect(share) { makeRoom(for: share, &scratch) }
        guard mayConnect(share) else {
            downstream.shares.release(share)
            noteShed(.share)
            return false
        }
        downstream.shares[share].connections += 1
        downstream.clients[client].share = share
        return true
    }

    /// Whether the client may have another connection. The new one is in the worker's count already.
    private func mayConnect(_ share: ShareIndex) -> Bool {
        settings.clientShare.allows(
            held: downstream.shares[share].connections, taken: downstream.connections - 1, limit: settings.maxClients)
    }

    /// Closes idle connections of a client that holds its share, once a turn: it looks at every connection.
    private mutating func makeRoom(for share: ShareIndex, _ scratch: inout Scratch) {
        guard downstream.madeRoomAt != now.monotonic else { return }
        downstream.madeRoomAt = now.monotonic
        _ = makeRoomForClients(of: share, &scratch)
    }

    /// Whether there is room for another connection of a client.
    var isFull: Bool { downstream.connections >= settings.maxClients }

    /// Idle connections that are closed at once for new ones: few of a small number.
    private var maxEvicted: Int { min(max(settings.maxClients / 8, 1), 64) }

    /// The worker is full: closes connections that idle between two requests. False if there are none; then accepting pauses, and each
    /// answer is the last of its connection while it does. `share`: only those of this client.
    mutating func makeRoomForClients(of share: ShareIndex? = nil, _ scratch: inout Scratch) -> Bool {
        let before = downstream.connections
        var ending = 0
        for client in downstream.clients.indices where downstream.clients[client].wasUsed && !downstream.clients[client].isStream {
            if downstream.listeners[downstream.clients[client].listener].isAdmin { continue }
            if let share, downstream.clients[client].share != share { continue }
            let handle = downstream.clients.handle(client)
            if downstream.clients[client].session != nil {
                if isSessionIdle(client), evictSession(client) { ending += 1 }
            } else if downstream.isAtRest(handle) {
                evict(client, &scratch)
            }
            if before - downstream.connections + ending >= maxEvicted { break }
        }
        return downstream.connections < before
    }

    /// Closes an idle connection, unless a request has arrived on it.
    private mutating func evict(_ client: ClientIndex, _ scratch: inout Scratch) {
        let handle = downstream.clients.handle(client)
        if wantsRead(client) { receive(client, &scratch) }
        if downstream.isAtRest(handle) { apply(downstream.clients[client].http.drainRequested(headBegun: false), client, &scratch) }
        if downstream.clients.isCurrent(handle) { refreshInterest(client) }
    }

    /// Has an HTTP/2 connection end, once; false if it is about to already.
    private mutating func evictSession(_ client: ClientIndex) -> Bool {
        guard let session = downstream.clients[client].session, !downstream.sessions[session].http2.isDraining else { return false }
        drainSession(client)
        return true
    }

    /// A client waits: stops accepting for a while if the worker is full and no idle connection could be closed instead.
    mutating func pauseWhenFull(_ scratch: inout Scratch) -> Bool {
        guard isFull, !makeRoomForClients(&scratch) else { return false }
        noteShed(.connections)
        downstream.clientsWait = true
        let end = now.monotonic.advanced(milliseconds: Downstream.acceptPause)
        downstream.pauseAccepting(until: end, sparingAdmin: true, in: loop)
        return true
    }

    /// Accepts again when the pause is over, or a full worker has room.
    mutating func resumeAcceptingIfDue() {
        guard let until = downstream.acceptPausedUntil, now.monotonic >= until || downstream.clientsWait && !isFull else { return }
        downstream.clientsWait = false
        downstream.pauseAccepting(until: nil, in: loop)
    }
}

extension OverloadReason {
    /// `error` in the access log.
    var cause: StaticString {
        switch self {
        case .connections: "overload_connections"
        case .requests: "overload_requests"
        case .local: "overload_local"
        case .buffers: "overload_buffers"
        case .share: "share"
        }
    }
}
