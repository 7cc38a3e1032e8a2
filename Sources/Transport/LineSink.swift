import Glibc
import Synchronization
import Wire

/// Where finished log lines go: any thread hands over whole lines, one thread of its own writes them to a descriptor.
///
/// A reader that stops reading must not stop the gateway: what does not fit into 8 MiB is dropped and counted.
package final class LineSink: Sendable {
    private static let mostWaiting = 8 << 20

    private let descriptor: Int32
    private let waker: Waker
    private let waiting = Mutex<ByteBuffer>(ByteBuffer())
    private let lost = Atomic<UInt64>(0)
    private let isClosing = Atomic<Bool>(false)
    private let thread = Mutex<WorkerThread?>(nil)
    /// Woken when the thread has written everything.
    private let end: Waker

    /// Writes to `descriptor`, which stays open as long as the process: usually 1 or 2.
    package init(descriptor: Int32) throws(SystemFault) {
        self.descriptor = descriptor
        waker = try Waker()
        end = try Waker()
        let writer = try WorkerThread(name: "log") { [self] in run() }
        thread.withLock { $0 = writer }
    }

    /// Calls whose lines were dropped so far.
    package var dropped: UInt64 { lost.load(ordering: .relaxed) }

    /// Takes whole lines, from any thread; waits for nobody but another caller.
    package func write(_ lines: RawSpan) {
        let fits = waiting.withLock { buffer in
            guard buffer.count + lines.byteCount <= Self.mostWaiting else { return false }
            buffer.append(lines)
            return true
        }
        if fits {
            waker.wake()
        } else {
            lost.wrappingAdd(1, ordering: .relaxed)
        }
    }

    /// Writes what waits and ends the thread. Once, when nobody writes any more. A reader that does not read for a second
    /// must not keep the process: what it has not taken by then is lost.
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
            // Copied, so that both buffers keep their memory and a steady stream of lines allocates nothing.
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
            let wrote = unsafe block.readable.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress!, $0.count) }
            if wrote > 0 {
                block.discard(wrote)
            } else if errno == EAGAIN {
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = unsafe poll(&entry, 1, -1)
            } else if errno != EINTR {
                // Nobody will ever read this: a log that cannot be written is no reason to stop serving.
                block.removeAll()
            }
        }
    }
}
