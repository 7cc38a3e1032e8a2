/// Host and port of a URL's authority (RFC 3986 §3.2). User information is refused.
package struct HostAndPort: Hashable, Sendable {
    /// Lower case; an IPv6 address without its brackets.
    package let host: String
    /// 1 to 65535.
    package let port: UInt16
    package let isIPv6: Bool

    /// Parses `host`, `host:port` or `[v6]:port`; throws what is wrong, as the end of a sentence.
    package init(_ text: String, defaultPort: UInt16) throws(ParseError) {
        guard !text.contains("@") else { throw ParseError("carries a user or a password, remove the part before the @") }
        let bytes = Array(text.utf8)
        var end = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.count
        if bytes.first == UInt8(ascii: "[") {
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]")) else {
                throw ParseError("has an opening bracket and no closing one, write an IPv6 address like [::1]")
            }
            let literal = Array(bytes[1..<close])
            guard let address = IPAddress(parsing: literal.rawBytes), !address.isIPv4 else {
                throw ParseError("holds no IPv6 address between its brackets, write one like [::1]")
            }
            end = close + 1
            host = String(decoding: literal, as: UTF8.self).lowercased()
            isIPv6 = true
        } else {
            guard end > 0, end <= 253, bytes[..<end].allSatisfy(\.isHostByte) else {
                throw ParseError("has no usable host, write a name or an address, like http://127.0.0.1:9001")
            }
            host = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
            isIPv6 = false
        }
        port = try Self.port(bytes[end...], defaultPort)
    }

    private static func port(_ rest: ArraySlice<UInt8>, _ defaultPort: UInt16) throws(ParseError) -> UInt16 {
        guard let colon = rest.first else { return defaultPort }
        let digits = rest.dropFirst()
        guard colon == UInt8(ascii: ":"), !digits.isEmpty, digits.allSatisfy(\.isASCIIDigit),
            let port = UInt16(String(decoding: digits, as: UTF8.self)), port > 0
        else { throw ParseError("has no usable port, write one from 1 to 65535") }
        return port
    }
}

extension UInt8 {
    fileprivate var isHostByte: Bool { isASCIILetter || isASCIIDigit || self == 45 || self == 46 || self == 95 }
}
