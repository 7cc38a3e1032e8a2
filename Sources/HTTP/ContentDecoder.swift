internal import CZlib
package import Wire

/// Content codings that can be decoded (`Content-Encoding`).
package enum ContentCoding: Equatable, Sendable {
    case identity, gzip, deflate

    /// nil for codings that cannot be decoded, and for several at once.
    package init?(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard let index = fields.first(.contentEncoding) else {
            self = .identity
            return
        }
        let value = bytes[fields[index].value]
        guard !fields.isRepeated(.contentEncoding) else { return nil }
        if value.equalsIgnoringCase("gzip") || value.equalsIgnoringCase("x-gzip") {
            self = .gzip
        } else if value.equalsIgnoringCase("deflate") {
            self = .deflate
        } else if value.isEmpty || value.equalsIgnoringCase("identity") {
            self = .identity
        } else {
            return nil
        }
    }
}

/// Decodes gzip or deflate content that arrives in pieces, a bounded amount at a time.
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
        guard let made = unsafe czlib_new(coding == .gzip ? 1 : 0) else { return nil }
        unsafe stream = made
    }

    deinit { unsafe czlib_free(stream) }

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
                    result = unsafe czlib_inflate(
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
