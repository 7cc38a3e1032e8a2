import Foundation
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
        try issue("expired", ["DNS:localhost"], days: ["-not_before", "20200101000000Z", "-not_after", "20200201000000Z"])
        try run("openssl", ["pkey", "-in", folder.file("api.key"), "-aes128", "-passout", "pass:x", "-out", folder.file("locked.key")])
    }

    private static let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]

    private func selfSign(_ name: String, _ subject: String, _ extra: [String]) throws {
        try run("openssl", ["req", "-x509", "-nodes", "-days", "30", "-subj", "/" + subject, "-keyout", folder.file(name + ".key"), "-out", folder.file(name + ".crt")] + Self.curve + extra)
    }

    private func issue(_ name: String, _ names: [String], key: [String] = curve, days: [String] = ["-days", "30"]) throws {
        let request = folder.file(name + ".csr")
        let extensions = folder.file(name + ".ext")
        try FileBytes.write(Array("subjectAltName=\(names.joined(separator: ","))\n".utf8), to: extensions)
        try run("openssl", ["req", "-new", "-nodes", "-subj", "/CN=" + name, "-keyout", folder.file(name + ".key"), "-out", request] + key)
        if days.first == "-days" {
            try run("openssl", ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", folder.file("authority.key"), "-CAcreateserial", "-extfile", extensions, "-out", folder.file(name + ".crt")] + days)
        } else {
            // Only "openssl ca" takes dates; its database is two files.
            try FileBytes.write([], to: folder.file("index.txt"))
            try FileBytes.write(Array("[ca]\ndefault_ca=x\n[x]\ndatabase=\(folder.file("index.txt"))\nnew_certs_dir=\(folder.path)\ndefault_md=sha256\nrand_serial=yes\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=\(names.joined(separator: ","))\n".utf8), to: folder.file("ca.conf"))
            try run("openssl", ["ca", "-batch", "-notext", "-config", folder.file("ca.conf"), "-cert", authority, "-keyfile", folder.file("authority.key"), "-in", request, "-out", folder.file(name + ".crt"), "-startdate", days[1], "-enddate", days[3]])
        }
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
    try process.run()
    try? incoming.fileHandleForWriting.write(contentsOf: Data(input.utf8))
    try? incoming.fileHandleForWriting.close()
    let output = String(decoding: outgoing.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    if process.terminationStatus != 0, !mayFail { throw TestFault("\(command) \(arguments): \(output)") }
    return output
}
