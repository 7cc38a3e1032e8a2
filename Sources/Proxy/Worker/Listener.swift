package import Transport

/// A listening socket of one worker, and its protocol.
package struct Listener: Sendable {
    package var socket: Socket
    /// Serves health, metrics and the admin API instead of routes.
    package var isAdmin: Bool
    /// Serves the endpoints of forward-auth instead of routes.
    package var isCheck: Bool
    /// Connections begin with a PROXY protocol header.
    package var announces: Bool
    /// Serves HTTP/2 by prior knowledge beside HTTP/1 (`;h2c`).
    package var allowsHTTP2: Bool
    package var tls: TLSServerContext?
    /// Leads each request to HTTPS at this port (`;redirect`); nil: serves it.
    package var redirectPort: UInt16?
    /// A drain has closed the descriptor, which may be another socket's since.
    var isClosed = false

    package init(
        socket: Socket, isAdmin: Bool = false, isCheck: Bool = false, announces: Bool = false, allowsHTTP2: Bool = false,
        tls: TLSServerContext? = nil
    ) {
        self.socket = socket
        self.isAdmin = isAdmin
        self.isCheck = isCheck
        self.announces = announces
        self.allowsHTTP2 = allowsHTTP2
        self.tls = tls
    }
}
