import HTTP
import Transport
import Wire

/// Large bodies of known length between plain sockets: their middle goes from one to the other inside the kernel. Their
/// beginning and their last part go the common way, which also sees to the end, so an exchange whose pipe holds anything is
/// never over.
extension Worker {
    /// What is left of a body for the common way.
    private static var tail: UInt64 { 64 * 1_024 }

    /// Pipes of one worker: two descriptors each. Past it, bodies go the common way.
    private static var mostPipes: Int { 256 }

    /// Pipes that are kept for later.
    private static var mostIdlePipes: Int { 32 }

    // MARK: requests

    /// Moves the body of the client's request, if it may go this way now.
    ///
    /// - Returns: whether it may; then there is nothing more to receive for now.
    mutating func pipeRequest(_ client: Int, _ scratch: inout Scratch) -> Bool {
        guard let remaining = clients[client].body.remaining, remaining > Self.tail, clients[client].channel.isPlain,
            clients[client].input.isEmpty, clients[client].phase == .open
        else { return false }
        let exchange = Int(clients[client].exchange.index)
        guard exchanges[exchange].isConnected, exchanges[exchange].isFlushed, !exchanges[exchange].isCut,
            !exchanges[exchange].requestIsChunked, exchanges[exchange].pipedAnswer == 0,
            upstreams[Int(exchanges[exchange].upstream.index)].channel.isPlain, takePipe(exchange)
        else { return false }
        let room = Int(min(remaining - Self.tail, UInt64(clients[client].room.bytes)))
        let socket = clients[client].channel.socket
        let outcome = exchanges[exchange].pipe!.fill(from: socket, upTo: room)
        switch outcome {
        case .done(let count):
            exchanges[exchange].isReplayable = false
            exchanges[exchange].pipedRequest = count
            exchanges[exchange].bodyCount += UInt64(count)
            clients[client].body.passed(count)
            clients[client].arrival.moved(count)
            setBodyDeadline(client)
            clients[client].room.received(count, wasKept: !drainRequest(exchange))
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
    mutating func drainRequest(_ exchange: Int) -> Bool {
        let upstream = Int(exchanges[exchange].upstream.index)
        let socket = upstreams[upstream].channel.socket
        while exchanges[exchange].pipedRequest > 0 {
            switch exchanges[exchange].pipe!.drain(into: socket) {
            case .done(let count):
                exchanges[exchange].wasSent = true
                exchanges[exchange].pipedRequest -= count
            case .wouldBlock:
                refreshUpstreamInterest(upstream)
                return false
            case .closed, .failed:
                cutRequest(exchange, upstream)
                return false
            }
        }
        return true
    }

    // MARK: answers

    /// Moves the body of the answer, if it may go this way now.
    ///
    /// - Returns: whether it may; then there is nothing more to receive for now.
    mutating func pipeAnswer(_ upstream: Int, _ scratch: inout Scratch) -> Bool {
        let exchange = Int(upstreams[upstream].exchange.index)
        guard exchanges[exchange].answerStarted, let remaining = exchanges[exchange].answerBody.remaining, remaining > Self.tail,
            case .length = exchanges[exchange].delimiting, !exchanges[exchange].filter.isJudging, !exchanges[exchange].filter.isHeld
        else { return false }
        let client = Int(exchanges[exchange].client.index)
        guard upstreams[upstream].channel.isPlain, upstreams[upstream].input.isEmpty, clients[client].channel.isPlain,
            !clients[client].hasUnsent, exchanges[exchange].pipedRequest == 0, takePipe(exchange)
        else { return false }
        let room = Int(min(remaining - Self.tail, UInt64(exchanges[exchange].answerRoom.bytes)))
        let socket = upstreams[upstream].channel.socket
        let outcome = exchanges[exchange].pipe!.fill(from: socket, upTo: room)
        switch outcome {
        case .done(let count):
            exchanges[exchange].pipedAnswer = count
            exchanges[exchange].record.bytesOut += UInt64(count)
            exchanges[exchange].answerBody.passed(count)
            upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
            let handle = exchangeHandle(exchange)
            let isTaken = drainAnswer(client, &scratch)
            guard exchanges.isCurrent(handle) else { return true }
            exchanges[exchange].answerRoom.received(count, wasKept: !isTaken)
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
    mutating func drainAnswer(_ client: Int, _ scratch: inout Scratch) -> Bool {
        let exchange = Int(clients[client].exchange.index)
        let socket = clients[client].channel.socket
        while exchanges[exchange].pipedAnswer > 0 {
            switch exchanges[exchange].pipe!.drain(into: socket) {
            case .done(let count):
                exchanges[exchange].pipedAnswer -= count
                guard clients[client].awaitsPipe else { break }
                clients[client].taking.moved(count)
                setTakingDeadline(client)
            case .wouldBlock:
                beginWaiting(client)
                clients[client].awaitsPipe = true
                refreshInterest(client)
                return false
            case .closed, .failed:
                abandon(client, &scratch)
                return false
            }
        }
        clients[client].awaitsPipe = false
        refreshInterest(client)
        return true
    }

    // MARK: pipes

    /// Whether the exchange has a pipe, an old one or a new one.
    private mutating func takePipe(_ exchange: Int) -> Bool {
        if exchanges[exchange].pipe != nil { return true }
        guard let count = pipes, count < Self.mostPipes, let pipe = KernelPipe() else { return false }
        exchanges[exchange].pipe = consume pipe
        pipes = count + 1
        return true
    }

    /// The system cannot move bytes between such sockets, and so will not be asked again. Nothing was taken.
    private mutating func refusePipes(_ exchange: Int) -> Bool {
        exchanges[exchange].pipe = nil
        pipes = nil
        return false
    }

    /// The exchange is over: keeps its pipe if it is empty.
    mutating func releasePipe(_ exchange: Int) {
        guard exchanges[exchange].pipe != nil else { return }
        let isEmpty = exchanges[exchange].pipedRequest == 0 && exchanges[exchange].pipedAnswer == 0
        if !isEmpty || (pipes ?? .max) > Self.mostIdlePipes { dropPipe(exchange) }
    }

    /// Gives up what is in the pipe.
    mutating func dropPipe(_ exchange: Int) {
        exchanges[exchange].pipe = nil
        exchanges[exchange].pipedRequest = 0
        if exchanges[exchange].pipedAnswer > 0 {
            exchanges[exchange].pipedAnswer = 0
            clients[Int(exchanges[exchange].client.index)].awaitsPipe = false
        }
        if let count = pipes { pipes = count - 1 }
    }
}
