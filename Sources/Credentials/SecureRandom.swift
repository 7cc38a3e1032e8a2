import COpenSSL

/// A source of `count` cryptographically secure random bytes. A parameter wherever secrets are created, so that tests can
/// supply known ones.
package typealias RandomBytes = @Sendable (_ count: Int) -> [UInt8]

/// OpenSSL's cryptographically secure random generator. Any thread. If it fails, the process traps: there is no safe fallback.
package enum SecureRandom {
    /// `count` random bytes.
    @Sendable package static func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        precondition(unsafe RAND_bytes(&bytes, Int32(count)) == 1, "OpenSSL has no randomness")
        return bytes
    }
}
