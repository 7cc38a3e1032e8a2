import Glibc

/// A TCP port of 127.0.0.1 on which nobody listens, and which the kernel gives to nobody else while this object lives.
///
/// It is bound with SO_REUSEADDR and does not listen: connections are refused until a server that is told the number, and sets the
/// same option, listens there. That server may end and begin again.
public final class HeldPort: Sendable {
    public let number: UInt16
    private let descriptor: Int32

    public init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var reuse: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<Int32>.size))
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
            }
        }
        guard isBound else {
            close(descriptor)
            throw ServerFault("no free port: \(String(cString: strerror(errno)))")
        }
        self.descriptor = descriptor
        number = UInt16(bigEndian: place.sin_port)
    }

    deinit { close(descriptor) }
}
