/// The content of a stream's message as far as it has arrived and was not passed on: the input of its connection machine holds it.
struct StreamContent {
    /// Bytes of content, ahead of the trailers.
    var unread = 0
    /// Bytes of trailers, with the empty line.
    var trailers = 0
    var hasEnded = false
    /// Bytes of content that `content-length` announces and that have not arrived; nil without one.
    var left: UInt64?

    /// Whether all content that was announced is here, but not the end of the stream. More content, which would be a fault, may follow.
    var awaitsEnd: Bool { left == 0 && !hasEnded }

    mutating func arrived(_ count: Int) {
        unread += count
        if let left { self.left = left - min(left, UInt64(count)) }
    }

    var isAtEnd: Bool { hasEnded && unread == 0 && trailers == 0 }
}
