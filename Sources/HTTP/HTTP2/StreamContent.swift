/// The content of a stream's message as far as it has arrived and was not passed on: the input of its connection machine holds it.
struct StreamContent {
    /// Bytes of content, ahead of the trailers.
    var unread = 0
    /// Bytes of trailers, with the empty line.
    var trailers = 0
    var hasEnded = false

    var isAtEnd: Bool { hasEnded && unread == 0 && trailers == 0 }
}
