import Foundation
import Glibc
import TestServers
import TestThreads
import Testing

/// Certificates that a gateway orders at pebble, asked for by curl and openssl.
@Suite(.ownThread) struct CertificateOrderTests {
    private static let names = ["one.example.test", "two.example.test"]

    private func settings(_ pebble: Pebble, _ more: String..., names: [String] = names, host: Int = 1) -> String {
        """
        \(pebble.settings)
        TOLLGATE_ACME_NAMES="\(names.joined(separator: " "))"
        TOLLGATE_LISTEN_TLS=127.0.0.\(host):\(pebble.tlsPort.number)
        \(more.joined(separator: "\n"))
        """
    }

    /// The serial number of the certificate that is served for a name; nil if the handshake fails.
    private func serial(_ name: String, _ pebble: Pebble, host: Int = 1) throws -> String? {
        let outcome = try run(
            "openssl",
            [
                "s_client", "-connect", "127.0.0.\(host):\(pebble.tlsPort.number)", "-servername", name, "-verify_hostname", name,
                "-CAfile",
                pebble.root, "-verify_return_error",
            ])
        guard outcome.code == 0 else { return nil }
        let pem = outcome.output.split(separator: "-----BEGIN CERTIFICATE-----")[1].split(separator: "-----END CERTIFICATE-----")[0]
        let text = "-----BEGIN CERTIFICATE-----\(pem)-----END CERTIFICATE-----\n"
        return try mustRun("openssl", ["x509", "-noout", "-serial"], input: text)
    }

