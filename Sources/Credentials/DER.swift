import Wire

/// DER encoder (X.690) for the forms in which OpenSSL takes public keys and ECDSA signatures. There is no decoder.
enum DER {
    /// Appends an INTEGER: the unsigned big-endian `number` in its shortest form.
    static func appendUnsigned(_ number: RawSpan, to out: inout ByteBuffer) {
        let digits = number.dropping(leadingZeros(number))
        let needsZero = digits.byteCount == 0 || digits[0] >= 0x80
        out.append(0x02)
        appendLength(digits.byteCount + (needsZero ? 1 : 0), to: &out)
        if needsZero { out.append(0 as UInt8) }
        out.append(digits)
    }

    /// The number of bytes that `appendUnsigned` appends.
    static func countUnsigned(_ number: RawSpan) -> Int {
        let digits = number.dropping(leadingZeros(number))
        let content = digits.byteCount + (digits.byteCount == 0 || digits[0] >= 0x80 ? 1 : 0)
        return 1 + lengthCount(content) + content
    }

    /// Appends a length in its shortest form.
    static func appendLength(_ length: Int, to out: inout ByteBuffer) {
        if length < 0x80 { return out.append(UInt8(length)) }
        let bytes = lengthCount(length) - 1
        out.append(0x80 | UInt8(bytes))
        for index in (0..<bytes).reversed() { out.append(UInt8(truncatingIfNeeded: length >> (8 * index))) }
    }

    private static func lengthCount(_ length: Int) -> Int {
        length < 0x80 ? 1 : 1 + (Int.bitWidth - length.leadingZeroBitCount + 7) / 8
    }

    private static func leadingZeros(_ number: RawSpan) -> Int {
        var zeros = 0
        while zeros < number.byteCount && number[zeros] == 0 { zeros += 1 }
        return zeros
    }
}

extension DER {
    /// Appends an Ecdsa-Sig-Value (RFC 3279 §2.2.3); `halves` is r followed by s, equally long (RFC 7518 §3.4).
    static func appendSignature(halves: RawSpan, to out: inout ByteBuffer) {
        let middle = halves.byteCount / 2
        let r = halves.extracting(0..<middle)
        let s = halves.dropping(middle)
        out.append(0x30)
        appendLength(countUnsigned(r) + countUnsigned(s), to: &out)
        appendUnsigned(r, to: &out)
        appendUnsigned(s, to: &out)
    }

    /// SubjectPublicKeyInfo of an RSA key (RFC 3279 §2.3.1); modulus and exponent are big-endian.
    static func rsaPublicKey(modulus: RawSpan, exponent: RawSpan) -> [UInt8] {
        var numbers = ByteBuffer()
        appendUnsigned(modulus, to: &numbers)
        appendUnsigned(exponent, to: &numbers)
        let key = wrapped(0x30, numbers.readable)
        return publicKey(algorithm: rsaEncryption, key: key.rawBytes)
    }

    /// SubjectPublicKeyInfo of a point on a named curve (RFC 5480 §2), from its coordinates at their full width.
    static func curvePublicKey(_ curve: EllipticCurve, x: RawSpan, y: RawSpan) -> [UInt8] {
        var point = ByteBuffer()
        point.append(0x04)  // uncompressed (SEC 1 §2.3.3)
        point.append(x)
        point.append(y)
        return publicKey(algorithm: ecPublicKey + curve.objectIdentifier, key: point.readable)
    }

    /// SubjectPublicKeyInfo of an Ed25519 key (RFC 8410 §4).
    static func ed25519PublicKey(_ bytes: RawSpan) -> [UInt8] { publicKey(algorithm: ed25519, key: bytes) }

    private static func publicKey(algorithm: [UInt8], key: RawSpan) -> [UInt8] {
        var bits = ByteBuffer()
        bits.append(0 as UInt8)  // no unused bits in the last byte
        bits.append(key)
        return wrapped(0x30, (wrapped(0x30, algorithm.rawBytes) + wrapped(0x03, bits.readable)).rawBytes)
    }

    private static func wrapped(_ tag: UInt8, _ content: RawSpan) -> [UInt8] {
        var out = ByteBuffer()
        out.append(tag)
        appendLength(content.byteCount, to: &out)
        out.append(content)
        return out.readable.array
    }

    /// 1.2.840.113549.1.1.1 and its NULL.
    private static let rsaEncryption: [UInt8] = [
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ]
    /// 1.2.840.10045.2.1; the curve follows.
    private static let ecPublicKey: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    /// 1.3.101.112.
    private static let ed25519: [UInt8] = [0x06, 0x03, 0x2B, 0x65, 0x70]
}
