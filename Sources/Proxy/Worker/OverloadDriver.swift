import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// The state of an incremental count of a worker's buffered bytes. Each turn of the event loop counts some connections, because counting
/// ten thousand at once would block the loop for milliseconds.
struct BufferCount {
    /// The connections and exchanges that one turn looks at.
    static let looksOfTurn = 256

    var bytes = 0
    /// Looked at so far.
    var clients = 0
    var exchanges = 0
    var upstreams = 0
}

/// One worker's view of the bounds on load.
struct WorkerLoad {
    /// Requests under way that count: none of the admin listeners, and no streams.
    var requests: WorkerSlots
    /// Requests to the gateway's own endpoints, until their handler has answered.
    var local: WorkerSlots
    /// Whether heads and bodies take too much memory, as of the last count.
    var isShortOfMemory = false
    /// The count under way.
    var counting = BufferCount()
    /// Whether a count has begun and has not ended.
    var isCounting: Bool { counting.clients > 0 }
    private let bounds: LoadBounds
    /// Bytes that this worker counted last, and when it counts next.
    private var buffered = 0
    private var countsAt = MonotonicTime(nanoseconds: 0)
    /// When the control plane may next be told of each reason.
    private var reportsAt = OverloadReason.allCases.map { _ in MonotonicTime(nanoseconds: 0) }

    /// Milliseconds between two counts of the memory.
    private static let countInterval: UInt64 = 500
    /// Milliseconds between two reports of the same reason, shorter than the quiet that ends a period.
    private static let reportInterval: UInt64 = 1_000

    init(_ bounds: LoadBounds) {
        self.bounds = bounds
        requests = WorkerSlots(bounds.requests)
        local = WorkerSlots(bounds.local)
    }

    func isCountDue(_ now: MonotonicTime) -> Bool { now >= countsAt }

    /// Adopts this worker's count, which is complete. Memory that was short is so until a tenth of the limit is free.
    mutating func counted(_ bytes: Int, within limit: Int, at now: MonotonicTime) {
        countsAt = now.advanced(milliseconds: Self.countInterval)
        counting = BufferCount()
        let total = bounds.buffered(changedBy: bytes - buffered)
        buffered = bytes
        isShortOfMemory = total > (isShortOfMemory ? limit / 10 * 9 : limit)
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

    /// Takes the request's slot; the bound that was reached if there is none.
    mutating func takeSlot(_ exchange: ExchangeIndex) -> OverloadReason? {
        if load.isShortOfMemory { return .buffers }
        guard load.requests.take(within: settings.maxRequests, chunk: settings.requestChunk) else { return .requests }
        exchanges[exchange].holdsSlot = true
        return nil
    }

    /// The request is over, or has become a stream.
    mutating func releaseSlot(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].holdsSlot else { return }
        exchanges[exchange].holdsSlot = false
        load.requests.release(chunk: settings.requestChunk)
    }

    /// Takes the slot of a request to one of the gateway's own endpoints. They give way to proxying: the last quarter of the
    /// requests is not for them.
    mutating func takeLocalSlot(_ exchange: ExchangeIndex) -> Bool {
        let others = load.requests.countOfAll - 1
        guard others < (settings.maxRequests * 3 + 3) / 4, load.local.take(within: settings.maxLocalRequests, chunk: 1) else {
            return false
        }
        exchanges[exchange].holdsLocalSlot = true
        return true
    }

    /// The request has ended before its handler was called. Once called, the slot is the handler's, which works on without a client.
    mutating func releaseLocalSlot(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].holdsLocalSlot else { return }
        exchanges[exchange].holdsLocalSlot = false
        load.local.release(chunk: 1)
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

    /// Whether there is room for another connection of a client.
    var isFull: Bool { downstream.connections >= settings.maxClients }

    /// Idle connections that are closed at once for new ones: few of a small number.
    private var mostEvicted: Int { min(max(settings.maxClients / 8, 1), 64) }

    /// The worker is full: closes connections that idle between two requests. False if there are none; then accepting pauses, and each
    /// answer is the last of its connection while it does.
    mutating func makeRoomForClients(_ scratch: inout Scratch) -> Bool {
        let before = downstream.connections
        for client in downstream.clients.indices where downstream.clients[client].wasUsed && !downstream.clients[client].isStream {
            if downstream.listeners[downstream.clients[client].listener].isAdmin { continue }
            let handle = downstream.clients.handle(client)
            if downstream.clients[client].session != nil {
                if isSessionIdle(client) { evictSession(client) }
            } else if downstream.isAtRest(handle) {
                evict(client, &scratch)
            }
            if before - downstream.connections >= mostEvicted { break }
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

    /// Has an HTTP/2 connection end, once.
    private mutating func evictSession(_ client: ClientIndex) {
        guard let session = downstream.clients[client].session, !downstream.sessions[session].http2.isDraining else { return }
        drainSession(client)
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

    // MARK: memory

    /// Twice a second: counts the bytes of heads and bodies that wait in this worker, some in each turn of the loop until it has them all.
    mutating func countBuffersIfDue() {
        guard load.isCountDue(now.monotonic) else { return }
        var left = BufferCount.looksOfTurn
        for client in downstream.clients.indices(from: load.counting.clients, most: left) {
            load.counting.clients += 1
            left -= 1
            guard downstream.clients[client].phase != .free else { continue }
            load.counting.bytes += downstream.clients[client].input.count + downstream.clients[client].output.count
        }
        for exchange in exchanges.indices(from: load.counting.exchanges, most: left) {
            load.counting.exchanges += 1
            left -= 1
            guard exchanges[exchange].state.phase != .answered else { continue }
            load.counting.bytes += exchanges[exchange].bufferedBytes
        }
        for upstream in upstreams.connections.indices(from: load.counting.upstreams, most: left) {
            load.counting.upstreams += 1
            left -= 1
            guard upstreams.connections[upstream].phase != .free else { continue }
            load.counting.bytes += upstreams.connections[upstream].input.count + upstreams.connections[upstream].output.count
        }
        if left > 0 { load.counted(load.counting.bytes, within: settings.maxBuffers, at: now.monotonic) }
    }
}

extension Exchange {
    /// Bytes of the request and of the filter that wait in memory.
    fileprivate var bufferedBytes: Int { heldHead.count + replayBuffer.count + pending.count + filter.bufferedBytes }
}

extension OverloadReason {
    /// `error` in the access log.
    var cause: StaticString {
        switch self {
        case .connections: "overload_connections"
        case .requests: "overload_requests"
        case .local: "overload_local"
        case .buffers: "overload_buffers"
        }
    }
}
