import Wire

/// One stream whose exchange is under way (RFC 9113 §5.1), as either end of a connection sees it. It is here from its HEADERS until the
/// driver lets its exchange go, so streams that the peer has reset count until then.
struct HTTP2Stream: Equatable {
    let number: UInt32
    /// The driver's name for the stream's end.
    var owner: UInt32 = 0
    /// Content that may be sent to the peer. Negative after the peer has lowered SETTINGS_INITIAL_WINDOW_SIZE.
    var sendWindow: Int
    var receiving = HTTP2ReceiveWindow()
    /// Content that `Content-Length` still announces; nil without one.
    var contentLeft: UInt64?
    /// The peer has ended its side.
    var peerEnded: Bool
    /// The gateway has ended its side.
    var gatewayEnded = false
    /// Reset, by either side: nothing more is sent, and what is received is dropped.
    var isReset = false
    /// The last frame of this stream in the output whose END_STREAM can still be set, DATA or the HEADERS of an answer: its flags'
    /// offset, 0 for none, and the epoch of the output in which that is valid.
    var lastFlags = 0
    var lastEpoch: UInt32 = .max
    // Of a stream to an upstream: the request's method, interim answers so far, and whether the final answer's head has been read.
    var method = Method.other
    var interimCount: UInt8 = 0
    var hasAnswered = false

    init(_ number: UInt32, sendWindow: Int, peerEnded: Bool) {
        self.number = number
        self.sendWindow = sendWindow
        self.peerEnded = peerEnded
    }
}

/// A stream's receive window: 64 KiB at first, and more for content that is taken as fast as it comes.
struct HTTP2ReceiveWindow: Equatable {
    static let initial = 65_535

    /// Bytes that the peer may send.
    private(set) var open = Self.initial
    /// The window's full size.
    private(set) var size = Self.initial
    /// Bytes received that nothing has consumed yet.
    private(set) var held = 0

    /// `count` bytes have arrived, padding included. False if the peer was not allowed to send them.
    mutating func received(_ count: Int) -> Bool {
        guard count <= open else { return false }
        open -= count
        held += count
        return true
    }

    /// Bytes were consumed; returns the increment to announce now, or 0. It waits until half of the window can be announced at once.
    /// The window grows up to `most`.
    mutating func consumed(_ count: Int, most: Int) -> Int {
        held -= count
        let missing = size - open - held
        guard missing >= size / 2 else { return 0 }
        // All that arrived was taken, so the window may be what holds the peer back.
        if held == 0 { size = min(size * 2, most) }
        let increment = size - open - held
        open += increment
        return increment
    }
}

/// The connection's receive window. Bytes count as consumed when they arrive, so that one stream whose content is not taken does not
/// stop the others; but not while all streams together hold more than a bound.
struct HTTP2ConnectionWindow: Equatable {
    private let size: Int
    /// Content of all streams that waits for the other side of their exchanges, in bytes. The peer may send one more window beyond it.
    private let maxHeld: Int
    private(set) var open: Int
    private(set) var held = 0
    /// How often it was opened again when it was used up.
    private(set) var openings: UInt32 = 0

    init(size: Int, maxHeld: Int) {
        self.size = size
        self.maxHeld = maxHeld
        open = size
    }

    /// False if the peer was not allowed to send so many bytes.
    mutating func received(_ count: Int) -> Bool {
        guard count <= open else { return false }
        open -= count
        held += count
        return true
    }

    mutating func consumed(_ count: Int) { held -= count }

    /// Announces what may be sent again, when it is enough for a frame.
    mutating func announce(into out: inout ByteBuffer) {
        let missing = size - open
        guard missing >= size / 2, held <= maxHeld else { return }
        if open == 0 { openings &+= 1 }
        open = size
        out.appendWindowUpdate(missing, stream: 0)
    }
}

/// The streams under way of one connection. Found by a walk: most connections have a few, and the latest is asked for most often.
struct HTTP2StreamTable {
    private(set) var streams: [HTTP2Stream] = []
    /// The index that was found last.
    private var latest = 0

    var count: Int { streams.count }
    var isEmpty: Bool { streams.isEmpty }

    mutating func add(_ stream: HTTP2Stream) { streams.append(stream) }

    /// The stream's index. `find` remembers it.
    func index(of number: UInt32) -> Int? {
        if latest < streams.count, streams[latest].number == number { return latest }
        return streams.firstIndex { $0.number == number }
    }

    mutating func find(_ number: UInt32) -> Int? {
        if latest < streams.count, streams[latest].number == number { return latest }
        for index in streams.indices where streams[index].number == number {
            latest = index
            return index
        }
        return nil
    }

    subscript(_ index: Int) -> HTTP2Stream {
        get { streams[index] }
        _modify { yield &streams[index] }
    }

    /// Streams behind it move up: their order, which is that of their turns, stays.
    mutating func remove(at index: Int) {
        streams.remove(at: index)
    }

    /// Adds to the send windows of all streams; false if one would exceed 2³¹ - 1 (RFC 9113 §6.9.2).
    mutating func widen(by change: Int) -> Bool {
        for index in streams.indices {
            streams[index].sendWindow += change
            if streams[index].sendWindow > HTTP2Sending.largestWindow { return false }
        }
        return true
    }
}

/// How many streams may still be reset on a connection to an upstream. Servers end a connection on which many are (CVE-2023-44487), and
/// with it the requests of all other clients. The strictest defences that are known allow 20 at once (Rust's h2) and 200 in 30 seconds
/// (Netty); nginx, nghttp2, Go and Envoy allow more.
struct HTTP2ResetBudget {
    /// Resets at once, and each second in the long run.
    static let burst = 15
    static let perSecond = 3

    private(set) var taken = 0

    /// Takes one from the budget, if there is one.
    mutating func take() -> Bool {
        guard taken < Self.burst else { return false }
        taken += 1
        return true
    }

    /// A second has passed.
    mutating func refill() { taken = max(taken - Self.perSecond, 0) }
}

/// The fate of a stream that was let go.
package enum HTTP2Release: Equatable, Sendable {
    /// It was over, or was reset before.
    case over
    case reset
    /// It is open: the upstream goes on with its request.
    case abandoned
}

/// A stream to an upstream that no exchange waits for, and that the budget of resets leaves open.
struct HTTP2AbandonedStream: Equatable {
    let number: UInt32
    /// The whole request was sent, so that the stream is over with its answer.
    let gatewayEnded: Bool
}

/// The streams that this end has reset last, as many as may be under way: what the peer sent on them before it knew is dropped.
struct HTTP2Resets {
    private let most: Int
    private var numbers: [UInt32] = []
    private var next = 0

    init(most: Int) { self.most = most }

    mutating func note(_ number: UInt32) {
        guard numbers.count == most else { return numbers.append(number) }
        numbers[next] = number
        next = (next + 1) % most
    }

    func contains(_ number: UInt32) -> Bool { numbers.contains(number) }

    /// The peer has ended the stream, too, so that nothing of it is in flight any more; returns whether it was here.
    mutating func forget(_ number: UInt32) -> Bool {
        guard let index = numbers.firstIndex(of: number) else { return false }
        numbers[index] = 0
        return true
    }
}
