import HTTP
import Transport
import Wire

/// One HTTP/2 connection to an upstream beside its `UpstreamConnection`: the machine, and where its turns are. The streams' ends are
/// upstream connections of their own, whose `input` is what has come of the answer and no client has taken yet.
struct UpstreamCarrier: ~Copyable {
    /// Bytes that wait for the socket above which no more content of requests is written.
    static let maxBacklog = 64 * 1_024
    /// Above it no more frames are read. More than `maxBacklog`: an upstream that reads nothing before its answers are read would
    /// otherwise wait for the gateway, and the gateway for it.
    static let maxUnsent = 2 * maxBacklog
    /// Requests that wait for one connection before any has said how many it takes.
    static let maxStreams = 100

    var http2 = HTTP2Core.client()
    /// Whether it is in `Upstreams.unsettled`.
    var isUnsettled = false
    /// Whether the upstream has begun a request on it: then the server may have closed it without our knowing yet, and retries of those
    /// that it leaves behind come to an end.
    var wasUsed = false
    /// Whether it has no streams, and is counted so.
    var isIdle = false
    /// Whether streams were under way since it last idled.
    var wasBusy = true
    /// Whether sending has failed. What the upstream has said before is still read.
    var isBroken = false
    /// Whether frames were held back because too much waited for the socket.
    var isHeldBack = false
    /// The stream whose turn to send is next.
    var turn = 0
    /// Counts the writes to the socket.
    var writes: UInt32 = 0
    /// When the upstream last sent something, and when it was last pinged.
    var heardAt = MonotonicTime(nanoseconds: 0)
    var pingedAt: MonotonicTime?
    var readSize = AdaptiveReadSize()
    /// Ends of streams that wait until the upstream has said how many it takes.
    var waiting: [UpstreamIndex] = []
    /// Ends of streams that have received something in the bytes that are being read.
    var touched: [Handle<UpstreamConnection>] = []
    /// Streams of requests that were given up.
    var abandoned = AbandonedStreams()
    /// The next session to the same address.
    var next: UpstreamIndex?

    /// Requests under way or waiting.
    var load: Int { http2.streamCount + waiting.count }
}

/// The place of a stream's end: its connection and session.
struct UpstreamStream {
    let connection: UpstreamIndex
    let session: UpstreamSessionIndex
    /// `none` while it waits for the connection.
    var id = StreamID.none
    /// The session's `writes` when its head was written.
    var writtenAt: UInt32 = 0
    /// Whether it is in the session's `touched`.
    var isTouched = false
    /// Whether its answer is held because the client has no room.
    var isPaused = false
    /// Whether it needs the connection no more: the answer is complete here, or the request goes elsewhere.
    var isDetached = false
}

/// The HTTP/2 connections of a worker to its upstreams.
extension Upstreams {
    // MARK: sessions

    /// Makes the connection one that may speak HTTP/2: requests may wait for it. `takesRequests`: it is not for a health check.
    mutating func addSession(_ upstream: UpstreamIndex, takesRequests: Bool) {
        let session = sessions.acquire().index
        connections[upstream].session = session
        guard takesRequests else { return }
        let endpoint = connections[upstream].endpoint
        sessions[session].next = directory[endpoint].sessionHead
        directory[endpoint].sessionHead = upstream
    }

    /// The connection to which the next request to this address goes: an established one with the fewest streams, else one that is
    /// being established; nil if all are full. `isNew`: only those that have not been used.
    func connectionWithRoom(_ endpoint: EndpointIndex, isNew: Bool) -> UpstreamIndex? {
        var best: UpstreamIndex?
        var least = Int.max
        var at = directory.pools[endpoint.pool].endpoints[endpoint.number].sessionHead
        while let connection = at, let session = connections[connection].session {
            at = sessions[session].next
            if isNew, sessions[session].wasUsed { continue }
            let isEstablished = connections[connection].phase == .multiplexed
            let load = isEstablished ? sessions[session].load : sessions[session].load + UpstreamCarrier.maxStreams
            guard load < least, isEstablished ? takesStream(session) : sessions[session].waiting.count < roomWhileConnecting(endpoint)
            else {
                continue
            }
            best = connection
            least = load
        }
        return best
    }

