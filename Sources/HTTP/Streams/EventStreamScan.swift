import Wire

/// Finds the gaps between events of an event stream (WHATWG HTML §9.2), in which the gateway may write events of its own. Lines
/// end with LF, CR LF or CR; an empty line ends an event. Comments belong to no event.
package struct EventStreamScan: Equatable, Sendable {
    private enum Place {
        /// At the start of a line.
        case start
        /// Likewise, after a CR, to which an LF may still belong.
        case afterReturn
        case comment
        case field
    }

    private var place = Place.start
    /// Whether fields of an event have come that no empty line has ended.
    private var hasFields = false

    package init() {}

    package var isInGap: Bool {
        switch place {
        case .start, .afterReturn: !hasFields
        case .comment, .field: false
        }
    }

    package mutating func advance(over bytes: RawSpan) {
        for offset in 0..<bytes.byteCount { advance(over: bytes[offset]) }
    }

    /// Advances to the first gap behind at least one byte; returns how many bytes lie before it, or nil if it is not in `bytes`,
    /// all of which are then consumed.
    package mutating func advanceToGap(in bytes: RawSpan) -> Int? {
        for offset in 0..<bytes.byteCount {
            advance(over: bytes[offset])
            guard isInGap else { continue }
            let next = offset + 1
            guard place == .afterReturn, next < bytes.byteCount, bytes[next] == UInt8(ascii: "\n") else { return next }
            advance(over: bytes[next])
            return next + 1
        }
        return nil
    }

    private mutating func advance(over byte: UInt8) {
        let isReturn = byte == UInt8(ascii: "\r")
        let endsLine = isReturn || byte == UInt8(ascii: "\n")
        switch place {
        case .afterReturn where byte == UInt8(ascii: "\n"): place = .start
        case .start, .afterReturn:
            if endsLine { hasFields = false }
            if !endsLine, byte != UInt8(ascii: ":") { hasFields = true }
            place = isReturn ? .afterReturn : endsLine ? .start : byte == UInt8(ascii: ":") ? .comment : .field
        case .comment, .field:
            if endsLine { place = isReturn ? .afterReturn : .start }
        }
    }
}
