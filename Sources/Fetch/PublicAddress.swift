package import Wire

extension IPAddress {
    /// An address of 4 or 16 bytes, in network order; nil for another number of bytes.
    init?(bytes: RawSpan) {
        switch bytes.byteCount {
        case 4: self.init(high: 0, low: 0xFFFF_0000_0000 | (0..<4).reduce(0) { $0 << 8 | UInt64(bytes[$1]) })
        case 16: self.init(high: bytes.load64(0), low: bytes.load64(8))
        default: return nil
        }
    }

    /// Whether the Internet leads there: it is none of the blocks for other purposes (RFC 6890), nor one that carries an IPv4 address.
    package var isPublic: Bool {
        guard isIPv4 || high >> 61 == 1 else { return false }
        return !Self.specialBlocks.contains { $0.contains(self) }
    }

    private static let specialBlocks = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    ].compactMap(CIDR.init(parsing:))
}
