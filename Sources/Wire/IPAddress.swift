/// An IPv4 or IPv6 address as 128 bits; IPv4 in its mapped form (`::ffff:a.b.c.d`), so that both compare alike.
///
/// A mapped address in IPv6 notation is the IPv4 address. Zones (`%eth0`) are refused.
@frozen
public struct IPAddress: Hashable, Sendable {
    /// The first and the last eight bytes, the first byte highest.
    public var high: UInt64
    public var low: UInt64

    @inlinable public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The IPv4 address whose first byte is the highest of `v4`.
    @inlinable public init(v4: UInt32) {
        high = 0
        low = 0xFFFF_0000_0000 | UInt64(v4)
    }

    @inlinable public var isIPv4: Bool { high == 0 && low >> 32 == 0xFFFF }

    /// The four bytes of an IPv4 address, the first highest; nil for IPv6.
    @inlinable public var v4: UInt32? { isIPv4 ? UInt32(truncatingIfNeeded: low) : nil }

    /// Whether it is `0.0.0.0` or `::`, which stand for all addresses of the machine.
    public var isUnspecified: Bool { isIPv4 ? low & 0xFFFF_FFFF == 0 : high == 0 && low == 0 }

    /// Whether it is a loopback address: `127.0.0.0/8` or `::1`.
    public var isLoopback: Bool { isIPv4 ? (low >> 24) & 0xFF == 127 : high == 0 && low == 1 }

    /// The key for rate limits: the address itself, or the /64 of an IPv6 address, since one customer usually has a whole /64. Behind
    /// NAT64 (`64:ff9b::/96`, RFC 6052 §2.1) it is the IPv4 address in the last 32 bits.
    @inlinable public var limitPrefix: IPAddress {
        if isIPv4 { return self }
        if high == 0x0064_FF9B_0000_0000, low >> 32 == 0 { return IPAddress(v4: UInt32(truncatingIfNeeded: low)) }
        return IPAddress(high: high, low: 0)
    }
}

extension IPAddress {
    /// Parses dotted decimal without leading zeros or a form of RFC 4291 §2.2; nil for anything else.
    package init?(parsing text: RawSpan) {
        if let v4 = Self.dotted(text) {
            self.init(v4: v4)
        } else {
            var groups = HextetReader(text)
            guard let address = groups.address() else { return nil }
            self = address
        }
    }

    package init?(parsing text: String) {
        guard let address = text.withRawBytes({ IPAddress(parsing: $0) }) else { return nil }
        self = address
    }

    /// Appends the address as text, IPv6 in the canonical form of RFC 5952.
    package func write(into out: inout ByteBuffer) {
        if isIPv4 { writeDotted(into: &out) } else { writeHextets(into: &out) }
    }

    package var text: String {
        var out = ByteBuffer(capacity: 40)
        write(into: &out)
        return out.readable.text
    }

    /// Parses four dotted numbers, each 0 to 255 without leading zeros; nil for anything else.
    static func dotted(_ text: RawSpan) -> UInt32? {
        guard text.byteCount <= 15 else { return nil }
        var value: UInt32 = 0
        var part: UInt32 = 0
        var digits = 0
        var dots = 0
        for offset in 0..<text.byteCount {
            let byte = text[offset]
            if byte == UInt8(ascii: "."), digits > 0, dots < 3 {
                value = value << 8 | part
                (part, digits, dots) = (0, 0, dots + 1)
            } else if byte.isASCIIDigit, digits == 0 || part > 0 {
                part = part * 10 + UInt32(byte - 48)
                digits += 1
                if part > 255 { return nil }
            } else {
                return nil
            }
        }
        return dots == 3 && digits > 0 ? value << 8 | part : nil
    }

    private func writeDotted(into out: inout ByteBuffer) {
        // The octets in lanes of 16 bits, the first lowest. Multiplication in place of division; exact for n / 100 below 256 and
        // n / 10 below 100.
        let octets = low >> 24 & 0xFF | (low >> 16 & 0xFF) << 16 | (low >> 8 & 0xFF) << 32 | (low & 0xFF) << 48
        let hundreds = (octets &* 41) >> 12 & 0x0003_0003_0003_0003
        let rest = octets &- hundreds &* 100
        let tens = (rest &* 103) >> 10 & 0x000F_000F_000F_000F
        let pairs = tens | (rest &- tens &* 10) << 8
        let (first, second) = (Self.text(hundreds, pairs), Self.text(hundreds >> 16, pairs >> 16))
        let (third, fourth) = (Self.text(hundreds >> 32, pairs >> 32), Self.text(hundreds >> 48, pairs >> 48))
        out.append(lowBytes: first.word | second.word << UInt64(8 &* first.count), count: first.count &+ second.count)
        out.append(lowBytes: third.word | fourth.word << UInt64(8 &* third.count), count: third.count &+ fourth.count &- 1)
    }

