internal import System
internal import Transport
internal import Wire

/// The listening sockets of one declared address: one for each worker that has a queue of its own in the kernel.
struct ListenerGroup: Equatable {
    let kind: ListenerKind
    /// As the setting has it, port 0 included.
    let declared: SocketAddress
    var sockets: [Socket]
}

/// Listening sockets that the gateway before this one has handed over, until they are taken by their declared address.
struct InheritedListeners {
    private(set) var groups: [ListenerGroup] = []

    /// The addresses of all sockets.
    func addresses() throws(SystemFault) -> [SocketAddress] {
        var addresses: [SocketAddress] = []
        for group in groups { for socket in group.sockets { addresses.append(try socket.localAddress()) } }
        return addresses
    }

    mutating func add(_ kind: ListenerKind, _ declared: SocketAddress, _ sockets: [Socket]) {
        if let index = groups.firstIndex(where: { $0.kind == kind && $0.declared == declared }) {
            groups[index].sockets += sockets
        } else {
            groups.append(ListenerGroup(kind: kind, declared: declared, sockets: sockets))
        }
    }

    /// All sockets of an address, or none. An address whose protocol has changed keeps its sockets; port 0 names no address.
    mutating func take(_ kind: ListenerKind, _ declared: SocketAddress) -> [Socket] {
        let index =
            groups.firstIndex { $0.kind == kind && $0.declared == declared }
            ?? groups.firstIndex { $0.declared == declared && declared.port != 0 }
        guard let index else { return [] }
        return groups.remove(at: index).sockets
    }

    /// Closes what the configuration no longer declares; the gateway before this one accepts from it until it drains.
    mutating func closeRest() {
        for group in groups { for socket in group.sockets { socket.close() } }
        groups = []
    }
}
