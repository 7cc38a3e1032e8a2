import CLinux
import Glibc

/// One end of a connection between two processes of this machine, which carries messages and, with them, descriptors (SCM_RIGHTS).
/// Closes with its last owner. Any thread, one at a time.
package final class DescriptorChannel: Sendable {
    package enum Received: Sendable {
        /// The descriptors are the receiver's to close.
        case message(String, [Int32])
        case nothing
        /// The other process has closed its end, or ended.
        case closed
    }

    /// Descriptors that one message can carry; the kernel allows no more.
    package static let maxDescriptors = Int(CLINUX_MOST_DESCRIPTORS)
    /// Bytes of the longest message.
    package static let maxMessage = 1_024

    package let descriptor: Int32

    /// Takes `descriptor` over. Throws if it is no channel, or if another user made it.
    package init(adopting descriptor: Int32) throws(SystemFault) {
        guard clinux_is_peer_same_user(descriptor) == 1 else {
            throw SystemFault("take over descriptor \(descriptor)", errno: errno == 0 ? EPERM : errno)
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        self.descriptor = descriptor
    }

    private init(unchecked descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Two connected ends.
    package static func pair() throws(SystemFault) -> (DescriptorChannel, DescriptorChannel) {
        var ends: [Int32] = [0, 0]
        guard unsafe clinux_channel(&ends) == 0 else { throw SystemFault("create a channel") }
        return (DescriptorChannel(unchecked: ends[0]), DescriptorChannel(unchecked: ends[1]))
    }

    /// Sends a message of 1 to `maxMessage` bytes and at most `maxDescriptors` descriptors, which stay open here as well. Never blocks.
    package func send(_ message: String, _ descriptors: [Int32] = []) throws(SystemFault) {
        let bytes = Array(message.utf8)
        precondition((1...Self.maxMessage).contains(bytes.count) && descriptors.count <= Self.maxDescriptors)
        let sent = unsafe clinux_send_descriptors(descriptor, bytes, bytes.count, descriptors, Int32(descriptors.count))
        guard sent == bytes.count else { throw SystemFault("send to the other process") }
    }

    /// Receives the next message, waiting for at most `milliseconds` (-1: no limit).
    package func receive(milliseconds: Int32) -> Received {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard unsafe poll(&entry, 1, milliseconds) == 1 else { return .nothing }
        var bytes = [UInt8](repeating: 0, count: Self.maxMessage)
        var descriptors = [Int32](repeating: -1, count: Self.maxDescriptors)
        var count: Int32 = 0
        let received = unsafe clinux_receive_descriptors(descriptor, &bytes, bytes.count, &descriptors, &count)
        guard received > 0 else { return received < 0 && (errno == EINTR || errno == EAGAIN) ? .nothing : .closed }
        return .message(String(decoding: bytes.prefix(received), as: UTF8.self), Array(descriptors.prefix(Int(count))))
    }
}
