import HTTP
import Transport
import Wire

/// Splices the middle of large bodies of known length, and of long frames of WebSockets, between plain sockets. The start and the last
/// 16 KiB are copied, and with them the end: an exchange whose pipe holds bytes is never over, and no pipe holds a frame's end.
extension Worker {
    /// The last part of a body, in bytes, is always copied, so that its end is found in one place.
    private static var tail: UInt64 { 16 * 1_024 }

    /// The least that is spliced of what is left: a pipe for fewer bytes costs more than copying them with the tail.
    private static var least: UInt64 { 32 * 1_024 }

    /// Bytes that may be spliced at once; 0 where the body takes another route.
    private func spliceable(_ direction: BodyDirection, _ exchange: ExchangeIndex) -> Int {
        // A copy has no client, and of a request that is copied all content is read.
        guard exchanges[exchange].rare?.copiedRoute == nil, direction == .answer || exchanges[exchange].rare?.copy == nil else {
            return 0
        }
        let client = exchanges[exchange].client.index
        let upstream = exchanges[exchange].attempt.upstream.index
        guard let remaining = remainingToSplice(direction, exchange), remaining > Self.tail + Self.least,
            exchanges[exchange].pipedCount == 0,
            !downstream.clients[client].isStream, !upstreams.connections[upstream].isStream,
            downstream.clients[client].connection.isPlain, upstreams.connections[upstream].connection.isPlain
        else { return 0 }
        let size = direction == .request ? downstream.clients[client].readSize.bytes : exchanges[exchange].answer.readSize.bytes
        return Int(min(remaining - Self.tail, UInt64(size)))
    }

    /// Bytes of the body, or of the frame, that are still to be received and may go on unread; nil if none may now.
    private func remainingToSplice(_ direction: BodyDirection, _ exchange: ExchangeIndex) -> UInt64? {
        let client = exchanges[exchange].client.index
        let upstream = exchanges[exchange].attempt.upstream.index
        let isTunnel = exchanges[exchange].state.phase == .tunnel
        switch direction {
        case .request:
            guard downstream.clients[client].input.isEmpty, !exchanges[exchange].state.upstreamStoppedReading else { return nil }
            if isTunnel { return exchanges[exchange].isFlushed ? exchanges[exchange].rare?.tunnel?.fromClient.left : nil }
            guard exchanges[exchange].state.phase == .relaying, hasRoom(.request, exchange), !exchanges[exchange].attempt.isChunked,
                downstream.clients[client].phase == .open
            else { return nil }
            return downstream.clients[client].http.bodyRemaining
        case .answer:
            guard upstreams.connections[upstream].input.isEmpty, hasRoom(.answer, exchange) else { return nil }
            if isTunnel { return exchanges[exchange].rare?.tunnel?.fromServer.left }
            guard exchanges[exchange].state.answer == .started, exchanges[exchange].answer.course == .direct,
                downstream.clients[client].http.sendsKnownLength
            else { return nil }
            return upstreams.connections[upstream].http.bodyRemaining
        }
    }

