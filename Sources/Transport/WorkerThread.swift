/// A thread of the system's, running one closure.
package final class WorkerThread: Sendable {
    /// `name` is what `top -H` shows, 15 bytes at most count.
    package init(name: String, _ body: @escaping @Sendable () -> Void) throws(SystemFault) { throw SystemFault("", errno: 0) }
    /// Waits until the closure has returned; once.
    package func join() {}
}