    private func found<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw Fault("a handshake has failed, or no gateway orders") }
        return value
    }

    private func waitForCertificates(_ names: [String], _ pebble: Pebble, hosts: [Int] = [1], seconds: Double = 60) throws {
        try eventually("certificates of \(names)", seconds: seconds) {
            try hosts.allSatisfy { host in try names.allSatisfy { try serial($0, pebble, host: host) != nil } }
        }
    }

    @Test func threeSettingsGiveCertificatesThatSurviveARestart() throws {
        let pebble = try Pebble(["PEBBLE_WFE_NONCEREJECT": "50"])
        let gateway = try Gateway(settings(pebble))
        try waitForCertificates(Self.names, pebble)
        let before = try Self.names.map { try serial($0, pebble) }
        #expect(Set(before).count == 2)
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "ready")
        #expect(try gateway.metric("tollgate_tls_certificate_late") == 0)
        #expect(try gateway.metric("tollgate_tls_certificate_expiry_timestamp_seconds", "one.example.test") > Date().timeIntervalSince1970)
        // Neither another name, nor a protocol of challenges that are over, is answered.
        let place = ["s_client", "-connect", "127.0.0.1:\(pebble.tlsPort.number)"]
        #expect(try run("openssl", place + ["-servername", "other.example.test"]).complaints.contains("unrecognized name"))
        #expect(try run("openssl", place + ["-servername", Self.names[0], "-alpn", "acme-tls/1"]).code != 0)
        #expect(try gateway.stop() == 0)
        let again = try Gateway(settings(pebble), folder: gateway.folder)
        #expect(try Self.names.map { try serial($0, pebble) } == before)
        _ = again
    }

    @Test func namesAndAddressesAreProvedOnAPlainAddress() throws {
        let pebble = try Pebble()
        let upstream = try Upstream()
        let gateway = try Gateway(
            settings(
                pebble, "TOLLGATE_ACME_CHALLENGE=http", "TOLLGATE_ACME_HTTP_LISTEN=127.0.0.1:\(pebble.httpPort.number)",
                "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none\"",
                names: ["one.example.test", "127.0.0.1"]))
        try waitForCertificates(["one.example.test"], pebble)
        // Without a name the certificate of the address is served.
        try eventually("a certificate of the address") {
            try run("curl", ["-sS", "--cacert", pebble.root, "https://127.0.0.1:\(pebble.tlsPort.number)/x"]).output == "ok"
        }
        // A token that is not the gateway's own goes its way.
        #expect(try gateway.ask("GET /.well-known/acme-challenge/other").text == "ok")
        #expect(upstream.requests.now.contains { $0.target == "/.well-known/acme-challenge/other" })
    }

    @Test func recordsAreSetByAProgram() throws {
        let pebble = try Pebble()
        try pebble.folder.write(
            "record",
            """
            #!/bin/sh
            echo "$@" >> \(pebble.folder.file("calls"))
            case $1 in present) path=set-txt ;; *) path=clear-txt ;; esac
            exec curl -sSf -d "{\\"host\\":\\"$2.\\",\\"value\\":\\"$3\\"}" \(pebble.management)/$path
            """)
        chmod(pebble.folder.file("record"), 0o755)
        let names = ["*.wild.example.test"]
        let gateway = try Gateway(
            settings(pebble, "TOLLGATE_ACME_CHALLENGE=dns", "TOLLGATE_ACME_DNS=exec:\(pebble.folder.file("record"))", names: names))
        try waitForCertificates(["any.wild.example.test"], pebble)
        try eventually("the record is removed") {
            let calls = try pebble.folder.read("calls").split(separator: "\n").map { $0.split(separator: " ") }
            return calls.map(\.first) == ["present", "cleanup"] && calls[0][1] == "_acme-challenge.wild.example.test"
                && calls[0][2] == calls[1][2]
        }
        _ = gateway
    }

    /// A bind9; `listening` says where, and `zone` is its part of the zone example.test.
    private func startNamed(_ folder: Folder, _ name: String, listening: String, _ zone: String, _ more: String = "") throws -> Subprocess {
        try folder.write(
            "\(name).conf",
            """
            options { directory "\(folder.path)"; \(listening); recursion no; pid-file none; session-keyfile none;
              dnssec-validation no; notify no; };
            controls { };
            \(more)
            zone "example.test" { \(zone) };
            """)
        let named = try Subprocess("named", ["-g", "-c", folder.file("\(name).conf")])
        try named.complaints.wait(for: "bind9") { $0.contains { $0.hasSuffix(" running") } }
        return named
    }

    /// The authority asks a name server that has the record some seconds after the one that takes the update.
    @Test func recordsAreSetByASignedUpdate() throws {
        let folder = try Folder()
        let port = try HeldPort()
        let secret = try mustRun("openssl", ["rand", "-base64", "32"])
        try folder.write("tsig.key", secret + "\n")
        try folder.write(
            "zone",
            """
            @ 60 IN SOA ns hostmaster 1 60 60 60 60
            @ 60 IN NS ns
            @ 60 IN NS late
            ns 60 IN A 127.0.0.1
            late 60 IN AAAA ::1
            *.example.test. 60 IN A 127.0.0.1

            """)
        let primary = try startNamed(
            folder, "primary", listening: "listen-on port \(port.number) { 127.0.0.1; }; listen-on-v6 { none; }",
            #"type primary; file "zone"; allow-update { key tollgate; };"#,
            #"key tollgate { algorithm hmac-sha256; secret "\#(secret)"; };"#)
        let secondary = try startNamed(
            folder, "secondary", listening: "listen-on { none; }; listen-on-v6 port \(port.number) { ::1; }",
            #"type secondary; file "copy"; primaries port \#(port.number) { 127.0.0.1; }; min-refresh-time 4; max-refresh-time 4;"#)
        try secondary.complaints.wait(for: "a copy of the zone") { $0.contains { $0.contains("transferred serial") } }
        let pebble = try Pebble(dnsServer: "[::1]:\(port.number)")
        let file = folder.file("tsig.key").replacing("/", with: "%2F")
        let dns = "TOLLGATE_ACME_CHALLENGE=dns\nTOLLGATE_ACME_DNS=rfc2136://tollgate:\(file)@127.0.0.1:\(port.number)/example.test"
        let gateway = try Gateway(settings(pebble, dns, names: ["one.example.test", "*.example.test"]))
        try waitForCertificates(["one.example.test", "other.example.test"], pebble, seconds: 120)
        #expect(!gateway.process.complaints.now.contains { $0.contains("no certificate issued") || $0.contains("a record is late") })
        // Another key is refused, and the log says so.
        try folder.write("tsig.key", "AAAA\n")
        let other = try Gateway(settings(pebble, dns, names: ["one.example.test"], host: 2))
        try other.waitForLog("refuses the key")
        #expect(try JSON(other.askAdmin("/readyz").text)["status"].text == "degraded")
        _ = (primary, secondary)
    }

    @Test func anExternalAccountIsBound() throws {
        let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
        let pebble = try Pebble(
            configuration: #","externalAccountBindingRequired":true,"externalAccountMACKeys":{"kid-1":"\#(key)"}"#)
        let without = try Gateway(settings(pebble, host: 2))
        try without.waitForLog("set TOLLGATE_ACME_EAB")
        try pebble.folder.write("eab", key + "\n")
        let gateway = try Gateway(settings(pebble, "TOLLGATE_ACME_EAB=\"key-id=kid-1 key-file=\(pebble.folder.file("eab"))\""))
        try waitForCertificates(Self.names, pebble)
        _ = gateway
    }

    /// A failure shows everywhere, and an operator has it tried again.
    @Test func aFailureIsToldAndMended() throws {
        let pebble = try Pebble()
        let name = "one.example.test"
        try pebble.resolve(name, to: ["127.0.0.9"])
        let http = "TOLLGATE_ACME_CHALLENGE=http\nTOLLGATE_LISTEN=127.0.0.1:\(pebble.httpPort.number)"
        let gateway = try Gateway(settings(pebble, http, names: [name]))
        try gateway.waitForLog(#""cause":"port""#)
        try eventually("the failure shows in /readyz") {
            let ready = try gateway.askAdmin("/readyz")
            return ready.status == 200 && ready.text.contains("one.example.test: no certificate yet: the authority cannot connect")
        }
        #expect(try gateway.metric("tollgate_tls_certificate_late") == 1)
        let shown = try JSON(gateway.command(["certificates", "list", "--json"]).output)[0]
        #expect(shown["status"].text == "missing" && shown["failures"].number == 1 && shown["problem"].text?.contains("connect") == true)
        #expect(try gateway.command(["doctor"]).output.contains("certificate of one.example.test"))
        #expect(try gateway.command(["certificates", "renew", "two.example.test"]).code == 2)
        try pebble.resolve(name, to: ["127.0.0.1"])
        #expect(try gateway.command(["certificates", "renew", name]).code == 0)
        try waitForCertificates([name], pebble)
        let mended = try JSON(gateway.command(["certificates", "list", "--json"]).output)[0]
        #expect(mended["status"].text == "valid" && mended["failures"].number == 0)
        // It is not due, and an operator may want another all the same.
        let before = try serial(name, pebble)
        #expect(try gateway.command(["certificates", "renew", name]).code == 0)
        try eventually("another certificate") { try serial(name, pebble) != before }
    }

    @Test func shortLivesAreRenewedWithoutAFailedHandshake() throws {
        let pebble = try Pebble(configuration: #","certificateValidityPeriod":15"#)
        let gateway = try Gateway(settings(pebble, names: ["one.example.test"]))
        try waitForCertificates(["one.example.test"], pebble)
        var serials: Set<String> = []
        try eventually("three certificates, one after the other") {
            serials.insert(try found(try serial("one.example.test", pebble)))
            return serials.count == 3
        }
        _ = gateway
    }

    @Test func threeGatewaysHaveOneCertificateThoughTheOneThatOrdersIsKilled() throws {
        let pebble = try Pebble(["PEBBLE_VA_NOSLEEP": "0", "PEBBLE_VA_SLEEPTIME": "8"])
        let name = "one.example.test"
        let database = try PostgresCluster.shared.get().newDatabase()
        let upstream = try Upstream()
        let start = { (host: Int) in
            try Gateway(
                Fleet.settings(database, upstream).joined(separator: "\n") + "\n" + settings(pebble, names: [name], host: host))
        }
        var gateways = try (1...3).map { try start($0) }
        try pebble.resolve(name, to: ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
        let ordered = { (gateway: Gateway) in gateway.process.complaints.now.contains { $0.contains("certificate ordered") } }
        try eventually("an order") { gateways.contains(where: ordered) }
        let holder = try found(gateways.firstIndex(where: ordered))
        gateways[holder].process.kill()
        let others = [1, 2, 3].filter { $0 != holder + 1 }
        try pebble.resolve(name, to: others.map { "127.0.0.\($0)" })
        try waitForCertificates([name], pebble, hosts: others, seconds: 120)
        gateways[holder] = try start(holder + 1)
        let serials = try [1, 2, 3].map { try serial(name, pebble, host: $0) }
        #expect(Set(serials).count == 1 && serials[0] != nil)
    }
}