    /// Moves content of this body, if it is spliced now.
    ///
    /// - Returns: whether it is; then there is nothing more to receive for now.
    mutating func splice(_ direction: BodyDirection, _ exchange: ExchangeIndex, _ scratch: inout Scratch) -> Bool {
        let room = spliceable(direction, exchange)
        guard room > 0, acquirePipe(exchange) else { return false }
        let client = exchanges[exchange].client.index
        let upstream = exchanges[exchange].attempt.upstream.index
        exchanges[exchange].pipeDirection = direction
        let source =
            direction == .request ? downstream.clients[client].connection.socket : upstreams.connections[upstream].connection.socket
        let outcome = exchanges[exchange].pipe!.fill(from: source, upTo: room)
        switch (outcome, direction) {
        case (.done(let count), .request):
            exchanges[exchange].passed(count, direction)
            if exchanges[exchange].rare?.tunnel?.passed(count, from: .client, at: now.monotonic) == nil {
                exchanges[exchange].state.streamed()
                downstream.clients[client].http.bodyPassed(count)
                downstream.bodyMoved(client, by: count, at: now.monotonic, settings)
            }
            flushRequest(exchange)
            downstream.clients[client].readSize.received(count, wasKept: !exchanges[exchange].isFlushed)
        case (.done(let count), .answer):
            exchanges[exchange].passed(count, direction)
            if exchanges[exchange].rare?.tunnel?.passed(count, from: .server, at: now.monotonic) == nil {
                upstreams.connections[upstream].http.bodyPassed(count)
                startAnswerClock(exchange, upstream)
            }
            let handle = exchanges.handle(exchange)
            let isTaken = drainAnswer(client, &scratch)
            guard exchanges.isCurrent(handle) else { return true }
            exchanges[exchange].answer.readSize.received(count, wasKept: !isTaken)
            refreshUpstreamInterest(upstream)
        case (.wouldBlock, _): break
        case (.closed, .request): inputClosed(client, &scratch)
        case (.closed, .answer) where exchanges[exchange].rare?.tunnel != nil: serverLeftTunnel(exchange, &scratch)
        case (.closed, .answer): answerInputClosed(upstream, &scratch)
        case (.failed, _) where outcome.isUnsupported:
            // The system cannot splice between such sockets: nothing was moved, and it is not tried again.
            exchanges[exchange].pipe = nil
            pipes = nil
            return false
        case (.failed, .request): abandon(client, &scratch)
        case (.failed, .answer) where exchanges[exchange].rare?.tunnel != nil: serverLeftTunnel(exchange, &scratch)
        case (.failed, .answer): lostWhileReading(upstream, &scratch)
        }
        return true
    }

    /// Sends the client what the pipe holds. The connection may be gone afterwards.
    ///
    /// - Returns: whether nothing waits any more.
    mutating func drainAnswer(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        let exchange = downstream.clients[client].exchange.index
        while exchanges[exchange].pipedCount > 0 {
            switch exchanges[exchange].pipe!.drain(into: downstream.clients[client].connection.socket) {
            case .done(let count):
                if downstream.clients[client].awaitsPipe {
                    downstream.taken(client, count, at: now.monotonic, timeout: settings.sendTimeout)
                }
            case .wouldBlock:
                if !downstream.clients[client].hasUnsent {
                    downstream.startTakingClock(client, at: now.monotonic, timeout: settings.sendTimeout)
                }
                downstream.clients[client].awaitsPipe = true
                refreshInterest(client)
                return false
            case .closed, .failed:
                abandon(client, &scratch)
                return false
            }
        }
        downstream.clients[client].awaitsPipe = false
        refreshInterest(client)
        return true
    }

    // MARK: pipes

    /// Pipes that are kept for later exchanges.
    private static var maxIdlePipes: Int { 32 }

    /// Gives the exchange a pipe, unless it has one; false if there is none to be had.
    private mutating func acquirePipe(_ exchange: ExchangeIndex) -> Bool {
        if exchanges[exchange].pipe != nil { return true }
        guard let count = pipes, count < settings.maxPipes, let pipe = KernelPipe() else { return false }
        exchanges[exchange].pipe = consume pipe
        pipes = count + 1
        return true
    }

    /// The exchange is over: keeps its pipe if it is empty.
    mutating func releasePipe(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].pipe != nil else { return }
        if exchanges[exchange].pipedCount > 0 || (pipes ?? .max) > Self.maxIdlePipes { dropPipe(exchange) }
    }

    /// Closes the pipe, with the bytes in it.
    mutating func dropPipe(_ exchange: ExchangeIndex) {
        if exchanges[exchange].hasPiped(.answer) { downstream.clients[exchanges[exchange].client.index].awaitsPipe = false }
        exchanges[exchange].pipe = nil
        if let count = pipes { pipes = count - 1 }
    }
}
