import Wire

/// Hashes, keyed hashes and comparison in constant time.
package enum Digest {
    /// 32 bytes (FIPS 180-4).
    package static func sha256(_ bytes: RawSpan) -> [UInt8] { [] }

    /// 32 bytes (RFC 2104).
    package static func hmacSHA256(_ bytes: RawSpan, key: RawSpan) -> [UInt8] { [] }

    /// Whether both hold the same bytes, in a time that depends on their lengths alone.
    package static func constantTimeEquals(_ left: RawSpan, _ right: RawSpan) -> Bool { false }
}
