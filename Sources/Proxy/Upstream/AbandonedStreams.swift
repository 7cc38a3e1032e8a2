import HTTP
import Transport
import Wire

/// A stream whose request was given up, and that is still open at the upstream.
struct AbandonedStream {
    let stream: StreamID
    let pool: Int
    /// For whom it counts, and the hash that stands for that client.
    let share: ShareIndex?
    let client: UInt64
    /// Whether it counts for `max-connections`.
    let isCounted: Bool
}

/// The requests of one HTTP/2 connection that were given up. Resets are few (`HTTP2ResetBudget`): a client has a share of them, and a
/// stream beyond it stays open, and counts for its client until it is over.
struct AbandonedStreams {
    /// By the order in which they were given up.
    private(set) var open: [AbandonedStream] = []
    /// The clients of the resets that are taken, the oldest first.
    private var resetBy: [UInt64] = []

    /// Whether one more stream of the client may be reset, of those that are `taken` by all.
    func mayReset(_ client: UInt64, taken: Int, _ rule: ShareRule) -> Bool {
        resetBy.isEmpty || rule.allows(held: resetBy.count { $0 == client }, taken: taken, limit: HTTP2Core.maxResets)
    }

    mutating func wasReset(_ client: UInt64) { resetBy.append(client) }

    mutating func add(_ stream: AbandonedStream) { open.append(stream) }

    /// Some resets are not taken any more.
    mutating func refilled(taken: Int) { resetBy.removeFirst(max(resetBy.count - taken, 0)) }

    mutating func remove(at index: Int) -> AbandonedStream { open.remove(at: index) }
}

extension Upstreams {
    /// Once a second: resets streams that nothing waits for, the oldest first, as far as each connection's budget of resets and each
    /// client's share of it allow.
    @inline(__always)
    mutating func resetAbandonedIfDue(_ now: MonotonicTime, _ rule: ShareRule) {
        if now >= resetsNext { resetAbandoned(now, rule) }
    }

    private mutating func resetAbandoned(_ now: MonotonicTime, _ rule: ShareRule) {
        resetsNext = now.advanced(milliseconds: 1_000)
        for upstream in connections.indices {
            guard let session = connections[upstream].session else { continue }
            sessions[session].http2.refillResets()
            sessions[session].abandoned.refilled(taken: sessions[session].http2.resetsTaken)
            for each in sessions[session].abandoned.open where mayReset(each.client, session, rule) {
                guard sessions[session].http2.resetAbandoned(each.stream, into: &connections[upstream].output) else { continue }
                sessions[session].abandoned.wasReset(each.client)
                settleLater(upstream)
            }
        }
    }

    /// Whether the client may take one more of the resets of the connection.
    func mayReset(_ client: UInt64, _ session: UpstreamSessionIndex, _ rule: ShareRule) -> Bool {
        sessions[session].abandoned.mayReset(client, taken: sessions[session].http2.resetsTaken, rule)
    }

    /// Finds the abandoned streams of a session that are over.
    mutating func collectEnded(_ session: UpstreamSessionIndex) {
        guard sessions[session].abandoned.open.count > sessions[session].http2.abandonedCount else { return }
        var index = 0
        while index < sessions[session].abandoned.open.count {
            if sessions[session].http2.isAbandoned(sessions[session].abandoned.open[index].stream) {
                index += 1
            } else {
                ended.append(sessions[session].abandoned.remove(at: index))
            }
        }
    }
}

extension Worker {
    /// Closes the connection of an exchange. A stream whose request is not over is reset, within its client's share of the resets; else it
    /// is abandoned, and takes over what the exchange holds of `max-connections`.
    mutating func leave(_ upstream: UpstreamIndex, _ exchange: ExchangeIndex) {
        if let stream = upstreams.connections[upstream].stream, stream.id != .none, !stream.isDetached {
            leave(upstream, stream, exchange)
        }
        upstreams.close(upstream)
    }

    private mutating func leave(_ end: UpstreamIndex, _ stream: UpstreamStream, _ exchange: ExchangeIndex) {
        let share = exchanges[exchange].counts.share
        let client = share.map { downstream.shares[$0].hash } ?? 0
        let mayReset = upstreams.mayReset(client, stream.session, settings.clientShare)
        switch upstreams.detachStream(end, mayReset: mayReset) {
        case .over: break
        case .reset: upstreams.sessions[stream.session].abandoned.wasReset(client)
        case .abandoned:
            if let share { downstream.shares.retain(share) }
            let isCounted = exchanges[exchange].counts.holdings.remove(.connection) != nil
            upstreams.sessions[stream.session].abandoned.add(
                AbandonedStream(
                    stream: stream.id, pool: upstreams.connections[end].endpoint.pool, share: share, client: client, isCounted: isCounted))
        }
    }

    /// Abandoned streams that are over count no more.
    mutating func releaseEnded() {
        for each in upstreams.ended {
            if each.isCounted { release(.connection, each.share, upstreams.directory.pools[each.pool].connections.requests) }
            if let share = each.share { downstream.shares.release(share) }
        }
        upstreams.ended.removeAll(keepingCapacity: true)
    }
}
