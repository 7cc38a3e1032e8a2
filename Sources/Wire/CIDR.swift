/// A block of addresses in CIDR notation (RFC 4632): `10.0.0.0/8`, `2001:db8::/32`, or a single address.
///
/// Host bits are ignored (`127.0.0.1/8` is `127.0.0.0/8`). An IPv6 block contains no IPv4 address, so that `::/0` does not
/// match IPv4 clients.
package struct CIDR: Hashable, Sendable {
    /// The block's first address: host bits are zero.
    package let network: IPAddress
    /// Prefix length, 0 to 128; for IPv4 96 more than written.
    let prefix: Int

    /// Parses an address with an optional `/length`, without leading zeros; nil for anything else.
    package init?(parsing text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(parsing: String(first)) else { return nil }
        let isDotted = !first.contains(":")
        let widest = isDotted ? 32 : 128
        var written = widest
        if parts.count == 2 {
            guard let bits = Self.bits(parts[1]), bits <= widest else { return nil }
            written = bits
        }
        self.init(address, prefix: isDotted ? written + 96 : written)
    }

    private init(_ address: IPAddress, prefix: Int) {
        network = Self.masked(address, prefix)
        self.prefix = prefix
    }

    /// The address of a block that is written with host bits that are not zero; nil for another text.
    package static func hostWithBits(_ text: String) -> IPAddress? {
        guard let block = CIDR(parsing: text), let slash = text.firstIndex(of: "/") else { return nil }
        let address = IPAddress(parsing: String(text[..<slash]))
        return address == block.network ? nil : address
    }

    /// Whether `address` is of the same family and in the block.
    package func contains(_ address: IPAddress) -> Bool {
        address.isIPv4 == isIPv4 && Self.masked(address, prefix) == network
    }

    /// The block's last address: host bits are one.
    package var last: IPAddress {
        IPAddress(high: network.high | ~Self.mask(prefix), low: network.low | ~Self.mask(prefix - 64))
    }

    package var isIPv4: Bool { prefix >= 96 && network.isIPv4 }

    /// Whether it contains every address of its family.
    package var isWholeFamily: Bool { prefix == (isIPv4 ? 96 : 0) }

    /// The block in CIDR notation, host bits zero.
    package var text: String { "\(network.text)/\(isIPv4 ? prefix - 96 : prefix)" }

    private static func masked(_ address: IPAddress, _ prefix: Int) -> IPAddress {
        IPAddress(high: address.high & mask(prefix), low: address.low & mask(prefix - 64))
    }

    /// A word with its highest `bits` set, clamped to 0...64.
    private static func mask(_ bits: Int) -> UInt64 { bits <= 0 ? 0 : UInt64.max << UInt64(max(0, 64 - bits)) }

    private static func bits(_ text: Substring) -> Int? {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        guard text.utf8.count == 1 || text.utf8.first != UInt8(ascii: "0") else { return nil }
        return Int(text)
    }
}
