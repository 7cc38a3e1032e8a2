import Wire

/// The bytes of all commands whose answers have not come, oldest first: what was sent stays until it is answered, so that
/// a command can be sent again.
struct RedisOutput: ~Copyable {
    /// Commands are appended here.
    var bytes = ByteBuffer()
    /// So many of them the system has taken.
    private(set) var sent = 0
    /// The system takes nothing more for now.
    var isBlocked = false
    /// Where a command is copied through to be sent again.
    private var copy = ByteBuffer()

    var hasUnsent: Bool { sent < bytes.count }

    mutating func wasSent(_ count: Int) { sent += count }

    /// Drops the first command, of `count` bytes, which was sent and answered.
    mutating func removeFirst(_ count: Int) {
        precondition(count <= sent)
        bytes.discard(count)
        sent -= count
    }

    /// Puts a copy of the first command, of `count` bytes, behind the last.
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
