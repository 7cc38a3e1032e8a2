import Wire

/// The rest of a DATA frame, which is passed on as it arrives.
struct HTTP2DataFrame {
    /// Bytes of content still to come.
    var left = 0
    private var padding = 0
    /// Bytes of the frame that are no content.
    private(set) var overhead = 0

    /// Consumes the start of a DATA frame; false if the length of its padding has not arrived.
    @inline(__always)
    mutating func begin(_ frame: HTTP2FrameHeader, _ input: inout ByteBuffer) throws(HTTP2Fault) -> Bool {
        let isPadded = frame.has(HTTP2Flag.padded)
        padding = 0
        if isPadded {
            guard frame.length > 0 else { throw HTTP2Fault(.frameSizeError) }
            guard input.count > HTTP2FrameHeader.size else { return false }
            padding = Int(input.readable[HTTP2FrameHeader.size])
            guard padding < frame.length else { throw HTTP2Fault(.protocolError) }
        }
        input.discard(HTTP2FrameHeader.size + (isPadded ? 1 : 0))
        overhead = isPadded ? padding + 1 : 0
        left = frame.length - overhead
        return true
    }

    /// Drops padding; false if more of it is to come.
    mutating func skipPadding(_ input: inout ByteBuffer) -> Bool {
        guard padding > 0 else { return true }
        let count = min(padding, input.count)
        padding -= count
        input.discard(count)
        return padding == 0
    }
}
