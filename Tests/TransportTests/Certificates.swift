import Foundation
import System
import Testing
import Transport
import Wire

/// Certificates made with the openssl command, once for all tests.
struct Certificates: Sendable {
    let folder: Folder
    /// Trusts every certificate here but `selfSigned`.
    let authority: String

    static let shared = Result { try Certificates() }
    static func get() throws -> Certificates { try shared.get() }

    func pair(_ name: String) -> TLSCertificatePair {
        TLSCertificatePair(certificate: folder.file(name + ".crt"), key: folder.file(name + ".key"))
    }

    private init() throws {
        folder = try Folder()
        authority = folder.file("authority.crt")
        try selfSign("authority", "CN=authority", ["-addext", "basicConstraints=critical,CA:TRUE"])
        try selfSign("selfsigned", "CN=localhost", ["-addext", "subjectAltName=DNS:localhost"])
        try issue("localhost", ["DNS:localhost", "IP:127.0.0.1"])
        try issue("api", ["DNS:api.example.com"])
        try issue("wild", ["DNS:*.example.com"])
        try issue("rsa", ["DNS:rsa.example.org"], key: ["-newkey", "rsa:2048"])
        try issueExpired("expired", "DNS:localhost")
        let (open, locked) = (folder.file("api.key"), folder.file("locked.key"))
        try run("openssl", ["pkey", "-in", open, "-aes128", "-passout", "pass:x", "-out", locked])
    }

    private static let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]

    private func selfSign(_ name: String, _ subject: String, _ extra: [String]) throws {
        let files = pair(name)
        let output = ["-keyout", files.key, "-out", files.certificate]
        try run(
            "openssl", ["req", "-x509", "-nodes", "-days", "30", "-subj", "/" + subject] + output + Self.curve + extra)
    }

    /// Makes a key and asks for a certificate; answers the request's file.
    private func request(_ name: String, _ key: [String]) throws -> String {
        let request = folder.file(name + ".csr")
        let output = ["-keyout", pair(name).key, "-out", request]
        try run("openssl", ["req", "-new", "-nodes", "-subj", "/CN=" + name] + output + key)
        return request
    }

    private func issue(_ name: String, _ names: [String], key: [String] = curve) throws {
        let extensions = folder.file(name + ".ext")
        try FileBytes.write(Array("subjectAltName=\(names.joined(separator: ","))\n".utf8), to: extensions)
        let issuer = ["-CA", authority, "-CAkey", folder.file("authority.key"), "-CAcreateserial"]
        let output = ["-days", "30", "-extfile", extensions, "-out", pair(name).certificate]
        try run("openssl", ["x509", "-req", "-in", try request(name, key)] + issuer + output)
    }

    /// Only "openssl ca" takes dates; it wants a configuration and a database.
    private func issueExpired(_ name: String, _ names: String) throws {
        let configuration = """
            [ca]
            default_ca = authority
            [authority]
            database = \(folder.file("index.txt"))
            new_certs_dir = \(folder.path)
            default_md = sha256
            rand_serial = yes
            policy = policy
            x509_extensions = extensions
            [policy]
            commonName = supplied
            [extensions]
            subjectAltName = \(names)

            """
        try FileBytes.write([], to: folder.file("index.txt"))
        try FileBytes.write(Array(configuration.utf8), to: folder.file("ca.conf"))
        let issuer = ["-config", folder.file("ca.conf"), "-cert", authority, "-keyfile", folder.file("authority.key")]
        let dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]
        let output = ["-batch", "-notext", "-in", try request(name, Self.curve), "-out", pair(name).certificate]
        try run("openssl", ["ca"] + issuer + dates + output)
    }
}

/// Runs a command with `input` and answers what it wrote, both streams; a failure throws unless it is expected.
@discardableResult
func run(_ command: String, _ arguments: [String], input: String = "", mayFail: Bool = false) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [command] + arguments
    let (incoming, outgoing) = (Pipe(), Pipe())
    process.standardInput = incoming
    process.standardOutput = outgoing
    process.standardError = outgoing
    // A command that has ended fails the write; the signal would end the tests.
    try Signals.block([])
    try process.run()
    try? incoming.fileHandleForWriting.write(contentsOf: Data(input.utf8))
    try? incoming.fileHandleForWriting.close()
    let output = String(decoding: outgoing.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    if process.terminationStatus != 0, !mayFail { throw TestFault("\(command) \(arguments): \(output)") }
    return output
}
