package import Wire

/// An address to listen on.
package struct ListenerDeclaration: Hashable, Sendable {
    package var address: SocketAddress
    /// Whether each connection must begin with a PROXY protocol header (`;proxy`).
    package var expectsProxyHeader: Bool
    package var origin: Origin

    /// The address as in the setting, with `;proxy`.
    package var text: String { address.description + (expectsProxyHeader ? ";proxy" : "") }
}

/// Parser of `ADDRESS[;proxy] …`, the grammar of the settings that end in `LISTEN`.
enum ListenerLine {
    static func parse(_ entry: EnvEntry, allowsProxy: Bool) -> ([ListenerDeclaration], Findings) {
        var listeners: [ListenerDeclaration] = []
        var findings = Findings()
        for word in entry.value.split(separator: " ") {
            do throws(ParseError) {
                let listener = try parse(String(word), allowsProxy: allowsProxy, origin: entry.origin)
                let isTwin = listeners.contains { $0.address == listener.address && !$0.address.isAnyPort }
                guard !isTwin else { throw ParseError("is given twice, keep one of them") }
                listeners.append(listener)
            } catch {
                findings.fault(Finding(entry.origin, entry.name, "\(quoted(word)) \(error.text)"))
            }
        }
        return (listeners, findings)
    }

    private static func parse(_ word: String, allowsProxy: Bool, origin: Origin) throws(ParseError) -> ListenerDeclaration {
        let parts = word.split(separator: ";", omittingEmptySubsequences: false)
        guard parts.count == 1 || (parts.count == 2 && parts[1] == "proxy") else {
            throw ParseError("has an unknown part after the ;, write ;proxy or nothing")
        }
        guard parts.count == 1 || allowsProxy else { throw ParseError("cannot take the PROXY protocol, remove ;proxy") }
        guard let address = SocketAddress(parsing: String(parts[0])) else {
            throw ParseError("is no address to listen on, write one like 127.0.0.1:8000, [::1]:8000 or unix:/path")
        }
        return ListenerDeclaration(address: address, expectsProxyHeader: parts.count == 2, origin: origin)
    }
}

extension SocketAddress {
    /// Whether the kernel chooses the port (port 0).
    package var isAnyPort: Bool { port == 0 }
}
