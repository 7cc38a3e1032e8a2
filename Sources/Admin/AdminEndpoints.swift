package import HTTP
internal import Telemetry
internal import Wire

/// The endpoints of the admin listeners: health, readiness, metrics, the admin API and the console.
package struct AdminEndpoints: Sendable {
    let gateway: any AdminGateway
    /// Why the process should be restarted; nil while all event loops turn.
    let problem: @Sendable () -> String?
    let hosts: @Sendable () -> AdminHosts
    let api: AdminAPI
    private let console = ConsoleFiles()

    package init(_ api: AdminAPI, hosts: @escaping @Sendable () -> AdminHosts, problem: @escaping @Sendable () -> String?) {
        gateway = api.gateway
        self.problem = problem
        self.hosts = hosts
        self.api = api
    }

    package func answer(_ request: LocalRequest) async -> LocalResponse {
        guard isOpen(request.path) || hosts().allows(request.value(of: "host") ?? "") else {
            return AdminRefusal.misdirected.response(request.requestID)
        }
        if request.path.hasPrefix(AdminAPI.path) { return await api.answer(request) }
        if request.path == "/console" || request.path.hasPrefix(ConsoleFiles.path) { return console.answer(request) }
        guard request.method == "GET" || request.method == "HEAD" else {
            return .plain(405, "method not allowed\n", [(name: "Allow", value: "GET, HEAD")])
        }
        switch request.path {
        // Any answer shows that the event loop of this listener turns.
        case "/livez":
            guard let problem = problem() else { return .plain(200, "ok\n") }
            return .plain(503, problem + "\n")
        case "/readyz": return ready()
        case "/metrics":
            let format = ExpositionFormat(accept: request.value(of: "accept") ?? "")
            let text = Exposition.render(await gateway.reports(), gateway.process(), as: format, at: gateway.time)
            return LocalResponse(
                status: 200, contentType: format.contentType.description, body: text, fields: [(name: "Vary", value: "Accept")])
        case "/", "/admin", "/admin/": return ConsoleFiles.redirection
        default: return .plain(404, "not found: /console/, /livez, /readyz, /metrics and /admin/api/ are here\n")
        }
    }

    /// Answers a request for the console or its API that came on a main listener.
    package func answerOnMain(_ request: LocalRequest) async -> LocalResponse {
        guard hosts().allows(request.value(of: "host") ?? "") else { return AdminRefusal.misdirected.response(request.requestID) }
        // `answer` of the console leads all paths outside `/console/` there, which `/admin/` needs.
        return request.path.hasPrefix(AdminAPI.path) ? await api.answer(request) : console.answer(request)
    }

    /// Paths that monitors may request under any `Host`: they reveal no secret and change nothing.
    private func isOpen(_ path: String) -> Bool { path == "/livez" || path == "/readyz" || path == "/metrics" }

    private func ready() -> LocalResponse {
        let readiness = gateway.readiness()
        var out = ByteBuffer()
        readiness.write(into: &out)
        return LocalResponse(status: readiness.statusCode, contentType: "application/json", body: out.readable.array)
    }
}

extension LocalResponse {
    /// A plain text response.
    package static func plain(_ status: Int, _ text: String, _ fields: [(name: String, value: String)] = []) -> LocalResponse {
        LocalResponse(status: status, contentType: "text/plain; charset=utf-8", body: Array(text.utf8), fields: fields)
    }
}
