import CLinux
import Glibc
package import Wire

/// State for systemd services with `Type=notify` or `notify-reload` (sd_notify(3)).
package enum ServiceState: Sendable, Equatable {
    case ready
    /// A reload began at this `CLOCK_MONOTONIC` time; `ready` ends it.
    case reloading(MonotonicTime)
    case stopping
    /// Another process of the service, by its pid, is its main process from now on. Only the main process may notify.
    case mainProcess(Int32)
    /// Watchdog ping for `WatchdogSec=`.
    case alive
    /// One line for `systemctl status`.
    case status(String)

    var message: String {
        switch self {
        case .ready: "READY=1"
        case .reloading(let now): "RELOADING=1\nMONOTONIC_USEC=\(now.nanoseconds / 1000)"
        case .stopping: "STOPPING=1"
        case .mainProcess(let pid): "MAINPID=\(pid)"
        case .alive: "WATCHDOG=1"
        case .status(let line): "STATUS=" + String(line.map { $0.isNewline ? " " : $0 })
        }
    }
}

/// Notifies the service manager at `socket`, the value of `NOTIFY_SOCKET`: a path, or "@" and an abstract name. Any thread.
/// False without a socket or a listener.
@discardableResult
package func notifySystemd(_ state: ServiceState, socket: String?) -> Bool {
    guard let socket, let address = SocketAddress(parsing: "unix:" + socket) else { return false }
    let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    let bytes = Array(state.message.utf8)
    let sent = unsafe address.withSystemAddress {
        unsafe sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT), $0, $1)
    }
    return sent == bytes.count
}

/// Number of cores that this process may use, at least 1.
package var coreCount: Int { max(1, Int(clinux_core_count())) }
