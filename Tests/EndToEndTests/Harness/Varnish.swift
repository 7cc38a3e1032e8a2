import Foundation

/// Varnish as a cache in front of one server. Ends with its owner.
final class Varnish {
    static let program = "/usr/sbin/varnishd"

    let port: Int
    private let process: Subprocess
    private let folder: Folder

    /// Its answers are fresh for a minute, unless the server says for how long.
    init(server: Int) throws {
        folder = try Folder()
        // The port is free when it is chosen; should another test get it first, the next one is tried.
        for attempt in 0..<5 {
            let port = try Listening().port
            let settings = ["default_ttl=60", "default_grace=0", "default_keep=0"].flatMap { ["-p", $0] }
            let process = try Subprocess(
                Self.program,
                ["-F", "-j", "none", "-n", folder.file("work"), "-a", "127.0.0.1:\(port)", "-b", "127.0.0.1:\(server)", "-s", "malloc,16m"]
                    + settings)
            do {
                try eventually("Varnish answers") {
                    guard process.isRunning else { throw Fault("Varnish ended: \(process.complaints.now)") }
                    return (try? Connection(port: port).ask("GET /ready").status) == 200
                }
                (self.port, self.process) = (port, process)
                return
            } catch  where attempt < 4 {}
        }
        throw Fault("Varnish does not start")
    }
}
