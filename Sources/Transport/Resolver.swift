package enum Resolver {
    /// Blocking, so on a thread of one's own; a numeric host needs no look-up.
    package static func resolve(host: String, port: UInt16) throws(SystemFault) -> [SocketAddress] { [] }
}
