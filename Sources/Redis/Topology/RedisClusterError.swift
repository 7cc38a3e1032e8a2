import Wire

/// Error reply of a cluster's node that is about the cluster.
package enum RedisClusterError: Equatable, Sendable {
    /// Another node serves the slot from now on.
    case moved(RedisRedirect)
    /// The slot is on its way to another node, which has this key already: ask there, once, behind ASKING.
    case ask(RedisRedirect)
    /// The slot is on its way, and only some of the command's keys have arrived.
    case tryAgain
    /// The command's keys lie in several slots.
    case crossSlot
    /// No node serves the slot.
    case notServed
    /// The node serves nothing, because the cluster misses slots or the node its majority.
    case down

    /// nil for an error about something else, or a redirect without an address.
    package init?(_ text: RawSpan) {
        if text.hasPrefix("MOVED ") {
            guard let redirect = RedisRedirect(text) else { return nil }
            self = .moved(redirect)
        } else if text.hasPrefix("ASK ") {
            guard let redirect = RedisRedirect(text) else { return nil }
            self = .ask(redirect)
        } else if text.hasPrefix("TRYAGAIN") {
            self = .tryAgain
        } else if text.hasPrefix("CROSSSLOT") {
            self = .crossSlot
        } else if text.hasPrefix("CLUSTERDOWN Hash slot") {
            self = .notServed
        } else if text.hasPrefix("CLUSTERDOWN") {
            self = .down
        } else {
            return nil
        }
    }
}

/// The address in a node's reply that another one has the key: `MOVED 3999 127.0.0.1:6381` or `ASK 3999 127.0.0.1:6381`.
package struct RedisRedirect: Equatable, Sendable {
    package let slot: UInt16
    /// Host without brackets; empty for that of the node which replied.
    package let host: String
    package let port: UInt16

    init(slot: UInt16, host: String, port: UInt16) {
        (self.slot, self.host, self.port) = (slot, host, port)
    }

    /// Parses an error reply; nil for anything else. An IPv6 address may stand in brackets or without.
    package init?(_ text: RawSpan) {
        guard text.hasPrefix("MOVED ") || text.hasPrefix("ASK ") else { return nil }
        let words = text.array.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, let slot = Self.number(words[1]), slot < RedisSlot.count,
            let colon = words[2].lastIndex(of: UInt8(ascii: ":")),
            let port = Self.number(words[2][(colon + 1)...]), port > 0, let port = UInt16(exactly: port)
        else { return nil }
        var host = words[2][..<colon]
        if host.first == UInt8(ascii: "["), host.last == UInt8(ascii: "]"), host.count > 1 { host = host.dropFirst().dropLast() }
        guard host.isEmpty || RedisClusterMap.isHost(host) else { return nil }
        self.slot = UInt16(slot)
        self.host = String(decoding: host, as: UTF8.self)
        self.port = port
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard (1...5).contains(digits.count), digits.allSatisfy(\.isASCIIDigit) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1 - 48) }
    }
}
