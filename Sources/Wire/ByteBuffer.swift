import Glibc

/// A noncopyable queue of bytes: appended at the end, consumed from the start.
///
/// A buffer of capacity 0 owns no memory. It doubles when an append does not fit and has no upper bound of its own: code
/// that fills it from the network sets one; beyond 4 GiB it traps. Raw memory for bytes is owned by this type alone.
@safe @frozen
public struct ByteBuffer: ~Copyable {
    @usableFromInline var base: UnsafeMutableRawPointer?
    // Offsets of 32 bits, because each connection and each request has several buffers. `end` never exceeds `allocated`.
    @usableFromInline var allocated: UInt32
    @usableFromInline var start: UInt32 = 0
    @usableFromInline var end: UInt32 = 0

    /// A buffer that owns no memory.
    @inlinable public init() {
        unsafe base = nil
        allocated = 0
    }

    /// A buffer with room for `capacity` bytes; the kernel commits their pages only as they are written.
    public init(capacity: Int) {
        precondition(capacity >= 0)
        allocated = UInt32(capacity)
        unsafe base = capacity == 0 ? nil : malloc(capacity)
        unsafe precondition(capacity == 0 || base != nil, "out of memory")
    }

    // Most buffers are empty, and even free(nil) costs a call.
    @inlinable deinit { if let base = unsafe base { unsafe Self.release(base) } }

    @usableFromInline static func release(_ base: UnsafeMutableRawPointer) { unsafe free(base) }

    /// The number of readable bytes.
    @inlinable public var count: Int { Int(end &- start) }
    @inlinable public var isEmpty: Bool { end == start }
    /// Bytes that fit without growing.
    @inlinable public var capacity: Int { Int(allocated) }

    /// The readable bytes.
    @inlinable public var readable: RawSpan {
        @_lifetime(borrow self) get {
            guard let base = unsafe base else { return RawSpan() }
            return unsafe _overrideLifetime(
                RawSpan(_unsafeStart: base + Int(start), byteCount: count), borrowing: self)
        }
    }

    /// Makes room for `extra` more bytes behind the readable ones: moves them to the front, or grows.
    @inlinable public mutating func reserve(_ extra: Int) {
        if capacity &- Int(end) < extra { makeRoom(extra) }
    }

    @usableFromInline mutating func makeRoom(_ extra: Int) {
        precondition(extra >= 0)
        let count = count
        if start > 0 {
            if count > 0 { unsafe memmove(base!, base! + Int(start), count) }
            start = 0
            end = UInt32(count)
        }
        if capacity - count >= extra { return }
        resize(max(min(capacity * 2, Int(UInt32.max)), count + extra, 64))
    }

    private mutating func resize(_ size: Int) {
        allocated = UInt32(size)
        unsafe base = realloc(base, size)
        unsafe precondition(base != nil, "out of memory")
    }

    /// Gives back what a buffer that has grown does not need for its readable bytes, but for less than 64 bytes.
    public mutating func trim() {
        let size = (Int(end) + 63) & ~63
        if size < capacity, size > 0 { resize(size) }
    }

    /// Appends a copy of `bytes`. Out of line and ending with the copy, it saves no registers, which would cost as much as copying a
    /// short text.
    @inline(never) public mutating func append(_ bytes: RawSpan) {
        let count = bytes.byteCount
        guard capacity &- Int(end) >= count else { return grow(by: bytes) }
        guard count > 0 else { return }
        let target = unsafe base! + Int(end)
        end &+= UInt32(truncatingIfNeeded: count)
        // The span outlives the call, and a closure that copies would not be inlined.
        let source = unsafe bytes.withUnsafeBytes { $0.baseAddress! }
        unsafe Self.copy(source, to: target, count)
    }

    @inline(never) private mutating func grow(by bytes: RawSpan) {
        makeRoom(bytes.byteCount)
        append(bytes)
    }

