/// A block of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.
///
/// Bits behind the prefix are ignored, as they are everywhere (`127.0.0.1/8`). A block of IPv6 addresses holds no
/// IPv4 address, so that `::/0` does not quietly mean everybody.
package struct CIDR: Hashable, Sendable {
    package let network: IPAddress
    /// How many of the 128 bits count; for IPv4 96 more than written.
    let prefix: Int

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

    package func contains(_ address: IPAddress) -> Bool {
        address.isIPv4 == isIPv4 && Self.masked(address, prefix) == network
    }

    package var isIPv4: Bool { prefix >= 96 && network.isIPv4 }

    /// The block as text, bits behind the prefix zero.
    package var text: String { "\(network.text)/\(isIPv4 ? prefix - 96 : prefix)" }

    private static func masked(_ address: IPAddress, _ prefix: Int) -> IPAddress {
        IPAddress(high: address.high & mask(prefix), low: address.low & mask(prefix - 64))
    }

    /// A word with its `bits` highest bits set; none below 1, all above 63.
    private static func mask(_ bits: Int) -> UInt64 { bits <= 0 ? 0 : UInt64.max << UInt64(max(0, 64 - bits)) }

    private static func bits(_ text: Substring) -> Int? {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        guard text.utf8.count == 1 || text.utf8.first != UInt8(ascii: "0") else { return nil }
        return Int(text)
    }
}