    /// An octet without leading zeros and a dot, from its digits in the lowest lanes.
    @inline(__always)
    private static func text(_ hundreds: UInt64, _ pairs: UInt64) -> (word: UInt64, count: Int) {
        let digits = hundreds & 0xFF | (pairs & 0xFFFF) << 8
        let zeros = min(digits.trailingZeroBitCount / 8, 2)
        return ((digits | 0x2E30_3030) >> UInt64(8 &* zeros), 4 &- zeros)
    }

    private func hextet(_ index: Int) -> UInt64 {
        (index < 4 ? high : low) >> UInt64(48 - 16 * (index & 3)) & 0xFFFF
    }

    private func writeHextets(into out: inout ByteBuffer) {
        let zeros = maxZeros()
        var index = 0
        while index < 8 {
            if index == zeros.lowerBound && !zeros.isEmpty {
                out.append("::")
                index = zeros.upperBound
                continue
            }
            if index > 0 && index != zeros.upperBound { out.append(UInt8(ascii: ":")) }
            let value = hextet(index)
            out.append(hex: value, digits: max(1, (67 - value.leadingZeroBitCount) / 4))
            index += 1
        }
    }

    /// The first of the longest runs of at least two zero hextets; empty if there is none.
    private func maxZeros() -> Range<Int> {
        var best = 0..<0
        var start = 0
        for index in 0...8 where index == 8 || hextet(index) != 0 {
            if index - start > max(best.count, 1) { best = start..<index }
            start = index + 1
        }
        return best
    }
}

/// Parser of an IPv6 address: up to eight hexadecimal groups, at most one `::`, and optionally an IPv4 address at the end.
private struct HextetReader: ~Escapable {
    let text: RawSpan
    var groups = InlineArray<8, UInt16>(repeating: 0)
    var count = 0
    /// The number of groups before `::`; nil without one.
    var gap: Int?

    @_lifetime(copy text)
    init(_ text: RawSpan) { self.text = text }

    @_lifetime(self: copy self)
    mutating func address() -> IPAddress? {
        guard (2...45).contains(text.byteCount) else { return nil }
        var offset = 0
        if text[0] == UInt8(ascii: ":") {
            guard text[1] == UInt8(ascii: ":") else { return nil }
            gap = 0
            offset = 2
        }
        while offset < text.byteCount {
            guard count < 8, let next = group(at: offset) else { return nil }
            offset = next
        }
        return gap == nil && count < 8 || count == 8 && gap != nil ? nil : joined()
    }

    /// Reads one group and the colons after it; returns the offset of the next group.
    @_lifetime(self: copy self)
    private mutating func group(at start: Int) -> Int? {
        var value: UInt32 = 0
        var offset = start
        while offset < text.byteCount, offset - start < 5, let digit = text[offset].hexValue {
            value = value << 4 | UInt32(digit)
            offset += 1
        }
        if offset < text.byteCount, text[offset] == UInt8(ascii: ".") { return dottedTail(at: start) }
        guard (1...4).contains(offset - start) else { return nil }
        append(UInt16(truncatingIfNeeded: value))
        return offset == text.byteCount ? offset : colons(at: offset)
    }

    /// Reads one colon, after which a group must follow, or `::`, which may end the text.
    @_lifetime(self: copy self)
    private mutating func colons(at offset: Int) -> Int? {
        guard text[offset] == UInt8(ascii: ":"), offset + 1 < text.byteCount else { return nil }
        guard text[offset + 1] == UInt8(ascii: ":") else { return offset + 1 }
        guard gap == nil else { return nil }
        gap = count
        return offset + 2
    }

    @_lifetime(self: copy self)
    private mutating func dottedTail(at start: Int) -> Int? {
        guard count <= 6, let v4 = IPAddress.dotted(text.dropping(start)) else { return nil }
        append(UInt16(truncatingIfNeeded: v4 >> 16))
        append(UInt16(truncatingIfNeeded: v4))
        return text.byteCount
    }

    @_lifetime(self: copy self)
    private mutating func append(_ value: UInt16) {
        groups[count] = value
        count += 1
    }

    private func joined() -> IPAddress {
        var halves: (high: UInt64, low: UInt64) = (0, 0)
        for index in 0..<count {
            let position = index < (gap ?? 8) ? index : index + 8 - count
            let value = UInt64(groups[index]) << UInt64(48 - 16 * (position & 3))
            if position < 4 { halves.high |= value } else { halves.low |= value }
        }
        return IPAddress(high: halves.high, low: halves.low)
    }
}
