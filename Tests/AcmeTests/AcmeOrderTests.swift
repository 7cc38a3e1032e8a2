import Acme
import Credentials
import Testing
import Wire

/// An order against an authority of a few lines, which answers what a test says.
@Suite struct AcmeOrderTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    /// The authority, and what it was sent.
    private final class Authority {
        let account: AcmeAccount
        let key: SigningKey
        var plan = AcmePlan(directory: "https://a/dir", name: "one.example", challenge: .http)
        /// In place of the usual response to an address, once for each call.
        var instead: [String: [AcmeResponse]] = [:]
        /// Damages bodies of responses; nil: none.
        var damage: SplitMix64?
        var sent: [(url: String, payload: String, header: String)] = []
        var presented: [AcmeChallenge] = []
        var pauses: [UInt64] = []
        var directory = #""newNonce":"https://a/nonce","newAccount":"https://a/account","newOrder":"https://a/order""#
        private var nonces = 0
        private var polls = 0

        init() throws { (account, key) = (AcmeAccount(key: try .generate(.ES256)), try .generate(.ES256)) }

        func chain(_ root: String) throws -> [UInt8] {
            let issuer = try SigningKey.generate(.ES256)
            var ca = CertificateDraft(name: root, notBefore: now, notAfter: now.advanced(seconds: 90 * 86_400), isAuthority: true)
            let above = try ca.certificate(of: issuer, by: nil)
            (ca.name, ca.isAuthority) = ("one.example", false)
            let der = try ca.certificate(of: key, by: (above, issuer))
            return [der].flatMap { Array("-----BEGIN CERTIFICATE-----\n\(Self.lines($0))-----END CERTIFICATE-----\n".utf8) }
        }

        private static func lines(_ der: [UInt8]) -> String {
            let text = Array(Base64.encode(der.rawBytes, isPadded: true))
            return stride(from: 0, to: text.count, by: 64).map { String(text[$0..<min($0 + 64, text.count)]) + "\n" }.joined()
        }

        static func json(_ text: String, _ status: Int = 200) -> AcmeResponse { AcmeResponse(status: status, body: Array(text.utf8)) }

        static func problem(_ type: String, _ detail: String, _ status: Int = 400) -> AcmeResponse {
            json(#"{"type":"urn:ietf:params:acme:error:\#(type)","detail":"\#(detail)"}"#, status)
        }

        private func answer(_ request: AcmeRequest) throws -> AcmeResponse {
            if let body = request.body {
                let json = JSONTree(body.rawBytes) ?? .null
                let parts = ["payload", "protected"].map { name in
                    (json[name].text ?? "").withRawBytes { Base64URL.decode($0) }.map { String(decoding: $0, as: UTF8.self) } ?? "?"
                }
                sent.append((request.url, parts[0], parts[1]))
            }
            // A damaged response may name any address.
            var response = damage == nil ? try usual(request.url) : (try? usual(request.url)) ?? AcmeResponse(status: 404)
            if var others = instead[request.url], !others.isEmpty {
                response = others.removeFirst()
                instead[request.url] = others
            }
            if var source = damage, !response.body.isEmpty {
                for _ in 0..<source.next() % 3 {
                    let at = Int(source.next() % UInt64(response.body.count))
                    response.body[at] = UInt8(truncatingIfNeeded: source.next())
                    if source.next() % 4 == 0 { response.body.removeSubrange(at..<min(at + 9, response.body.count)) }
                    if response.body.isEmpty { break }
                }
                damage = source
            }
            nonces += 1
            response.nonce = "n\(nonces)"
            return response
        }

        private func usual(_ url: String) throws -> AcmeResponse {
            var response: AcmeResponse
            switch url {
            case "https://a/dir": return Self.json("{\(directory)}")
            case "https://a/nonce": return AcmeResponse(status: 204)
            case "https://a/account":
                response = Self.json("{}", 201)
                response.location = "https://a/account/7"
            case "https://a/order":
                response = Self.json(#"{"status":"pending","authorizations":["https://a/auth"],"finalize":"https://a/fin"}"#, 201)
                response.location = "https://a/order/9"
            case "https://a/auth":
                polls += 1
                let challenges =
                    #"[{"type":"dns-01","url":"https://a/ch2","token":"t2"},{"type":"http-01","url":"https://a/ch","token":"tok_-1","status":"pending"}]"#
                response = Self.json(#"{"status":"\#(polls > 1 ? "valid" : "pending")","challenges":\#(challenges)}"#)
            case "https://a/ch": response = Self.json("{}")
            case "https://a/fin":
                response = Self.json(#"{"status":"processing"}"#)
                response.retryAfter = "3"
            case "https://a/order/9": response = Self.json(#"{"status":"valid","certificate":"https://a/cert"}"#)
            case "https://a/cert":
                response = AcmeResponse(status: 200, body: try chain("Old Root"))
                response.links = [#"<https://a/cert/1>;rel="alternate""#, #"<https://a/dir>;rel="index""#]
            case "https://a/cert/1": response = AcmeResponse(status: 200, body: try chain("New Root"))
            default: throw UnknownAddress(url: url)
            }
            return response
        }

        private struct UnknownAddress: Error { let url: String }

        /// The end of the order.
        func run() throws -> Result<IssuedCertificate, AcmeFailure> {
            var order = AcmeOrder(plan, account, key: key)
            var step = order.begin()
            for _ in 0..<400 {
                switch step {
                case .send(let request): step = order.answered(try answer(request), now: AcmeOrderTests.now)
                case .present(let challenge):
                    presented.append(challenge)
                    step = order.presented()
                case .pause(let milliseconds):
                    pauses.append(milliseconds)
                    step = order.resumed()
                case .issued(let certificate, let key):
                    #expect(certificate.belongs(to: key))
                    return .success(certificate)
                case .failed(let failure): return .failure(failure)
                }
            }
            Issue.record("the order does not end")
            return .failure(AcmeFailure(.here, ""))
        }
    }

    @Test func anOrderTakesItsWay() throws {
        let authority = try Authority()
        authority.directory += #","meta":{"profiles":{"shortlived":"x"}}"#
        authority.plan.email = "ops@one.example"
        authority.plan.profile = "shortlived"
        authority.plan.binding = AcmeBinding(keyID: "kid-1", key: Array("secret".utf8))
        let certificate = try authority.run().get()
        #expect(certificate.root == "Old Root" && certificate.serial.count >= 2 && certificate.renewalID?.contains(".") == true)
        #expect(
            authority.sent.map(\.url).map { $0.dropFirst(10) } == [
                "account", "order", "auth", "ch", "auth", "fin", "order/9", "cert",
            ])
        #expect(authority.pauses == [1_000, 3_000])
        let first = authority.sent[0]
        #expect(
            first.payload.hasPrefix(
                #"{"termsOfServiceAgreed":true,"contact":["mailto:ops@one.example"],"externalAccountBinding":{"protected":"#))
        #expect(first.header.contains(#""jwk":{"crv":"P-256""#) && !first.header.contains("kid"))
        #expect(authority.sent[1].payload == #"{"identifiers":[{"type":"dns","value":"one.example"}],"profile":"shortlived"}"#)
        #expect(authority.sent[1].header.contains(#""kid":"https://a/account/7""#) && authority.sent[2].payload == "")
        let thumbprint = try #require(authority.account.key.kid)
        let challenge = try #require(authority.presented.first)
        #expect(authority.presented.count == 1 && challenge.token == "tok_-1" && challenge.authorization == "tok_-1.\(thumbprint)")
        #expect(challenge.record.name == "_acme-challenge.one.example" && challenge.record.text.utf8.count == 43)
    }

    @Test func anotherRootIsChosenWhereThereIsOne() throws {
        for (root, found) in [("New Root", "New Root"), ("No Root", "Old Root")] {
            let authority = try Authority()
            authority.plan.root = root
            #expect(try authority.run().get().root == found)
        }
    }

    @Test func noncesAreTakenAgainAndReplacementsGivenUp() throws {
        let authority = try Authority()
        authority.plan.replaces = "aa.bb"
        let bad = Authority.problem("badNonce", "stale")
        authority.instead = ["https://a/account": [bad, bad, bad], "https://a/order": [Authority.problem("alreadyReplaced", "no", 409)]]
        _ = try authority.run().get()
        #expect(
            authority.sent.prefix(6).map { String($0.url.dropFirst(10)) } == ["account", "account", "account", "account", "order", "order"])
        #expect(authority.sent[4].payload.contains(#""replaces":"aa.bb""#) && !authority.sent[5].payload.contains("replaces"))
        let endless = try Authority()
        endless.instead = ["https://a/account": Array(repeating: bad, count: 100)]
        guard case .failure(let failure) = try endless.run() else { throw Unexpected() }
        #expect(failure.cause == .server && endless.sent.count == 41)
    }

    private struct Unexpected: Error {}

    @Test func failuresAreNamed() throws {
        func invalid(_ type: String, _ detail: String = "why") -> AcmeResponse {
            Authority.json(
                #"{"status":"invalid","challenges":[{"type":"http-01","error":{"type":"urn:ietf:params:acme:error:\#(type)","detail":"\#(detail)"}}]}"#
            )
        }
        var late = Authority.problem("rateLimited", "too many", 429)
        late.retryAfter = "7200"
        let lost = { () -> AcmeResponse in
            var response = AcmeResponse()
            response.problem = "no route"
            return response
        }()
        let cases: [(String, AcmeResponse, AcmeFailure.Cause, String, Bool)] = [
            ("auth", invalid("dns"), .dns, "why", true), ("auth", invalid("caa"), .caa, "CAA", true),
            ("auth", invalid("connection"), .port, "cannot connect", true), ("auth", invalid("unauthorized"), .challenge, "why", true),
            ("auth", invalid("unauthorized", "Failed to connect to a:1 for the tls-alpn-01 challenge"), .port, "cannot connect", true),
            ("auth", invalid("unauthorized", "Error retrieving TXT records for DNS challenge"), .dns, "not found in DNS", true),
            ("order", late, .rateLimit, "too many", false),
            ("account", Authority.problem("userActionRequired", "new terms", 403), .account, "new terms", false),
            ("account", Authority.problem("externalAccountRequired", "bind", 403), .account, "bind", false),
            ("order", Authority.problem("rejectedIdentifier", "no such name"), .order, "no such name", false),
            ("order", AcmeResponse(status: 500), .server, "status 500", false), ("dir", lost, .unreachable, "no route", false),
            ("dir", Authority.json("{}"), .server, "no ACME directory", false),
            ("order", Authority.json("{}", 201), .server, "protocol", false),
            ("cert", Authority.json("nothing"), .server, "another key", true),
            ("fin", Authority.json(#"{"status":"invalid","error":{"type":"urn:x:badCSR","detail":"weak"}}"#), .order, "weak", true),
        ]
        for (path, response, cause, part, hadOrder) in cases {
            let authority = try Authority()
            authority.instead = ["https://a/\(path)": [response]]
            guard case .failure(let failure) = try authority.run() else { throw Unexpected() }
            #expect(failure.cause == cause && failure.sentence.contains(part) && failure.hadOrder == hadOrder, "\(path): \(failure)")
            #expect(failure.retryAfter == (cause == .rateLimit ? 7_200 : nil))
        }
        let profile = try Authority()
        profile.plan.profile = "shortlived"
        guard case .failure(let failure) = try profile.run() else { throw Unexpected() }
        #expect(failure.sentence == "the authority has no profile shortlived; it has none")
        let bound = try Authority()
        bound.directory += #","meta":{"externalAccountRequired":true}"#
        guard case .failure(let unbound) = try bound.run() else { throw Unexpected() }
        #expect(unbound.cause == .account && unbound.sentence.contains("TOLLGATE_ACME_EAB"))
    }

    /// Any bytes are answered by a step, and no order goes on for ever.
    @Test func responsesMayBeAnything() throws {
        var random = SplitMix64(seed: 7)
        let texts = [
            "", "{", "[]", #"{"status":"valid"}"#, #"{"status":1}"#, #"{"authorizations":[1,{}],"finalize":2}"#,
            #"{"status":"pending","challenges":[{"type":"http-01","url":"u","token":"../x"}]}"#, #"{"type":7,"detail":[]}"#, "\u{0}",
        ]
        for _ in 0..<300 {
            let authority = try Authority()
            for path in ["dir", "account", "order", "auth", "ch", "fin", "order/9", "cert", "nonce"] where random.next() % 4 == 0 {
                var response = AcmeResponse(
                    status: [200, 201, 400, 404, 503][Int(random.next() % 5)],
                    body: Array(texts[Int(random.next() % UInt64(texts.count))].utf8))
                response.retryAfter = ["-5", "99999999999999999999", "x", "Sun, 06 Nov 1994 08:49:37 GMT", nil][Int(random.next() % 5)]
                response.location = random.next() % 2 == 0 ? "https://a/order/9" : nil
                response.links = ["<>", "<x;rel=alternate", ";", #"<https://a/cert/1>; rel="alternate""#]
                authority.instead["https://a/\(path)"] = [response]
            }
            // And a usual response, damaged.
            authority.damage = random.next() % 2 == 0 ? SplitMix64(seed: random.next()) : nil
            _ = try authority.run()
            #expect(authority.pauses.allSatisfy { 1_000...30_000 ~= $0 })
        }
    }
}
