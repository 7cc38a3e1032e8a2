import HTTP
import Transport
import Wire

/// One connection to an upstream's address, kept for the next request when an answer has ended well.
struct UpstreamConnection: ~Copyable {
    private let inPlace = InPlace()
    enum Phase: Equatable {
        case free
        case connecting
        case handshaking
        /// Carries `exchange`.
        case busy
        /// In the pool.
        case idle
        /// Carries a health check, from connecting to the verdict.
        case probing
    }

    var channel = Channel(socket: Socket(descriptor: -1))
    var phase = Phase.free
    var interest = Interest()
    var pool = 0
    var endpoint = 0
    /// The request it carries; none while idle or probing.
    var exchange = Handle.none
    /// Opened for a health check.
    var isProbe = false
    /// Whether it is counted in its upstream's budget, and there as idle.
    var holdsRoom = false
    var isCountedIdle = false
    /// Whether an earlier request used it: then it may have been closed over there without our knowing.
    var wasUsed = false
    /// Since when it is idle. Meaningful while it is.
    var idleSince = MonotonicTime(nanoseconds: 0)
    /// The next idle connection of the same address; -1 for none. Meaningful while idle.
    var nextIdle: Int32 = -1
    /// An answer's head that has not come whole.
    var input = ByteBuffer()
    /// Whether a head has begun to arrive and not ended, and how far it was searched for its end.
    var headBegun = false
    var scan = HeadScan()

    /// Whether it is worth parsing the head that `bytes` begin with.
    mutating func isHeadDue(_ bytes: RawSpan, _ limits: HeadLimits) -> Bool {
        !headBegun || scan.isDue(bytes, limits: limits)
    }

    /// The same of a health check's answer, which is kept whole in `input`.
    mutating func isProbeDue(_ limits: HeadLimits) -> Bool {
        guard headBegun else { return true }
        // Apart from its owner while the owner's bytes are looked at.
        var scan = scan
        defer { self.scan = scan }
        return scan.isDue(input.readable, limits: limits)
    }

    /// The head has not come whole.
    mutating func awaitHead() {
        guard !headBegun else { return }
        headBegun = true
        scan = HeadScan()
    }
}
