import Foundation
import Testing
import Threads
import Transport
import Wire

/// Against the openssl command, as client and as server.
@Suite struct TLSInteroperabilityTests {
    let certificates: Certificates

    init() throws { certificates = try Certificates.get() }

    func context(_ names: [String] = ["localhost", "wild", "api", "rsa"]) throws -> TLSServerContext {
        try TLSServerContext(pairs: names.map(certificates.pair), now: later)
    }

    func client(_ server: LineServer, _ extra: [String] = []) -> [String] {
        ["s_client", "-connect", server.address.description, "-CAfile", certificates.authority, "-ign_eof"] + extra
    }

    @Test(arguments: [
        ("localhost", "CN = localhost"), ("api.example.com", "CN = api"), ("any.example.com", "CN = wild"),
        ("rsa.example.org", "CN = rsa"), ("unknown.example", "CN = localhost"), (nil, "CN = localhost"),
    ])
    func `a client gets the certificate of the name it asks for`(_ name: String?, _ subject: String) throws {
        let server = try LineServer(context())
        let asked = name.map { ["-servername", $0] } ?? ["-noservername"]
        let output = try run("openssl", client(server, ["-brief"] + asked), input: "bye\n", mayFail: true)
        #expect(output.contains("Peer certificate: \(subject)\n"))
        #expect(output.contains("<TLSv1.3 - new: bye>"))
        #expect(server.join() == ["TLSv1.3 - new"])
    }

