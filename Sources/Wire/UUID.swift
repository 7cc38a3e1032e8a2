/// A universally unique identifier (RFC 9562): 128 bits, ordered by their text.
@frozen
public struct UUID: Hashable, Sendable {
    /// The first and the last eight bytes, the first byte highest.
    public var high: UInt64
    public var low: UInt64

    @inlinable public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Version 4: 122 of the random bits (RFC 9562 §5.4).
    package init(random: (UInt64, UInt64)) {
        high = random.0 & ~0xF000 | 0x4000
        low = random.1 & ~(0b11 << 62) | 0b10 << 62
    }

    /// Version 7: the Unix time in ms and 74 of the random bits, so that ids sort by creation time (RFC 9562 §5.7).
    package init(at now: WallTime, random: (UInt64, UInt64)) {
        let milliseconds = UInt64(bitPattern: now.microseconds / 1_000) & 0xFFFF_FFFF_FFFF
        high = milliseconds << 16 | 0x7000 | random.0 >> 52
        low = 0b10 << 62 | random.1 >> 2
    }
}

extension UUID {
    /// From 16 bytes, big-endian; nil for another number of bytes.
    package init?(bytes: RawSpan) {
        guard bytes.byteCount == 16 else { return nil }
        self.init(high: bytes.load64(0).byteSwapped, low: bytes.load64(8).byteSwapped)
    }

    /// The 16 bytes, big-endian, as in databases and tokens.
    package var bytes: [UInt8] {
        [high, low].flatMap { half in stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: half >> $0) } }
    }

    /// Parses the form `550e8400-e29b-41d4-a716-446655440000` in either case; nil for any other form.
    package init?(parsing text: RawSpan) {
        guard text.byteCount == 36 else { return nil }
        var words = InlineArray<2, UInt64>(repeating: 0)
        var digits = 0
        for offset in 0..<36 {
            if Self.isDash(offset) {
                guard text[offset] == UInt8(ascii: "-") else { return nil }
            } else {
                guard let value = text[offset].hexValue else { return nil }
                words[digits / 16] = words[digits / 16] << 4 | UInt64(value)
                digits += 1
            }
        }
        self.init(high: words[0], low: words[1])
    }

    package init?(parsing text: String) {
        guard let id = text.withRawBytes({ UUID(parsing: $0) }) else { return nil }
        self = id
    }

    private static func isDash(_ offset: Int) -> Bool { offset == 8 || offset == 13 || offset == 18 || offset == 23 }

    /// Appends the 36 characters, in lower case.
    package func write(into out: inout ByteBuffer) {
        out.append(uuid: high, low)
    }

    package var text: String {
        var out = ByteBuffer(capacity: 36)
        write(into: &out)
        return out.readable.text
    }
}

extension UUID: Comparable, CustomStringConvertible {
    @inlinable public static func < (left: Self, right: Self) -> Bool {
        left.high == right.high ? left.low < right.low : left.high < right.high
    }

    public var description: String { text }
}
