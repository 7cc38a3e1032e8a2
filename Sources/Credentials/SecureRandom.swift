import COpenSSL
package import Wire

/// Makes so many random bytes that nobody can guess. Passed in wherever secrets are made, so that tests can know them.
package typealias RandomBytes = @Sendable (_ count: Int) -> [UInt8]

/// Random bytes that nobody can guess, from OpenSSL's generator. Any thread. A machine without randomness ends the
/// process: nothing here may go on with less.
package enum SecureRandom {
    @Sendable package static func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        precondition(unsafe RAND_bytes(&bytes, Int32(count)) == 1, "OpenSSL has no randomness")
        return bytes
    }

    /// Appends `count` random bytes.
    package static func fill(_ out: inout ByteBuffer, count: Int) {
        unsafe out.withUnsafeRoom(count) {
            let start = unsafe $0.baseAddress?.assumingMemoryBound(to: UInt8.self)
            precondition(unsafe RAND_bytes(start, Int32(count)) == 1, "OpenSSL has no randomness")
            return count
        }
    }
}
