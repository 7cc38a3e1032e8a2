import Accounts
import Credentials
import Testing
import Wire

@testable import Acme
@testable import tollgate

@Suite struct AcmeBoardTests {
    private static let now = WallTime(seconds: 1_800_000_000)
    private let secret = [UInt8](repeating: 7, count: 32)

    private func kept(_ name: String, days: Int64, directory: String = "https://a/dir") throws -> KeptCertificate {
        let key = try SigningKey.generate(.ES256)
        var draft = CertificateDraft(
            name: name, notBefore: Self.now, notAfter: Self.now.advanced(seconds: days * 86_400), isAuthority: false)
        draft.names = [name]
        let certificate = try #require(IssuedCertificate(pem: try draft.selfSignedPEM(of: key)))
        return KeptCertificate(directory: directory, key: try key.pem(), certificate: certificate)
    }

    private func item(_ subject: AcmeBoard.Subject, _ value: String, until: WallTime? = nil) -> LiveSwitch {
        LiveSwitch(name: subject.name, value: value, version: 3, expiresAt: until)
    }

    private func board(_ switches: [LiveSwitch], secret: [UInt8]? = nil) -> AcmeBoard { AcmeBoard(switches, secret: secret ?? self.secret) }

    @Test func secretsAreSealedByTheirNames() throws {
        let (key, one) = (try SigningKey.generate(.ES256), try kept("one.example", days: 90))
        let empty = board([])
        let switches = [
            item(.account, empty.seal(try key.pem(), .account)),
            item(.certificate("one.example"), empty.seal(one.text, .certificate("one.example"))),
            // Under another name it is no certificate.
            item(.certificate("two.example"), empty.seal(one.text, .certificate("one.example"))),
        ]
        let full = board(switches)
        #expect(full.account?.key.kid == key.kid && !full.isSealedOtherwise && !empty.isSealedOtherwise)
        #expect(full.certificate("one.example")?.certificate == one.certificate && full.certificate("one.example")?.key == one.key)
        #expect(full.certificate("two.example") == nil)
        let foreign = board(switches, secret: [UInt8](repeating: 8, count: 32))
        #expect(foreign.isSealedOtherwise && foreign.certificate("one.example") == nil)
        for broken in ["", "A", "!!", String(repeating: "A", count: 200)] {
            #expect(board([item(.certificate("x"), broken)]).certificate("x") == nil)
        }
        let issued = full.issued(["one.example", "two.example"], at: Self.now)
        #expect(issued.pairs.count == 1 && issued.expiries == ["one.example": one.certificate.expiresAt] && issued.challenges.isEmpty)
    }

    @Test func whatIsDueFollowsFromCertificatesFailuresAndWishes() throws {
        let sealed = { (name: String, kept: KeptCertificate) in
            item(.certificate(name), board([]).seal(kept.text, .certificate(name)))
        }
        let fresh = sealed("a.example", try kept("a.example", days: 90))
        let names = ["a.example", "b.example"]
        func due(_ switches: [LiveSwitch], after days: Int64 = 0, _ directory: String = "https://a/dir") -> String? {
            board(switches).due(names, directory: directory, at: Self.now.advanced(seconds: days * 86_400))
        }
        var failed = RenewalState()
        failed.failed(AcmeFailure(.dns, "no"), at: Self.now)
        let waiting = item(.state("b.example"), failed.text)
        #expect(due([]) == "a.example" && due([fresh]) == "b.example" && due([fresh, waiting]) == nil)
        #expect(due([fresh, waiting], after: 1) == "b.example")
        #expect(due([fresh, waiting], after: 61) == "a.example")
        #expect(due([fresh, waiting, item(.wish("a.example"), "x")]) == "a.example")
        #expect(due([fresh, waiting], "https://another/dir") == "a.example")
    }

    @Test func challengesEndAndLeasesAreNotServed() throws {
        let challenge = AcmeChallenge(kind: .tlsALPN, name: "192.0.2.7", token: "t", authorization: "t.k")
        let until = Self.now.advanced(seconds: 900)
        let one = board([item(.challenge("192.0.2.7"), AcmeBoard.text(challenge), until: until)])
        #expect(one.challenges(["192.0.2.7", "x.example"], at: Self.now) == [challenge])
        #expect(one.challenges(["192.0.2.7"], at: until) == [] && one.challenges([], at: Self.now) == [])
        #expect(one.issued(["192.0.2.7"], at: Self.now).challenges.keys.sorted() == ["7.2.0.192.in-addr.arpa"])
        let six = AcmeChallenge(kind: .tlsALPN, name: "2001:db8::7", token: "t", authorization: "t.k")
        #expect(six.serverName == "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa")
        #expect(board([item(.lease, "a")]).serves(like: board([item(.lease, "b")])) && !one.serves(like: board([])))
        #expect(board([item(.lease, "a", until: Self.now)]).version(.lease, at: Self.now) == 0)
    }
}
