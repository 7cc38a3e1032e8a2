import Glibc

/// nghttp2's server of HTTP/2, which serves the files of its folder. Ends with its owner.
final class Nghttpd {
    let port: Int
    let folder: Folder
    private let process: Subprocess

    /// With a certificate it speaks TLS, otherwise by prior knowledge.
    init(port: Int? = nil, certificate: (key: String, chain: String)? = nil, folder: Folder? = nil) throws {
        self.folder = try folder ?? Folder()
        for attempt in 0..<5 {
            let chosen = try port ?? Listening().port
            var arguments = ["-a", "127.0.0.1", "-d", self.folder.path, "--trailer", "x-end: yes"]
            if certificate == nil { arguments.append("--no-tls") }
            arguments.append("\(chosen)")
            if let certificate { arguments += [certificate.key, certificate.chain] }
            let process = try Subprocess("nghttpd", arguments)
            do {
                try eventually("nghttpd answers") {
                    guard process.isRunning else { throw Fault("nghttpd ended: \(process.complaints.now)") }
                    return (try? Connection(port: chosen)) != nil
                }
                (self.port, self.process) = (chosen, process)
                return
            } catch  where attempt < 4 {}
        }
        throw Fault("nghttpd does not start")
    }

    func stop() throws {
        process.signal(SIGKILL)
        _ = try process.exitCode()
    }
}