    /// memcpy with an inlined path for 1 to 128 bytes: most parts of a head are that short, and the call costs more than the copy.
    @inline(__always) private static func copy(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, _ count: Int) {
        if count > 16 {
            if count <= 32 { return unsafe copyEnds(source, to: target, count, as: SIMD2<UInt64>.self) }
            if count > 128 { return unsafe target.copyMemory(from: source, byteCount: count) }
            var offset = 0
            while offset < count &- 32 {
                unsafe copyEnds(source + offset, to: target + offset, 32, as: SIMD2<UInt64>.self)
                offset &+= 32
            }
            unsafe copyEnds(source + (count &- 32), to: target + (count &- 32), 32, as: SIMD2<UInt64>.self)
        } else if count >= 8 {
            unsafe copyEnds(source, to: target, count, as: UInt64.self)
        } else if count >= 4 {
            unsafe copyEnds(source, to: target, count, as: UInt32.self)
        } else if count >= 2 {
            unsafe copyEnds(source, to: target, count, as: UInt16.self)
        } else {
            unsafe target.storeBytes(of: source.load(as: UInt8.self), as: UInt8.self)
        }
    }

    /// Copies `count` bytes as a first and a last `Word`, which may overlap.
    @inline(__always) private static func copyEnds<Word: BitwiseCopyable>(
        _ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, _ count: Int, as type: Word.Type
    ) {
        let last = count &- MemoryLayout<Word>.size
        let (head, tail) = unsafe (
            source.loadUnaligned(as: type), source.loadUnaligned(fromByteOffset: last, as: type)
        )
        unsafe target.storeBytes(of: head, as: type)
        unsafe target.storeBytes(of: tail, toByteOffset: last, as: type)
    }

