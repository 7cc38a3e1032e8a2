import Foundation
import TestThreads
import Testing

/// Internal callers that show a certificate, with curl and openssl as the callers.
@Suite(.ownThread) struct MutualTLSTests {
    /// A gateway whose only route is for the caller named `spiffe://example.org/billing`.
    private final class World {
        let folder: Folder
        let server: CertificateAuthority
        let clients: CertificateAuthority
        let upstream: Upstream
        let gateway: Gateway

        convenience init(_ more: String) throws { try self.init { _ in more } }

        /// `more` are further settings, made once the clients' CA is there.
        init(_ more: (CertificateAuthority) throws -> String = { _ in "" }) throws {
            folder = try Folder()
            server = try CertificateAuthority(folder)
            try server.issue("one", "DNS:localhost")
            clients = try CertificateAuthority(Folder())
            try clients.issue("billing", "DNS:billing.test", "URI:spiffe://example.org/billing")
            try clients.issue("other", "DNS:other.test", "URI:spiffe://example.org/other")
            try folder.write("clients.pem", clients.folder.read("ca.crt"))
            let more = try more(clients)
            upstream = try Upstream()
            gateway = try Gateway(
                """
                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT=\(folder.file("one.crt"))
                TOLLGATE_TLS_KEY=\(folder.file("one.key"))
                TOLLGATE_TLS_CLIENT_CA=\(folder.file("clients.pem"))
                TOLLGATE_INTERNAL_BILLING=cert-san=spiffe://example.org/billing
                TOLLGATE_UPSTREAM_U="\(upstream.url)"
                TOLLGATE_ROUTE_INTERNAL="/internal/* upstream=u auth=internal"
                TOLLGATE_ROUTE_OPEN="/open upstream=u auth=none"
                \(more)
                """, folder: folder)
        }

        /// The status of a request with the certificate of this name; 0 if there was no connection.
        func status(_ path: String, as name: String?, of authority: CertificateAuthority? = nil, _ more: [String] = []) throws -> Int {
            let files = (authority ?? clients).folder
            let identity = name.map { ["--cert", files.file($0 + ".crt"), "--key", files.file($0 + ".key")] } ?? []
            let outcome = try run(
                "curl",
                ["-sS", "--max-time", "15", "--cacert", server.file, "-o", "/dev/null", "-w", "%{http_code}"] + identity + more
                    + ["https://localhost:\(gateway.tlsPort)\(path)"])
            return Int(outcome.output) ?? -1
        }

        /// One request through openssl, which prints the session.
        func session(_ path: String, as name: String?, _ more: [String]) throws -> String {
            let request = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            let identity = name.map { ["-cert", clients.folder.file($0 + ".crt"), "-key", clients.folder.file($0 + ".key")] } ?? []
            let arguments = ["s_client", "-connect", "127.0.0.1:\(gateway.tlsPort)", "-servername", "localhost", "-ign_eof"]
            let outcome = try run("openssl", arguments + identity + more, input: request)
            return outcome.output + outcome.complaints
        }
    }

    @Test(arguments: ["1.2", "1.3"])
    func aCertificateOfTheNamedCallerOpensItsRoute(_ version: String) throws {
        let world = try World()
        let versions = ["--tlsv\(version)", "--tls-max", version]
        #expect(try world.status("/internal/x", as: "billing", versions) == 200)
        #expect(try world.status("/internal/x", as: "other", versions) == 403)
        #expect(try world.status("/internal/x", as: nil, versions) == 403)
        #expect(try world.status("/open", as: nil, versions) == 200)
        #expect(try world.status("/open", as: "other", versions) == 200)
        #expect(try world.gateway.ask("GET /internal/x").status == 403)
        #expect(world.upstream.requests.now.count == 3)
    }

    @Test func aCertificateThatDoesNotHoldEndsTheHandshake() throws {
        let world = try World()
        let strangers = try CertificateAuthority(Folder())
        try strangers.issue("billing", "URI:spiffe://example.org/billing")
        #expect(try world.status("/open", as: "billing", of: strangers) == 0)
        #expect(try world.status("/open", as: "billing", of: strangers, ["--tls-max", "1.2"]) == 0)
        try world.clients.issue("expired", "URI:spiffe://example.org/billing", endsWithin: -3_600)
        #expect(try world.status("/open", as: "expired") == 0)
        // A certificate of a server is none of a client.
        try world.clients.issue("server", "URI:spiffe://example.org/billing", use: "serverAuth")
        #expect(try world.status("/open", as: "server") == 0)
        #expect(world.upstream.requests.now.isEmpty)
        #expect(try world.gateway.metric("tollgate_tls_handshakes_total", #"result="failed""#) == 4)
    }

