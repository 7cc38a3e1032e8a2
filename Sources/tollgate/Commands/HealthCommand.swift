internal import Fetch
internal import Settings
internal import Telemetry
internal import Wire

/// `tollgate health`: asks the running gateway of this configuration for `/readyz`, for the probes of containers and services.
enum HealthCommand {
    /// Milliseconds for the whole answer. Probes usually give a command a few seconds.
    private static let timeout = 2_000

    static func run(_ listeners: [ListenerDeclaration], json: Bool) -> CommandResult {
        guard let address = listeners.first?.address else {
            return .failed("TOLLGATE_ADMIN_LISTEN is empty, so there is no /readyz to ask; set an address like 127.0.0.1:9090", exitCode: 2)
        }
        guard !address.isAnyPort else {
            return .failed(
                "TOLLGATE_ADMIN_LISTEN leaves the port to the system, so it is unknown here; set one like 127.0.0.1:9090", exitCode: 2)
        }
        switch ReadinessProbe.ask(address, connectMilliseconds: timeout, milliseconds: timeout) {
        case .failure(let fault): return .failed("no gateway answers at \(address): \(fault.text)")
        case .success(let answer):
            let isServing = answer.status == 200
            let body = String(decoding: answer.body, as: UTF8.self)
            if json { return CommandResult(output: body + "\n", exitCode: isServing ? 0 : 1) }
            guard let readiness = Readiness(answer.body.rawBytes) else {
                return .failed("\(address) answers \(answer.status) without a readiness: it is no admin listener of Tollgate")
            }
            return CommandResult(output: describe(readiness), exitCode: isServing ? 0 : 1)
        }
    }

    /// The state, and a line for each check that is not ready.
    private static func describe(_ readiness: Readiness) -> String {
        "\(readiness.state.text)\n"
            + readiness.checks.filter { $0.state != .ready }.map { check in
                "\(check.name): \(check.state.text)\(check.reason.map { ", " + $0 } ?? "")\n"
            }.joined()
    }
}
