import Wire

/// Bytes of all unanswered commands, oldest first. Sent bytes stay until the reply, so that a command can be sent again.
struct RedisOutput: ~Copyable {
    /// Commands are appended here.
    var bytes = ByteBuffer()
    /// Number of bytes sent.
    private(set) var sent = 0
    /// Whether the last write would have blocked.
    var isBlocked = false
    /// Scratch for a copy of a command.
    private var copy = ByteBuffer()

    var hasUnsent: Bool { sent < bytes.count }

    mutating func wasSent(_ count: Int) { sent += count }

    /// Removes the first command, of `count` bytes, which was answered.
    mutating func removeFirst(_ count: Int) {
        precondition(count <= sent)
        bytes.discard(count)
        sent -= count
    }

    /// Appends a copy of the first command, of `count` bytes.
    mutating func repeatFirst(_ count: Int) {
        copy.removeAll()
        Self.append(bytes, first: count, to: &copy)
        Self.append(copy, first: count, to: &bytes)
    }

    private static func append(_ from: borrowing ByteBuffer, first count: Int, to out: inout ByteBuffer) {
        out.append(from.readable.extracting(first: count))
    }

    mutating func removeAll() {
        bytes.removeAll()
        sent = 0
        isBlocked = false
    }
}
