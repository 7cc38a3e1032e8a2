import Wire

/// Replies of sentinels, and of servers about their role.
extension RedisReply {
    /// The address in a reply to SENTINEL GET-MASTER-ADDR-BY-NAME; nil if it is not one.
    var primaryAddress: RedisEndpoint.Address? {
        guard nodes.count == 3, case .array(count: 2) = nodes[0], let port = decimal(2).flatMap(UInt16.init(exactly:)), port > 0
        else { return nil }
        let host = bytes(1).text
        return host.isEmpty ? nil : .host(host, port: port)
    }

    /// The configuration epoch in a reply to SENTINEL MASTER, a list of names and values; nil if it has none.
    var configurationEpoch: UInt64? {
        guard let name = (0..<nodes.count).first(where: { bytes($0).equals("config-epoch") }) else { return nil }
        return decimal(name + 1)
    }

    /// Whether it is the reply of a primary to ROLE.
    var isPrimaryRole: Bool {
        guard nodes.count > 1, case .array = nodes[0] else { return false }
        return bytes(1).equals("master")
    }

    private func decimal(_ index: Int) -> UInt64? { UInt64(bytes(index).text) }
}
