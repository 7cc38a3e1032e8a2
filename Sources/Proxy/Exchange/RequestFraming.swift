import HTTP
import Wire

/// The framing of a request that is kept to be sent: HTTP/1.1 has chunks where the length of the content is not known, HTTP/2 has
/// frames of its own.
extension Exchange {
    /// The connection turned out to speak the other protocol than the content was kept for. Nothing was sent on it yet.
    mutating func reframe() {
        attempt.isForHTTP2.toggle()
        guard request.hasUnknownLength else { return }
        var kept = ByteBuffer()
        swap(&kept, &buffers.replay)
        let length = kept.readable.headLength
        buffers.replay.append(kept.readable.extracting(0..<length))
        let content = kept.readable.dropping(length)
        if attempt.isForHTTP2 { unframe(content) } else { frame(content) }
    }

    private mutating func frame(_ content: RawSpan) {
        if !content.isEmpty { buffers.replay.appendContent(content, chunked: true) }
        attempt.isChunked = !state.hasWholeRequest
        guard state.hasWholeRequest else { return }
        buffers.replay.append(ChunkWriter.lastChunkBeforeTrailers)
        var trailers = ByteBuffer()
        swap(&trailers, &buffers.trailers)
        buffers.replay.append(trailers.readable)
        buffers.replay.append("\r\n")
    }

    private mutating func unframe(_ chunks: RawSpan) {
        attempt.isChunked = false
        // The chunks are the gateway's own: no bound applies to them again.
        var decoder = BodyDecoder(.chunked, mostTrailers: .max)
        var offset = 0
        while true {
            let rest = chunks.dropping(offset)
            switch decoder.next(rest) {
            case .data(let skip, let count):
                buffers.replay.append(rest.extracting(skip..<skip + count))
                offset += skip + count
            case .trailers(let lines, _): return buffers.trailers.append(rest[lines])
            case .needMore, .end: return
            case .fault: preconditionFailure("chunks that the gateway wrote are malformed")
            }
        }
    }
}

extension RawSpan {
    /// The length of the head of HTTP/1.1 at the start, with its empty line.
    fileprivate var headLength: Int {
        var end = 0
        var isEmptyLine = false
        while true {
            let byte = self[end]
            end += 1
            if byte == UInt8(ascii: "\n") {
                if isEmptyLine { return end }
                isEmptyLine = true
            } else if byte != UInt8(ascii: "\r") {
                isEmptyLine = false
            }
        }
    }
}
