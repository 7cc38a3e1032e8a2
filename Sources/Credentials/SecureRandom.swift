package import Wire

/// Random bytes that nobody can guess, from OpenSSL's generator. Any thread.
package enum SecureRandom {
    package static func bytes(_ count: Int) -> [UInt8] { [] }

    /// Appends `count` random bytes.
    package static func fill(_ out: inout ByteBuffer, count: Int) {}
}
