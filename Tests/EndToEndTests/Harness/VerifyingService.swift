import Foundation

/// An upstream in Python that verifies `X-Tollgate-Identity` against the gateway's key set, with PyJWT, and answers with its claims.
/// Ends with its owner.
final class VerifyingService: Sendable {
    let port: Int
    private let folder: Folder
    private let process: Subprocess

    init(audience: String, issuer: String) throws {
        folder = try Folder()
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "SignedIdentity/service.py").path
        process = try Subprocess(
            "/usr/bin/python3", [script, folder.file("keys"), audience, issuer], environment: ["PYTHONDONTWRITEBYTECODE": "1"])
        let lines = try process.output.wait(for: "the service's port", seconds: 60) { !$0.isEmpty }
        guard let port = Int(lines[0]) else { throw Fault("no port: \(lines)") }
        self.port = port
    }

    var url: String { "http://127.0.0.1:\(port)" }

    /// Names the gateway whose keys it takes.
    func trust(_ gateway: Gateway) throws {
        try folder.write("keys", "http://127.0.0.1:\(gateway.port)/.well-known/jwks.json")
    }

    /// A request past the gateway.
    func ask(_ token: String?) throws -> Message {
        try Connection(port: port).ask("GET /x", token.map { ["X-Tollgate-Identity: \($0)"] } ?? [])
    }
}
