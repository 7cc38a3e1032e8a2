internal import Admin
internal import Fetch
internal import Gate
internal import Settings
internal import System
internal import Wire

extension Command {
    /// The responses that the running gateway keeps.
    static let cache = [
        Command.configured(
            "cache show", "shows how many responses the running gateway keeps, all or those that all options hold for",
            options: CommandOption.ofCache
        ) { call in
            let query = CacheCommand.names.compactMap { name in
                call.value(name).map { "\(name)=\(PercentEncoding.encode($0))" }
            }
            return { CacheCommand.ask($0, "cache" + (query.isEmpty ? "" : "?" + query.joined(separator: "&")), call) }
        },
        Command.configured(
            "cache purge", "removes the responses that all options hold for from all gateways of the database",
            options: CommandOption.ofCache + [CommandOption("all", nil, "every response, in place of the other options")]
        ) { call throws(UsageFault) in
            let named = CacheCommand.names.filter { call.has($0) }
            guard call.has("all") != !named.isEmpty else {
                throw UsageFault("name the responses by --route, --path or --tag, or write --all for every one")
            }
            let body = CacheSelector(route: call.value("route"), path: call.value("path"), tag: call.value("tag")).purge
            return { CacheCommand.ask($0, "cache/purge", body: body, call) }
        },
    ]
}

extension CommandOption {
    fileprivate static let ofCache = [
        CommandOption("route", "NAME", "those of this route"), CommandOption("path", "PREFIX", "those whose path begins so"),
        CommandOption("tag", "TAG", "those that the upstream gave this tag, in Surrogate-Key or Cache-Tag"),
    ]
}

/// Asks the running gateway of a configuration, over its admin listener and with its token.
private enum CacheCommand {
    static let names = ["route", "path", "tag"]

    static func ask(_ configuration: GatewayConfiguration, _ path: String, body: [UInt8]? = nil, _ call: CommandCall) -> CommandResult {
        let settings = configuration.settings
        guard let address = settings.adminListeners.first?.address, !address.isAnyPort else {
            return .failed("TOLLGATE_ADMIN_LISTEN names no address and port to ask, set one like 127.0.0.1:9090", exitCode: 2)
        }
        do throws(SystemFault) {
            let token = try AdminToken.open(configured: settings.adminToken, dataDirectory: settings.dataDirectory)
            let (host, socket) = ReadinessProbe.target(address)
            let ended = TransferGroup.send(
                HTTPTransfer(
                    url: "http://\(host)/admin/api/\(path)", connectMilliseconds: 5_000, totalMilliseconds: 10_000, largestBody: 1 << 20,
                    body: body, unixSocket: socket, fields: ["Authorization: Bearer " + String(decoding: token.bytes, as: UTF8.self)]))
            if let failure = ended.failure { return .failed("no gateway answers at \(address): \(failure)") }
            let text = String(decoding: ended.body, as: UTF8.self)
            guard ended.status == 200 else { return .failed("\(address) answers \(ended.status): \(text)") }
            return CommandResult(output: call.json ? text + "\n" : sentence(ended.body, isPurge: body != nil) ?? text + "\n")
        } catch {
            return .failed(error.description)
        }
    }

    /// The count of the answer in words; nil if it is none.
    private static func sentence(_ body: [UInt8], isPurge: Bool) -> String? {
        var reader = JSONReader(body.rawBytes)
        var counts: [Int] = []
        do throws(JSONFault) {
            while counts.count < 2 {
                switch try reader.next() {
                case .number(let slice): counts.append(Int(reader.source(slice).text) ?? 0)
                case .end: return nil
                // Everything else stands around them.
                default: break
                }
            }
        } catch {
            return nil
        }
        return "\(counted(counts[0], "response")), \(counts[1]) bytes, \(isPurge ? "removed" : "kept").\n"
    }
}