    /// Whether one more request may be sent on the session, which is established.
    func takesStream(_ session: UpstreamSessionIndex) -> Bool { sessions[session].http2.acceptsMore && !sessions[session].isBroken }

    /// Single flight: requests that wait for one connection rather than open another, by what the address accepted last.
    private func roomWhileConnecting(_ endpoint: EndpointIndex) -> Int {
        if directory.pools[endpoint.pool].endpoints[endpoint.number].choseHTTP1 { return 1 }
        return max(1, directory.pools[endpoint.pool].endpoints[endpoint.number].streamsPerConnection)
    }

    /// No more requests are sent on the session.
    mutating func unlinkSession(_ upstream: UpstreamIndex) {
        guard let session = connections[upstream].session else { return }
        let endpoint = connections[upstream].endpoint
        let next = sessions[session].next
        sessions[session].next = nil
        guard directory[endpoint].sessionHead != upstream else {
            directory[endpoint].sessionHead = next
            return
        }
        var at = directory[endpoint].sessionHead
        while let current = at, let other = connections[current].session {
            at = sessions[other].next
            if at == upstream {
                sessions[other].next = next
                return
            }
        }
    }

    /// Frees the session of a connection that has ended, or that speaks HTTP/1.1 after all.
    mutating func releaseSession(_ upstream: UpstreamIndex) {
        unlinkSession(upstream)
        guard let session = connections[upstream].session else { return }
        connections[upstream].session = nil
        ended += sessions[session].abandoned.open
        sessions[session] = UpstreamCarrier()
        sessions.release(session)
    }

    /// Whether the connection speaks HTTP/2 and has no streams.
    func isIdleSession(_ upstream: UpstreamIndex) -> Bool {
        guard connections[upstream].phase == .multiplexed, let session = connections[upstream].session else { return false }
        return sessions[session].isIdle
    }

    /// Whether the connection has nothing more to do: it has no streams and takes no more, or only abandoned ones, which its end resets.
    func isSessionOver(_ upstream: UpstreamIndex) -> Bool {
        guard connections[upstream].phase == .multiplexed, let session = connections[upstream].session, sessions[session].load == 0 else {
            return false
        }
        let endpoint = connections[upstream].endpoint
        return sessions[session].http2.isGoingAway || sessions[session].http2.abandonedCount > 0 || sessions[session].isBroken
            || directory[endpoint].isRetired || directory.pools[endpoint.pool].isOverBound
    }

    /// Settles the session at the end of the turn: the frames of all its streams leave with one system call.
    mutating func settleLater(_ upstream: UpstreamIndex) {
        guard let session = connections[upstream].session, !sessions[session].isUnsettled else { return }
        sessions[session].isUnsettled = true
        unsettled.append(connections.handle(upstream))
    }

    // MARK: streams

    /// Makes the end of a stream, which waits for the connection.
    mutating func addStream(_ connection: UpstreamIndex, _ session: UpstreamSessionIndex) -> UpstreamIndex {
        let end = connections.acquire().index
        connections[end].endpoint = connections[connection].endpoint
        connections[end].phase = .connecting
        connections[end].stream = UpstreamStream(connection: connection, session: session)
        connections[end].http.streamBegan()
        sessions[session].waiting.append(end)
        sessions[session].wasBusy = true
        guard sessions[session].isIdle else { return end }
        sessions[session].isIdle = false
        idleEnded(connection)
        return end
    }

    /// Some end of a stream of the session; nil if it has none.
    func anyStream(_ session: UpstreamSessionIndex) -> UpstreamIndex? {
        if let end = sessions[session].waiting.last { return end }
        return sessions[session].http2.streamCount > 0 ? UpstreamIndex(number: sessions[session].http2.owner(at: 0)) : nil
    }

