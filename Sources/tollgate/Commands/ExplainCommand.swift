internal import Admin
internal import Gate
internal import HTTP
internal import Issuers
internal import Settings
internal import Wire

/// `tollgate explain`: the steps and the verdict for one request, computed by the same `Admission` as in the gateway.
enum ExplainCommand {
    /// The request from the command line.
    struct Request {
        let head: [UInt8]
        let peer: Peer
        /// The port of an `http://` URL; nil for another.
        let plainPort: UInt16?
        /// As given, for the output.
        let method: String
        let url: String

        init(_ arguments: Arguments) throws(UsageFault) {
            for header in arguments.values("header") where !header.contains(":") {
                throw Self.fault("--header \(quoted(header)) has no colon, write \"NAME: VALUE\"")
            }
            if let from = arguments.value("from"), IPAddress(parsing: from) == nil {
                throw Self.fault("--from \(quoted(from)) is no address, write one like 192.0.2.1 or 2001:db8::1")
            }
            try self.init(
                method: arguments.operands[0], url: arguments.operands[1], token: arguments.value("token"),
                headers: arguments.values("header"), from: arguments.value("from"))
        }

        /// `headers` are lines of the head.
        init(method: String, url: String, token: String?, headers: [String], from: String?) throws(UsageFault) {
            self.method = method
            self.url = url
            let target = try Self.target(url)
            var lines = ["\(method) \(target.path) HTTP/1.1", "Host: \(target.host)"]
            if let token { lines.append("Authorization: Bearer \(token)") }
            lines += headers
            guard lines.allSatisfy({ !$0.utf8.contains { $0 == 10 || $0 == 13 } }) else {
                throw Self.fault("a line break is part of no request, remove it")
            }
            head = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
            guard let address = IPAddress(parsing: from ?? "127.0.0.1") else {
                throw Self.fault("\(quoted(from ?? "")) is no address, write one like 192.0.2.1 or 2001:db8::1")
            }
            peer = Peer(address: address, isTLS: target.isTLS)
            // The parser of the request says what is wrong with the host.
            plainPort = url.hasPrefix("http://") ? (try? HostAndPort(target.host, defaultPort: 80))?.port : nil
        }

        private static func target(_ url: String) throws(UsageFault) -> (host: String, path: String, isTLS: Bool) {
            if url.hasPrefix("/") { return ("localhost", url, false) }
            let isTLS = url.hasPrefix("https://")
            guard isTLS || url.hasPrefix("http://") else {
                throw fault("\(quoted(url)) is no URL, write one like http://localhost:8000/path, or /path alone")
            }
            let rest = url.dropFirst(isTLS ? 8 : 7)
            let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
            let path = rest[end...]
            return (String(rest[..<end]), path.hasPrefix("/") ? String(path) : "/" + path, isTLS)
        }

        private static func fault(_ message: String) -> UsageFault { UsageFault(message) }
    }

    static func understand(_ call: CommandCall) throws(UsageFault) -> Command.Configured {
        let request = try Request(call.arguments)
        return { run(request, $0, call) }
    }

    private static func run(_ request: Request, _ configuration: GatewayConfiguration, _ call: CommandCall) -> CommandResult {
        do {
            let keys = try CurrentKeys.gather(IssuersPlan(configuration), at: call.now)
            let networks = try NetworkLists(configuration.settings).sets
            let (switches, problem) = RouteSwitches.stored(configuration, at: call.now)
            let policy = try PolicyBuilder.policy(
                configuration, keys: keys, switches: switches, networks: networks, version: 1, now: call.now.wall)
            var walk = ExplainedWalk(request, configuration, policy, at: call.now) { AddressDiagnosis.find(upstream: $0, configuration) }
            if let problem { walk.add(Explanation.Step("switches", problem)) }
            return call.answer(walk.shown(request)) { walk.text }
        } catch let fault as KeyStoreFault {
            return .failed(fault.description)
        } catch {
            return .failed("the routes cannot be served: \(error)")
        }
    }
}
