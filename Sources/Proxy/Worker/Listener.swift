package import Transport

/// A listening socket of one worker, and its protocol.
package struct Listener: Sendable {
    package var socket: Socket
    /// Serves health, metrics and the admin API instead of routes.
    package var isAdmin: Bool
    /// Connections begin with a PROXY protocol header.
    package var announces: Bool
    package var tls: TLSServerContext?

    package init(socket: Socket, isAdmin: Bool = false, announces: Bool = false, tls: TLSServerContext? = nil) {
        self.socket = socket
        self.isAdmin = isAdmin
        self.announces = announces
        self.tls = tls
    }
}
