import Wire

/// Hash index from a host to the root of its path trie. Hosts are compared without case, port and final dot, IPv6 addresses as
/// numbers: they have several spellings.
struct HostIndex: Sendable {
    private struct Entry: Sendable {
        var name: [UInt8]
        var root: Int
    }

    private struct AddressEntry: Sendable {
        var address: IPAddress
        var root: Int
    }

    /// Open addressing over at least twice as many slots; empty if no rule names a host.
    private var slots: [Int32] = []
    private var entries: [Entry] = []
    /// Names in brackets; there are few.
    private var addresses: [AddressEntry] = []

    /// Root of a request's `host`; nil if no rule names it.
    func root(of host: RawSpan) -> Int? {
        if !addresses.isEmpty, let address = Self.address(Self.name(host)) { return root(of: address) }
        guard !entries.isEmpty else { return nil }
        let name = Self.name(host)
        var slot = Int(truncatingIfNeeded: Self.hash(name)) & (slots.count - 1)
        while slots[slot] >= 0 {
            let entry = Int(slots[slot])
            let known = entries[entry].name
            if Self.matches(known.rawBytes, name) { return entries[entry].root }
            slot = (slot + 1) & (slots.count - 1)
        }
        return nil
    }

    private func root(of address: IPAddress) -> Int? {
        for index in addresses.indices where addresses[index].address == address { return addresses[index].root }
        return nil
    }

    /// The address in brackets; nil for any other name.
    private static func address(_ name: RawSpan) -> IPAddress? {
        let count = name.byteCount
        guard count > 2, name[0] == UInt8(ascii: "["), name[count - 1] == UInt8(ascii: "]") else { return nil }
        return IPAddress(parsing: name.extracting(1..<count - 1))
    }

    /// `host` without its port and final dot.
    @_lifetime(copy host)
    private static func name(_ host: RawSpan) -> RawSpan {
        var end = host.byteCount
        var offset = end
        while offset > 0, host[offset - 1].isASCIIDigit { offset -= 1 }
        if offset > 0, host[offset - 1] == UInt8(ascii: ":") { end = offset - 1 }
        if end > 1, host[end - 1] == UInt8(ascii: ".") { end -= 1 }
        return host.extracting(0..<end)
    }

    /// FNV-1a over the lower-cased bytes. Unkeyed, because only the operator chooses the keys.
    private static func hash(_ name: RawSpan) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for offset in 0..<name.byteCount {
            hash = (hash ^ UInt64(name[offset].lowercasedASCII)) &* 0x0000_0100_0000_01B3
        }
        return hash ^ hash >> 32
    }

    private static func matches(_ lowercased: RawSpan, _ name: RawSpan) -> Bool {
        guard lowercased.byteCount == name.byteCount else { return false }
        for offset in 0..<name.byteCount where lowercased[offset] != name[offset].lowercasedASCII { return false }
        return true
    }

    struct Builder {
        private var entries: [Entry] = []
        private var addresses: [AddressEntry] = []
        /// The root of each name in `entries`.
        private var roots: [[UInt8]: Int] = [:]

        /// The root of `host`, made by `newRoot` when it is first named.
        mutating func root(of host: String, _ route: String, _ newRoot: () -> Int) throws(RouteFault) -> Int {
            let name = Array(host.utf8).map(\.lowercasedASCII)
            guard Self.isName(name) else { throw .badHost(route, host) }
            if let address = HostIndex.address(name.rawBytes) {
                if let known = addresses.first(where: { $0.address == address }) { return known.root }
                let root = newRoot()
                addresses.append(AddressEntry(address: address, root: root))
                return root
            }
            let plain = name.count > 1 && name.last == UInt8(ascii: ".") ? Array(name.dropLast()) : name
            if let known = roots[plain] { return known }
            let root = newRoot()
            roots[plain] = root
            entries.append(Entry(name: plain, root: root))
            return root
        }

        /// A registered name, an IPv4 address or a bracketed IPv6 address. Ports cannot be matched.
        private static func isName(_ name: [UInt8]) -> Bool {
            if name.first == UInt8(ascii: "["), name.last == UInt8(ascii: "]") { return HostIndex.address(name.rawBytes) != nil }
            // No request's host has an empty label, except behind a final dot.
            let labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
            return !name.isEmpty && !labels.dropLast().contains(where: \.isEmpty)
                && name.allSatisfy {
                    $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
                        || $0 == UInt8(ascii: "_")
                }
        }

        consuming func finish() -> HostIndex {
            var index = HostIndex()
            index.entries = entries
            index.addresses = addresses
            guard !entries.isEmpty else { return index }
            var size = 4
            while size < entries.count * 2 { size *= 2 }
            index.slots = Array(repeating: -1, count: size)
            for (number, entry) in entries.enumerated() {
                var slot = Int(truncatingIfNeeded: HostIndex.hash(entry.name.rawBytes)) & (size - 1)
                while index.slots[slot] >= 0 { slot = (slot + 1) & (size - 1) }
                index.slots[slot] = Int32(number)
            }
            return index
        }
    }
}
