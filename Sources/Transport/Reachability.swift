import Glibc
package import System
package import Wire

/// Whether a server accepts connections.
package enum Reachability {
    /// Connects to the first of `addresses` that accepts, each for up to `milliseconds`; throws the last failure. Blocks.
    package static func check(_ addresses: [SocketAddress], milliseconds: Int32) throws(SystemFault) {
        var last = SystemFault("connect", reason: "there is no address")
        for address in addresses {
            do throws(SystemFault) {
                return try check(address, milliseconds)
            } catch {
                last = error
            }
        }
        throw last
    }

    private static func check(_ address: SocketAddress, _ milliseconds: Int32) throws(SystemFault) {
        let operation = "connect to \(address)"
        switch Socket.connect(to: address) {
        case .connected(let socket): socket.close()
        case .failed(let fault): throw fault
        case .inProgress(let socket):
            defer { socket.close() }
            var entry = pollfd(fd: socket.descriptor, events: Int16(POLLOUT), revents: 0)
            guard unsafe poll(&entry, 1, milliseconds) == 1 else { throw SystemFault(operation, errno: ETIMEDOUT) }
            let number = socket.takeError()
            guard number == 0 else { throw SystemFault(operation, errno: number) }
        }
    }
}
