public import Glibc

/// A range of bytes in a buffer, as 32-bit offset and count. Parsers return slices in place of copies.
@frozen
public struct Slice: Equatable, Sendable {
    public var start: UInt32
    public var count: UInt32

    @inlinable public init(start: Int, count: Int) {
        self.start = UInt32(start)
        self.count = UInt32(count)
    }

    /// The empty slice at offset 0.
    @inlinable public init() {
        start = 0
        count = 0
    }

    @inlinable public var isEmpty: Bool { count == 0 }
    @inlinable public var end: Int { Int(start) + Int(count) }
}

extension RawSpan {
    /// The byte at `offset`; traps outside the span.
    @inlinable public subscript(_ offset: Int) -> UInt8 {
        unsafe unsafeLoad(fromByteOffset: offset, as: UInt8.self)
    }

    /// Two bytes from `offset` on, the first in the lowest bits; traps outside the span.
    @inlinable public func load16(_ offset: Int) -> UInt16 {
        UInt16(littleEndian: unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    /// Four bytes from `offset` on, the first in the lowest bits; traps outside the span.
    @inlinable public func load32(_ offset: Int) -> UInt32 {
        UInt32(littleEndian: unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    /// Eight bytes from `offset` on, the first in the lowest bits; traps outside the span.
    @inlinable public func load64(_ offset: Int) -> UInt64 {
        UInt64(littleEndian: unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// The bytes of `slice`; traps if it does not lie inside the span.
    @inlinable public subscript(_ slice: Slice) -> RawSpan {
        @_lifetime(copy self) get { extracting(Int(slice.start)..<slice.end) }
    }

    /// The bytes from `offset` to the end; traps outside the span.
    @_lifetime(copy self)
    @inlinable public func dropping(_ offset: Int) -> RawSpan {
        extracting(offset..<byteCount)
    }

    /// Whether both hold the same bytes. Not in constant time: never for secrets.
    @inlinable public func equals(_ other: RawSpan) -> Bool {
        let count = byteCount
        guard count == other.byteCount else { return false }
        guard count > 0 else { return true }
        // Two overlapping loads compare short names without a call.
        if count >= 8, count <= 16 { return load64(0) == other.load64(0) && load64(count &- 8) == other.load64(count &- 8) }
        if count >= 4, count < 8 { return load32(0) == other.load32(0) && load32(count &- 4) == other.load32(count &- 4) }
        return unsafe withUnsafeBytes { mine in
            unsafe other.withUnsafeBytes { unsafe memcmp(mine.baseAddress!, $0.baseAddress!, count) == 0 }
        }
    }

    @inlinable public func equals(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard count == byteCount else { return false }
        guard count > 0 else { return true }
        return unsafe withUnsafeBytes { unsafe memcmp($0.baseAddress!, text.utf8Start, count) == 0 }
    }

    /// Whether the bytes are `lowercased` (which must be lower case) in any mix of ASCII case.
    public func equalsIgnoringCase(_ lowercased: StaticString) -> Bool {
        let count = lowercased.utf8CodeUnitCount
        guard count == byteCount else { return false }
        let text = unsafe lowercased.utf8Start
        for offset in 0..<count where self[offset].lowercasedASCII != (unsafe text[offset]) { return false }
        return true
    }

    /// Whether both are the same text in some mix of ASCII case.
    public func equalsIgnoringCase(_ other: RawSpan) -> Bool {
        guard byteCount == other.byteCount else { return false }
        for offset in 0..<byteCount where self[offset].lowercasedASCII != other[offset].lowercasedASCII { return false }
        return true
    }

    @inlinable public func hasPrefix(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard count <= byteCount else { return false }
        return extracting(0..<count).equals(text)
    }

    @inlinable public func hasPrefix(_ other: RawSpan) -> Bool {
        other.byteCount <= byteCount && extracting(0..<other.byteCount).equals(other)
    }

    /// The first offset at or after `from` that holds `byte`.
    @inlinable public func firstIndex(of byte: UInt8, from: Int = 0) -> Int? {
        let count = byteCount - from
        guard count > 0 else { return nil }
        return unsafe withUnsafeBytes { bytes in
            guard let hit = unsafe memchr(bytes.baseAddress! + from, Int32(byte), count) else { return nil }
            return unsafe UnsafeRawPointer(hit) - bytes.baseAddress!
        }
    }

    /// A copy as text; invalid UTF-8 becomes U+FFFD. For logs, messages and slow paths.
    public var text: String {
        unsafe withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    }

    /// A copy of the bytes.
    public var array: [UInt8] {
        unsafe withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

extension Array where Element == UInt8 {
    /// The array's bytes, without a copy.
    @inlinable public var rawBytes: RawSpan {
        @_lifetime(borrow self) get { unsafe span.bytes }
    }
}

extension StaticString {
    /// The UTF-8 of the literal, which lives as long as the process.
    @inlinable public var rawBytes: RawSpan {
        @_lifetime(immortal) get {
            let bytes = unsafe UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
            return unsafe _overrideLifetime(RawSpan(_unsafeBytes: bytes), copying: ())
        }
    }
}

extension String {
    /// Calls `body` with the UTF-8 of the string, without a copy where it is stored as UTF-8.
    public func withRawBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
        var copy = self
        return try copy.withUTF8 { unsafe try body(RawSpan(_unsafeBytes: UnsafeRawBufferPointer($0))) }
    }
}

extension UInt64 {
    /// A word of eight equal bytes.
    @inlinable public init(repeatingByte byte: UInt8) { self = UInt64(byte) &* 0x0101_0101_0101_0101 }
}

extension UInt8 {
    /// The byte in ASCII lower case; other bytes are unchanged.
    @inlinable public var lowercasedASCII: UInt8 { self &- 65 < 26 ? self | 0x20 : self }
    @inlinable public var isASCIIDigit: Bool { self &- 48 < 10 }
    @inlinable public var isASCIILetter: Bool { (self | 0x20) &- 97 < 26 }
    /// The value of a hexadecimal digit of either case; nil for any other byte.
    @inlinable public var hexValue: UInt8? {
        if isASCIIDigit { return self &- 48 }
        let letter = (self | 0x20) &- 97
        return letter < 6 ? letter + 10 : nil
    }
}
