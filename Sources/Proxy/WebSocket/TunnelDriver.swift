import Credentials
import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// WebSockets: the upstream's acceptance, and the frames both ways with backpressure.
extension Worker {
    // MARK: the beginning

    /// The upstream has answered a handshake with the 101 in `scratch.response`, the start of `input`: checks it, passes it on, and opens
    /// the tunnel. Frames that the upstream has sent behind it are passed on too, as far as the client takes them.
    mutating func tunnelBegan(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        let handle = exchanges.handle(exchange)
        let request = exchanges[exchange].attempt.takeReplay()
        let offerBytes = request.readable.dropping(request.count - exchanges[exchange].attempt.head.offer)
        let offer = WebSocketOffer(offerBytes)
        let accept = offer.accept(offerBytes) { Digest.sha1($0) }
        let acceptance = WebSocketAcceptance(scratch.response, input.readable, to: offer, offerBytes, accept: accept.readable)
        guard let acceptance, !upstreams.connections[upstream].isStream else {
            return lost(upstream, .badAnswer, &scratch)
        }
        writeAcceptance(exchange, input.readable, acceptance, accept: accept.readable, &scratch)
        input.discard(scratch.response.length)
        openTunnel(exchange, upstream, acceptance)
        guard sendGathered(handle, &scratch) else { return }
        guard openStream(exchange, .websocket, &scratch) else { return }
        serverSent(exchange, &input, &scratch)
        guard exchanges.isCurrent(handle), downstream.clients[exchanges[exchange].client.index].inputEnded else { return }
        clientLeftTunnel(exchanges[exchange].client.index, &scratch)
    }

    private mutating func writeAcceptance(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ acceptance: WebSocketAcceptance, accept: RawSpan, _ scratch: inout Scratch
    ) {
        let client = exchanges[exchange].client.index
        let isHTTP2 = downstream.clients[client].isStream
        _ = downstream.clients[client].http.sendHead(.untilClose)
        ForwardedResponse.writeAcceptance(
            scratch.response, bytes, isHTTP2: isHTTP2, accept: accept,
            saysBearer: exchanges[exchange].request.offersBearer && !acceptance.hasSubprotocol,
            requestID: exchanges[exchange].buffers.requestID.readable, edits: exchanges[exchange].buffers.answerEdits, into: &scratch.output
        )
        exchanges[exchange].record.status = isHTTP2 ? 200 : 101
        upstreams.directory.answerBegan(exchanges[exchange].attempt.endpoint)
        upstreams.directory.answerEnded(exchanges[exchange].attempt.endpoint)
        telemetry.attemptEnded(&exchanges[exchange].record, status: scratch.response.status, at: now.monotonic)
    }

    private mutating func openTunnel(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ acceptance: WebSocketAcceptance) {
        let client = exchanges[exchange].client.index
        exchanges[exchange].state.upgraded()
        exchanges[exchange].makeRare().tunnel = Tunnel(acceptance, at: now.monotonic)
        exchanges[exchange].buffers.answerEdits = FieldEdits()
        upstreams.connections[upstream].phase = .tunnel
        upstreams.timers.clear(upstream.id)
        downstream.clients[client].phase = .tunnel
        downstream.timers.set(client.id, deadline: idleDeadline(exchange))
    }

    // MARK: from the client

    /// Passes on the frames of the client. What it leaves in `input` waits for the rest of a header, or for the upstream to take what came
    /// before.
    mutating func tunnelReceived(_ client: ClientIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange.index
        guard exchanges[exchange].isFlushed else { return }
        let before = input.count
        let tunnel = exchanges[exchange].rare!.tunnel!
        let step = tunnel.fromClient.advance(input.readable, endsFrame: tunnel.close != nil)
        tunnel.movedAt = now.monotonic
        exchanges[exchange].passed(step.count, .request)
        if exchanges[exchange].state.upstreamStoppedReading {
            input.discard(step.count)
        } else if step.count > 0 {
            sendToUpstream(exchange, step.count, of: &input)
        }
        if tunnel.fromClient.isOver { exchanges[exchange].noteTunnelEnd(.client) }
        if step.isFaulty || tunnel.fromClient.isOver { input.removeAll() }
        if downstream.clients[client].isStream { downstream.clients[client].http.message.taken(before - input.count) }
        if step.isFaulty { return failTunnel(exchange, .fault(of: .client), &scratch) }
        if step.controls > 0, !tunnel.mayControl(step.controls, at: now.monotonic) {
            return failTunnel(exchange, .abuse, &scratch)
        }
        settleTunnel(exchange, &scratch)
    }