    @Test(arguments: [
        (["-tls1_3"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"], "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"], "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        // A client that prefers ChaCha20 has no fast AES.
        (
            ["-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"], "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256"
        ),
        (["-tls1_2"], "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["-tls1_2", "-servername", "rsa.example.org"], "TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
        (["-groups", "P-256"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (["-maxfraglen", "512"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (["-record_padding", "1000"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (["-split_send_frag", "512"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
    ])
    func `every version and cipher of the profile carries lines`(
        _ extra: [String], _ version: String, _ cipher: String
    )
        throws
    {
        let server = try LineServer(context())
        let lines = String(repeating: "x", count: 40_000) + "\nbye\n"
        let output = try run("openssl", client(server, ["-brief"] + extra), input: lines, mayFail: true)
        #expect(output.contains("Protocol version: \(version)\nCiphersuite: \(cipher)\n"))
        #expect(output.contains("<\(version) - new: bye>"))
        #expect(output.contains("xxx>"))
        #expect(server.join() == ["\(version) - new"])
    }

    @Test(arguments: [
        ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], ["-tls1_2", "-cipher", "AES128-SHA"],
        ["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"],
        ["-alpn", "h2"],
    ])
    func `versions and ciphers outside the profile are refused`(_ extra: [String]) throws {
        let server = try LineServer(context())
        let output = try run("openssl", client(server, ["-brief"] + extra), input: "bye\n", mayFail: true)
        #expect(!output.contains("bye"))
        #expect(output.contains("alert"))
        let heard = server.join()
        #expect(heard.count == 1 && heard[0].hasPrefix("failed("))
    }

    @Test(arguments: [(["-alpn", "h2,http/1.1"], "http/1.1"), (["-alpn", "http/1.1"], "http/1.1"), ([], "-")])
    func `the application protocol is agreed on`(_ extra: [String], _ name: String) throws {
        let server = try LineServer(context())
        try run("openssl", client(server, extra), input: "bye\n", mayFail: true)
        #expect(server.join() == ["TLSv1.3 \(name) new"])
    }

    /// The second connection meets another context, as after a reload.
    @Test(arguments: ["-tls1_2", "-tls1_3"], [false, true])
    func `a session is resumed, also after a reload`(_ version: String, _ reloads: Bool) throws {
        let folder = try Folder()
        let session = folder.file("session")
        let first = try context()
        let server = try LineServer(first)
        try run("openssl", client(server, [version, "-sess_out", session]), input: "bye\n", mayFail: true)
        let name = version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"
        #expect(server.join() == ["\(name) - new"])

        let reloaded = try TLSServerContext(pairs: [certificates.pair("localhost")], now: later, resuming: first)
        let second = reloads ? reloaded : first
        let again = try LineServer(second)
        try run("openssl", client(again, [version, "-sess_in", session]), input: "bye\n", mayFail: true)
        #expect(again.join() == ["\(name) - resumed"])
    }

    /// The key changes so often between the two connections.
    @Test(arguments: ["-tls1_2", "-tls1_3"], 0...2)
    func `a ticket outlives one change of its key and not two`(_ version: String, _ changes: Int) throws {
        let folder = try Folder()
        let session = folder.file("session")
        var context = try context()
        let server = try LineServer(context)
        try run("openssl", client(server, [version, "-sess_out", session]), input: "bye\n", mayFail: true)
        _ = server.join()
        for _ in 0..<changes { context = try context.withNewTicketKey() }
        // Reading the certificates again changes no key.
        context = try TLSServerContext(pairs: [certificates.pair("localhost")], now: later, resuming: context)
        let again = try LineServer(context)
        try run("openssl", client(again, [version, "-sess_in", session]), input: "bye\n", mayFail: true)
        let name = version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"
        #expect(again.join() == ["\(name) - \(changes < 2 ? "resumed" : "new")"])
    }

    /// Keys that gateways share: the previous, the present and the next open tickets, in TLS 1.3 alone.
    @Test(arguments: [
        ("-tls1_3", 0, "resumed"), ("-tls1_3", 1, "resumed"), ("-tls1_3", -1, "resumed"), ("-tls1_3", 2, "new"), ("-tls1_2", 0, "new"),
    ])
    func `a ticket of a shared key is opened elsewhere for a day before and after`(_ version: String, _ days: Int, _ outcome: String) throws
    {
        let folder = try Folder()
        let session = folder.file("session")
        let keys = { (day: Int) in (day - 1...day + 1).map { [UInt8](repeating: UInt8($0), count: TLSServerContext.ticketKeyLength) } }
        let pairs = [certificates.pair("localhost")]
        let server = try LineServer(TLSServerContext(pairs: pairs, now: later, ticketKeys: keys(10)))
        try run("openssl", client(server, [version, "-sess_out", session]), input: "bye\n", mayFail: true)
        _ = server.join()
        let again = try LineServer(TLSServerContext(pairs: pairs, now: later).sharing(keys(10 + days)))
        try run("openssl", client(again, [version, "-sess_in", session]), input: "bye\n", mayFail: true)
        #expect(again.join() == ["\(version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3") - \(outcome)"])
    }

    @Test func `a context with a new ticket key serves every name`() throws {
        let server = try LineServer(context().withNewTicketKey(), connections: 2)
        for (name, subject) in [("api.example.com", "api"), ("localhost", "localhost")] {
            let output = try run(
                "openssl", client(server, ["-brief", "-servername", name, "-alpn", "http/1.1"]), input: "bye\n", mayFail: true)
            #expect(output.contains("Peer certificate: CN = \(subject)\n"))
        }
        #expect(server.join() == ["TLSv1.3 http/1.1 new", "TLSv1.3 http/1.1 new"])
    }

    @Test func `a session of another context begins anew`() throws {
        let folder = try Folder()
        let session = folder.file("session")
        let server = try LineServer(context())
        try run("openssl", client(server, ["-sess_out", session]), input: "bye\n", mayFail: true)
        _ = server.join()
        let again = try LineServer(context())
        try run("openssl", client(again, ["-sess_in", session]), input: "bye\n", mayFail: true)
        #expect(again.join() == ["TLSv1.3 - new"])
    }

    @Test(arguments: ["k", "K"], ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
    func `keys can change in the middle`(_ command: String, _ suite: String) throws {
        let server = try LineServer(context())
        // Without -ign_eof it takes single letters as commands.
        let client = try CommandPeer(
            "openssl", client(server, ["-ciphersuites", suite]).filter { $0 != "-ign_eof" })
        try client.hear("Verify return code")
        for round in 0..<3 {
            try client.say("line \(round)\n")
            try client.hear("line \(round)>")
            try client.say(command + "\n")
            try client.hear("KEYUPDATE")
        }
        try client.say("bye\n")
        try client.hear("bye>")
        #expect(server.join() == ["TLSv1.3 - new"])
    }

    @Test func `a TLS 1_2 client cannot negotiate anew`() throws {
        let server = try LineServer(context())
        let client = try CommandPeer("openssl", client(server, ["-tls1_2"]).filter { $0 != "-ign_eof" })
        try client.hear("Verify return code")
        try client.say("line\n")
        try client.hear("line>")
        try client.say("R\n")
        try client.hear("RENEGOTIATING")
        #expect(try client.end().contains("no renegotiation"))
        let heard = server.join()
        #expect(heard.count == 1 && heard[0] != "TLSv1.2 - new")
    }

    /// A server of OpenSSL's, and the port it chose.
    func serve(_ pair: String, _ extra: [String] = []) throws -> (CommandPeer, SocketAddress) {
        let files = certificates.pair(pair)
        let peer = try CommandPeer(
            "openssl",
            ["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-www"]
                + ["-cert", files.certificate, "-key", files.key] + extra)
        try peer.hear("ACCEPT ")
        return (peer, try #require(SocketAddress(parsing: try peer.hear("\n"))))
    }

    @Test(arguments: [["-tls1_3"], ["-tls1_2"], ["-alpn", "http/1.1"], ["-tls1_3", "-num_tickets", "4"]])
    func `our client talks to a server of OpenSSL's`(_ extra: [String]) throws {
        let (peer, address) = try serve("localhost", extra)
        let context = try TLSClientContext(authorityFile: certificates.authority)
        var end = try TLSEnd(context, try connect(to: address), "localhost")
        #expect(try end.handshake() == .done)
        #expect(end.session.alpn == (extra.contains("-alpn") ? "http/1.1" : nil))
        try end.write(Array("GET / HTTP/1.0\r\n\r\n".utf8))
        #expect(try end.read(15) == Array("HTTP/1.0 200 ok".utf8))
        _ = peer
    }

    @Test(arguments: [("selfsigned", "localhost"), ("localhost", "wrong.example"), ("expired", "localhost")])
    func `our client refuses a server that is not who it should be`(_ pair: String, _ name: String) throws {
        let (peer, address) = try serve(pair)
        let context = try TLSClientContext(authorityFile: certificates.authority)
        var end = try TLSEnd(context, try connect(to: address), name)
        guard case .failed(let reason) = try end.handshake() else { throw TestFault("accepted") }
        #expect(reason.hasPrefix("the certificate is refused: "))
        _ = peer
    }
}