    /// Appends a copy of bytes that are already in the buffer; `range` counts from the first readable byte.
    public mutating func append(copyOf range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= count)
        guard !range.isEmpty else { return }
        reserve(range.count)
        unsafe Self.copy(base! + Int(start) + range.lowerBound, to: base! + Int(end), range.count)
        end &+= UInt32(truncatingIfNeeded: range.count)
    }

    /// Appends a literal. Always inlined, so that the compiler knows its length and emits stores in place of a call.
    @inlinable @inline(__always) public mutating func append(_ text: StaticString) {
        let count = text.utf8CodeUnitCount
        guard count > 0 else { return }
        reserve(count)
        unsafe (base! + Int(end)).copyMemory(from: text.utf8Start, byteCount: count)
        end &+= UInt32(truncatingIfNeeded: count)
    }

    @inlinable public mutating func append(_ byte: UInt8) {
        reserve(1)
        unsafe base!.storeBytes(of: byte, toByteOffset: Int(end), as: UInt8.self)
        end &+= 1
    }

    /// Appends the `count` (0 to 8) lowest bytes of `word`, the lowest first.
    @inlinable public mutating func append(lowBytes word: UInt64, count: Int) {
        precondition(count >= 0 && count <= 8)
        reserve(8)
        unsafe base!.storeBytes(of: word.littleEndian, toByteOffset: Int(end), as: UInt64.self)
        end &+= UInt32(truncatingIfNeeded: count)
    }

    /// Appends the `count` (0 to 8) highest bytes of `word`, the highest first.
    @inlinable public mutating func append(highBytes word: UInt64, count: Int) {
        append(lowBytes: word.byteSwapped, count: count)
    }

    /// Appends one scalar as UTF-8.
    public mutating func append(scalar: Unicode.Scalar) {
        UTF8.encode(scalar).map { for byte in $0 { append(byte) } }
    }

    /// Appends `text` as UTF-8; for configuration and slow paths. Disfavoured, so that a literal picks the StaticString overload.
    @_disfavoredOverload
    public mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { unsafe append(RawSpan(_unsafeBytes: UnsafeRawBufferPointer($0))) }
    }

    public mutating func append(_ bytes: [UInt8]) {
        unsafe append(bytes.span.bytes)
    }

    /// Appends `value` in decimal, without padding.
    public mutating func append(decimal value: UInt64) {
        guard value < DecimalDigits.bound else {
            append(decimal: value / DecimalDigits.bound)
            return append(lowBytes: DecimalDigits.padded(value % DecimalDigits.bound), count: 8)
        }
        let digits = DecimalDigits(value)
        append(lowBytes: digits.word, count: digits.count)
    }

    public mutating func append(decimal value: Int) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: UInt64(value.magnitude))
    }

    /// Appends the lowest `digits` (1 to 16) hexadecimal digits of `value`, in lower case, the highest first.
    @inlinable @inline(__always)
    public mutating func append(hex value: UInt64, digits: Int) {
        precondition((1...16).contains(digits))
        reserve(16)
        let aligned = value << UInt64(64 - 4 * digits)
        let high = Self.hexDigits(UInt32(truncatingIfNeeded: aligned >> 32))
        unsafe base!.storeBytes(of: high.bigEndian, toByteOffset: Int(end), as: UInt64.self)
        if digits > 8 {
            let low = Self.hexDigits(UInt32(truncatingIfNeeded: aligned))
            unsafe base!.storeBytes(of: low.bigEndian, toByteOffset: Int(end) + 8, as: UInt64.self)
        }
        end &+= UInt32(truncatingIfNeeded: digits)
    }

    /// Eight hexadecimal digits as ASCII, the first in the highest byte: spreads nibbles to bytes, then adds 39 to those above
    /// 9, which takes them from the digits to the letters.
    @inlinable static func hexDigits(_ value: UInt32) -> UInt64 {
        var spread = UInt64(value)
        spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF
        spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF
        spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = (spread &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return spread &+ 0x3030_3030_3030_3030 &+ isLetter &* 39
    }

    /// Appends 128 bits in the form of a UUID: 32 hexadecimal digits in lower case, with four hyphens.
    package mutating func append(uuid high: UInt64, _ low: UInt64) {
        reserve(36)
        let out = unsafe base! + Int(end)
        let second = Self.hexDigits(UInt32(truncatingIfNeeded: high)).byteSwapped
        let third = Self.hexDigits(UInt32(truncatingIfNeeded: low >> 32)).byteSwapped
        unsafe out.storeBytes(of: Self.hexDigits(UInt32(truncatingIfNeeded: high >> 32)).bigEndian, as: UInt64.self)
        unsafe out.storeBytes(of: Self.hyphenated(second), toByteOffset: 8, as: UInt64.self)
        unsafe out.storeBytes(of: Self.hyphenated(second >> 32), toByteOffset: 13, as: UInt64.self)
        unsafe out.storeBytes(of: Self.hyphenated(third), toByteOffset: 18, as: UInt64.self)
        unsafe out.storeBytes(of: Self.hyphenated(third >> 32), toByteOffset: 23, as: UInt64.self)
        unsafe out.storeBytes(of: Self.hexDigits(UInt32(truncatingIfNeeded: low)).bigEndian, toByteOffset: 28, as: UInt64.self)
        end &+= 36
    }

    /// A hyphen and four digits, the lowest bytes of `digits`, as they lie in memory. The bytes behind them are overwritten.
    private static func hyphenated(_ digits: UInt64) -> UInt64 { (digits << 8 | 0x2D).littleEndian }

    /// Drops the first `count` readable bytes; traps if there are fewer.
    @inlinable public mutating func discard(_ count: Int) {
        precondition(count >= 0 && count <= self.count)
        start &+= UInt32(truncatingIfNeeded: count)
        if start == end {
            start = 0
            end = 0
        }
    }

    /// Keeps only the first `count` readable bytes; traps if there are fewer.
    @inlinable public mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= self.count)
        end = start &+ UInt32(truncatingIfNeeded: count)
    }

    /// Empties the buffer and keeps its memory.
    @inlinable public mutating func removeAll() {
        start = 0
        end = 0
    }

    /// Overwrites the readable byte at `offset`; traps if there is none.
    @inlinable public mutating func set(_ byte: UInt8, at offset: Int) {
        precondition(offset >= 0 && offset < count)
        unsafe base!.storeBytes(of: byte, toByteOffset: Int(start) + offset, as: UInt8.self)
    }

    /// Calls `body` with `room` writable bytes after the readable ones; it returns how many it wrote. For system calls and C
    /// libraries that fill memory.
    @unsafe @inlinable
    public mutating func withUnsafeRoom(_ room: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        reserve(room)
        let wrote = unsafe body(UnsafeMutableRawBufferPointer(start: base.map { unsafe $0 + Int(end) }, count: room))
        precondition(wrote >= 0 && wrote <= room)
        end &+= UInt32(truncatingIfNeeded: wrote)
    }
}
