import Foundation
import Glibc
import TestServers

/// Pebble, a certificate authority for tests, with its DNS server, in which every name is at 127.0.0.1 unless told otherwise. It ends
/// with its owner.
final class Pebble {
    let folder: Folder
    /// Where it looks for responses to challenges.
    let (tlsPort, httpPort) = (try! HeldPort(), try! HeldPort())
    private let held: [HeldPort]
    private var processes: [Subprocess] = []

    /// `configuration` are further members of its JSON; `dnsServer` is another one than its own.
    init(_ environment: [String: String] = [:], configuration: String = "", dnsServer: String? = nil) throws {
        folder = try Folder()
        held = try (0..<4).map { _ in try HeldPort() }
        let authority = try CertificateAuthority(folder)
        try authority.issue("pebble", "DNS:localhost", "IP:127.0.0.1")
        try folder.write(
            "pebble.json",
            """
            {"pebble":{"listenAddress":"127.0.0.1:\(held[0].number)","managementListenAddress":"127.0.0.1:\(held[1].number)",
            "certificate":"\(folder.file("pebble.crt"))","privateKey":"\(folder.file("pebble.key"))",
            "httpPort":\(httpPort.number),"tlsPort":\(tlsPort.number),"ocspResponderURL":""\(configuration)}}
            """)
        if dnsServer == nil {
            processes.append(
                try Subprocess(
                    "pebble-challtestsrv",
                    [
                        "-defaultIPv6", "", "-dns01", "127.0.0.1:\(held[2].number)", "-http01", "", "-https01", "", "-tlsalpn01", "",
                        "-management", "127.0.0.1:\(held[3].number)",
                    ]))
            try eventually("the DNS server answers") { (try? Connection(port: Int(held[3].number))) != nil }
        }
        let usual = ["PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"]
        processes.append(
            try Subprocess(
                "pebble",
                ["-config", folder.file("pebble.json"), "-dnsserver", dnsServer ?? "127.0.0.1:\(held[2].number)"],
                environment: usual.merging(environment) { $1 }))
        let process = processes[processes.count - 1]
        try eventually("pebble answers") {
            guard process.isRunning else { throw Fault("pebble ended: \(process.output.now) \(process.complaints.now)") }
            return (try? Connection(port: Int(held[0].number))) != nil
        }
        try folder.write("root.pem", try curl("https://localhost:\(held[1].number)/roots/0"))
    }

    /// The root of the certificates that it issues.
    var root: String { folder.file("root.pem") }

    /// The settings of a gateway that orders there.
    var settings: String {
        """
        TOLLGATE_ACME=https://localhost:\(held[0].number)/dir
        TOLLGATE_ACME_CA=\(folder.file("ca.crt"))
        """
    }

    /// Where its DNS server is told of records.
    var management: String { "http://127.0.0.1:\(held[3].number)" }

    /// The addresses of a name.
    func resolve(_ name: String, to addresses: [String]) throws {
        let list = addresses.map { "\"\($0)\"" }.joined(separator: ",")
        try curl("\(management)/clear-a", ["-d", #"{"host":"\#(name)"}"#])
        try curl("\(management)/add-a", ["-d", #"{"host":"\#(name)","addresses":[\#(list)]}"#])
    }

    @discardableResult
    private func curl(_ url: String, _ more: [String] = []) throws -> String {
        try mustRun("curl", ["-sSf", "--max-time", "50", "--cacert", folder.file("ca.crt")] + more + [url])
    }
}