    /// Opens the stream with the head of its request; returns the head's length, or nil if the upstream takes no more streams.
    /// `fields`: those of the head that are a block already. `isWhole`: the client ended the request with its head.
    mutating func openStream(_ end: UpstreamIndex, _ request: RawSpan, fields: Range<Int>?, isWhole: Bool) -> Int? {
        guard let stream = connections[end].stream else { return nil }
        let isSecure = directory.address(connections[end].endpoint).tls != nil
        guard
            let sent = sessions[stream.session].http2.sendRequest(
                request, fields: fields, isSecure: isSecure, endsStream: isWhole, owner: end.number,
                into: &connections[stream.connection].output)
        else { return nil }
        sessions[stream.session].waiting.removeAll { $0 == end }
        let writes = sessions[stream.session].writes
        connections[end].stream?.id = sent.stream
        connections[end].stream?.writtenAt = writes
        settleLater(stream.connection)
        return sent.length
    }

    /// Writes content of a request as far as windows and backlog allow; returns how many bytes. `isTurn`: one frame at most.
    mutating func sendContent(_ content: RawSpan, on end: UpstreamIndex, isTurn: Bool) -> Int {
        guard let stream = connections[end].stream, !stream.isDetached else { return content.byteCount }
        let written = sessions[stream.session].http2.sendContent(
            content, on: stream.id, isTurn: isTurn, upTo: UpstreamCarrier.maxBacklog, into: &connections[stream.connection].output)
        if written > 0 { settleLater(stream.connection) }
        return written
    }

    /// Ends the request, all of whose content was written.
    mutating func endRequest(on end: UpstreamIndex, trailers: RawSpan) {
        guard let stream = connections[end].stream, !stream.isDetached else { return }
        sessions[stream.session].http2.sendEnd(trailers, on: stream.id, into: &connections[stream.connection].output)
        settleLater(stream.connection)
    }

    /// So much of the answer was taken: the upstream may send as much again.
    mutating func consumed(_ count: Int, of end: UpstreamIndex) {
        guard count > 0, let stream = connections[end].stream, !stream.isDetached else { return }
        sessions[stream.session].http2.consumed(count, of: stream.id, into: &connections[stream.connection].output)
        settleLater(stream.connection)
    }

    /// The stream needs the connection no more, as `releaseStream`; its end stays.
    @discardableResult
    mutating func detachStream(_ end: UpstreamIndex, mayReset: Bool = true) -> HTTP2Release {
        let release = releaseStream(end, mayReset: mayReset)
        connections[end].stream?.isDetached = true
        return release
    }

    /// Takes from the connection the ends of streams that wait for it.
    mutating func detachWaiting(_ session: UpstreamSessionIndex) -> [Handle<UpstreamConnection>] {
        var waiting: [UpstreamIndex] = []
        swap(&waiting, &sessions[session].waiting)
        for end in waiting { connections[end].stream?.isDetached = true }
        return waiting.map { connections.handle($0) }
    }

    /// The stream's end is closed: it does not count any more, and is reset if it is not over, within the connection's budget of resets
    /// and if `mayReset`.
    @discardableResult
    mutating func releaseStream(_ end: UpstreamIndex, mayReset: Bool = true) -> HTTP2Release {
        guard let stream = connections[end].stream, !stream.isDetached else { return .over }
        var release = HTTP2Release.over
        if stream.id == .none {
            sessions[stream.session].waiting.removeAll { $0 == end }
        } else {
            release = sessions[stream.session].http2.release(
                stream.id, mayReset: mayReset, into: &connections[stream.connection].output)
        }
        settleLater(stream.connection)
        if connections[stream.connection].phase == .multiplexed, sessions[stream.session].load == 0 {
            sessionIdles(stream.connection, stream.session)
        }
        return release
    }

    /// The session has no streams.
    mutating func sessionIdles(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex) {
        sessions[session].isIdle = true
        idleBegan(upstream)
    }
}
