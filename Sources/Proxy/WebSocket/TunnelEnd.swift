import HTTP
import Telemetry
import Transport
import Wire

/// The end of a WebSocket: a close frame of the gateway between two frames, or the end of either side.
extension Worker {
    /// Milliseconds that a frame under way has to come to its end before the connections are cut.
    private static var frameGrace: UInt64 { 900 }

    /// Milliseconds that an upstream has to end its side.
    private static var lingerTimeout: UInt64 { 2_000 }

    /// The gateway ends the tunnel for this reason. The exchange may be over afterwards.
    mutating func endTunnel(_ exchange: ExchangeIndex, _ reason: StreamEndReason, _ scratch: inout Scratch) {
        closeTunnel(exchange, TunnelClose(reason), &scratch)
    }

    /// One side has broken a rule.
    mutating func failTunnel(_ exchange: ExchangeIndex, _ close: TunnelClose, _ scratch: inout Scratch) {
        exchanges[exchange].rare?.live?.ends(.error)
        exchanges[exchange].record.error = close.error
        closeTunnel(exchange, close, &scratch)
    }

    /// Tells both sides why the tunnel ends, as soon as no frame is under way to them.
    private mutating func closeTunnel(_ exchange: ExchangeIndex, _ close: TunnelClose, _ scratch: inout Scratch) {
        guard exchanges[exchange].rare!.tunnel!.end(close) else { return }
        upstreams.timers.set(
            exchanges[exchange].attempt.upstream.index.id, deadline: now.monotonic.advanced(milliseconds: Self.frameGrace))
        settleTunnel(exchange, &scratch)
    }

    /// Writes the close frames that are due, and ends the tunnel when both sides have one.
    mutating func settleTunnel(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let tunnel = exchanges[exchange].rare!.tunnel!
        if let close = tunnel.close {
            if tunnel.fromClient.mayClose {
                tunnel.fromClient.closed()
                var frame = ByteBuffer()
                close.server.write(to: .server, into: &frame)
                if !exchanges[exchange].state.upstreamStoppedReading { sendToUpstream(exchange, frame.count, of: &frame) }
            }
            if tunnel.fromServer.mayClose {
                tunnel.fromServer.closed()
                if tunnel.isOver { releaseBeforeLastBytes(exchange) }
                let handle = exchanges.handle(exchange)
                var frame = ByteBuffer()
                close.client.write(to: .client, into: &frame)
                sendToClient(exchanges[exchange].client.index, frame.count, of: &frame, &scratch)
                guard exchanges.isCurrent(handle) else { return }
            }
        }
        if tunnel.isOver { finishTunnel(exchange, &scratch) }
    }

    /// Nothing more passes: both connections close when what waits for them has gone out. A frame of the server that is partly in the pipe
    /// cannot end: the client's connection is cut.
    mutating func finishTunnel(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard !exchanges[exchange].hasPiped(.answer) else { return cutAnswer(exchange, &scratch) }
        finishAnswer(exchange, reusable: false, &scratch)
    }

    /// The client has ended its side. One that has said so by a close frame still gets the upstream's.
    mutating func clientLeftTunnel(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange.index
        _ = downstream.clients[client].http.inputClosed()
        exchanges[exchange].noteTunnelEnd(.client)
        let tunnel = exchanges[exchange].rare!.tunnel!
        guard tunnel.fromClient.isOver, tunnel.close == nil else {
            return finishTunnel(exchange, &scratch)
        }
        let timer = exchanges[exchange].attempt.upstream.index.id
        guard !upstreams.timers.isSet(timer) else { return }
        upstreams.timers.set(timer, deadline: now.monotonic.advanced(milliseconds: Self.lingerTimeout))
    }

    /// The upstream has ended its side, or its connection is lost.
    mutating func serverLeftTunnel(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        exchanges[exchange].state.stoppedReading()
        exchanges[exchange].noteTunnelEnd(.upstream)
        finishTunnel(exchange, &scratch)
    }

    /// A frame has not come to its end, or a close frame was not answered.
    mutating func tunnelGraceEnded(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        cutAnswer(upstreams.connections[upstream].exchange.index, &scratch)
    }

    // MARK: the upstream's connection

    /// Its WebSocket is over: sends what waits in `output`, then our end, and drops what still comes. `isSilent`: nothing does.
    mutating func endUpstream(_ upstream: UpstreamIndex, isSilent: Bool) {
        if isSilent, upstreams.connections[upstream].output.isEmpty {
            upstreams.connections[upstream].connection.finishSending()
            return upstreams.close(upstream)
        }
        upstreams.connections[upstream].phase = .ending
        upstreams.connections[upstream].input = ByteBuffer()
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: Self.lingerTimeout))
        flushEnding(upstream)
    }

    private mutating func flushEnding(_ upstream: UpstreamIndex) {
        let token = Token(.upstream, upstreams.connections.handle(upstream)).bits
        while !upstreams.connections[upstream].output.isEmpty {
            switch upstreams.connections[upstream].sendWaiting() {
            case .done: break
            case .wouldBlock: return upstreams.connections[upstream].connection.watch([.read, .write], token: token, in: loop)
            case .closed, .failed: return upstreams.close(upstream)
            }
        }
        upstreams.connections[upstream].connection.finishSending()
        upstreams.connections[upstream].connection.watch(.read, token: token, in: loop)
    }

    mutating func upstreamEnding(_ upstream: UpstreamIndex, _ ready: Ready) {
        let handle = upstreams.connections.handle(upstream)
        if ready.writable, !upstreams.connections[upstream].output.isEmpty { flushEnding(upstream) }
        guard ready.readable || ready.error || ready.hangup else { return }
        var dropped = ByteBuffer()
        while upstreams.connections.isCurrent(handle) {
            dropped.removeAll()
            switch upstreams.connections[upstream].connection.receive(into: &dropped, upTo: 16 * 1_024) {
            case .done: if !upstreams.connections[upstream].connection.hasPending { return }
            case .wouldBlock: return
            case .closed, .failed: upstreams.close(upstream)
            }
        }
    }
}

extension Exchange {
    /// Notes which side ends the tunnel, unless that is known. The gateway may still end the other side.
    mutating func noteTunnelEnd(_ reason: StreamEndReason) {
        if rare?.tunnel?.leftBy == nil { rare?.tunnel?.leftBy = reason }
    }
}
