internal import Fetch
internal import Settings
internal import Telemetry
internal import Wire

/// The addresses of an upstream that get no requests now, as the gateway that runs with this configuration says on `/readyz` of its admin
/// address. Without one there is nothing to say.
enum AddressDiagnosis {
    private static let connectMilliseconds = 300
    private static let totalMilliseconds = 1_000

    /// Such as `127.0.0.1:9001: ejected until …`.
    static func find(upstream name: String, _ configuration: GatewayConfiguration) -> [String] {
        for listener in configuration.settings.adminListeners {
            guard case .ip(_, let port, _) = listener.address, port > 0, !listener.expectsProxyHeader,
                case .success(let answer) = ReadinessProbe.ask(
                    listener.address, connectMilliseconds: connectMilliseconds, milliseconds: totalMilliseconds)
            else { continue }
            return reasons(answer.body, prefix: "upstream \(name) ")
        }
        return []
    }

    /// The reasons of the checks whose names begin with `prefix`; none if the text is something else.
    static func reasons(_ body: [UInt8], prefix: String) -> [String] {
        Readiness(body.rawBytes).map { reasons($0, prefix: prefix) } ?? []
    }

    static func reasons(_ readiness: Readiness, prefix: String) -> [String] {
        readiness.checks.filter { $0.name.hasPrefix(prefix) }.compactMap { check in
            check.reason.map { "\(check.name.dropFirst(prefix.count)): \($0)" }
        }
    }
}
