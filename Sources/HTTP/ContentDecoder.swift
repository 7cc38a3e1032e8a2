internal import CCodings
package import Wire

/// Decodes coded content that arrives in pieces, a bounded amount at a time.
@safe
package struct ContentDecoder: ~Copyable {
    /// How a call ended.
    package enum Outcome: Equatable, Sendable {
        /// All input is decoded.
        case starved
        /// The room is used up; there may be more.
        case full
        case broken
    }

    private let stream: OpaquePointer
    private var hasBegun = false
    private var hasEnded = false

    /// A decoder for a coding other than identity; nil without memory.
    package init?(_ coding: ContentCoding) {
        guard let made = unsafe ccodings_decoder_new(Int32(coding.rawValue)) else { return nil }
        unsafe stream = made
    }

    deinit { unsafe ccodings_decoder_free(stream) }

    /// Bytes that it holds.
    package var heldBytes: Int { unsafe ccodings_decoder_size(stream) }

    /// Whether the content may end here: at the end of the coded stream, or before it began.
    package mutating func mayEnd() -> Bool { hasEnded || !hasBegun }

    /// Consumes `input` and appends what it decodes to, at most `room` bytes, to `out`.
    package mutating func decode(_ input: inout ByteBuffer, room: Int, into out: inout ByteBuffer) -> Outcome {
        var left = room
        while true {
            if !input.isEmpty { hasBegun = true }
            var taken = 0
            var filled = 0
            var result: Int32 = 0
            unsafe out.withUnsafeRoom(left) { space in
                unsafe input.readable.withUnsafeBytes { bytes in
                    result = unsafe ccodings_decode(
                        stream, bytes.baseAddress, bytes.count, &taken, space.baseAddress, space.count, &filled)
                }
                return filled
            }
            input.discard(taken)
            left -= filled
            if result < 0 { return .broken }
            hasEnded = result > 0
            if left == 0 { return .full }
            if input.isEmpty, taken == 0 || filled == 0 || hasEnded { return .starved }
            if taken == 0, filled == 0 { return .broken }
        }
    }
}
