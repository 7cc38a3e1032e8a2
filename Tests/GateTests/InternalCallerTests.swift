import Credentials
import Testing
import Wire

@testable import Gate

/// `Cases/clients.md` has callers by key, network and certificate.
@Suite struct InternalCallerTests {
    private static let key = "a key of the backend"
    private static var digest: [UInt8] { key.withRawBytes { Digest.sha256($0) } }

    private func harness(_ callers: InternalCaller..., proxies: [String] = []) throws -> AdmissionHarness {
        try AdmissionHarness([rule("api", "/api/*", auth: .internal)], proxies: proxies, internals: callers)
    }

    private func networks(_ blocks: String...) -> [CIDR] { blocks.compactMap { CIDR(parsing: $0) } }

    @Test func aNameInACertificateMustBeExactlyTheSame() throws {
        let harness = try harness(InternalCaller(name: "billing", certificateName: "spiffe://example.org/billing"))
        #expect(harness.get("/api/x", certificate: ["spiffe://example.org/billing\0"]).status == 403)
        let accented = try self.harness(InternalCaller(name: "c", certificateName: "x:\u{E9}"))
        #expect(accented.get("/api/x", certificate: ["x:e\u{301}"]).status == 403)
    }

    @Test func anEmptyInternalCallerNeverMatches() throws {
        let header = "X-Internal-Key: \(Self.key)"
        #expect(try harness(InternalCaller(name: "empty")).get("/api/x", header).status == 403)
        #expect(try harness(InternalCaller(name: "short", keySHA256: [])).get("/api/x", header).status == 403)
        #expect(try harness().get("/api/x", header).status == 403)
    }

    @Test func aDigestIsSixtyFourHexDigits() {
        let hex = String(repeating: "aF", count: 32)
        #expect(InternalCaller.digest(hex: hex) == Array(repeating: 0xAF, count: 32))
        for bad in ["", String(hex.dropLast()), hex + "a", String(repeating: "g", count: 64)] {
            #expect(InternalCaller.digest(hex: bad) == nil)
        }
    }

    /// At the gateway's own endpoint, as RFC 6749 §2.3.1 has it: name and key are form-encoded.
    @Test(
        arguments: [
            ("billing:a+key%20of+the+backend", "10.1.1.1", "", 1), ("billing:a+key+of+the+backend", "11.1.1.1", "", -1),
            ("billing:wrong", "10.1.1.1", "", -1),
            ("b%69lling:a+key+of+the+backend", "10.1.1.1", "", 1), ("Billing:a+key+of+the+backend", "10.1.1.1", "", -1),
            ("near:a+key+of+the+backend", "10.1.1.1", "", -1),
            ("near:", "10.1.1.1", "", -1), ("billing", "10.1.1.1", "", -1), ("billing:%", "10.1.1.1", "", -1), (":", "10.1.1.1", "", -1),
            ("billing:a+key+of+the+backend", "10.1.1.1", "X-Internal-Key: \(key)\n", -1),
        ] as [(String, String, String, Int)])
    func nameAndKeyMayComeAsBasicCredentials(_ client: String, _ address: String, _ more: String, _ caller: Int) throws {
        // The first needs no key, and is not who sends one.
        let callers = [
            InternalCaller(name: "near", networks: networks("10.0.0.0/8")),
            InternalCaller(name: "billing", keySHA256: Self.digest, networks: networks("10.0.0.0/8")),
        ]
        let own = RouteRule(name: "own", path: "/own", isPrefix: false, target: .local(64), auth: .internal)
        let harness = try AdmissionHarness([rule("api", "/api/*", auth: .internal), own], internals: callers)
        let field = more + "Authorization: bAsic \(Base64.encode(Array(client.utf8).rawBytes, isPadded: true))"
        let judged = harness.get("/own", field, from: address)
        #expect(judged.caller == caller && judged.status == (caller < 0 ? 401 : 0), "\(client): \(judged.status)")
        // A route's upstream may have Basic credentials of its own.
        let route = InternalCaller(name: "billing", keySHA256: Self.digest)
        #expect(
            try AdmissionHarness([rule("api", "/api/*", auth: .internal)], internals: [route]).get("/api/x", field).status
                == (more.isEmpty ? 403 : 0))
        #expect(harness.get("/own", "Authorization: Basic !", from: address).status == 401)
    }
}
