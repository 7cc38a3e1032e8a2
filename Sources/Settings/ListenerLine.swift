package import Wire

/// An address to listen on.
package struct ListenerDeclaration: Hashable, Sendable {
    package var address: SocketAddress
    /// Whether each connection must begin with a PROXY protocol header (`;proxy`).
    package var expectsProxyHeader: Bool
    /// Whether HTTP/2 is served by prior knowledge beside HTTP/1 (`;h2c`).
    package var allowsHTTP2: Bool
    /// The port of HTTPS to which each request is led (`;redirect`), 0 for that of the first TLS address; nil: requests are served.
    package var redirectPort: UInt16?
    package var origin: Origin

    /// The address as in the setting, with its options.
    package var text: String {
        address.description + (expectsProxyHeader ? ";proxy" : "") + (allowsHTTP2 ? ";h2c" : "")
            + (redirectPort.map { $0 == 0 ? ";redirect" : ";redirect=\($0)" } ?? "")
    }
}

/// An option behind an address.
package enum ListenerOption: String, Sendable, CaseIterable {
    /// Connections begin with a PROXY protocol header.
    case proxy
    /// HTTP/2 by prior knowledge; with TLS it is negotiated and needs no option.
    case h2c
    /// Each request is led to HTTPS, at the port of the first TLS address or the one behind `=`.
    case redirect
}

/// Parser of `ADDRESS[;proxy][;h2c][;redirect[=PORT]] …`, the grammar of the settings that end in `LISTEN`.
enum ListenerLine {
    static func parse(_ entry: EnvEntry, allowing options: [ListenerOption]) -> ([ListenerDeclaration], Findings) {
        var listeners: [ListenerDeclaration] = []
        var findings = Findings()
        for word in entry.value.split(separator: " ") {
            do throws(ParseError) {
                let listener = try parse(String(word), allowing: options, origin: entry.origin)
                let isTwin = listeners.contains { $0.address == listener.address && !$0.address.isAnyPort }
                guard !isTwin else { throw ParseError("is given twice, keep one of them") }
                listeners.append(listener)
            } catch {
                findings.fault(Finding(entry.origin, entry.name, "\(quoted(word)) \(error.text)"))
            }
        }
        return (listeners, findings)
    }

    private static func parse(
        _ word: String, allowing options: [ListenerOption], origin: Origin
    ) throws(ParseError) -> ListenerDeclaration {
        let parts = word.split(separator: ";", omittingEmptySubsequences: false)
        var chosen: Set<ListenerOption> = []
        var redirectPort: UInt16?
        for part in parts.dropFirst() {
            let name = part.prefix { $0 != "=" }, port = part.dropFirst(name.count + 1)
            guard let option = ListenerOption(rawValue: String(name)), option == .redirect || name == part else {
                let known = options.map { ";\($0.rawValue)" }.joined(separator: ", ")
                throw ParseError("has an unknown part after the ;, write \(known.isEmpty ? "" : known + " or ")nothing")
            }
            switch option {
            case .proxy where !options.contains(option): throw ParseError("cannot take the PROXY protocol, remove ;proxy")
            case .h2c where !options.contains(option):
                throw ParseError("has no HTTP/2 by prior knowledge, remove ;h2c (with TLS, HTTP/2 is negotiated)")
            case .redirect where !options.contains(option): throw ParseError("cannot lead requests to HTTPS, remove ;redirect")
            case .redirect:
                redirectPort = name == part ? 0 : UInt16(port) ?? 0
                guard name == part || redirectPort != 0 else { throw ParseError("names no port, write one like ;redirect=443") }
            case .proxy, .h2c: break
            }
            guard chosen.insert(option).inserted else { throw ParseError("has ;\(part) twice, keep one of them") }
        }
        guard let address = SocketAddress(parsing: String(parts[0])) else {
            throw ParseError("is no address to listen on, write one like 127.0.0.1:8000, [::1]:8000 or unix:/path")
        }
        return ListenerDeclaration(
            address: address, expectsProxyHeader: chosen.contains(.proxy), allowsHTTP2: chosen.contains(.h2c),
            redirectPort: redirectPort, origin: origin)
    }
}

extension SocketAddress {
    /// Whether the kernel chooses the port (port 0).
    package var isAnyPort: Bool { port == 0 }
}
