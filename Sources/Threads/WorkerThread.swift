import CLinux
import Glibc
import Synchronization
package import System

/// A system thread that runs one closure.
package final class WorkerThread: Sendable {
    private let thread: Mutex<pthread_t?>

    /// Starts the thread. `name` is shown by `top -H` (its first 15 bytes); `cpu` pins it to a processor, if allowed.
    package init(name: String, cpu: Int? = nil, _ body: @escaping @Sendable () -> Void) throws(SystemFault) {
        let work = unsafe Unmanaged.passRetained(Work(name: name, cpu: cpu, body: body))
        var thread = pthread_t()
        let number = unsafe pthread_create(&thread, nil, { unsafe Work.run($0) }, work.toOpaque())
        guard number == 0 else {
            unsafe work.release()
            throw SystemFault("start the thread \(name)", errno: number)
        }
        self.thread = Mutex(thread)
    }

    /// Starts a thread and returns a closure that joins it; nil if no thread is available. For pools that own their threads.
    package static let start: @Sendable (String, @escaping @Sendable () -> Void) -> (@Sendable () -> Void)? = { name, body in
        do {
            let thread = try WorkerThread(name: name, body)
            return { thread.join() }
        } catch {
            return nil
        }
    }

    /// Waits until the closure has returned. Later calls return at once. Not from the thread itself.
    package func join() {
        let thread = self.thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        if let thread { _ = pthread_join(thread, nil) }
    }

    deinit {
        if let thread = thread.withLock({ $0 }) { pthread_detach(thread) }
    }
}

/// Closure and name handed to the new thread.
private final class Work: Sendable {
    let name: String
    let cpu: Int?
    let body: @Sendable () -> Void

    init(name: String, cpu: Int?, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.cpu = cpu
        self.body = body
    }

    @unsafe static func run(_ opaque: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard let opaque = unsafe opaque else { return nil }
        unsafe Unmanaged<Work>.fromOpaque(opaque).takeRetainedValue().start()
        return nil
    }

    private func start() {
        _ = unsafe clinux_name_thread(name)
        if let cpu, (0..<1024).contains(cpu) { _ = clinux_pin_to_cpu(Int32(cpu)) }
        body()
    }
}
