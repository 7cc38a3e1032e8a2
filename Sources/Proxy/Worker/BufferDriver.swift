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
    var shares = 0
}

/// Counts the memory of heads and bodies that wait, for all and for each client.
extension Worker {
    /// Whether a request of the exchange's client would take more memory than there is for it. Up to twice the bound a client that holds
    /// nothing gets some all the same: those that hold much are about to give it back.
    @inline(__always)
    func lacksMemory(_ exchange: ExchangeIndex) -> OverloadReason? {
        guard let share = exchanges[exchange].counts.share else { return nil }
        if downstream.shares[share].buffers.areBeyondShare { return .share }
        guard load.isShortOfMemory else { return nil }
        let mayExceed = settings.clientShare != .all && !load.isOutOfMemory && downstream.shares[share].buffers.counted == 0
        return mayExceed ? nil : .buffers
    }

    /// Twice a second, and more often while memory is short: counts the bytes of heads and bodies that wait in this worker, some in each
    /// turn of the loop until it has them all.
    mutating func countBuffersIfDue(_ scratch: inout Scratch) {
        guard load.isCountDue(now.monotonic) else { return }
        var left = BufferCount.looksOfTurn
        for client in downstream.clients.indices(from: load.counting.clients, most: left) {
            load.counting.clients += 1
            left -= 1
            guard downstream.clients[client].phase != .free else { continue }
            count(downstream.clients[client].input.count + downstream.clients[client].output.count, for: share(of: client))
        }
        for exchange in exchanges.indices(from: load.counting.exchanges, most: left) {
            load.counting.exchanges += 1
            left -= 1
            guard exchanges[exchange].state.phase != .answered else { continue }
            guard !endsForMemory(exchange, &scratch) else { continue }
            count(exchanges[exchange].bufferedBytes, for: exchanges[exchange].counts.share)
        }
        for upstream in upstreams.connections.indices(from: load.counting.upstreams, most: left) {
            load.counting.upstreams += 1
            left -= 1
            guard upstreams.connections[upstream].phase != .free else { continue }
            let exchange = upstreams.connections[upstream].exchange
            count(
                upstreams.connections[upstream].input.count + upstreams.connections[upstream].output.count,
                for: exchange.isNone ? nil : exchanges[exchange.index].counts.share)
        }
        let looked = downstream.shares.settleBuffers(
            from: load.counting.shares, most: left, taken: load.bytesOfAll, limit: settings.maxBuffers, isShort: load.isShortOfMemory,
            settings.clientShare)
        load.counting.shares += looked
        left -= looked
        if left > 0 { load.counted(load.counting.bytes, within: settings.maxBuffers, at: now.monotonic) }
    }

    /// Adds to the count under way, and to that of the client for whose share the bytes count.
    private mutating func count(_ bytes: Int, for share: ShareIndex?) {
        load.counting.bytes += bytes
        downstream.shares.count(bytes, for: share)
    }

    /// The client for whose share a connection's bytes count.
    private func share(of client: ClientIndex) -> ShareIndex? {
        let exchange = downstream.clients[client].exchange
        return downstream.clients[client].share ?? (exchange.isNone ? nil : exchanges[exchange.index].counts.share)
    }

    /// Memory is short, and the exchange's client holds much of it: ends the exchange, if it holds some. Otherwise one client whose
    /// requests grow together would hold back all others.
    private mutating func endsForMemory(_ exchange: ExchangeIndex, _ scratch: inout Scratch) -> Bool {
        guard load.isShortOfMemory, exchanges[exchange].rare?.fetch == nil, let share = exchanges[exchange].counts.share,
            downstream.shares[share].buffers.excess > 0
        else {
            return false
        }
        let client = exchanges[exchange].client
        var bytes = exchanges[exchange].bufferedBytes + downstream.clients[client.index].input.count
        bytes += downstream.clients[client.index].output.count
        guard bytes >= ClientBuffers.unit else { return false }
        downstream.shares.freed(bytes, of: share)
        noteShed(exchange, .share)
        guard exchanges[exchange].mayStillBeRefused else {
            abandon(client.index, &scratch)
            return true
        }
        releaseUpstream(exchange, reusable: false)
        exchanges[exchange].record.isBeyondBound = true
        answer(exchange, with: .unavailable(.overload, retryAfterSeconds: 1), &scratch)
        resumeClient(client, &scratch)
        return true
    }
}

extension Exchange {
    /// Bytes of the request and of the answer's stages that wait in memory.
    fileprivate var bufferedBytes: Int {
        buffers.heldHead.count + attempt.replay.count + attempt.pending.count + answer.heldBytes + (rare?.heldBytes ?? 0)
    }

    /// Whether it has a target and the client has received none of its answer.
    fileprivate var mayStillBeRefused: Bool {
        switch state.phase {
        case .collecting, .connecting, .relaying: state.answer != .started
        case .deciding, .waiting, .producing, .tunnel, .finishing, .answered: false
        }
    }
}
