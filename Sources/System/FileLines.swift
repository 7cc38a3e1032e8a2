import CLinux
import Glibc
package import Wire

/// Line reader of a file of any size. Blocking; every error names the path.
package struct FileLines: ~Copyable {
    /// Longer lines are truncated.
    package static let maxLine = 1 << 20

    private let path: String
    private let descriptor: Int32
    private var chunk = ByteBuffer(capacity: 1 << 16)
    private var hasEnded = false
    /// Bytes read so far.
    package private(set) var bytesRead: UInt64 = 0

    /// `-` is standard input.
    package init(_ path: String) throws(SystemFault) {
        self.path = path
        descriptor = path == "-" ? dup(0) : unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemFault("read \(path)") }
    }

    deinit { close(descriptor) }

    /// Bytes of the file; nil for a pipe, whose length is unknown.
    package var size: UInt64? {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return UInt64(status.st_size)
    }

    /// Reads the next line into `line`, without its line feed; false at the end.
    package mutating func next(into line: inout ByteBuffer) throws(SystemFault) -> Bool {
        line.removeAll()
        while true {
            if let end = chunk.readable.firstIndex(of: UInt8(ascii: "\n")) {
                keep(end, of: &line)
                chunk.discard(end + 1)
                return true
            }
            keep(chunk.count, of: &line)
            chunk.removeAll()
            if hasEnded { return !line.isEmpty }
            try fill()
        }
    }

    private func keep(_ count: Int, of line: inout ByteBuffer) {
        line.append(chunk.readable.extracting(0..<min(count, max(0, Self.maxLine - line.count))))
    }

    private mutating func fill() throws(SystemFault) {
        var count = 0
        unsafe chunk.withUnsafeRoom(1 << 16) { room in
            count = unsafe Glibc.read(descriptor, room.baseAddress, room.count)
            return max(0, count)
        }
        if count < 0 && errno != EINTR { throw SystemFault("read \(path)") }
        hasEnded = count == 0
        bytesRead += UInt64(max(0, count))
    }
}
