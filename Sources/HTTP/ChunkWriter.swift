package import Wire

/// Writes the chunked transfer coding (RFC 9112 §7.1).
package enum ChunkWriter {
    /// Ends a body without trailers.
    package static let lastChunk: StaticString = "0\r\n\r\n"
    /// Ends the content; field lines and an empty line must follow.
    package static let lastChunkBeforeTrailers: StaticString = "0\r\n"
    /// Follows the content of each chunk.
    package static let chunkEnd: StaticString = "\r\n"

    /// Writes the line before a chunk of `size` bytes, at least 1: 0 would end the body.
    package static func appendSize(_ size: Int, to out: inout ByteBuffer) {
        precondition(size > 0)
        let digits = (64 - size.leadingZeroBitCount + 3) / 4
        out.append(hex: UInt64(size), digits: digits)
        out.append("\r\n")
    }
}
