import Glibc

/// nginx, as an upstream that others wrote. Ends with its owner.
final class Nginx {
    let port: Int
    private let process: Subprocess
    let folder: Folder

    /// `server` is the inside of a server block; `listen` comes from here, with `ssl` behind the port if `tls`, and `http2` likewise.
    init(_ server: String, tls: Bool = false, http2: Bool = false, folder: Folder? = nil) throws {
        self.folder = try folder ?? Folder()
        // The port is free when it is chosen; should another test get it first, the next one is tried.
        for attempt in 0..<5 {
            let port = try Listening().port
            let process = try Self.start(server, "\(port)\(tls ? " ssl" : "")\(http2 ? " http2" : "")", self.folder)
            do {
                try eventually("nginx answers") {
                    guard process.isRunning else { throw Fault("nginx ended: \(process.complaints.now)") }
                    return (try? Connection(port: port)) != nil
                }
                (self.port, self.process) = (port, process)
                return
            } catch  where attempt < 4 {}
        }
        throw Fault("nginx does not start")
    }

    private static func start(_ server: String, _ listen: String, _ folder: Folder) throws -> Subprocess {
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
            "\($0)_temp_path \(folder.file("tmp"));"
        }.joined(separator: " ")
        let configuration = """
            daemon off; master_process off; pid \(folder.file("nginx.pid")); error_log stderr;
            events { worker_connections 512; }
            http {
              access_log off; client_max_body_size 0; keepalive_requests 100000; default_type text/plain; \(temporary)
              server { listen 127.0.0.1:\(listen); root \(folder.path); \(server) }
            }
            """
        try folder.write("nginx.conf", configuration)
        return try Subprocess("nginx", ["-c", folder.file("nginx.conf"), "-p", folder.path, "-e", "stderr"])
    }
}
