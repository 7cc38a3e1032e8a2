import Foundation
import Glibc

/// Plays systemd for one service: the socket of NOTIFY_SOCKET, and each message with the process that sent it.
final class ServiceManager: Sendable {
    struct Message: Sendable, Equatable {
        let sender: pid_t
        let text: String
    }

    let path: String
    let messages = Watched<[Message]>([])
    private let descriptor: Int32

    init(_ folder: Folder) throws {
        path = folder.file("notify")
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = unixAddress(path)
        guard withSocketAddress(&address, { [descriptor] in bind(descriptor, $0, $1) }) == 0 else { throw Fault("no socket at \(path)") }
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &on, socklen_t(MemoryLayout<Int32>.size))
        let (listening, messages) = (descriptor, messages)
        Thread.detachNewThread {
            while let message = Self.next(listening) { messages.change { $0.append(message) } }
            close(listening)
        }
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

    var environment: [String: String] { ["NOTIFY_SOCKET": path] }

    /// How often a message came that has this line, of one process or of any.
    func count(_ line: String, from sender: pid_t? = nil) -> Int {
        messages.now.count { $0.has(line) && (sender == nil || $0.sender == sender) }
    }

    /// Waits until such a message has come `times` times.
    func wait(for line: String, from sender: pid_t? = nil, times: Int = 1, seconds: Double = 60) throws {
        try messages.wait(for: "\(line) at the service manager", seconds: seconds) { all in
            all.count { $0.has(line) && (sender == nil || $0.sender == sender) } >= times
        }
    }

    private static func next(_ descriptor: Int32) -> Message? {
        var room = [UInt8](repeating: 0, count: 4_096)
        var control = [UInt8](repeating: 0, count: 64)
        return room.withUnsafeMutableBytes { bytes in
            control.withUnsafeMutableBytes { ancillary in
                var part = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                return withUnsafeMutablePointer(to: &part) { parts in
                    var header = msghdr()
                    header.msg_iov = parts
                    header.msg_iovlen = 1
                    header.msg_control = ancillary.baseAddress
                    header.msg_controllen = ancillary.count
                    let count = recvmsg(descriptor, &header, 0)
                    guard count > 0 else { return nil }
                    // One SCM_CREDENTIALS: its header, then the pid.
                    let sender = ancillary.loadUnaligned(fromByteOffset: MemoryLayout<cmsghdr>.size, as: pid_t.self)
                    return Message(sender: sender, text: text(of: Array(bytes.prefix(count))))
                }
            }
        }
    }
}

extension ServiceManager.Message {
    func has(_ line: String) -> Bool { text.split(separator: "\n").contains { $0 == line } }
}
