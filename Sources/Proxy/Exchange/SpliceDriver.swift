import HTTP
import Transport
import Wire

/// Large bodies of known length between plain sockets: their middle goes from one to the other inside the kernel. Their
/// beginning and their last part go the common way, which also sees to the end, so an exchange whose pipe holds anything is
/// never over.
extension Worker {
    /// Pipes of one worker: two descriptors each. Past it, bodies go the common way.
    private static var mostPipes: Int { 256 }

    /// Pipes that are kept for later.
    private static var mostIdlePipes: Int { 32 }

    // MARK: requests

    /// Moves the body of the client's request, if it may go this way now.
    ///
    /// - Returns: whether it may; then there is nothing more to receive for now.
    mutating func spliceRequest(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        guard let remaining = downstream.clients[client].http.bodyRemaining, remaining > BodyRoute.tail, downstream.clients[client].connection.isPlain,
            downstream.clients[client].input.isEmpty, downstream.clients[client].phase == .open
        else { return false }
        let exchange = downstream.clients[client].exchange.index
        guard exchanges[exchange].state.phase == .relaying, exchanges[exchange].isFlushed,
            !exchanges[exchange].state.upstreamStoppedReading,
            !exchanges[exchange].requestIsChunked, exchanges[exchange].pipedAnswer == 0,
            upstreams.connections[exchanges[exchange].upstream.index].connection.isPlain, takePipe(exchange)
        else { return false }
        let room = Int(min(remaining - BodyRoute.tail, UInt64(downstream.clients[client].readSize.bytes)))
        let socket = downstream.clients[client].connection.socket
        let outcome = exchanges[exchange].pipe!.fill(from: socket, upTo: room)
        switch outcome {
        case .done(let count):
            exchanges[exchange].state.streamed()
            exchanges[exchange].pipedRequest = count
            exchanges[exchange].bodyCount += UInt64(count)
            downstream.clients[client].http.bodyPassed(count)
            downstream.clients[client].arrival.moved(count)
            downstream.setBodyDeadline(client, timeout: settings.bodyTimeout)
            downstream.clients[client].readSize.received(count, wasKept: !drainRequest(exchange))
        case .wouldBlock: break
        case .closed: inputClosed(client, &scratch)
        case .failed:
            if outcome.isUnsupported { return refusePipes(exchange) }
            abandon(client, &scratch)
        }
        return true
    }

    /// Sends on what waits for the upstream.
    ///
    /// - Returns: whether nothing waits any more.
    mutating func drainRequest(_ exchange: ExchangeIndex) -> Bool {
        let upstream = exchanges[exchange].upstream.index
        let socket = upstreams.connections[upstream].connection.socket
        while exchanges[exchange].pipedRequest > 0 {
            switch exchanges[exchange].pipe!.drain(into: socket) {
            case .done(let count):
                exchanges[exchange].state.sent()
                exchanges[exchange].pipedRequest -= count
            case .wouldBlock:
                refreshUpstreamInterest(upstream)
                return false
            case .closed, .failed:
                upstreamStoppedReading(exchange, upstream)
                return false
            }
        }
        return true
    }

    // MARK: answers

    /// Moves the body of the answer, if it may go this way now.
    ///
    /// - Returns: whether it may; then there is nothing more to receive for now.
    mutating func spliceAnswer(_ upstream: UpstreamIndex, _ scratch: inout Scratch) -> Bool {
        let exchange = upstreams.connections[upstream].exchange.index
        let client = exchanges[exchange].client.index
        guard let remaining = upstreams.connections[upstream].http.bodyRemaining, remaining > BodyRoute.tail,
            exchanges[exchange].state.answer == .started, downstream.clients[client].http.sendsKnownLength,
            !exchanges[exchange].filter.isJudging
        else { return false }
        guard upstreams.connections[upstream].connection.isPlain, upstreams.connections[upstream].input.isEmpty, downstream.clients[client].connection.isPlain,
            !downstream.clients[client].hasUnsent, exchanges[exchange].pipedRequest == 0, takePipe(exchange)
        else { return false }
        let room = Int(min(remaining - BodyRoute.tail, UInt64(exchanges[exchange].answerReadSize.bytes)))
        let socket = upstreams.connections[upstream].connection.socket
        let outcome = exchanges[exchange].pipe!.fill(from: socket, upTo: room)
        switch outcome {
        case .done(let count):
            exchanges[exchange].pipedAnswer = count
            exchanges[exchange].record.bytesOut += UInt64(count)
            upstreams.connections[upstream].http.bodyPassed(count)
            upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
            let handle = exchanges.handle(exchange)
            let isTaken = drainAnswer(client, &scratch)
            guard exchanges.isCurrent(handle) else { return true }
            exchanges[exchange].answerReadSize.received(count, wasKept: !isTaken)
            refreshUpstreamInterest(upstream)
        case .wouldBlock: break
        case .closed: answerInputClosed(upstream, &scratch)
        case .failed:
            if outcome.isUnsupported { return refusePipes(exchange) }
            lostWhileReading(upstream, &scratch)
        }
        return true
    }

    /// Sends on what waits for the client. The connection may be gone afterwards.
    ///
    /// - Returns: whether nothing waits any more.
    mutating func drainAnswer(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        let exchange = downstream.clients[client].exchange.index
        let socket = downstream.clients[client].connection.socket
        while exchanges[exchange].pipedAnswer > 0 {
            switch exchanges[exchange].pipe!.drain(into: socket) {
            case .done(let count):
                exchanges[exchange].pipedAnswer -= count
                guard downstream.clients[client].awaitsPipe else { break }
                downstream.clients[client].taking.moved(count)
                downstream.setTakingDeadline(client, at: now.monotonic, timeout: settings.sendTimeout)
            case .wouldBlock:
                downstream.beginWaiting(client, at: now.monotonic, timeout: settings.sendTimeout)
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

    /// Whether the exchange has a pipe, an old one or a new one.
    private mutating func takePipe(_ exchange: ExchangeIndex) -> Bool {
        if exchanges[exchange].pipe != nil { return true }
        guard let count = pipes, count < Self.mostPipes, let pipe = KernelPipe() else { return false }
        exchanges[exchange].pipe = consume pipe
        pipes = count + 1
        return true
    }

    /// The system cannot move bytes between such sockets, and so will not be asked again. Nothing was taken.
    private mutating func refusePipes(_ exchange: ExchangeIndex) -> Bool {
        exchanges[exchange].pipe = nil
        pipes = nil
        return false
    }

    /// The exchange is over: keeps its pipe if it is empty.
    mutating func releasePipe(_ exchange: ExchangeIndex) {
        guard exchanges[exchange].pipe != nil else { return }
        let isEmpty = exchanges[exchange].pipedRequest == 0 && exchanges[exchange].pipedAnswer == 0
        if !isEmpty || (pipes ?? .max) > Self.mostIdlePipes { dropPipe(exchange) }
    }

    /// Gives up what is in the pipe.
    mutating func dropPipe(_ exchange: ExchangeIndex) {
        exchanges[exchange].pipe = nil
        exchanges[exchange].pipedRequest = 0
        if exchanges[exchange].pipedAnswer > 0 {
            exchanges[exchange].pipedAnswer = 0
            downstream.clients[exchanges[exchange].client.index].awaitsPipe = false
        }
        if let count = pipes { pipes = count - 1 }
    }
}
