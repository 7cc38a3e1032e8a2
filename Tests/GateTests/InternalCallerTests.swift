import Credentials
import Testing
import Wire

@testable import Gate

@Suite struct InternalCallerTests {
    private static let key = "a key of the backend"
    private static var digest: [UInt8] { key.withRawBytes { Digest.sha256($0) } }

    private func harness(_ callers: InternalCaller..., proxies: [String] = []) throws -> AdmissionHarness {
        try AdmissionHarness([rule("api", "/api/*", auth: .internal)], proxies: proxies, internals: callers)
    }

    private func networks(_ blocks: String...) -> [CIDR] { blocks.compactMap { CIDR(parsing: $0) } }

    @Test func aKeyOpensTheRouteWithoutAToken() throws {
        let harness = try harness(
            InternalCaller(name: "other", keySHA256: Array(repeating: 7, count: 32)),
            InternalCaller(name: "backend", keySHA256: Self.digest))
        let judged = harness.get("/api/x", "x-internal-key: \(Self.key)")
        #expect(judged.status == 0 && judged.caller == 1 && judged.auth == .anonymous)
        #expect(judged.identity == [])
        for header in ["", "X-Internal-Key: wrong", "X-Internal-Key:", "X_Internal_Key: \(Self.key)"] {
            let refused = harness.get("/api/x", header)
            #expect(refused.status == 403 && refused.code == "FORBIDDEN", "\(header)")
            #expect(refused.headers == ["WWW-Authenticate: Bearer realm=\"tollgate\""])
        }
    }

    @Test func aKeySentTwiceIsNoKey() throws {
        let harness = try harness(InternalCaller(name: "backend", keySHA256: Self.digest))
        #expect(harness.get("/api/x", "X-Internal-Key: \(Self.key)\nX-Internal-Key: \(Self.key)").status == 403)
    }

    /// A page that a browser on the operator's network shows calls from that network, too.
    @Test func aPageOfAnotherOriginIsNoCallerByItsNetworkAlone() throws {
        let byNetwork = try harness(InternalCaller(name: "n", networks: networks("10.0.0.0/8")))
        let byCertificate = try harness(InternalCaller(name: "c", certificateName: "spiffe://x"))
        let byKey = try harness(InternalCaller(name: "k", keySHA256: Self.digest, networks: networks("10.0.0.0/8")))
        let cases: [(String, String?, UInt16)] = [
            ("POST", "https://evil.test", 403), ("POST", "null", 403), ("POST", "http://10.0.0.9", 0), ("POST", "https://10.0.0.9", 0), ("POST", nil, 0),
            ("GET", "https://evil.test", 0), ("DELETE", "http://10.0.0.9:81", 403), ("POST", "http://10.0.0.9\nOrigin: http://10.0.0.9", 403),
        ]
        for (method, origin, status) in cases {
            let request = "\(method) /api/x HTTP/1.1\nHost: 10.0.0.9\(origin.map { "\nOrigin: \($0)" } ?? "")"
            #expect(byNetwork.ask(request, from: "10.0.0.1").status == status, "\(method) \(origin ?? "")")
            #expect(byCertificate.ask(request, certificate: ["spiffe://x"]).status == status, "\(method) \(origin ?? "")")
            #expect(byKey.ask(request + "\nX-Internal-Key: \(Self.key)", from: "10.0.0.1").status == 0, "\(method) \(origin ?? "")")
        }
    }

    /// A page whose own name leads to the gateway, as its server may have it (DNS rebinding), is of no origin that the gateway knows.
    @Test func theOriginOfACallerByItsNetworkIsAConfiguredOne() throws {
        let cases: [(host: String, isTLS: Bool, status: UInt16)] = [
            ("rebound.test", false, 403), ("gate.test", false, 0), ("gate.test:80", false, 0), ("named.test", false, 0), ("localhost", false, 0),
            ("10.0.0.9:8080", false, 0), ("[::1]:8080", false, 0), ("rebound.test", true, 0), ("xgate.test", false, 403), ("10.0.0.9.test", false, 403),
        ]
        var named = rule("named", "/api/*", auth: .internal)
        named.host = "named.test"
        let callers = [InternalCaller(name: "n", networks: networks("10.0.0.0/8"))]
        for cors in [nil, CORSRule(try CORSOrigins(["https://app.test"]))] {
            var all = rule("api", "/api/*", auth: .internal)
            (all.cors, named.cors) = (cors, cors)
            let policy = try Policy(rules: [all, named], trust: AdmissionHarness.trust(), internals: callers, ownOrigin: "http://gate.test")
            let harness = AdmissionHarness(policy)
            for (host, isTLS, status) in cases {
                let origin = (isTLS ? "https://" : "http://") + (host.hasSuffix(":80") ? String(host.dropLast(3)) : host)
                let judged = harness.ask("POST /api/x HTTP/1.1\nHost: \(host)\nOrigin: \(origin)", from: "10.0.0.1", isTLS: isTLS)
                #expect(judged.status == status, "\(host)")
            }
        }
    }

