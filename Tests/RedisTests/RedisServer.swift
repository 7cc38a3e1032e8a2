import Foundation
import Glibc
import Testing
import Transport

@testable import Redis
import Wire

struct TestFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A redis-server process of the test's own, in a folder of its own, ended with its owner.
final class RedisServer {
    enum Listening {
        case unix
        case tcp
        /// TLS with this certificate and its key.
        case tls(certificate: String, key: String)
    }

    let folder: Folder
    /// Where it listens.
    let address: SocketAddress
    private var process = Process()
    private let options: [String]

    init(_ listening: Listening = .unix, _ options: [String] = []) throws {
        folder = try Folder()
        switch listening {
        case .unix:
            address = .unix(folder.file("s"))
            self.options = ["--port", "0", "--unixsocket", folder.file("s")] + options
        case .tcp:
            address = try freeAddress()
            self.options = ["--bind", "127.0.0.1", "--port", "\(address.port!)"] + options
        case .tls(let certificate, let key):
            address = try freeAddress()
            self.options =
                ["--bind", "127.0.0.1", "--port", "0", "--tls-port", "\(address.port!)", "--tls-cert-file", certificate]
                + ["--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"] + options
        }
        try start()
    }

    deinit { kill() }

    /// The URL without credentials and database.
    var url: String {
        switch address {
        case .unix(let path): "unix:\(path)"
        case .ip: "redis://\(address)"
        }
    }

    /// Starts it, again after `kill`, and returns when it takes connections.
    func start() throws {
        let output = Pipe()
        process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            ["redis-server", "--save", "", "--appendonly", "no", "--dir", folder.path, "--daemonize", "no"] + options
        process.standardOutput = output
        process.standardError = output
        try process.run()
        var text = ""
        while !text.contains("eady to accept connections") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw TestFault("redis-server did not start: \(text)") }
            text += String(decoding: data, as: UTF8.self)
        }
    }

    /// Suspends it (SIGSTOP); `resume` continues it.
    func pause() { Glibc.kill(process.processIdentifier, SIGSTOP) }
    func resume() { Glibc.kill(process.processIdentifier, SIGCONT) }

    /// Ends it at once.
    func kill() {
        guard process.isRunning else { return }
        Glibc.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// The server's reply to a command on a separate, blocking connection.
    @discardableResult
    func ask(_ words: String...) throws -> String {
        var bench = try Bench(url, addresses: [address])
        try bench.becomeReady()
        return try bench.ask(words)
    }
}

/// A free port of 127.0.0.1: it has no listener, and the kernel will not hand it out for a while.
func freeAddress() throws -> SocketAddress {
    let socket = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!, reusePort: false)
    defer { socket.close() }
    return try socket.localAddress()
}

/// A folder that goes away with its owner.
final class Folder: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/redis-\(UInt64.random(in: 0...UInt64.max))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { path + "/" + name }
}
