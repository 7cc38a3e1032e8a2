import Foundation

/// A certificate for `localhost` that is its own authority, made with the openssl command.
final class TestCertificate {
    private let folder = TemporaryFolder()
    var chain: String { folder.path + "/cert.pem" }
    var key: String { folder.path + "/key.pem" }
    var files: (chain: String, key: String) { (chain, key) }

    init() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj",
            "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", chain,
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
    }
}
