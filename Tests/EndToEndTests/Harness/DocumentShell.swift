import Foundation

/// What `deploy/up` starts, on ports of its own, and a shell beside it that runs the commands of one page.
final class DocumentShell {
    private static let mark = "--- end of a command ---"

    private let folder = Result { try Folder() }
    private let settings: [String]
    private let shell: Subprocess
    private var services: (gateway: Gateway, echo: Subprocess, echoPort: Int)?
    /// Lines of the shell's output that were looked at.
    private var read = 0

    /// `settings` are lines for the env file, beside those of `config/development.env`.
    init(settings: [String]) throws {
        self.settings = settings
        let folder = try folder.get()
        for name in ["bin", "config", "data/run"] {
            try FileManager.default.createDirectory(atPath: folder.file(name), withIntermediateDirectories: true)
        }
        try FileManager.default.createSymbolicLink(atPath: folder.file("bin/tollgate"), withDestinationPath: try Tollgate.binary.get())
        try FileManager.default.createSymbolicLink(atPath: folder.file("config/development.env"), withDestinationPath: "../gateway.env")
        let environment = ["PATH": folder.file("bin") + ":/usr/bin:/bin", "HOME": folder.path, "LC_ALL": "C.UTF-8"]
        shell = try Subprocess("/bin/bash", [], environment: environment)
        shell.say("cd '\(folder.path)'\n")
        try folder.write("gateway.env", text(upstreamPort: 9001))
    }

    /// Runs a command as the page prints it; answers what it prints, with the documented addresses.
    func run(_ command: String) throws -> [String] {
        if Self.documentedPorts.contains(where: command.contains) || command.contains("data/run/") { try start() }
        // Commands find nothing on their standard input, which is where the shell reads its commands from.
        shell.say("{\n\(replaced(command, toDocumented: false))\n} </dev/null 2>&1\nprintf '\\n%s\\n' '\(Self.mark)'\n")
        let (from, mark) = (read, Self.mark)
        let lines = try shell.output.wait(for: "the end of \(command)", seconds: 60, until: { $0.dropFirst(from).contains(mark) })
        let printed = lines[from...].prefix { $0 != mark }
        read = from + printed.count + 1
        return printed.map { replaced($0, toDocumented: true) }
    }

    private static let documentedPorts = [":8000", ":9090", ":9001"]

    /// Starts the gateway and the upstream at the first command that needs them, so that a page can make files before.
    private func start() throws {
        guard services == nil else { return }
        let folder = try folder.get()
        let echo = try Subprocess(try Tollgate.binary.get(), ["echo", "--listen", "127.0.0.1:0"])
        let said = try echo.output.wait(for: "the upstream's address", until: { !$0.isEmpty })
        let port = Int(said.first?.split(separator: ":").last ?? "") ?? 0
        // The shell of `deploy/up` runs it in the root of the package and keeps its log.
        let command = ["/bin/bash", "-c", "cd \"$0\" && exec \"$@\" >data/run/serve.log", folder.path]
        let gateway = try Gateway(text(upstreamPort: port), folder: folder, command: command)
        try folder.write("data/run/serve.pid", "\(gateway.process.pid)\n")
        services = (gateway, echo, port)
    }

    /// `config/development.env` with free ports and the page's settings.
    private func text(upstreamPort: Int) throws -> String {
        let shipped = try String(contentsOf: DocumentPage.root.appending(path: "config/development.env"), encoding: .utf8)
        let text = shipped.replacing("LISTEN=127.0.0.1:8000", with: "LISTEN=127.0.0.1:0")
            .replacing("LISTEN=127.0.0.1:9090", with: "LISTEN=127.0.0.1:0")
            .replacing("127.0.0.1:9001", with: "127.0.0.1:\(upstreamPort)")
            // The gateway reads the text from the folder itself, not from `config`.
            .replacing("DATA_DIR=../data", with: "DATA_DIR=" + (try folder.get().file("data")))
        // The harness mounts none unless the text has the name; the file leaves the default.
        return ([text] + settings + ["# TOLLGATE_CONTRACTS= is left out."]).joined(separator: "\n")
    }

    /// Exchanges the addresses that the documents show and those that are listened at.
    private func replaced(_ text: String, toDocumented: Bool) -> String {
        guard let services else { return text }
        var text = text
        for (shown, port) in [(8000, services.gateway.port), (9090, services.gateway.adminPort), (9001, services.echoPort)] {
            for host in ["127.0.0.1", "localhost"] {
                let (from, to) = toDocumented ? (port, shown) : (shown, port)
                text = text.replacing("\(host):\(from)", with: "\(host):\(to)")
            }
        }
        return text
    }
}
