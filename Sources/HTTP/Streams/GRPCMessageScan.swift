import Wire

/// Finds the gaps between the messages of a gRPC call: a byte of flags, four of length, then so many of the message.
package struct GRPCMessageScan: Equatable, Sendable {
    /// Bytes of the prefix that have come.
    private var prefix = 0
    private var length: UInt32 = 0
    /// Bytes of the message that are still to come.
    private var left = 0

    private static let prefixLength = 5

    package init() {}

    package var isInGap: Bool { prefix == 0 && left == 0 }

    package mutating func advance(over bytes: RawSpan) {
        var offset = 0
        while offset < bytes.byteCount { offset = advance(in: bytes, from: offset) }
    }

    /// As `EventStreamScan.advanceToGap`.
    package mutating func advanceToGap(in bytes: RawSpan) -> Int? {
        var offset = 0
        while offset < bytes.byteCount {
            offset = advance(in: bytes, from: offset)
            if isInGap { return offset }
        }
        return nil
    }

    /// Advances over a byte of a prefix, or what there is of a message; returns the next offset.
    private mutating func advance(in bytes: RawSpan, from offset: Int) -> Int {
        guard left == 0 else {
            let count = min(left, bytes.byteCount - offset)
            left -= count
            return offset + count
        }
        if prefix > 0 { length = length << 8 | UInt32(bytes[offset]) }
        prefix += 1
        if prefix == Self.prefixLength {
            left = Int(length)
            prefix = 0
            length = 0
        }
        return offset + 1
    }
}
