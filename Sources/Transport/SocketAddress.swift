import Glibc

/// Where a socket listens, connects to or was connected from.
package enum SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// The address as a number (127.0.0.1 is 0x7F000001).
    case ipv4(UInt32, port: UInt16)
    /// The 16 bytes in two halves, high first, and the scope of a link-local address.
    case ipv6(UInt64, UInt64, scope: UInt32, port: UInt16)
    /// A file, a leading "@" for a name in the abstract space, empty for an unnamed socket.
    case unix(String)

    /// `127.0.0.1:8000`, `[::1]:8000`, `unix:/path`, `unix:@name`; no names.
    package init?(parsing text: String) { return nil }

    /// nil for a unix socket.
    package var port: UInt16? { nil }
    package var description: String { "" }
}
