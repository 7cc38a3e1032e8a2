import Foundation
import Glibc
@testable import Redis
import TestServers
import Testing
import Transport
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
    /// That of the address: it is still its own after `kill`.
    private let port: HeldPort?
    /// Of a cluster's node, for other nodes.
    private let busPort: HeldPort?
    private var process = Process()
    private let options: [String]

    init(_ listening: Listening = .unix, _ options: [String] = [], isClusterNode: Bool = false) throws {
        folder = try Folder()
        let bus = try isClusterNode ? HeldPort() : nil
        let options = options + (bus.map { ["--cluster-port", "\($0.number)"] } ?? [])
        busPort = bus
        switch listening {
        case .unix:
            address = .unix(folder.file("s"))
            port = nil
            self.options = ["--port", "0", "--unixsocket", folder.file("s")] + options
        case .tcp:
            let held = try HeldPort()
            address = held.address
            port = held
            self.options = ["--bind", "127.0.0.1", "--port", "\(held.number)"] + options
        case .tls(let certificate, let key):
            let held = try HeldPort()
            address = held.address
            port = held
            self.options =
                ["--bind", "127.0.0.1", "--port", "0", "--tls-port", "\(held.number)", "--tls-cert-file", certificate]
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

extension HeldPort {
    var address: SocketAddress { SocketAddress(parsing: "127.0.0.1:\(number)")! }
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
