package import Wire

/// The networks of a list of client addresses (`allow-from=`, `deny-from=`, `TOLLGATE_DENY_FROM`): written out, or in files.
package struct NetworkList: Hashable, Sendable {
    package var networks: [CIDR]
    package var files: [String]

    package init(networks: [CIDR], files: [String] = []) {
        self.networks = networks
        self.files = files
    }

    /// As a setting has it.
    package var words: [String] { networks.map(\.text) + files.map { "file:\($0)" } }
}

/// A set of networks, as sorted ranges that neither touch nor overlap. Looks an address up without allocation.
package final class NetworkSet: Sendable {
    /// The first and the last address of each range, in turn.
    private let bounds: [UInt128]

    package init(_ networks: [CIDR]) {
        let ranges = networks.flatMap(Self.ranges).sorted { $0.lowerBound < $1.lowerBound }
        var bounds: [UInt128] = []
        for range in ranges {
            // The first address of all has none before it, and the first range nothing to join.
            if let last = bounds.last, last >= range.lowerBound || last + 1 == range.lowerBound {
                bounds[bounds.count - 1] = max(last, range.upperBound)
            } else {
                bounds += [range.lowerBound, range.upperBound]
            }
        }
        self.bounds = bounds
    }

    package var isEmpty: Bool { bounds.isEmpty }

    /// Whether a network contains the address. One behind NAT64 (`64:ff9b::/96`) is also the IPv4 address in it, as for limits.
    package func contains(_ address: IPAddress) -> Bool {
        let counted = address.limitPrefix
        return holds(UInt128(address)) || counted.isIPv4 && counted != address && holds(UInt128(counted))
    }

    private func holds(_ address: UInt128) -> Bool {
        var (low, high) = (0, bounds.count / 2)
        while low < high {
            let middle = (low + high) / 2
            if bounds[2 * middle + 1] < address { low = middle + 1 } else { high = middle }
        }
        return 2 * low < bounds.count && bounds[2 * low] <= address
    }

    /// The ranges of a network. One of IPv6 contains no IPv4 address, also where the mapped ones lie within it.
    private static func ranges(_ network: CIDR) -> [ClosedRange<UInt128>] {
        let (first, last) = (UInt128(network.network), UInt128(network.last))
        let (firstMapped, lastMapped) = (UInt128(IPAddress(v4: 0)), UInt128(IPAddress(v4: .max)))
        if network.isIPv4 || first > lastMapped || last < firstMapped { return [first...last] }
        return (first < firstMapped ? [first...firstMapped - 1] : []) + (last > lastMapped ? [lastMapped + 1...last] : [])
    }
}

extension UInt128 {
    fileprivate init(_ address: IPAddress) { self = UInt128(address.high) << 64 | UInt128(address.low) }
}

/// A file of networks: one on each line, and comments after a `#`.
package enum NetworkFile {
    package static let maxNetworks = 100_000
    package static let maxBytes = 16 << 20

    /// Throws the first line that is wrong.
    package static func parse(_ bytes: [UInt8]) throws(ParseError) -> [CIDR] {
        var networks: [CIDR] = []
        for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let text = line.prefix { $0 != UInt8(ascii: "#") }.drop(while: isBlank)
            guard let end = text.lastIndex(where: { !isBlank($0) }) else { continue }
            let word = String(decoding: text[...end], as: UTF8.self)
            guard let network = CIDR(parsing: word) else {
                throw ParseError("line \(index + 1) is \(quoted(String(word.prefix(60)))), write a network like 10.0.0.0/8 or fd00::/8")
            }
            guard networks.count < maxNetworks else { throw ParseError("has more than \(maxNetworks) networks") }
            networks.append(network)
        }
        return networks
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }
}

/// Whose requests are refused by their address: those of a route, or of all.
struct AddressRule: Sendable {
    let denied: NetworkSet?
    /// nil: all are allowed.
    let allowed: NetworkSet?

    /// nil if there is no list.
    init?(denying deny: NetworkList?, allowing allow: NetworkList? = nil, _ sets: [NetworkList: NetworkSet]) {
        guard deny != nil || allow != nil else { return nil }
        denied = deny.map { Self.set($0, sets) }
        allowed = allow.map { Self.set($0, sets) }
    }

    private static func set(_ list: NetworkList, _ sets: [NetworkList: NetworkSet]) -> NetworkSet {
        if let set = sets[list] { return set }
        precondition(list.files.isEmpty, "the files of a list of networks were not read")
        return NetworkSet(list.networks)
    }

    /// Why the client is refused; nil if it is not. An address that is not certain may be chosen by the client, so no list lets it pass.
    func denial(of client: ClientAddress) -> Refusal.Address? {
        if let denied, denied.contains(client.address) { return .denied }
        if !client.isCertain { return .uncertain }
        if let allowed, !allowed.contains(client.address) { return .notAllowed }
        return nil
    }
}

extension Admission {
    /// Why the route's lists refuse the client; nil if they do not.
    func denialByRoute(_ route: Int, _ client: ClientAddress) -> Refusal.Address? { policy.plans[route].addresses?.denial(of: client) }

    /// Returns false.
    func refuse(_ denial: Refusal.Address, _ decision: inout Decision) -> Bool {
        decision.refuse(.addressDenied(denial))
        return false
    }
}
