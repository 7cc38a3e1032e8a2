import Foundation
import Glibc

/// The program under test.
enum Tollgate {
    /// As `TOLLGATE_BINARY` says, else as a build left it beside the tests.
    static let binary: Result<String, any Error> = Result {
        if let path = ProcessInfo.processInfo.environment["TOLLGATE_BINARY"] {
            guard access(path, X_OK) == 0 else { throw Fault("TOLLGATE_BINARY names \(path), which cannot be run") }
            return path
        }
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        let places = ["release", "debug"].map { root.path + "/.build/\($0)/tollgate" }
        guard let found = places.first(where: { access($0, X_OK) == 0 }) else {
            throw Fault("There is no tollgate to test: run deploy/test, or swift build -c release --product tollgate.")
        }
        return found
    }

    /// Runs a command to its end.
    static func run(_ arguments: [String], environment: [String: String] = [:], input: String = "") throws -> CommandOutcome {
        try EndToEndTests.run(try binary.get(), arguments, environment: environment, input: input)
    }
}

/// A running gateway with a configuration of its own. It ends with its owner.
final class Gateway {
    let folder: Folder
    let process: Subprocess
    private var ports: [String: Int] = [:]

    /// `settings` are lines of an env file; addresses, one worker, the data folder and no contracts are added.
    init(
        _ settings: String, folder: Folder? = nil, command: [String] = [], environment: [String: String] = [:]
    ) throws {
        let folder = try folder ?? Folder()
        self.folder = folder
        try folder.write("gateway.env", Self.complete(settings, folder))
        let words = command + [try Tollgate.binary.get(), "serve", "--env-file", folder.file("gateway.env")]
        process = try Subprocess(words[0], Array(words.dropFirst()), environment: environment)
        try waitUntilItListens()
    }

    static func complete(_ settings: String, _ folder: Folder) -> String {
        let usual = [
            "TOLLGATE_LISTEN": "127.0.0.1:0", "TOLLGATE_ADMIN_LISTEN": "127.0.0.1:0", "TOLLGATE_WORKERS": "1",
            "TOLLGATE_DATA_DIR": folder.file("data"), "TOLLGATE_CONTRACTS": "",
        ]
        var lines = settings
        for (name, value) in usual.sorted(by: { $0.key < $1.key }) where !settings.contains("\(name)=") {
            lines += "\n\(name)=\(value)"
        }
        return lines + "\n"
    }

    private func waitUntilItListens() throws {
        let process = process
        // The admin address is the last that it names.
        let isUp: ([String]) -> Bool = { lines in
            lines.contains { Self.listening($0)?.kind == "admin" } || !process.isRunning
        }
        let lines: [String]
        do {
            lines = try process.complaints.wait(for: "the gateway's addresses", until: isUp)
        } catch {
            throw Fault("the gateway does not start: \(process.complaints.now)")
        }
        for line in lines {
            guard let (kind, port) = Self.listening(line), ports[kind] == nil else { continue }
            ports[kind] = port
        }
        guard ports["admin"] != nil else { throw Fault("the gateway does not start: \(lines)") }
    }

