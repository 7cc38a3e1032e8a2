import HTTP
import Transport
import Wire

/// One try to have a request answered by an upstream: where it goes, what is sent there, and what is left for further tries.
///
/// It knows nothing of the client: what it sends is in its buffers, and `Upstreams` sends it. Its owner decides what a loss means.
struct Attempt: ~Copyable {
    /// The connection that carries it; none before one is chosen.
    var upstream = Handle<UpstreamConnection>.none
    var endpoint = EndpointIndex(pool: 0, number: 0)
    /// The head for the upstream and the start of the body, kept until the answer begins so that it can be sent again. For a
    /// handler of the gateway, the body; for a check, the fields of the answer that lets the request pass.
    var replay = ByteBuffer()
    /// Body bytes behind the replay buffer that the upstream's socket has not taken yet.
    var pending = ByteBuffer()
    /// Trailer fields for an upstream that speaks HTTP/2, as lines.
    var trailers = ByteBuffer()
    /// The parts of the head.
    var head = UpstreamHead()
    /// Bytes of the replay buffer that were sent on the current connection.
    private(set) var replaySent = 0
    /// Whether the current connection may have received some of it.
    private(set) var hasBegun = false
    /// Whether the request ended with its head: there is no content, not even an empty frame of it.
    var isHeadAlone = false
    var hasUnknownLength = false
    /// Whether content goes out in chunks: its length is not known, and the upstream speaks HTTP/1.1.
    var isChunked = false
    /// Whether content is kept without chunks because the upstream speaks HTTP/2, or may. See `reframe`.
    var isForHTTP2 = false
    /// Milliseconds the upstream may take to its first byte, and between two.
    var timeout: UInt64 = 0
    var retriesLeft = 0
    /// Whether a reused connection was closed under it. The upstream may have done so because of this request, which must not end one
    /// reused connection after the other.
    var needsNewConnection = false
    /// When it first found no room for a connection; nil until then.
    var wantsRoomSince: MonotonicTime?

    /// Whether it is the handshake of a WebSocket.
    var asksForTunnel: Bool { head.offer > 0 }

    /// A request begins, with no bytes yet.
    @inline(__always)
    mutating func begin(
        at endpoint: EndpointIndex, isForHTTP2: Bool, isHeadAlone: Bool, hasUnknownLength: Bool, timeout: UInt64, retries: Int
    ) {
        self.endpoint = endpoint
        self.isForHTTP2 = isForHTTP2
        self.isHeadAlone = isHeadAlone
        self.hasUnknownLength = hasUnknownLength
        isChunked = hasUnknownLength && !isForHTTP2
        self.timeout = timeout
        retriesLeft = retries
    }

    /// The request is over: forgets all but the memory of its buffers.
    mutating func reset() {
        replay.reuse()
        pending.reuse()
        if !trailers.isEmpty { trailers.reuse() }
        var fresh = Attempt()
        swap(&fresh.replay, &replay)
        swap(&fresh.pending, &pending)
        swap(&fresh.trailers, &trailers)
        self = fresh
    }

    /// It is sent once more, from the start.
    mutating func restart() {
        upstream = .none
        replaySent = 0
        hasBegun = false
    }

    /// Sends the request to another address, whose base path and name its head must carry.
    mutating func readdress(to endpoint: EndpointIndex, at address: UpstreamAddress) {
        self.endpoint = endpoint
        head.readdress(&replay, to: address)
    }

    // MARK: what waits

    /// Bytes of head and early body that are kept to be sent again.
    private static var maxKept: Int { 16 * 1_024 }

    /// Whether more of the body may be kept before there is a connection.
    var hasReplayRoom: Bool { replay.count < Self.maxKept }

    /// Bytes that wait for the connection.
    var unsentCount: Int { replay.count - replaySent + pending.count }

    /// Writes the end of a body in chunks behind what waits. `isKept`: the replay buffer holds all before it.
    mutating func appendEnd(_ end: RawSpan, isKept: Bool) {
        if isKept { replay.append(end) } else { pending.append(end) }
        isChunked = false
    }

    /// Takes out what could be sent again: that is over.
    mutating func takeReplay() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &replay)
        replaySent = 0
        return taken
    }

    // MARK: sending

    /// Sends once of what waits.
    fileprivate mutating func send(on connection: inout Connection) -> IOOutcome {
        let isReplay = replaySent < replay.count
        let outcome = isReplay ? connection.send(replay, from: replaySent) : connection.send(pending)
        // With TLS the upstream may have received part of a record although none counts as sent.
        if !connection.isPlain { hasBegun = true }
        guard case .done(let count) = outcome else { return outcome }
        hasBegun = true
        if isReplay { replaySent += count } else { pending.discard(count) }
        return outcome
    }

    /// Writes of what waits as frames of its stream; returns how many bytes.
    fileprivate mutating func write(on end: UpstreamIndex, isTurn: Bool, in upstreams: inout Upstreams) -> Int {
        guard replaySent < replay.count else {
            let count = upstreams.sendContent(pending.readable, on: end, isTurn: isTurn)
            pending.discard(count)
            return count
        }
        let count = upstreams.sendContent(replay.readable.dropping(replaySent), on: end, isTurn: isTurn)
        replaySent += count
        return count
    }

    fileprivate mutating func open(_ end: UpstreamIndex, in upstreams: inout Upstreams) {
        guard let length = upstreams.openStream(end, replay.readable, fields: head.fields, isWhole: isHeadAlone) else {
            preconditionFailure("a stream on a connection that takes no more")
        }
        replaySent = length
        hasBegun = true
    }
}

/// Sends attempts on their connections.
extension Upstreams {
    /// Sends what waits, as far as the connection takes it; of a stream, as far as windows and backlog allow. `isWhole`: nothing of the
    /// request follows. `isTurn`: one frame at most.
    mutating func flush(_ attempt: inout Attempt, isWhole: Bool, isTurn: Bool = false) -> SendOutcome {
        let upstream = attempt.upstream.index
        if connections[upstream].isStream { return flushStream(&attempt, upstream, isWhole: isWhole, isTurn: isTurn) }
        while attempt.unsentCount > 0 {
            switch attempt.send(on: &connections[upstream].connection) {
            case .done: break
            case .wouldBlock: return .queued
            case .closed, .failed: return .lost
            }
        }
        return .sent
    }

    private mutating func flushStream(_ attempt: inout Attempt, _ end: UpstreamIndex, isWhole: Bool, isTurn: Bool) -> SendOutcome {
        if connections[end].stream?.id == StreamID.none { attempt.open(end, in: &self) }
        while attempt.unsentCount > 0 {
            let count = attempt.write(on: end, isTurn: isTurn, in: &self)
            if count == 0 || isTurn { break }
        }
        guard attempt.unsentCount == 0 else { return .queued }
        if isWhole { endRequest(on: end, trailers: attempt.trailers.readable) }
        return .sent
    }

    /// Sends the first `count` bytes of `input`, or queues what the connection does not take, and consumes them.
    mutating func send(_ count: Int, of input: inout ByteBuffer, for attempt: inout Attempt) -> SendOutcome {
        let upstream = attempt.upstream.index
        guard connections[upstream].isStream else {
            return connections[upstream].connection.send(count, of: &input, queueing: &attempt.pending)
        }
        let sent = attempt.unsentCount == 0 ? sendContent(input.readable.extracting(0..<count), on: upstream, isTurn: false) : 0
        input.discard(sent)
        guard sent < count else { return .sent }
        attempt.pending.move(count - sent, from: &input)
        return .queued
    }
}
