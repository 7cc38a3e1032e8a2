package import Glibc
package import Wire

/// Conversion to and from `sockaddr`.
extension SocketAddress {
    /// `AF_INET`, `AF_INET6` or `AF_UNIX`.
    package var family: Int32 {
        switch self {
        case .ip(let address, _, _): address.isIPv4 ? AF_INET : AF_INET6
        case .unix: AF_UNIX
        }
    }

    /// Calls `body` with the address as a `sockaddr`.
    package func withSystemAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        switch self {
        case .ip(let address, let port, let scope):
            if let v4 = address.v4 {
                var system = sockaddr_in()
                system.sin_family = sa_family_t(AF_INET)
                system.sin_port = port.bigEndian
                system.sin_addr.s_addr = v4.bigEndian
                return unsafe Self.pass(&system, MemoryLayout<sockaddr_in>.size, body)
            }
            var system = sockaddr_in6()
            system.sin6_family = sa_family_t(AF_INET6)
            system.sin6_port = port.bigEndian
            system.sin6_scope_id = scope
            unsafe withUnsafeMutableBytes(of: &system.sin6_addr) { bytes in
                unsafe bytes.storeBytes(of: address.high.bigEndian, as: UInt64.self)
                unsafe bytes.storeBytes(of: address.low.bigEndian, toByteOffset: 8, as: UInt64.self)
            }
            return unsafe Self.pass(&system, MemoryLayout<sockaddr_in6>.size, body)
        case .unix(let path):
            var system = sockaddr_un()
            system.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(path.utf8.prefix(Self.maxPath))
            unsafe withUnsafeMutableBytes(of: &system.sun_path) { unsafe $0.copyBytes(from: bytes) }
            // An abstract name begins with a zero byte and ends with the length; a path ends with a zero byte.
            let isAbstract = bytes.first == UInt8(ascii: "@")
            if isAbstract { system.sun_path.0 = 0 }
            let length = MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract || bytes.isEmpty ? 0 : 1)
            return unsafe Self.pass(&system, length, body)
        }
    }

    private static func pass<System, Result>(
        _ system: inout System, _ length: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        unsafe withUnsafeBytes(of: &system) { bytes in
            unsafe body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(length))
        }
    }

    /// The address written by `fill`, which gets a buffer and its size and returns whether it succeeded.
    package init?(filledBy fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let filled = unsafe withUnsafeMutableBytes(of: &storage) { bytes in
            unsafe fill(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
        }
        guard filled else { return nil }
        self = unsafe withUnsafeBytes(of: &storage) { bytes in
            unsafe SocketAddress(system: UnsafeRawBufferPointer(rebasing: bytes.prefix(Int(length))))
        }
    }

    /// Reads a `sockaddr`. Any other family becomes an unnamed unix socket.
    package init(system bytes: UnsafeRawBufferPointer) {
        let family = unsafe bytes.count < 2 ? 0 : Int32(bytes.loadUnaligned(as: sa_family_t.self))
        if family == AF_INET, bytes.count >= MemoryLayout<sockaddr_in>.size {
            let system = unsafe bytes.loadUnaligned(as: sockaddr_in.self)
            let address = IPAddress(v4: UInt32(bigEndian: system.sin_addr.s_addr))
            self = .ip(address, port: UInt16(bigEndian: system.sin_port))
        } else if family == AF_INET6, bytes.count >= MemoryLayout<sockaddr_in6>.size {
            var system = unsafe bytes.loadUnaligned(as: sockaddr_in6.self)
            let address = unsafe withUnsafeBytes(of: &system.sin6_addr) { half in
                unsafe IPAddress(
                    high: UInt64(bigEndian: half.load(as: UInt64.self)),
                    low: UInt64(bigEndian: half.load(fromByteOffset: 8, as: UInt64.self)))
            }
            self = .ip(address, port: UInt16(bigEndian: system.sin6_port), scope: system.sin6_scope_id)
        } else if family == AF_UNIX, bytes.count > 2 {
            let path = unsafe bytes.dropFirst(2)
            if unsafe path.first == 0 {
                self = unsafe .unix("@" + String(decoding: path.dropFirst(), as: UTF8.self))
            } else {
                self = unsafe .unix(String(decoding: path.prefix { $0 != 0 }, as: UTF8.self))
            }
        } else {
            self = .unix("")
        }
    }
}
