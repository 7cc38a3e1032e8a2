package import Wire

/// The next part of a message's body, as `BodyDecoder` finds it.
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

/// The next part of a message whose head has been read, for the connection machines of both sides.
enum ContentEvent {
    /// The first so many bytes of the input are content.
    case content(Int)
    case needMore
    /// The first `length` bytes of the input are trailer fields, which were parsed. `end` follows.
    case trailers(length: Int)
    case end
    case fault(HTTPFault)
}

/// Finds the content in the bytes of one message (RFC 9112 §6 and §7.1). Keeps no bytes: what it has not consumed must be passed in
/// again.
///
/// Chunk extensions are skipped. The overhead of a chunked message is bounded: each chunk may cost 16 bytes plus twice its content,
/// and beyond that a message may waste 16 KiB (the rule of Go's reader).
package struct BodyDecoder: Sendable {
    private enum Phase: UInt8 {
        case content, untilClose
        /// Before the first digit of a chunk size, among the digits, in an extension, and before the line feed.
        case chunkStart, chunkSize, chunkExtension, chunkLineFeed
        case chunkContent, chunkEnd, chunkEndLineFeed
        case trailers
        case ended, broken
    }

    static let maxSizeDigits: UInt8 = 16
    static let maxExtensionBytes: UInt16 = 256
    static let wasteAllowance: UInt32 = 16384
    package static let maxTrailers = 8192

    /// Content bytes still to come, of the message or of the chunk.
    private var left: UInt64 = 0
    /// Chunk overhead above what the chunks allow, in bytes.
    private var waste: UInt32 = 0
    /// Bytes of the trailer section that were searched for its end in vain.
    private var searched: UInt32 = 0
    private var extensionBytes: UInt16 = 0
    private var sizeDigits: UInt8 = 0
    private var phase: Phase

    /// The longest trailer section, in bytes.
    private let mostTrailers: Int

    /// - Parameter mostTrailers: the longest trailer section, in bytes; a longer one is a fault.
    package init(_ framing: BodyFraming, mostTrailers: Int = Self.maxTrailers) {
        self.mostTrailers = mostTrailers
        switch framing {
        case .none: phase = .ended
        case .length(let count):
            left = count
            phase = count == 0 ? .ended : .content
        case .chunked: phase = .chunkStart
        case .untilClose: phase = .untilClose
        }
    }

    /// Whether the message is over. True from the start of one without content.
    package var isAtEnd: Bool { phase == .ended }

    /// Content bytes still to come, where that is known.
    package var remaining: UInt64? {
        switch phase {
        case .content: left
        case .ended: 0
        case .untilClose, .chunkStart, .chunkSize, .chunkExtension, .chunkLineFeed, .chunkContent, .chunkEnd,
            .chunkEndLineFeed, .trailers, .broken:
            nil
        }
    }

    /// The next event in `bytes`, everything received of the message and not yet consumed. After `data`, call again behind what was
    /// consumed.
    package mutating func next(_ bytes: RawSpan) -> BodyEvent {
        switch phase {
        case .ended: .end(consumed: 0)
        case .content: readContent(bytes, at: 0)
        case .untilClose: bytes.isEmpty ? .needMore(consumed: 0) : .data(skip: 0, count: bytes.byteCount)
        case .broken: .fault(HTTPFault(.chunkSize))
        case .chunkStart, .chunkSize, .chunkExtension, .chunkLineFeed, .chunkContent, .chunkEnd, .chunkEndLineFeed,
            .trailers:
            readChunked(bytes)
        }
    }

    /// `next`, with the framing in front of content dropped from `input` and trailer fields parsed into `trailers`.
    @inline(__always)
    mutating func advance(_ input: inout ByteBuffer, _ trailers: inout FieldTable) -> ContentEvent {
        switch next(input.readable) {
        case .data(let skip, let count):
            input.discard(skip)
            return .content(count)
        case .needMore(let consumed):
            input.discard(consumed)
            return .needMore
        case .trailers(let slice, let consumed):
            if let fault = parseTrailers(input.readable, slice, into: &trailers) { return .fault(fault) }
            return .trailers(length: consumed)
        case .end(let consumed):
            input.discard(consumed)
            return .end
        case .fault(let fault): return .fault(fault)
        }
    }

    /// `count` bytes of content, fewer than `remaining`, were spliced and not seen here.
    package mutating func passed(_ count: Int) {
        precondition(phase == .content && count >= 0 && UInt64(count) < left)
        left -= UInt64(count)
    }

    /// The peer will send no more: ends a message that lasts until then, and truncates any other.
    package mutating func inputClosed() -> BodyEvent {
        if phase == .ended || phase == .untilClose {
            phase = .ended
            return .end(consumed: 0)
        }
        return broken(.truncated)
    }

    private mutating func broken(_ reason: HTTPFault.Reason) -> BodyEvent {
        phase = .broken
        return .fault(HTTPFault(reason))
    }

    /// Content from `start` on, as far as it was received.
    @inline(__always)
    private mutating func readContent(_ bytes: RawSpan, at start: Int) -> BodyEvent {
        let available = bytes.byteCount &- start
        guard available > 0 else { return .needMore(consumed: start) }
        let count = Int(truncatingIfNeeded: min(left, UInt64(truncatingIfNeeded: available)))
        left &-= UInt64(truncatingIfNeeded: count)
        if left == 0 { phase = phase == .content ? .ended : .chunkEnd }
        return .data(skip: start, count: count)
    }

    // MARK: The chunked coding (RFC 9112 §7.1)

    private mutating func readChunked(_ bytes: RawSpan) -> BodyEvent {
        var offset = 0
        while offset < bytes.byteCount {
            if phase == .chunkContent { return readContent(bytes, at: offset) }
            if phase == .trailers { return readTrailers(bytes, at: offset) }
            if let reason = readFramingByte(bytes[offset]) { return broken(reason) }
            offset &+= 1
        }
        return .needMore(consumed: offset)
    }

    /// Reads one byte of chunk framing; returns its fault, if any.
    private mutating func readFramingByte(_ byte: UInt8) -> HTTPFault.Reason? {
        switch phase {
        case .chunkStart, .chunkSize: readSizeByte(byte)
        case .chunkExtension: readExtensionByte(byte)
        case .chunkLineFeed: byte == ByteClass.lineFeed ? beginChunk() : .chunkSize
        case .chunkEnd: expect(ByteClass.carriageReturn, byte, then: .chunkEndLineFeed)
        case .chunkEndLineFeed: expect(ByteClass.lineFeed, byte, then: .chunkStart)
        case .content, .untilClose, .chunkContent, .trailers, .ended, .broken:
            preconditionFailure("not between contents")
        }
    }

    private mutating func expect(_ wanted: UInt8, _ byte: UInt8, then next: Phase) -> HTTPFault.Reason? {
        guard byte == wanted else { return .chunkEnd }
        phase = next
        return nil
    }

    /// One to 16 hexadecimal digits, then the extension or the line end, without white space.
    private mutating func readSizeByte(_ byte: UInt8) -> HTTPFault.Reason? {
        if let digit = byte.hexValue {
            guard sizeDigits < Self.maxSizeDigits else { return .chunkSize }
            left = left &<< 4 | UInt64(digit)
            sizeDigits &+= 1
            phase = .chunkSize
            return nil
        }
        guard phase == .chunkSize else { return .chunkSize }
        if byte == UInt8(ascii: ";") {
            extensionBytes = 1
            phase = .chunkExtension
            return nil
        }
        guard byte == ByteClass.carriageReturn else { return .chunkSize }
        phase = .chunkLineFeed
        return nil
    }

    private mutating func readExtensionByte(_ byte: UInt8) -> HTTPFault.Reason? {
        if byte == ByteClass.carriageReturn {
            phase = .chunkLineFeed
            return nil
        }
        extensionBytes &+= 1
        guard extensionBytes <= Self.maxExtensionBytes else { return .chunkExtension }
        return ByteClass.isControl(byte) && byte != ByteClass.tab ? .chunkExtension : nil
    }

    /// Ends the size line: charges its overhead, less what the chunk allows.
    private mutating func beginChunk() -> HTTPFault.Reason? {
        let cost = UInt64(sizeDigits) + UInt64(extensionBytes) + 2
        let excuse = 16 &+ 2 &* min(left, 1 << 32)
        let total = UInt64(waste) + cost
        waste = UInt32(truncatingIfNeeded: total > excuse ? total - excuse : 0)
        sizeDigits = 0
        extensionBytes = 0
        phase = left == 0 ? .trailers : .chunkContent
        return waste > Self.wasteAllowance ? .chunkOverhead : nil
    }

    /// Looks for the empty line that ends the trailer section, which is consumed only as a whole.
    private mutating func readTrailers(_ bytes: RawSpan, at start: Int) -> BodyEvent {
        var offset = start &+ Int(searched)
        while let hit = bytes.firstIndex(of: ByteClass.lineFeed, from: offset) {
            guard hit &- start < mostTrailers else { return broken(.trailerTooLarge) }
            guard hit > start, bytes[hit &- 1] == ByteClass.carriageReturn else { return broken(.lineEnd) }
            let lineIsEmpty = hit == start &+ 1 || bytes[hit &- 2] == ByteClass.lineFeed
            if lineIsEmpty { return endTrailers(start, hit) }
            offset = hit &+ 1
        }
        guard bytes.byteCount &- start < mostTrailers else { return broken(.trailerTooLarge) }
        searched = UInt32(truncatingIfNeeded: bytes.byteCount &- start)
        return .needMore(consumed: start)
    }

    /// The section begins at `start`, and its empty line ends at `lineFeed`.
    private mutating func endTrailers(_ start: Int, _ lineFeed: Int) -> BodyEvent {
        phase = .ended
        let count = lineFeed &- 1 &- start
        return count == 0
            ? .end(consumed: lineFeed &+ 1) : .trailers(Slice(start: start, count: count), consumed: lineFeed &+ 1)
    }
}
