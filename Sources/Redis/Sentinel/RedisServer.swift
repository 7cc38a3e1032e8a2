package import Wire

/// A server to connect to; without addresses while there is none.
package struct RedisServer: Equatable, Sendable {
    package let addresses: [SocketAddress]
    /// Name that its certificate must have.
    package let name: String

    package init(addresses: [SocketAddress], name: String) {
        self.addresses = addresses
        self.name = name
    }
}
