import System
import Testing
import Transport
import Wire

@Suite struct TLSCertificateTests {
    let certificates: Certificates
    let folder: Folder

    init() throws {
        certificates = try Certificates.get()
        folder = try Folder()
    }

    func fault(_ pair: TLSCertificatePair) -> String {
        do {
            _ = try TLSServerContext(pairs: [pair], now: later)
            return "accepted"
        } catch {
            return error.description
        }
    }

    func file(_ name: String, _ text: String) throws -> String {
        try FileBytes.write(Array(text.utf8), to: folder.file(name))
        return folder.file(name)
    }

    @Test func `a missing file is named`() {
        let good = certificates.pair("localhost")
        #expect(
            fault(TLSCertificatePair(certificate: "/nonexistent.crt", key: good.key))
                == "cannot read /nonexistent.crt: no such file or directory")
        #expect(
            fault(TLSCertificatePair(certificate: good.certificate, key: "/nonexistent.key"))
                == "cannot read /nonexistent.key: no such file or directory")
    }

    @Test func `a file without PEM says what should be there`() throws {
        let good = certificates.pair("localhost")
        for text in ["", "not PEM", String(decoding: try FileBytes.read(good.key, limit: 1 << 20), as: UTF8.self)] {
            let path = try file("text", text)
            #expect(
                fault(TLSCertificatePair(certificate: path, key: good.key))
                    == "\(path) holds no certificate; it should be PEM text with -----BEGIN CERTIFICATE-----")
        }
        for text in [
            "", "not PEM", String(decoding: try FileBytes.read(good.certificate, limit: 1 << 20), as: UTF8.self),
        ] {
            let path = try file("text", text)
            let message = fault(TLSCertificatePair(certificate: good.certificate, key: path))
            #expect(message.hasPrefix("\(path) holds no private key ("))
            #expect(message.hasSuffix("; it should be PEM text with -----BEGIN PRIVATE KEY-----"))
        }
    }

    @Test func `a broken certificate is no good one`() throws {
        let good = certificates.pair("localhost")
        let text = String(decoding: try FileBytes.read(good.certificate, limit: 1 << 20), as: UTF8.self)
        let path = try file("broken", text + text.replacing("M", with: "N"))
        let message = fault(TLSCertificatePair(certificate: path, key: good.key))
        #expect(message.hasPrefix("\(path) holds a broken certificate ("))
    }

    @Test func `a key of another certificate is refused`() {
        let pair = TLSCertificatePair(
            certificate: certificates.pair("localhost").certificate, key: certificates.pair("api").key)
        #expect(
            fault(pair)
                == "the key in \(pair.key) does not belong to the certificate in \(pair.certificate); "
                + "give the key that the certificate was made with")
        let kinds = TLSCertificatePair(
            certificate: certificates.pair("localhost").certificate, key: certificates.pair("rsa").key)
        #expect(fault(kinds).contains("does not belong"))
    }

    @Test func `an encrypted key is refused and never asked about`() {
        let path = certificates.folder.file("locked.key")
        let pair = TLSCertificatePair(certificate: certificates.pair("api").certificate, key: path)
        #expect(
            fault(pair)
                == "the key in \(path) is encrypted; give it without a passphrase (openssl pkey -in \(path) -out FILE)")
    }

    @Test func `a certificate out of its time serves with a warning`() throws {
        let expired = certificates.pair("expired")
        #expect(
            try TLSServerContext(pairs: [expired], now: later).warnings
                == ["the certificate in \(expired.certificate) expired at 2020-02-01T00:00:00.000Z"])
        let good = certificates.pair("localhost")
        #expect(try TLSServerContext(pairs: [good], now: later).warnings.isEmpty)
        let early = try TLSServerContext(pairs: [good], now: WallTime(seconds: 1_000_000_000)).warnings
        #expect(early.count == 1)
        #expect(early[0].hasPrefix("the certificate in \(good.certificate) is valid only from "))
    }

    @Test func `TLS without a certificate is refused`() {
        #expect(throws: TLSFault("TLS needs a certificate and its key")) { try TLSServerContext(pairs: [], now: later) }
    }

    @Test func `an authority's file is checked`() throws {
        #expect(throws: TLSFault("cannot read /nonexistent.crt: no such file or directory")) {
            try TLSClientContext(authorityFile: "/nonexistent.crt")
        }
        let path = try file("text", "not PEM")
        let fault = #expect(throws: TLSFault.self) { try TLSClientContext(authorityFile: path) }
        #expect(fault?.description.hasPrefix("\(path) holds no authority's certificate (") == true)
    }

    @Test(arguments: ["api.example.com", "API.Example.COM", "other.example.com", "rsa.example.org", "localhost"])
    func `the name that a client asks for chooses the certificate`(_ asked: String) throws {
        // The wildcard stands before the exact name, and yields to it.
        let server = try TLSServerContext(
            pairs: ["localhost", "wild", "api", "rsa"].map(certificates.pair), now: later)
        let client = try TLSClientContext(authorityFile: certificates.authority)
        let pairing = try TLSPairing.make(server, client, name: asked)
        #expect(pairing.clientOutcome == .done)
    }

    @Test func `a name that no certificate fits gets the first one`() throws {
        let server = try TLSServerContext(pairs: ["localhost", "wild"].map(certificates.pair), now: later)
        let client = try TLSClientContext(authorityFile: certificates.authority)
        for name in ["deep.er.example.com", "example.com", "unknown.example"] {
            guard case .failed(let reason) = try TLSPairing.make(server, client, name: name).clientOutcome else {
                throw TestFault("accepted \(name)")
            }
            #expect(reason.contains("mismatch"))
        }
        // An address is no name: the first certificate is for this one.
        #expect(try TLSPairing.make(server, client, name: "127.0.0.1").clientOutcome == .done)
    }
}
