package import Wire

/// The source that a PROXY header names.
package enum ProxySource: Equatable, Sendable {
    /// The proxy itself, an unknown peer or a unix socket: the connection's own address counts.
    case local
    case address(IPAddress, port: UInt16)
}

/// The outcome of parsing a PROXY header.
package enum ProxyOutcome: Equatable, Sendable {
    case incomplete
    case complete(ProxySource, consumed: Int)
    /// No PROXY header, or a broken one: the connection must be closed without an answer.
    case invalid
}

/// The header that a load balancer puts before the bytes of a client (haproxy's proxy-protocol.txt, versions 1 and 2).
///
/// On a listener that expects it, it is mandatory: guessing would let any client name its own address. Version 1 is
/// bounded by 107 bytes, version 2 by 4 KiB; its extensions (TLVs) and checksums are skipped.
package enum ProxyProtocol {
    static let maxText = 107
    static let maxBinary = 4096
    private static let signature: StaticString = "\r\n\r\n\0\r\nQUIT\n"
    private static let textPrefix: StaticString = "PROXY "

    /// Parses the header at the start of `bytes`, everything received so far.
    package static func parse(_ bytes: RawSpan) -> ProxyOutcome {
        if startsLike(textPrefix, bytes) { return parseText(bytes) }
        if startsLike(signature, bytes) { return parseBinary(bytes) }
        return .invalid
    }

    /// Whether `bytes` begin with `prefix`, as far as they go.
    private static func startsLike(_ prefix: StaticString, _ bytes: RawSpan) -> Bool {
        let count = min(bytes.byteCount, prefix.utf8CodeUnitCount)
        for offset in 0..<count where bytes[offset] != (unsafe prefix.utf8Start[offset]) { return false }
        return true
    }

    // MARK: Version 1

    private static func parseText(_ bytes: RawSpan) -> ProxyOutcome {
        let window = bytes.extracting(0..<min(bytes.byteCount, maxText))
        guard let end = window.firstIndex(of: UInt8(ascii: "\n")) else {
            return window.byteCount < maxText ? .incomplete : .invalid
        }
        guard bytes[end - 1] == UInt8(ascii: "\r") else { return .invalid }
        let line = bytes.extracting(textPrefix.utf8CodeUnitCount..<end - 1)
        guard let source = source(ofText: line) else { return .invalid }
        return .complete(source, consumed: end + 1)
    }

    /// `TCP4 source destination port port`, or `UNKNOWN` and anything.
    private static func source(ofText line: RawSpan) -> ProxySource? {
        if line.equals("UNKNOWN") || line.hasPrefix("UNKNOWN ") { return .local }
        guard line.hasPrefix("TCP4 ") || line.hasPrefix("TCP6 ") else { return nil }
        let isIPv4 = line.hasPrefix("TCP4 ")
        var start = 5
        guard let source = address(word(of: line, at: &start), isIPv4: isIPv4),
            address(word(of: line, at: &start), isIPv4: isIPv4) != nil,
            let port = port(word(of: line, at: &start)),
            self.port(word(of: line, at: &start)) != nil,
            start == line.byteCount + 1
        else { return nil }
        return .address(source, port: port)
    }

    /// The bytes up to the next space or the end; `start` moves behind that.
    @_lifetime(copy line)
    private static func word(of line: RawSpan, at start: inout Int) -> RawSpan {
        guard start <= line.byteCount else { return RawSpan() }
        let end = line.firstIndex(of: UInt8(ascii: " "), from: start) ?? line.byteCount
        let word = line.extracting(start..<end)
        start = end + 1
        return word
    }

    private static func address(_ text: RawSpan, isIPv4: Bool) -> IPAddress? {
        // An IPv6 text always has a colon, also one that spells an IPv4 address.
        let hasColon = text.firstIndex(of: UInt8(ascii: ":")) != nil
        return hasColon == isIPv4 ? nil : IPAddress(parsing: text)
    }

    private static func port(_ text: RawSpan) -> UInt16? {
        guard (1...5).contains(text.byteCount), text.byteCount == 1 || text[0] != UInt8(ascii: "0") else { return nil }
        var value = 0
        for offset in 0..<text.byteCount {
            guard text[offset].isASCIIDigit else { return nil }
            value = value * 10 + Int(text[offset] - 48)
        }
        return UInt16(exactly: value)
    }

    // MARK: Version 2

    private static func parseBinary(_ bytes: RawSpan) -> ProxyOutcome {
        if bytes.byteCount > 12, bytes[12] != 0x20 && bytes[12] != 0x21 { return .invalid }
        guard bytes.byteCount >= 16 else { return .incomplete }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        guard length <= maxBinary - 16 else { return .invalid }
        guard bytes.byteCount >= 16 + length else { return .incomplete }
        let isLocal = bytes[12] == 0x20
        guard let source = isLocal ? .local : source(family: bytes[13], bytes.extracting(16..<16 + length)) else {
            return .invalid
        }
        return .complete(source, consumed: 16 + length)
    }

    /// `family`: the address family in the high four bits, the transport in the low ones.
    private static func source(family: UInt8, _ block: RawSpan) -> ProxySource? {
        switch family {
        case 0x11:
            guard block.byteCount >= 12 else { return nil }
            let address = IPAddress(v4: UInt32(truncatingIfNeeded: bigEndian(block, at: 0, count: 4)))
            return .address(address, port: UInt16(truncatingIfNeeded: bigEndian(block, at: 8, count: 2)))
        case 0x21:
            guard block.byteCount >= 36 else { return nil }
            let address = IPAddress(high: bigEndian(block, at: 0, count: 8), low: bigEndian(block, at: 8, count: 8))
            return .address(address, port: UInt16(truncatingIfNeeded: bigEndian(block, at: 32, count: 2)))
        case 0x31:
            return block.byteCount >= 216 ? .local : nil
        case 0x00:
            return .local
        default:
            return nil
        }
    }

    private static func bigEndian(_ bytes: RawSpan, at start: Int, count: Int) -> UInt64 {
        var value: UInt64 = 0
        for offset in start..<start + count { value = value << 8 | UInt64(bytes[offset]) }
        return value
    }
}
