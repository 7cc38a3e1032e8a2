import Glibc
import Synchronization
package import System
import Wire

/// Log writer: any thread hands over whole lines, and a thread of its own writes them to a descriptor.
///
/// A reader that stops reading must not block the gateway: lines beyond 8 MiB of backlog are dropped and counted.
package final class LineSink: Sendable {
    private static let maxWaiting = 8 << 20
    /// PIPE_BUF: so many bytes go into a pipe whole (pipe(7)), and into a stream socket as well.
    private static let atomicBytes = 4_096

    private let descriptor: Int32
    /// Whether two writers could tear each other's lines apart.
    private let isStream: Bool
    private let waker: Waker
    private let waiting = Mutex<ByteBuffer>(ByteBuffer())
    private let lost = Atomic<UInt64>(0)
    private let isClosing = Atomic<Bool>(false)
    private let thread = Mutex<WorkerThread?>(nil)
    /// Woken when the thread has written everything.
    private let end: Waker

    /// Writes to `descriptor`, which stays open as long as the process; usually 1 or 2.
    package init(descriptor: Int32) throws(SystemFault) {
        self.descriptor = descriptor
        var status = stat()
        isStream = unsafe fstat(descriptor, &status) != 0 || status.st_mode & S_IFMT != S_IFREG
        waker = try Waker()
        end = try Waker()
        let writer = try WorkerThread(name: "log") { [self] in run() }
        thread.withLock { $0 = writer }
    }

    /// Number of writes that were dropped.
    package var dropped: UInt64 { lost.load(ordering: .relaxed) }

    /// Appends whole lines. Any thread; only blocks for other writers.
    package func write(_ lines: RawSpan) {
        let fits = waiting.withLock { buffer in
            guard buffer.count + lines.byteCount <= Self.maxWaiting else { return false }
            buffer.append(lines)
            return true
        }
        if fits {
            waker.wake()
        } else {
            lost.wrappingAdd(1, ordering: .relaxed)
        }
    }

    /// Writes the backlog and ends the thread. Call it once, after the last write. Drops what the reader has not taken
    /// within a second, so that it cannot delay the exit.
    package func close() {
        isClosing.store(true, ordering: .releasing)
        waker.wake()
        let hasEnded = end.wait(milliseconds: 1_000)
        thread.withLock { writer in
            if hasEnded { writer?.join() }
            writer = nil
        }
    }

    private func run() {
        var block = ByteBuffer()
        var goesOn = true
        while goesOn {
            waker.wait()
            goesOn = !isClosing.load(ordering: .acquiring)
            // Copied, so that both buffers keep their memory and a steady load allocates nothing.
            waiting.withLock { lines in
                block.append(lines.readable)
                lines.removeAll()
            }
            writeOut(&block)
        }
        end.wake()
    }

    private func writeOut(_ block: inout ByteBuffer) {
        while !block.isEmpty {
            let count = isStream ? Self.wholeLines(block.readable) : block.count
            let wrote = unsafe block.readable.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress!, count) }
            if wrote > 0 {
                block.discard(wrote)
            } else if errno == EAGAIN {
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = unsafe poll(&entry, 1, -1)
            } else if errno != EINTR {
                // A log that cannot be written must not stop the gateway.
                block.removeAll()
            }
        }
    }

    /// Bytes of the first lines that go out as one piece, as another process may write to the same pipe or socket (an upgrade in place).
    private static func wholeLines(_ bytes: RawSpan) -> Int {
        guard bytes.byteCount > atomicBytes else { return bytes.byteCount }
        for offset in stride(from: atomicBytes - 1, through: 0, by: -1) where bytes[offset] == UInt8(ascii: "\n") { return offset + 1 }
        // A line that is longer.
        return (bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.byteCount - 1) + 1
    }
}