    /// What a line of either form says of an address; port 0 for a unix socket.
    private static func listening(_ line: String) -> (kind: String, port: Int)? {
        let form = /.*\bmsg"?[:=]"?listening"?[, ]"?address"?[:=]"?([^" ]+)"?[, ]"?protocol"?[:=]"?([a-z]+).*/
        guard let match = line.wholeMatch(of: form) else { return nil }
        return (String(match.2), Int(match.1.split(separator: ":").last ?? "") ?? 0)
    }

    var port: Int { ports["http"] ?? 0 }
    var tlsPort: Int { ports["https"] ?? 0 }
    var adminPort: Int { ports["admin"] ?? 0 }
    var checkPort: Int { ports["check"] ?? 0 }
    var envFile: String { folder.file("gateway.env") }

    // MARK: asking

    func connect(receiveBuffer: Int32? = nil, host: UInt8 = 1) throws -> Connection {
        try Connection(port: port, receiveBuffer: receiveBuffer, host: host)
    }

    /// One request over a connection of its own.
    @discardableResult
    func ask(_ methodAndTarget: String, _ fields: [String] = [], body: [UInt8]? = nil) throws -> Message {
        try connect().ask(methodAndTarget, fields, body: body)
    }

    func askAdmin(_ path: String) throws -> Message { try Connection(port: adminPort).ask("GET \(path)", ["Host: localhost"]) }

    func waitForRedis() throws {
        try eventually("redis is ready") {
            try JSON(askAdmin("/readyz").text)["checks"].array.first { $0["name"].text == "redis" }?["status"].text == "ready"
        }
    }

    /// The sum of a metric over all series whose labels hold every one of `labels`.
    func metric(_ name: String, _ labels: String...) throws -> Double {
        try askAdmin("/metrics").text.split(separator: "\n").filter { line in
            (line.hasPrefix(name + "{") || line.hasPrefix(name + " ")) && labels.allSatisfy { line.contains($0) }
        }.reduce(0) { $0 + (Double($1.split(separator: " ").last ?? "") ?? 0) }
    }

    // MARK: commands

    /// Runs another command on the same configuration.
    func command(_ words: [String], input: String = "") throws -> CommandOutcome {
        try Tollgate.run(words + ["--env-file", envFile], input: input)
    }

    /// A token of the gateway's own key, as a header line.
    func bearer(_ words: String...) throws -> String {
        let outcome = try command(["token", "mint"] + words)
        guard outcome.code == 0 else { throw Fault("no token: \(outcome.complaints)") }
        return "Authorization: Bearer " + outcome.output
    }

    // MARK: life

    /// Replaces the settings and has them read; answers when that is done, whether they were taken over or not.
    func reload(_ settings: String) throws {
        try folder.write("gateway.env", Self.complete(settings, folder))
        let isEnd: (String) -> Bool = { $0.contains("configuration adopted") || $0.contains("configuration refused") }
        let before = process.complaints.now.count
        process.signal(SIGHUP)
        try process.complaints.wait(for: "the end of a reload", until: { $0.dropFirst(before).contains(where: isEnd) })
    }

    /// Asks it to end and waits until it has; answers its exit code.
    @discardableResult
    func stop(seconds: Double = 60) throws -> Int32 {
        process.signal(SIGTERM)
        return try process.exitCode(seconds: seconds)
    }

    /// Waits for a line of the gateway's own log.
    func waitForLog(_ text: String) throws {
        try process.complaints.wait(for: "\(text) in the log", until: { $0.contains { $0.contains(text) } })
    }

    /// The lines of the access log, once there are so many.
    func accessLog(_ count: Int) throws -> [JSON] {
        let lines = try process.output.wait(for: "\(count) lines of access log", until: { $0.count >= count })
        return try lines.map { try JSON($0) }
    }

    /// Resident memory in KiB.
    var residentKiB: Int {
        get throws { try Self.status(process.pid, "VmRSS:") }
    }

    /// The most that it ever was.
    var peakResidentKiB: Int {
        get throws { try Self.status(process.pid, "VmHWM:") }
    }

    /// Processor time that it has spent so far, in hundredths of a second.
    var processorTicks: Int {
        get throws {
            let text = try String(contentsOfFile: "/proc/\(process.pid)/stat", encoding: .utf8)
            // Behind the name, which may hold anything: state first, user and system time as the 12th and 13th.
            let words = text.split(separator: ")").last?.split(separator: " ") ?? []
            guard words.count > 12, let user = Int(words[11]), let system = Int(words[12]) else { throw Fault("no times: \(text)") }
            return user + system
        }
    }

    private static func status(_ pid: pid_t, _ name: String) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else { throw Fault("no \(name)") }
        return Int(line.split(whereSeparator: { !$0.isNumber }).first ?? "") ?? 0
    }
}
