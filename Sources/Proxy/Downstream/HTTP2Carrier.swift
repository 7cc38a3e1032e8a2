import HTTP
import Transport
import Wire

/// One HTTP/2 connection beside its `Client`: the machine, and where its turns are. The streams' ends are clients of their own, whose
/// `input` is content that no exchange has taken yet, and whose `output` is content that no window has let pass.
struct HTTP2Carrier: ~Copyable {
    var http2 = HTTP2Core.server()
    /// Whether it is in `Downstream.unsettled`.
    var isUnsettled = false
    /// Whether streams were under way since it last idled.
    var wasBusy = true
    /// When a connection without streams is closed, whatever frames come.
    var idlesUntil = MonotonicTime(nanoseconds: 0)
    /// Whether the header timeout runs for part of a frame.
    var isInsideFrame = false
    /// Whether frames were held back: the client has not taken those before, or has begun many requests at once.
    var isHeldBack = false
    /// Whether so much waited for the socket that streams have paused.
    var wasFull = false
    /// The stream whose turn is next.
    var turn = 0
}

extension Downstream {
    /// Bytes that wait for the client's socket above which no more frames are read or written.
    static var maxBacklog: Int { 64 * 1_024 }

    /// The state in which a connection of this listener begins, without TLS.
    func openingPhase(_ listener: Int) -> Client.Phase {
        listeners[listener].allowsHTTP2 && listeners[listener].tls == nil ? .greeting : .open
    }

    // MARK: turns

    /// Settles the session at the end of the turn: the frames of all its streams leave with one system call.
    mutating func settleLater(_ client: ClientIndex) {
        guard let session = clients[client].session, !sessions[session].isUnsettled else { return }
        sessions[session].isUnsettled = true
        unsettled.append(clients.handle(client))
    }

    /// Whether the session is settled at the end of the turn: its interest too.
    func isUnsettled(_ client: ClientIndex) -> Bool {
        guard let session = clients[client].session else { return false }
        return sessions[session].isUnsettled
    }

    // MARK: room

    /// Backpressure: whether the client takes more content of its answer.
    func hasRoom(_ client: ClientIndex) -> Bool {
        guard let stream = clients[client].stream else { return !clients[client].hasUnsent }
        return !clients[client].hasUnsent && clients[stream.connection].output.count < Self.maxBacklog && !lacksWindow(client)
    }

    /// Whether the stream's content waits for a window.
    func lacksWindow(_ client: ClientIndex) -> Bool {
        guard let stream = clients[client].stream, stream.hasHead else { return false }
        return sessions[stream.session].http2.room(of: stream.id) == 0
    }

    // MARK: sending

    /// Writes a head of an answer, whose fields are a block of HPACK. It needs no window, so it leaves before what waits for one.
    mutating func sendHead(_ status: Int, _ fields: RawSpan, isFinal: Bool, to client: ClientIndex) {
        guard let stream = clients[client].stream else { return }
        sessions[stream.session].http2.sendHead(status, fields, on: stream.id, into: &clients[stream.connection].output)
        if isFinal { clients[client].stream?.hasHead = true }
        settleLater(stream.connection)
    }

    /// Writes the first `count` bytes of `input`, heads and content of an answer, as frames of the stream; what the windows do not
    /// allow waits in its output.
    mutating func sendOnStream(
        _ client: ClientIndex, _ count: Int, of input: inout ByteBuffer, at now: MonotonicTime, timeout: UInt64
    ) {
        guard let stream = clients[client].stream else { return }
        var left = count
        while left > 0, clients[client].stream?.hasHead == false {
            let head = sessions[stream.session].http2.sendHead(input.readable, on: stream.id, into: &clients[stream.connection].output)
            clients[client].stream?.hasHead = head.isFinal
            input.discard(head.length)
            left -= head.length
        }
        let waited = clients[client].hasUnsent
        if !waited {
            let written = sessions[stream.session].http2.sendContent(
                input.readable.extracting(0..<left), on: stream.id, upTo: Self.maxBacklog, into: &clients[stream.connection].output)
            input.discard(written)
            left -= written
        }
        if left > 0 { clients[client].output.move(left, from: &input) }
        let lacksWindow = lacksWindow(client)
        clients[client].stream?.awaitsWindow = lacksWindow
        if !waited, left > 0 || lacksWindow { startTakingClock(client, at: now, timeout: timeout) }
        settleLater(stream.connection)
    }

    /// Gives a stream one turn: writes a frame of what waits. Returns how many bytes.
    mutating func writeTurn(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) -> Int {
        guard let stream = clients[client].stream, !clients[client].output.isEmpty else { return 0 }
        let isLast = clients[client].phase == .flushing(lingering: false) && clients[client].trailers.isEmpty
        var waiting = ByteBuffer()
        swap(&waiting, &clients[client].output)
        let sent = sessions[stream.session].http2.sendContent(
            waiting.readable, isLast: isLast, on: stream.id, into: &clients[stream.connection].output)
        waiting.discard(sent)
        if waiting.isEmpty { waiting = ByteBuffer() }
        swap(&waiting, &clients[client].output)
        if sent > 0 { taken(client, sent, at: now, timeout: timeout) }
        return sent
    }

    // MARK: the end of a stream

    /// The answer is complete: ends the stream if all of it was written. The rest of the request is dropped for a while: clients that
    /// are reset together with the answer, or that write all of the request before they read, lose it.
    mutating func finishStreamIfSent(_ client: ClientIndex, at now: MonotonicTime) {
        guard let stream = clients[client].stream, clients[client].output.isEmpty else { return }
        var trailers = ByteBuffer()
        swap(&trailers, &clients[client].trailers)
        sessions[stream.session].http2.sendEnd(trailers.readable, on: stream.id, into: &clients[stream.connection].output)
        guard sessions[stream.session].http2.isRequestOpen(stream.id) else { return close(client) }
        settleLater(stream.connection)
        clients[client].phase = .lingering
        clients[client].arrival.begin(at: now)
        dropped(0, of: client, hasEnded: false)
    }

    /// Bytes a second that prolong the time in which a request that was answered is dropped.
    private static var lingerRate: UInt64 { 65_536 }

    /// So much of a request that was answered was dropped, or its end: closes the stream when that is enough.
    mutating func dropped(_ count: Int, of client: ClientIndex, hasEnded: Bool) {
        clients[client].arrival.moved(count)
        if hasEnded || clients[client].arrival.bytes > Self.maxLingered { return close(client) }
        timers.set(client.id, deadline: clients[client].arrival.deadline(allowance: Self.lingerTimeout, rate: Self.lingerRate))
    }

    /// The stream's end is closed: it does not count any more, and is reset if it is not over.
    mutating func releaseStream(_ client: ClientIndex) {
        guard let stream = clients[client].stream else { return }
        streams -= 1
        sessions[stream.session].http2.release(stream.id, into: &clients[stream.connection].output)
        settleLater(stream.connection)
    }
}
