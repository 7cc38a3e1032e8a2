import Wire

/// The frames of one side on their way through a proxy. It reads headers only, and knows where a frame ends, so that a close frame can be
/// put between two. It may then stand between the fragments of a message, as control frames may (RFC 6455 §5.4).
package struct WebSocketFlow: Equatable, Sendable {
    /// Bytes that may go on, from the start of those that came.
    package struct Step: Equatable, Sendable {
        package var count = 0
        /// Control frames that began in them.
        package var controls = 0
        /// The frame behind them breaks a rule: nothing more may pass.
        package var isFaulty = false

        package init(count: Int = 0, controls: Int = 0, isFaulty: Bool = false) {
            self.count = count
            self.controls = controls
            self.isFaulty = isFaulty
        }
    }

    private let side: WebSocketSide
    private let hasExtensions: Bool
    /// Bytes of payload of the current frame still to come.
    package private(set) var left: UInt64 = 0
    /// Whether the header of a close frame has passed, or the gateway has written one.
    private var hasClose = false

    /// `hasExtensions`: the handshake agreed on some, which give reserved bits and opcodes a meaning.
    package init(from side: WebSocketSide, hasExtensions: Bool) {
        self.side = side
        self.hasExtensions = hasExtensions
    }

    /// Whether the gateway may write a close frame now: none has passed, and the bytes that have passed end with a frame.
    package var mayClose: Bool { left == 0 && !hasClose }

    /// Whether a close frame has passed as a whole: nothing may follow it.
    package var isOver: Bool { hasClose && left == 0 }

    /// The gateway has written a close frame; `mayClose` allowed it.
    package mutating func closed() {
        precondition(mayClose, "a close frame within a frame, or a second one")
        hasClose = true
    }

    /// `count` bytes of the current frame's payload, at most `left`, have passed without being read.
    package mutating func passed(_ count: Int) {
        precondition(UInt64(count) <= left, "more than the frame's payload")
        left -= UInt64(count)
    }

    /// Reads `bytes`, all that has come behind those that passed. The header of the last frame may be incomplete: it stays behind until
    /// all of it is there. `endsFrame`: no frame may begin any more.
    package mutating func advance(_ bytes: RawSpan, endsFrame: Bool = false) -> Step {
        var offset = 0
        var controls = 0
        while offset < bytes.byteCount {
            if left > 0 {
                let count = Int(min(left, UInt64(bytes.byteCount &- offset)))
                offset &+= count
                left &-= UInt64(count)
                continue
            }
            guard !hasClose, !endsFrame, let header = WebSocketFrameHeader(bytes, at: offset) else { break }
            guard header.isValid(from: side, hasExtensions: hasExtensions) else {
                return Step(count: offset, controls: controls, isFaulty: true)
            }
            offset &+= header.length
            left = header.payload
            if header.isControl { controls &+= 1 }
            hasClose = header.isClose
        }
        return Step(count: offset, controls: controls)
    }
}
