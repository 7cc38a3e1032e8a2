import Glibc
package import Wire

/// Host names to addresses.
package enum Resolver {
    /// The distinct stream addresses of `host` (a name, or an address with or without brackets), in order of preference. A
    /// name blocks for as long as the system's resolver takes, so not on a loop.
    package static func resolve(host: String, port: UInt16) throws(SystemFault) -> [SocketAddress] {
        if let address = numeric(host) { return [.ip(address, port: port)] }
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let number = unsafe getaddrinfo(host, nil, &hints, &list)
        guard number == 0 else { throw fault(host, number) }
        defer { unsafe freeaddrinfo(list) }
        var found: [SocketAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            if let bytes = unsafe entry.pointee.ai_addr {
                let room = unsafe UnsafeRawBufferPointer(start: bytes, count: Int(entry.pointee.ai_addrlen))
                if case .ip(let address, _, let scope) = unsafe SocketAddress(system: room) {
                    let one = SocketAddress.ip(address, port: port, scope: scope)
                    if !found.contains(one) { found.append(one) }
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        guard !found.isEmpty else { throw fault(host, EAI_NONAME) }
        return found
    }

    /// Parses an address, in brackets or not; nil for a name.
    package static func numeric(_ host: String) -> IPAddress? {
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        return IPAddress(parsing: isBracketed ? String(host.dropFirst().dropLast()) : host)
    }

    private static func fault(_ host: String, _ number: Int32) -> SystemFault {
        let operation = "find the address of \(host)"
        if number == EAI_SYSTEM { return SystemFault(operation) }
        let reason = unsafe gai_strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
        return SystemFault(operation, reason: reason)
    }
}
