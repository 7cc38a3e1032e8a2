import HTTP
import Wire

/// The framing of a request that is kept to be sent: HTTP/1.1 has chunks where the length of the content is not known, HTTP/2 has
/// frames of its own.
extension Attempt {
    /// The connection turned out to speak the other protocol than the content was kept for. Nothing was sent on it yet. `isWhole`: all of
    /// the content is kept.
    mutating func reframe(isWhole: Bool) {
        isForHTTP2.toggle()
        if !isForHTTP2 { head.writeLines(&replay, isChunked: hasUnknownLength) }
        guard hasUnknownLength else { return }
        var kept = ByteBuffer()
        swap(&kept, &replay)
        replay.append(kept.readable.extracting(0..<head.length))
        let content = kept.readable.dropping(head.length)
        if isForHTTP2 { unframe(content) } else { frame(content, isWhole: isWhole) }
    }

    private mutating func frame(_ content: RawSpan, isWhole: Bool) {
        if !content.isEmpty { replay.appendContent(content, chunked: true) }
        isChunked = !isWhole
        guard isWhole else { return }
        replay.append(ChunkWriter.lastChunkBeforeTrailers)
        var lines = ByteBuffer()
        swap(&lines, &trailers)
        replay.append(lines.readable)
        replay.append("\r\n")
    }

    private mutating func unframe(_ chunks: RawSpan) {
        isChunked = false
        // The chunks are the gateway's own: no bound applies to them again.
        var decoder = BodyDecoder(.chunked, mostTrailers: .max)
        var offset = 0
        while true {
            let rest = chunks.dropping(offset)
            switch decoder.next(rest) {
            case .data(let skip, let count):
                replay.append(rest.extracting(skip..<skip + count))
                offset += skip + count
            case .trailers(let lines, _): return trailers.append(rest[lines])
            case .needMore, .end: return
            case .fault: preconditionFailure("chunks that the gateway wrote are malformed")
            }
        }
    }
}
