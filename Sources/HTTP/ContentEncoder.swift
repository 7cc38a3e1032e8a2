internal import CCodings
package import Wire

/// Compresses content that arrives in pieces. Its memory serves one answer after the other.
@safe
package struct ContentEncoder: ~Copyable {
    /// The end of a piece.
    package enum Step: Int32 {
        /// More follows: the encoder may keep what compresses better with it.
        case run
        /// More may be late: all that was taken can be decoded.
        case flush
        /// The content is complete.
        case finish
    }

    /// The coding of the content.
    package let coding: ContentCoding
    private let stream: OpaquePointer

    /// The room that is asked for at a time.
    private static var room: Int { 4_096 }

    /// An encoder for a coding other than identity and deflate; nil without memory.
    package init?(_ coding: ContentCoding) {
        guard let made = unsafe ccodings_encoder_new(Int32(coding.rawValue)) else { return nil }
        self.coding = coding
        unsafe stream = made
    }

    deinit { unsafe ccodings_encoder_free(stream) }

    /// Bytes that it holds.
    package var heldBytes: Int { unsafe ccodings_encoder_size(stream) }

    /// Begins the next content. With gzip, a file name of `padding` letters hides by how much exactly a guess has shortened it (BREACH).
    /// False without memory.
    package mutating func begin(padding: UInt8) -> Bool { unsafe ccodings_encoder_begin(stream, Int(padding)) != CCODINGS_BROKEN }

    /// Takes a piece, and appends to `out` what is ready.
    package mutating func encode(_ content: RawSpan, _ step: Step, into out: inout ByteBuffer) {
        var offset = 0
        var isDone = false
        while !isDone {
            var taken = 0
            unsafe out.withUnsafeRoom(Self.room) { space in
                var filled = 0
                unsafe content.extracting(offset..<content.byteCount).withUnsafeBytes { bytes in
                    let result = unsafe ccodings_encode(
                        stream, step.rawValue, bytes.baseAddress, bytes.count, &taken, space.baseAddress, space.count, &filled)
                    precondition(result != CCODINGS_BROKEN, "out of memory")
                    isDone = result == CCODINGS_END
                }
                return filled
            }
            offset += taken
        }
    }
}
