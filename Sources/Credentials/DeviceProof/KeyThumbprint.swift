import Wire

/// The thumbprint of a public key (RFC 7638 with SHA-256), as `cnf.jkt` of tokens names it (RFC 9449 §6.1).
package struct KeyThumbprint: Hashable, Sendable {
    let high: UInt128
    let low: UInt128

    /// nil unless `text` is 32 bytes in base64url.
    package init?(base64url text: RawSpan) {
        guard text.byteCount == Base64URL.encodedCount(32), let bytes = Base64URL.decode(text) else { return nil }
        self.init(digest: bytes.rawBytes)
    }

    /// nil unless `bytes` are 32, as a database keeps them.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.init(digest: bytes.rawBytes)
    }

    /// From a SHA-256 digest.
    init(digest: RawSpan) {
        high = digest.load128(0)
        low = digest.load128(16)
    }

    /// The 32 bytes.
    package var bytes: [UInt8] {
        var out = ByteBuffer()
        append(to: &out)
        return out.readable.array
    }

    /// 43 letters of base64url.
    package var text: String { Base64URL.encode(bytes.rawBytes) }

    func append(to out: inout ByteBuffer) {
        high.append(to: &out)
        low.append(to: &out)
    }

    /// Appends `text` without an allocation.
    func append(base64URLTo out: inout ByteBuffer) {
        let words: InlineArray<2, UInt128> = [high.bigEndian, low.bigEndian]
        unsafe Base64URL.encode(words.span.bytes, into: &out)
    }
}

extension Digester {
    /// The SHA-256 digest as a value.
    mutating func thumbprint(_ message: RawSpan) -> KeyThumbprint { KeyThumbprint(digest: digest(message, .sha256)) }

    mutating func thumbprint(_ message: borrowing ByteBuffer) -> KeyThumbprint { thumbprint(message.readable) }
}

extension UInt128 {
    /// Appends the sixteen bytes, the highest first.
    func append(to out: inout ByteBuffer) {
        out.append(highBytes: UInt64(truncatingIfNeeded: self >> 64), count: 8)
        out.append(highBytes: UInt64(truncatingIfNeeded: self), count: 8)
    }
}

extension RawSpan {
    /// Sixteen bytes from `offset` on, the first in the highest bits; traps outside the span.
    func load128(_ offset: Int) -> UInt128 {
        UInt128(load64(offset).byteSwapped) << 64 | UInt128(load64(offset + 8).byteSwapped)
    }
}