    // MARK: from the upstream

    mutating func tunnelReady(_ upstream: UpstreamIndex, _ ready: Ready, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        if ready.writable { flushRequest(upstreams.connections[upstream].exchange.index) }
        if ready.readable || ready.error || ready.hangup, upstreams.connections.isCurrent(handle) { receiveTunnel(upstream, &scratch) }
    }

    /// Receives once; with TLS, everything that the session holds.
    private mutating func receiveTunnel(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        let exchange = upstreams.connections[upstream].exchange.index
        if splice(.answer, exchange, &scratch) { return }
        repeat {
            var input = scratch.takeInput(behind: &upstreams.connections[upstream].input)
            let outcome = upstreams.connections[upstream].connection.receive(into: &input, upTo: exchanges[exchange].answer.readSize.bytes)
            if case .done = outcome { serverSent(exchange, &input, &scratch) }
            upstreams.keepInput(input, of: handle)
            scratch.putBack(input)
            guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].phase == .tunnel else { return }
            switch outcome {
            case .done(let count): exchanges[exchange].answer.readSize.received(count, wasKept: !hasRoom(.answer, exchange))
            case .wouldBlock: return
            case .closed, .failed: return serverLeftTunnel(exchange, &scratch)
            }
        } while upstreams.connections[upstream].connection.interest.contains(.read) && upstreams.connections[upstream].connection.hasPending
    }

    /// Passes on the frames of the upstream. The header of the last one may be incomplete: it stays in `input`.
    private mutating func serverSent(_ exchange: ExchangeIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = exchanges.handle(exchange)
        let tunnel = exchanges[exchange].rare!.tunnel!
        let step = tunnel.fromServer.advance(input.readable, endsFrame: tunnel.close != nil)
        tunnel.movedAt = now.monotonic
        exchanges[exchange].passed(step.count, .answer)
        // The server's close frame, after which the client may open its next WebSocket.
        if tunnel.isOver { releaseBeforeLastBytes(exchange) }
        if step.count > 0 { sendToClient(exchanges[exchange].client.index, step.count, of: &input, &scratch) }
        guard exchanges.isCurrent(handle) else { return input.removeAll() }
        if tunnel.fromServer.isOver { exchanges[exchange].noteTunnelEnd(.upstream) }
        if step.isFaulty || tunnel.fromServer.isOver { input.removeAll() }
        if step.isFaulty {
            failTunnel(exchange, .fault(of: .server), &scratch)
        } else {
            settleTunnel(exchange, &scratch)
        }
        if exchanges.isCurrent(handle) { refreshUpstreamInterest(exchanges[exchange].attempt.upstream.index) }
    }

    /// A tunnel may have begun: with TLS, frames that came with the 101 are in the session.
    mutating func continueTunnel(_ upstream: Handle<UpstreamConnection>, _ scratch: inout Scratch) {
        guard upstreams.connections.isCurrent(upstream), upstreams.connections[upstream.index].phase == .tunnel,
            upstreams.connections[upstream.index].connection.interest.contains(.read),
            upstreams.connections[upstream.index].connection.hasPending
        else { return }
        receiveTunnel(upstream.index, &scratch)
    }

    /// The client has taken all that waited: the upstream is read again.
    mutating func resumeTunnel(_ client: ClientIndex, _ scratch: inout Scratch) {
        let upstream = exchanges[downstream.clients[client].exchange.index].attempt.upstream
        refreshUpstreamInterest(upstream.index)
        continueTunnel(upstream, &scratch)
    }

    // MARK: time

    private func idleDeadline(_ exchange: ExchangeIndex) -> MonotonicTime {
        let timeout = max(settings.webSocketIdleTimeout, exchanges[exchange].attempt.timeout)
        return (exchanges[exchange].rare?.tunnel?.movedAt ?? now.monotonic).advanced(milliseconds: timeout)
    }

    /// The timer is not set with each frame: it finds out how long nothing has come.
    mutating func tunnelTimedOut(_ client: ClientIndex, _ scratch: inout Scratch) {
        guard !downstream.clients[client].hasUnsent else { return abandon(client, cause: .sendTimeout, &scratch) }
        let exchange = downstream.clients[client].exchange.index
        let deadline = idleDeadline(exchange)
        guard now.monotonic >= deadline else { return downstream.timers.set(client.id, deadline: deadline) }
        endStream(exchange, .idle, &scratch)
    }
}
