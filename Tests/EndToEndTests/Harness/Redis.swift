import Foundation
import Glibc

/// A redis-server of the test's own on a unix socket, ended with its owner.
final class Redis {
    let folder: Folder
    private let options: [String]
    private var process: Subprocess

    init(_ options: [String] = []) throws {
        folder = try Folder()
        self.options = options
        process = try Self.start(folder, options)
    }

    private static func start(_ folder: Folder, _ options: [String]) throws -> Subprocess {
        let process = try Subprocess(
            "redis-server",
            ["--port", "0", "--unixsocket", folder.file("s"), "--save", "", "--appendonly", "no", "--dir", folder.path] + options)
        try process.output.wait(for: "redis-server") { $0.contains { $0.contains("eady to accept connections") } }
        return process
    }

    /// For gateways whose Redis answers, though a busy machine may keep both from their processors for longer than 25 ms.
    static let patience = "TOLLGATE_REDIS_TIMEOUT=1s"

    /// As a setting.
    var setting: String { "REDIS_URL=unix:\(folder.file("s"))" }

    /// What it answers to a command, line by line.
    @discardableResult
    func ask(_ words: String...) throws -> String { try mustRun("redis-cli", ["-s", folder.file("s")] + words) }

    /// How often a command was called since it started.
    func calls(_ command: String) throws -> Int {
        let line = try ask("INFO", "commandstats").split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):") }
        return Int(line?.split(separator: "=")[1].prefix { $0.isNumber } ?? "0") ?? 0
    }

    /// Holds it in the middle of whatever it does.
    func pause() { process.pause() }
    func resume() { process.resume() }

    func kill() { process.kill() }

    /// Starts it anew, empty.
    func start() throws { process = try Self.start(folder, options) }
}
