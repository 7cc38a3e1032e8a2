package enum ProcessSignal: Sendable, Equatable { case hangup, terminate, interrupt, child, user1, user2 }
/// Signals as events of the main thread.
package enum Signals {
    /// Call first, before any thread starts: blocks the signals in this and all later threads; ignores SIGPIPE.
    package static func take() throws(SystemFault) {}
    /// Waits for the next one.
    package static func wait(milliseconds: Int32 = -1) -> ProcessSignal? { nil }
}
/// Raises the soft limit of open files to the hard one; answers the limit now in force.
@discardableResult
package func raiseFileLimit() -> Int { 0 }
/// Tells systemd (`NOTIFY_SOCKET` given as `socket`): `READY=1`, `STOPPING=1`. Nothing happens without a socket.
package func notifySystemd(_ state: String, socket: String?) {}
