import Foundation

/// An authority and a certificate of its for localhost and 127.0.0.1, made with the openssl command once for all tests.
struct Certificates: Sendable {
    private let folder: Folder
    let authority: String
    let certificate: String
    let key: String

    private static let shared = Result { try Certificates() }
    static func get() throws -> Certificates { try shared.get() }

    private init() throws {
        folder = try Folder()
        authority = folder.file("authority.crt")
        certificate = folder.file("server.crt")
        key = folder.file("server.key")
        let extensions = folder.file("server.ext")
        try Data("subjectAltName=DNS:localhost,IP:127.0.0.1\n".utf8).write(to: URL(fileURLWithPath: extensions))
        let new = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        try openssl(
            ["req", "-x509", "-days", "30", "-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"] + new
                + ["-keyout", folder.file("authority.key"), "-out", authority])
        try openssl(["req", "-new", "-subj", "/CN=server", "-keyout", key, "-out", folder.file("server.csr")] + new)
        try openssl(
            ["x509", "-req", "-days", "30", "-in", folder.file("server.csr"), "-CA", authority, "-CAcreateserial"]
                + ["-CAkey", folder.file("authority.key"), "-extfile", extensions, "-out", certificate])
    }

    private func openssl(_ arguments: [String]) throws {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw TestFault("openssl \(arguments): \(text)") }
    }
}
