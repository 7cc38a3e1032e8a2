import Foundation

/// Both sides of gRPC as others wrote them (`GRPC/peer.py`): a service, which ends with its owner, and calls.
final class GRPCService: Sendable {
    let port: Int
    private let process: Subprocess

    init() throws {
        process = try Subprocess(GRPCCall.python, [GRPCCall.script, "serve"], environment: GRPCCall.environment)
        let lines = try process.output.wait(for: "the service's port", seconds: 60) { !$0.isEmpty }
        guard let port = Int(lines[0]) else { throw Fault("no port: \(lines)") }
        self.port = port
    }

    var url: String { "http://127.0.0.1:\(port)" }

    func kill() { process.kill() }
}

/// The outcome of one call.
struct GRPCCall: Decodable, CustomStringConvertible {
    enum Kind: String {
        case unary, client, server, bidi
        /// Its client cancels a stream of messages before the first, and a conversation behind the first answer.
        case cancelled, left
    }

    /// Such as `UNAUTHENTICATED`.
    let code: String
    let details: String
    let messages: [String]
    let initial: [String: String]?
    let trailing: [String: String]?
    let seconds: Double

    /// What came beside the messages, in the head or behind them.
    var all: [String: String] { (initial ?? [:]).merging(trailing ?? [:]) { $1 } }

    var description: String { "\(code) \(details) \(messages) \(initial ?? [:]) \(trailing ?? [:]) after \(seconds) s" }

    /// Debian's own Python, which has Debian's packages.
    fileprivate static let python = "/usr/bin/python3"
    fileprivate static let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "GRPC/peer.py").path
    fileprivate static let environment = ["PYTHONDONTWRITEBYTECODE": "1", "GRPC_VERBOSITY": "NONE"]

    private struct Wanted: Encodable {
        let method: String
        let kind: String
        let messages: [String]
        let timeout: Double?
        let metadata: [String: String]
    }

    /// Calls `/test.Echo/METHOD`, or a path, and waits for the end.
    init(
        port: Int, _ method: String, _ kind: Kind = .unary, _ messages: [String] = [""], timeout: Double? = nil,
        metadata: [String: String] = [:]
    ) throws {
        try self.init(outcomeOf: Self.start(port: port, method, kind, messages, timeout: timeout, metadata: metadata))
    }

    /// Starts a call. Once the first message of a stream of answers has come, `first` is among its complaints.
    static func start(
        port: Int, _ method: String, _ kind: Kind = .unary, _ messages: [String] = [""], timeout: Double? = nil,
        metadata: [String: String] = [:]
    ) throws -> Subprocess {
        let wanted = Wanted(method: method, kind: kind.rawValue, messages: messages, timeout: timeout, metadata: metadata)
        let call = text(of: Array(try JSONEncoder().encode(wanted)))
        return try Subprocess(python, [script, "call", "127.0.0.1:\(port)"], environment: environment, input: call)
    }

    /// Waits for the end of a call.
    init(outcomeOf call: Subprocess) throws {
        let code = try call.exitCode()
        guard code == 0 else { throw Fault("the call ended with \(code): \(call.complaints.now)") }
        self = try JSONDecoder().decode(GRPCCall.self, from: Data(call.output.now.joined(separator: "\n").utf8))
    }
}
