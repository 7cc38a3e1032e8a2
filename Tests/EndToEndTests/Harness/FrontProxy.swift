import Foundation
import Glibc

/// A proxy that asks the gateway about each request and forwards it to a service itself, with the configuration that
/// docs/forward-auth.md prints. Ends with its owner.
final class FrontProxy {
    enum Kind: String, CaseIterable, Sendable {
        case nginx, traefik, caddy, envoy

        /// Those that run here. Debian has nginx alone; the others `deploy/test` gets from their wheels.
        static let installed = allCases.filter { $0 == .nginx || access($0.program, X_OK) == 0 }

        var program: String {
            switch self {
            case .nginx: "nginx"
            case .traefik: PythonTools.traefik
            case .caddy: PythonTools.caddy
            // Its command is a script that would outlive the test.
            case .envoy: PythonTools.envoy
            }
        }

        /// The language and a word of its block on the page.
        fileprivate var mark: (language: String, word: String) {
            switch self {
            case .nginx: ("nginx", "auth_request")
            case .traefik: ("yaml", "forwardAuth")
            case .caddy: ("caddy", "forward_auth")
            case .envoy: ("yaml", "ext_authz")
            }
        }
    }

    let port: Int
    private let process: Subprocess
    private let folder: Folder

    /// `check` is the gateway's address for checks, `service` that of the service behind, both on this machine.
    init(_ kind: Kind, check: Int, service: Int) throws {
        folder = try Folder()
        // The port is free when it is chosen; should another test get it first, the next one is tried.
        for attempt in 0..<5 {
            let port = try Listening().port
            let ports = [8_080: port, 8_001: check, 9_001: service]
            let process = try Self.start(kind, try Self.configuration(kind, ports), port, folder)
            do {
                // Some listen before they have their routes.
                try eventually("\(kind) answers") {
                    guard process.isRunning else { throw Fault("\(kind) ended: \(process.complaints.now)") }
                    return (try? Connection(port: port).ask("GET /open/ready").status) == 200
                }
                (self.port, self.process) = (port, process)
                return
            } catch  where attempt < 4 {}
        }
        throw Fault("\(kind) does not start")
    }

    /// The configuration on the page, with these ports in place of its own.
    private static func configuration(_ kind: Kind, _ ports: [Int: Int]) throws -> String {
        let page = try DocumentPage.all().first { $0.path == "docs/forward-auth.md" }
        let blocks = page?.blocks.filter { $0.language == kind.mark.language && $0.lines.contains { $0.contains(kind.mark.word) } } ?? []
        guard blocks.count == 1 else { throw Fault("the page has \(blocks.count) configurations of \(kind)") }
        return ports.reduce(blocks[0].lines.joined(separator: "\n") + "\n") { text, port in
            text.replacing(":\(port.key)", with: ":\(port.value)").replacing("port_value: \(port.key)", with: "port_value: \(port.value)")
        }
    }

    private static func start(_ kind: Kind, _ configuration: String, _ port: Int, _ folder: Folder) throws -> Subprocess {
        let file = folder.file("proxy.yaml")
        let home = ["HOME": folder.path, "XDG_DATA_HOME": folder.path, "XDG_CONFIG_HOME": folder.path]
        switch kind {
        case .nginx:
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder.file("tmp"));" }
            let process = "daemon off; master_process off; pid \(folder.file("nginx.pid")); error_log stderr; events {}"
            try folder.write("proxy.yaml", "\(process) http { access_log off; \(temporary.joined(separator: " "))\n\(configuration) }")
            return try Subprocess(kind.program, ["-c", file, "-p", folder.path, "-e", "stderr"])
        case .traefik:
            try folder.write("proxy.yaml", configuration)
            let quiet = ["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--log.level=ERROR"]
            return try Subprocess(
                kind.program, ["--entryPoints.http.address=127.0.0.1:\(port)", "--providers.file.filename=\(file)"] + quiet,
                environment: home)
        case .caddy:
            try folder.write("proxy.yaml", "{\n\tadmin off\n\tpersist_config off\n}\n" + configuration)
            return try Subprocess(kind.program, ["run", "--config", file, "--adapter", "caddyfile"], environment: home)
        case .envoy:
            try folder.write("proxy.yaml", configuration)
            return try Subprocess(kind.program, ["-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "error"])
        }
    }
}
