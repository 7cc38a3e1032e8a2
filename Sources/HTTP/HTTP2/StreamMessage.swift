import Wire

/// The message that a peer sends on one stream of HTTP/2, as far as it has arrived and was not passed on. `HTTP2Core` has removed its
/// framing: the input of the stream's end holds content, and trailers behind it.
package struct StreamMessage: Sendable {
    /// Bytes of content in the input.
    package private(set) var unread = 0
    /// Bytes of trailers behind it, with the empty line.
    private var trailers = 0
    /// Whether no more will be added to the input.
    package private(set) var hasEnded = false
    /// Bytes of content that `content-length` announces and that have not arrived; nil without one. Of requests alone.
    private var left: UInt64?
    /// Bytes of content that one event names at most.
    private let most: Int

    init(announced: UInt64? = nil, most: Int = .max) {
        left = announced
        self.most = most
    }

    /// `count` bytes of content were added to the input.
    package mutating func arrived(_ count: Int) {
        unread += count
        if let left { self.left = left - min(left, UInt64(count)) }
    }

    /// Trailers were added to the input: `length` bytes of lines, with an empty one.
    package mutating func trailersArrived(length: Int) { trailers = length }

    /// No more will be added to the input.
    package mutating func ended() { hasEnded = true }

    /// `count` bytes of content were taken from the input without an event.
    package mutating func taken(_ count: Int) { unread -= count }

    /// The input is not needed, and dropped by the caller.
    package mutating func drop() {
        unread = 0
        trailers = 0
    }

    /// Whether all content that was announced is here, but not the end of the stream. More content, which would be a fault, may follow.
    private var awaitsEnd: Bool { left == 0 && !hasEnded }

    /// Whether the request has `content-length: 0` and has not ended: its head alone would be a whole request to an upstream.
    package var awaitsEndOfEmpty: Bool { awaitsEnd && unread == 0 }

    /// Whether all content was passed on: `end` needs no more bytes.
    var isAtEnd: Bool { hasEnded && unread == 0 && trailers == 0 }

    /// The next part of the message in `input`; trailer fields are parsed into `table`.
    mutating func advance(_ input: borrowing ByteBuffer, _ table: inout FieldTable) -> ContentEvent {
        // The last of the content waits for the end: should more follow, the upstream must not have taken the request for a whole one.
        if awaitsEnd { return .needMore }
        if unread > 0 {
            let count = min(unread, most)
            unread -= count
            return .content(count)
        }
        if trailers > 0 {
            let length = trailers
            trailers = 0
            if let fault = parseTrailers(input.readable, Slice(start: 0, count: length - 2), into: &table) { return .fault(fault) }
            return .trailers(length: length)
        }
        return hasEnded ? .end : .needMore
    }
}