    @Test func allConfiguredCriteriaMustMatch() throws {
        let both = InternalCaller(name: "backend", keySHA256: Self.digest, networks: networks("10.0.0.0/8", "::1/128"))
        let harness = try harness(both)
        let header = "X-Internal-Key: \(Self.key)"
        #expect(harness.get("/api/x", header, from: "10.1.2.3").status == 0)
        #expect(harness.get("/api/x", header, from: "::1").status == 0)
        #expect(harness.get("/api/x", header, from: "11.1.2.3").status == 403)
        #expect(harness.get("/api/x", from: "10.1.2.3").status == 403)
    }

    @Test func aNameInACertificateMustBeExactlyTheSame() throws {
        let harness = try harness(InternalCaller(name: "billing", certificateName: "spiffe://example.org/billing"))
        #expect(harness.get("/api/x", certificate: ["other.test", "spiffe://example.org/billing"]).status == 0)
        for names in [
            [], ["spiffe://example.org/billing2"], ["spiffe://example.org"], ["SPIFFE://example.org/billing"],
            ["spiffe://example.org/billing\0"],
        ] {
            #expect(harness.get("/api/x", certificate: names).status == 403, "\(names)")
        }
        let accented = try self.harness(InternalCaller(name: "c", certificateName: "x:\u{E9}"))
        #expect(accented.get("/api/x", certificate: ["x:e\u{301}"]).status == 403)
    }

    @Test func aCertificateDoesNotStandInForAKey() throws {
        let harness = try harness(InternalCaller(name: "c", keySHA256: Self.digest, certificateName: "spiffe://x"))
        #expect(harness.get("/api/x", "X-Internal-Key: \(Self.key)", certificate: ["spiffe://x"]).status == 0)
        #expect(harness.get("/api/x", "X-Internal-Key: \(Self.key)").status == 403)
        #expect(harness.get("/api/x", certificate: ["spiffe://x"]).status == 403)
    }

    @Test func anEmptyInternalCallerNeverMatches() throws {
        let header = "X-Internal-Key: \(Self.key)"
        #expect(try harness(InternalCaller(name: "empty")).get("/api/x", header).status == 403)
        #expect(try harness(InternalCaller(name: "short", keySHA256: [])).get("/api/x", header).status == 403)
        #expect(try harness().get("/api/x", header).status == 403)
    }

    @Test func aTokenThatIsSentIsVerifiedAllTheSame() throws {
        let harness = try harness(InternalCaller(name: "net", networks: networks("192.0.2.0/24")))
        let known = harness.get("/api/x", token: AdmissionHarness.token())
        #expect(known.status == 0 && known.userID == "user-1" && known.hasIdentity("X-User-Id: user-1"))
        #expect(harness.get("/api/x", token: "bad").status == 401)
        #expect(harness.get("/api/x", token: AdmissionHarness.token(lifetime: -100)).code == "TOKEN_EXPIRED")
        #expect(harness.get("/api/x", token: AdmissionHarness.token(), from: "203.0.113.1").status == 403)
    }

    @Test func aNetworkIsOnlyBelievedWhenTheAddressIsCertain() throws {
        let harness = try harness(InternalCaller(name: "net", networks: networks("10.0.0.0/8")), proxies: ["10.0.0.1"])
        #expect(harness.get("/api/x", "X-Forwarded-For: 10.9.9.9", from: "10.0.0.1").status == 0)
        #expect(harness.get("/api/x", from: "10.0.0.1").status == 0)
        for header in [
            "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 10.9.9.9, 203.0.113.1", "X-Forwarded-For: unknown",
            "X-Forwarded-For: 10.9.9.9, what", "Forwarded: for=_hidden", "Forwarded: for=203.0.113.1",
            "X-Forwarded-For: 10.9.9.9\nForwarded: for=203.0.113.1", "X-Forwarded-For:",
        ] {
            #expect(harness.get("/api/x", header, from: "10.0.0.1").status == 403, "\(header)")
        }
        #expect(harness.get("/api/x", "X-Forwarded-For: 10.9.9.9", from: "203.0.113.5").status == 403)
    }

    @Test func aDigestIsSixtyFourHexDigits() {
        let hex = String(repeating: "aF", count: 32)
        #expect(InternalCaller.digest(hex: hex) == Array(repeating: 0xAF, count: 32))
        for bad in ["", String(hex.dropLast()), hex + "a", String(repeating: "g", count: 64)] {
            #expect(InternalCaller.digest(hex: bad) == nil)
        }
    }

    /// At the gateway's own endpoint, as RFC 6749 §2.3.1 has it: name and key are form-encoded.
    @Test(arguments: [
        ("billing:a+key%20of+the+backend", "10.1.1.1", "", 1), ("billing:a+key+of+the+backend", "11.1.1.1", "", -1), ("billing:wrong", "10.1.1.1", "", -1),
        ("b%69lling:a+key+of+the+backend", "10.1.1.1", "", 1), ("Billing:a+key+of+the+backend", "10.1.1.1", "", -1), ("near:a+key+of+the+backend", "10.1.1.1", "", -1),
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
        #expect(try AdmissionHarness([rule("api", "/api/*", auth: .internal)], internals: [route]).get("/api/x", field).status == (more.isEmpty ? 403 : 0))
        #expect(harness.get("/own", "Authorization: Basic !", from: address).status == 401)
    }
}