    @Test func aNameOfOneKindDoesNotPassForTheOther() throws {
        let world = try World("TOLLGATE_INTERNAL_HOST=cert-san=host.test")
        try world.clients.issue("host", "DNS:host.test")
        try world.clients.issue("mail", "email:x@host.test", "URI:urn:host.test", "IP:127.0.0.1")
        #expect(try world.status("/internal/x", as: "host") == 200)
        #expect(try world.status("/internal/x", as: "mail") == 403)
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aResumedSessionIsStillTheSameCallers(_ version: String) throws {
        let world = try World()
        let file = world.folder.file("session")
        #expect(try world.session("/internal/x", as: "billing", [version, "-sess_out", file]).contains("HTTP/1.1 200"))
        let again = try world.session("/internal/x", as: nil, [version, "-sess_in", file])
        #expect(again.contains("Reused, TLS"))
        #expect(again.contains("HTTP/1.1 200"))
        let nobody = world.folder.file("nobody")
        #expect(try world.session("/internal/x", as: nil, [version, "-sess_out", nobody]).contains("HTTP/1.1 403"))
        #expect(try world.session("/internal/x", as: nil, [version, "-sess_in", nobody]).contains("HTTP/1.1 403"))
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aSessionDoesNotOutliveTheCertificateThatItBeganWith(_ version: String) throws {
        let world = try World()
        let file = world.folder.file("session")
        // Longer and longer, should the machine be too slow for the shorter ones.
        let lives = try #require(
            try [5, 20, 60].first { seconds in
                try world.clients.issue("short", "URI:spiffe://example.org/billing", endsWithin: seconds)
                return try world.session("/internal/x", as: "short", [version, "-sess_out", file]).contains("HTTP/1.1 200")
            })
        usleep(UInt32(lives * 1_000_000))
        try eventually("the certificate has expired", seconds: 60) {
            let answer = try world.session("/internal/x", as: nil, [version, "-sess_in", file])
            return answer.contains("New, TLS") && answer.contains("HTTP/1.1 403")
        }
    }

    @Test func anotherAuthorityIsPickedUpAndEndsWhatBeganUnderTheOld() throws {
        let world = try World()
        let file = world.folder.file("session")
        #expect(try world.session("/internal/x", as: "billing", ["-sess_out", file]).contains("HTTP/1.1 200"))
        let next = try CertificateAuthority(Folder())
        try next.issue("billing", "URI:spiffe://example.org/billing")
        try world.folder.write("clients.pem", next.folder.read("ca.crt"))
        try world.gateway.waitForLog("certificates changed")
        try eventually("the new authority") { try world.status("/internal/x", as: "billing", of: next) == 200 }
        #expect(try world.status("/internal/x", as: "billing") == 0)
        let again = try world.session("/internal/x", as: nil, ["-sess_in", file])
        #expect(again.contains("New, TLS") && again.contains("HTTP/1.1 403"))
    }

    /// A list ends after so many seconds; `names` are revoked. It begins now, or at a time of ASN.1.
    private func list(
        _ authority: CertificateAuthority, _ names: [String], endsWithin seconds: Int, _ file: String, form: String = "PEM",
        begins: String? = nil
    ) throws {
        let folder = authority.folder
        try folder.write("index.txt", "")
        try folder.write("ca.conf", "[ca]\ndefault_ca=a\n[a]\ndatabase=\(folder.file("index.txt"))\ndefault_md=sha256\n")
        let signer = ["-config", folder.file("ca.conf"), "-cert", authority.file, "-keyfile", folder.file("ca.key")]
        for name in names { try mustRun("openssl", ["ca"] + signer + ["-revoke", folder.file(name + ".crt")]) }
        let period = ["-crlsec", "\(seconds)"] + (begins.map { ["-crl_lastupdate", $0] } ?? [])
        try mustRun("openssl", ["ca", "-gencrl"] + signer + period + ["-out", folder.file("list.pem")])
        try mustRun("openssl", ["crl", "-in", folder.file("list.pem"), "-outform", form, "-out", folder.file("list.new")])
        try mustRun("mv", [folder.file("list.new"), file])
    }

    /// A revoked certificate opens nothing, also not by the session of an earlier connection. A CA without a list is not asked about.
    @Test(arguments: ["-tls1_2", "-tls1_3"], ["PEM", "DER"])
    func aRevokedCertificateOpensNothing(_ version: String, _ form: String) throws {
        let folder = try Folder()
        let (unlisted, file) = (try CertificateAuthority(Folder(), name: "unlisted"), folder.file("list"))
        try unlisted.issue("billing", "URI:spiffe://example.org/billing")
        let world = try World { clients in
            try list(clients, [], endsWithin: 3_600, file, form: form)
            return "TOLLGATE_TLS_CLIENT_CRL=\(file)"
        }
        try world.folder.write("clients.pem", world.clients.folder.read("ca.crt") + unlisted.folder.read("ca.crt"))
        try world.gateway.waitForLog("certificates changed")
        let session = world.folder.file("session")
        try eventually("both CAs") { try world.status("/internal/x", as: "billing", of: unlisted) == 200 }
        #expect(try world.session("/internal/x", as: "billing", [version, "-sess_out", session]).contains("HTTP/1.1 200"))
        #expect(try world.session("/internal/x", as: nil, [version, "-sess_in", session]).contains("New, TLS"))
        try list(world.clients, ["billing"], endsWithin: 3_600, file, form: form)
        try eventually("the list") { try world.status("/internal/x", as: "billing") == 0 }
        #expect(try !world.session("/internal/x", as: nil, [version, "-sess_in", session]).contains("HTTP/1.1 200"))
        #expect(try world.status("/internal/x", as: "other") == 403)
        #expect(try world.status("/internal/x", as: "billing", of: unlisted) == 200)
        #expect(try !world.gateway.askAdmin("/readyz").text.contains("degraded"))
        // Broken: the list before stays.
        try world.gateway.folder.write("broken", "nothing")
        try mustRun("mv", [world.gateway.folder.file("broken"), file])
        try world.gateway.waitForLog("certificates not adopted")
        try eventually("a degraded state") { try world.gateway.askAdmin("/readyz").text.contains("holds no list of revoked certificates") }
        #expect(try world.status("/internal/x", as: "billing") == 0)
        #expect(try world.status("/internal/x", as: "other") == 403)
        // Its end: no certificate of that CA passes.
        try list(world.clients, [], endsWithin: 1, file, form: form)
        try world.gateway.waitForLog("client certificates are refused")
        #expect(try world.status("/internal/x", as: "other") == 0)
        #expect(try world.status("/open", as: nil) == 200)
        #expect(try world.status("/internal/x", as: "billing", of: unlisted) == 200)
        #expect(try world.gateway.askAdmin("/readyz").text.contains("so no client certificate of it passes"))
        try list(world.clients, [], endsWithin: 3_600, file, form: form)
        try eventually("the next list") { try world.status("/internal/x", as: "billing") == 200 }
        #expect(try !world.gateway.askAdmin("/readyz").text.contains("degraded"))
    }

    /// Connections over either protocol end when the certificate that they were made with is revoked; those of other callers go on.
    @Test func aRevokedCertificateEndsItsConnections() throws {
        let world = try World { clients in
            try list(clients, [], endsWithin: 3_600, clients.folder.file("crl"))
            return "TOLLGATE_TLS_CLIENT_CRL=\(clients.folder.file("crl"))\nTOLLGATE_IDLE_TIMEOUT=1h"
        }
        func open(_ name: String, _ applicationProtocol: String, saying text: String) throws -> Subprocess {
            let file = world.clients.folder.file(name)
            let place = ["-connect", "127.0.0.1:\(world.gateway.tlsPort)", "-servername", "localhost", "-alpn", applicationProtocol]
            let client = try Subprocess("openssl", ["s_client", "-quiet", "-cert", file + ".crt", "-key", file + ".key"] + place)
            client.say(text)
            return client
        }
        let request = "GET /internal/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let revoked = try [
            open("billing", "http/1.1", saying: request),
            open("billing", "h2", saying: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0"),
        ]
        let other = try open("other", "http/1.1", saying: request)
        try revoked[0].output.wait(for: "a response") { $0.contains { $0.hasPrefix("HTTP/1.1 200") } }
        try other.output.wait(for: "a refusal") { $0.contains { $0.hasPrefix("HTTP/1.1 403") } }
        try eventually("three connections") { try world.gateway.metric("tollgate_tls_handshakes_total", #"result="full""#) == 3 }
        try list(world.clients, ["billing"], endsWithin: 3_600, world.clients.folder.file("crl"))
        for client in revoked { _ = try client.exitCode() }
        other.say(request)
        try other.output.wait(for: "another refusal") { $0.count { $0.contains("HTTP/1.1 403") } == 2 }
    }

    /// The list counts though the server's key, which is being replaced, is broken; the former pair goes on serving.
    @Test func aListCountsBesideABrokenKey() throws {
        let world = try World { clients in
            let file = clients.folder.file("crl")
            try list(clients, [], endsWithin: 3_600, file)
            return "TOLLGATE_TLS_CLIENT_CRL=\(file)"
        }
        try world.folder.write("one.key", "half of a key")
        try world.gateway.waitForLog("certificates not adopted")
        #expect(try world.status("/internal/x", as: "billing") == 200)
        try list(world.clients, ["billing"], endsWithin: 3_600, world.clients.folder.file("crl"))
        try eventually("the list") { try world.status("/internal/x", as: "billing") == 0 }
        #expect(try world.status("/open", as: "other") == 200)
        #expect(try world.gateway.askAdmin("/readyz").text.contains("one.key"))
    }

    /// A chain ends at an intermediate CA that is configured. OpenSSL cannot verify the list of its issuer, which is not in the chain.
    @Test(arguments: [false, true])
    func aListOfTheRootHoldsForAnIntermediateAuthority(_ hasRoot: Bool) throws {
        let folder = try Folder()
        let root = try CertificateAuthority(Folder(), name: "root")
        let intermediate = try CertificateAuthority(Folder(), name: "intermediate", under: root)
        for name in ["billing", "revoked"] { try intermediate.issue(name, "URI:spiffe://example.org/billing") }
        try root.folder.write("intermediate.crt", intermediate.folder.read("ca.crt"))
        let world = try World { _ in
            try list(root, [], endsWithin: 3_600, folder.file("root.crl"))
            try list(intermediate, ["revoked"], endsWithin: 3_600, folder.file("intermediate.crl"))
            return "TOLLGATE_TLS_CLIENT_CRL=\"\(folder.file("root.crl")) \(folder.file("intermediate.crl"))\""
        }
        let authorities = try (hasRoot ? [root, intermediate] : [intermediate]).map { try $0.folder.read("ca.crt") }
        try world.folder.write("clients.pem", authorities.joined())
        try world.gateway.waitForLog("certificates changed")
        try eventually("the intermediate CA") { try world.status("/internal/x", as: "billing", of: intermediate) == 200 }
        #expect(try world.status("/internal/x", as: "billing", of: intermediate, ["--tls-max", "1.2"]) == 200)
        #expect(try world.status("/internal/x", as: "revoked", of: intermediate) == 0)
        #expect(try !world.gateway.askAdmin("/readyz").text.contains("degraded"))
        try list(root, ["intermediate"], endsWithin: 3_600, folder.file("root.crl"))
        try eventually("the revoked CA") { try world.status("/internal/x", as: "billing", of: intermediate) == 0 }
        #expect(try world.status("/open", as: nil) == 200)
    }

    @Test func aListThatCannotBeUsedIsReported() throws {
        let folder = try Folder()
        let (file, namesake) = (folder.file("list"), try CertificateAuthority(Folder()))
        let world = try World { clients in
            try list(clients, [], endsWithin: 3_600, file)
            return "TOLLGATE_TLS_CLIENT_CRL=\(file)"
        }
        #expect(try world.status("/internal/x", as: "billing") == 200)
        func expectReport(_ text: String, location: SourceLocation = #_sourceLocation) throws {
            try eventually(text) { try world.gateway.askAdmin("/readyz").text.contains(text) }
            let check = try Tollgate.run(["check", "--env-file", world.gateway.envFile])
            #expect(check.code == 0 && check.complaints.contains(text), "\(check)", sourceLocation: location)
            #expect(try world.status("/internal/x", as: "billing") == 0, sourceLocation: location)
        }
        try list(namesake, [], endsWithin: 3_600, file)
        try expectReport("is not signed by the key of that CA")
        try list(world.clients, [], endsWithin: 3_600, file, begins: "21000101000000Z")
        try expectReport("begins at 2100-01-01T")
        try list(world.clients, [], endsWithin: 3_600, file)
        try eventually("a list that holds") { try world.status("/internal/x", as: "billing") == 200 }
        try eventually("it is ready") { try !world.gateway.askAdmin("/readyz").text.contains("degraded") }
    }

    @Test func whatIsNoAuthorityIsToldAtTheStart() throws {
        let folder = try Folder()
        try folder.write("no.pem", "nothing\n")
        try folder.write(
            "gateway.env",
            Gateway.complete(
                "TOLLGATE_TLS_CLIENT_CA=\(folder.file("no.pem"))\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:1\nTOLLGATE_ROUTE_R=\"/ upstream=u\"",
                folder))
        let outcome = try Tollgate.run(["check", "--env-file", folder.file("gateway.env")])
        #expect(outcome.code == 2)
        #expect(
            (outcome.output + outcome.complaints).contains(
                "TOLLGATE_TLS_CLIENT_CA: \(folder.file("no.pem")) holds no authority's certificate ("))
    }
}
