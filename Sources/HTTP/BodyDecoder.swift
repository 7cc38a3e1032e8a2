package import Wire

/// What the next bytes of a message body are.
package enum BodyEvent: Equatable, Sendable {
    /// `bytes[skip..<skip + count]` are content, and `skip + count` bytes are consumed.
    case data(skip: Int, count: Int)
    /// Keep all but the first `consumed` bytes and call again with more.
    case needMore(consumed: Int)
    /// The message ends with these field lines (for `parseTrailers`), after `consumed` bytes.
    case trailers(Slice, consumed: Int)
    case end(consumed: Int)
    /// The connection cannot be understood any further.
    case fault(HTTPFault)
}

/// Finds the content in the bytes of one message. Keeps no bytes.
package struct BodyDecoder: Sendable {
    package init(_ framing: BodyFraming) {}

    /// `bytes`: everything received of the message and not yet consumed.
    package mutating func next(_ bytes: RawSpan) -> BodyEvent { .end(consumed: 0) }

    /// The peer will send no more.
    package mutating func inputClosed() -> BodyEvent { .end(consumed: 0) }

    package var isAtEnd: Bool { true }

    /// Content bytes still to come, where that is known.
    package var remaining: UInt64? { nil }
}

/// Parses the lines of a trailer section into `table`.
package func parseTrailers(_ bytes: RawSpan, _ slice: Slice, into table: inout FieldTable) -> HTTPFault? { nil }
