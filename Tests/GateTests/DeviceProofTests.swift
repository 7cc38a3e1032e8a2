@testable import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// A device with a key, and the tokens that are bound to it.
struct BoundDevice {
    let key: SigningKey
    let jwk: String
    let thumbprint: String

    init() {
        do { key = try SigningKey.generate(.ES256) } catch { preconditionFailure("\(error)") }
        guard let members = RequiredMembers(key.verificationKey.material) else { preconditionFailure("no JWK") }
        jwk = "{" + members.members.map { #""\#($0.name)":"\#($0.value)""# }.joined(separator: ",") + "}"
        thumbprint = members.thumbprint
    }

    /// A token of the outside issuer, bound to the key by `cnf`, or by this one in its place.
    func token(_ subject: String = "user-1", cnf: String? = nil, lifetime: Int64 = 3_600) -> String {
        let expiry = AdmissionHarness.now.wall.seconds + lifetime
        let bond = cnf ?? #"{"jkt":"\#(thumbprint)"}"#
        let input =
            Self.encoded(#"{"alg":"HS256"}"#) + "."
            + Self.encoded(#"{"iss":"\#(AdmissionHarness.issuer)","sub":"\#(subject)","exp":\#(expiry),"cnf":\#(bond)}"#)
        let mac = input.withRawBytes { input in
            "0123456789abcdef0123456789abcdef".withRawBytes { Digest.hmacSHA256(input, key: $0) }
        }
        return input + "." + Base64URL.encode(mac.rawBytes)
    }

    func proof(
        _ token: String, _ id: String = "1", method: String = "GET", url: String = "https://gate.test/r/x", age: Int64 = 0,
        nonce: String? = nil
    ) -> String {
        let hash = token.withRawBytes { Base64URL.encode(Digest.sha256($0).rawBytes) }
        let time = AdmissionHarness.now.wall.seconds - age
        let more = nonce.map { #","nonce":"\#($0)""# } ?? ""
        let input =
            Self.encoded(#"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#) + "."
            + Self.encoded(#"{"jti":"\#(id)","htm":"\#(method)","htu":"\#(url)","iat":\#(time),"ath":"\#(hash)"\#(more)}"#)
        let signature = input.withRawBytes { key.verificationKey.material.sign($0, .ES256) } ?? []
        return input + "." + Base64URL.encode(signature.rawBytes)
    }

    private static func encoded(_ text: String) -> String { text.withRawBytes { Base64URL.encode($0) } }
}

/// `proof=`.
@Suite struct DeviceProofTests {
    private static let device = BoundDevice()
    private static let thief = BoundDevice()

    private static func route(_ change: (inout RouteRule) throws -> Void = { _ in }) rethrows -> RouteRule {
        var rule = rule("r", "/r/*")
        try change(&rule)
        return rule
    }

    private static func judge(_ mode: ProofMode, _ fields: String, auth: AuthMode = .required) throws -> String {
        let harness = try AdmissionHarness([route { ($0.proof, $0.auth) = (mode, auth) }])
        let judged = harness.get("/r/x", fields)
        return judged.status == 0 ? "passes" : "\(judged.code) \(judged.reason)"
    }

    @Test func eachModeDemandsItsProofs() throws {
        let bound = Self.device.token(), plain = AdmissionHarness.token()
        let proof = "\nDPoP: \(Self.device.proof(bound))"
        let cases: [(ProofMode, String, String)] = [
            (.bound, "Authorization: DPoP \(bound)\(proof)", "passes"),
            (.bound, "Authorization: Bearer \(bound)\(proof)", "passes"),
            (.bound, "authorization: dpop  \(bound)\(proof)", "passes"),
            (.bound, "Authorization: Bearer \(bound)", "DEVICE_PROOF_REQUIRED proofMissing"),
            (.bound, "Authorization: DPoP \(bound)", "DEVICE_PROOF_REQUIRED proofMissing"),
            (.bound, "Authorization: DPoP \(bound)\(proof)\(proof)", "DEVICE_PROOF_INVALID proofInvalid"),
            (.bound, "Authorization: DPoP \(bound)\(proof)\ndpop: x", "DEVICE_PROOF_INVALID proofInvalid"),
            (.bound, "Authorization: DPoP \(bound)\nDPoP:", "DEVICE_PROOF_INVALID proofInvalid"),
            (.bound, "Authorization: DPoP \(bound)\nDPoP: \(Self.thief.proof(bound))", "DEVICE_PROOF_INVALID proofInvalid"),
            (.bound, "Authorization: DPoP \(bound)\nDPoP: \(Self.device.proof(plain))", "DEVICE_PROOF_INVALID proofInvalid"),
            (.bound, "Authorization: Bearer \(plain)", "passes"),
            (.bound, "Authorization: DPoP \(plain)", "passes"),
            (.bound, "Authorization: DPoP", "UNAUTHORIZED malformed"),
            (.bound, "Authorization: DPoPx \(bound)\(proof)", "UNAUTHORIZED missing"),
            (.bound, proof, "UNAUTHORIZED missing"),
            (.off, "Authorization: Bearer \(bound)", "passes"),
            (.off, "Authorization: DPoP \(bound)\nDPoP: x", "passes"),
            (.required, "Authorization: DPoP \(bound)\(proof)", "passes"),
            (.required, "Authorization: Bearer \(bound)", "DEVICE_PROOF_REQUIRED proofMissing"),
            (.required, "Authorization: Bearer \(plain)", "DEVICE_PROOF_REQUIRED unbound"),
            (.required, "Authorization: DPoP \(plain)\nDPoP: \(Self.device.proof(plain))", "DEVICE_PROOF_REQUIRED unbound"),
        ]
        for (mode, fields, expected) in cases {
            let found = try Self.judge(mode, fields.hasPrefix("\n") ? String(fields.dropFirst()) : fields)
            #expect(found == expected, "\(mode) \(fields)")
        }
        #expect(try Self.judge(.required, "X-A: b", auth: .optional) == "UNAUTHORIZED missing")
        #expect(try Self.judge(.bound, "X-A: b", auth: .optional) == "passes")
        #expect(throws: RouteFault.identityNeeded("r")) { try Self.judge(.required, "X-A: b", auth: .none) }
    }

    @Test func aBondThatCannotBeReadRefusesTheToken() throws {
        let cases: [(String, String)] = [
            ("null", "passes"), ("{}", "passes"), (#"{"x5t#S256":"AAAA"}"#, "passes"), (#"{"jkt":"short"}"#, "UNAUTHORIZED badClaim"),
            (#"{"jkt":7}"#, "UNAUTHORIZED badClaim"), (#"{"jkt":null}"#, "UNAUTHORIZED badClaim"), ("[]", "UNAUTHORIZED badClaim"),
            (#""x""#, "UNAUTHORIZED badClaim"),
            (#"{"jkt":"\#(Self.device.thumbprint)","jkt":"\#(Self.thief.thumbprint)"}"#, "UNAUTHORIZED badClaim"),
        ]
        for (cnf, expected) in cases {
            #expect(try Self.judge(.bound, "Authorization: Bearer \(Self.device.token(cnf: cnf))") == expected, "\(cnf)")
        }
    }

    @Test func aProofCountsOnceAndARefusedOneCostsNoLimit() throws {
        let harness = try AdmissionHarness([try Self.route { $0.limits = [try LimitPolicy(parsing: "2/h", tiers: .standard)] }])
        let token = Self.device.token()
        let ask = { (id: String) in harness.get("/r/x", "Authorization: DPoP \(token)\nDPoP: \(Self.device.proof(token, id))") }
        let first = ask("1")
        #expect(first.status == 0 && first.reason == .proven && first.source == .miss && first.limit.remaining == 1)
        for _ in 0..<5 {
            let again = ask("1")
            #expect(
                again.code == "DEVICE_PROOF_INVALID" && again.reason == .proofReplayed && again.limitLines == [] && again.source == .hit)
        }
        #expect(ask("2").limit.remaining == 0)
        // A request that a limit refuses has not used its proof.
        #expect(ask("3").code == "RATE_LIMITED" && ask("3").code == "RATE_LIMITED")
        harness.advance(milliseconds: 59_000)
        #expect(ask("1").reason == .proofReplayed)
        harness.advance(milliseconds: 2_000)
        #expect(ask("3").explanation.step("proof") == "proof=bound: The proof is too old, or of the future")
    }

    @Test func fourLimitsLeaveRoomForAProof() throws {
        let limit = try LimitPolicy(parsing: "5/h", tiers: .standard)
        for isShadowed in [false, true] {
            let harness = try AdmissionHarness([
                Self.route {
                    $0.limits = [LimitPolicy](repeating: limit, count: 4)
                    if isShadowed { $0.shadow = .limit }
                }
            ])
            let token = Self.device.token()
            let codes = (0..<8).map { id in
                harness.get("/r/x", "Authorization: DPoP \(token)\nDPoP: \(Self.device.proof(token, "\(id / 2)"))").code
            }
            #expect(codes == (0..<8).map { $0 % 2 == 0 ? "" : "DEVICE_PROOF_INVALID" }, "\(isShadowed)")
        }
    }

    /// The thief has the tokens, proofs that were used, and a key of their own.
    @Test func aThiefWithoutTheKeyGetsNothing() throws {
        let harness = try AdmissionHarness([Self.route()])
        let token = Self.device.token(), used = Self.device.proof(token)
        #expect(harness.get("/r/x", "Authorization: DPoP \(token)\nDPoP: \(used)").status == 0)
        var random = SplitMix64(seed: 40)
        var passed = 0
        let stolen = Array(used.utf8), own = Array(Self.thief.proof(token).utf8)
        for round in 0..<10_000 {
            var proof = round % 3 == 0 ? own : stolen
            if round % 4 == 0 {
                // Its own header or payload with the other's signature.
                let parts = [stolen, own].map { $0.split(separator: UInt8(ascii: ".")) }
                proof = Array((0..<3).map { parts[Int(random.next() % 2)][$0] }.joined(separator: [UInt8(ascii: ".")]))
                if proof == stolen { proof = own }
            } else if round % 3 != 0 {
                let at = Int(random.next() % UInt64(proof.count))
                proof[at] = round % 2 == 0 ? UInt8(ascii: "A") : proof[at] ^ 1
            }
            let field =
                round % 7 == 0
                ? "X-No: proof" : "DPoP: \(String(decoding: proof, as: UTF8.self).replacing("\r", with: "").replacing("\n", with: ""))"
            let scheme = round % 2 == 0 ? "DPoP" : "Bearer"
            if harness.get("/r/x", "Authorization: \(scheme) \(token)\n\(field)").status == 0 { passed += 1 }
        }
        #expect(passed == 0)
    }

    @Test func theURLIsTheOneThatTheClientUsed() throws {
        let token = Self.device.token()
        func ask(
            _ url: String, _ more: String = "", from: String = "192.0.2.7", isTLS: Bool = false, target: String = "/r/x?q=1",
            base: String = "https://public.test/"
        ) throws -> String {
            let policy = try Policy(
                rules: [Self.route()], trust: AdmissionHarness.trust(), trustedProxies: [CIDR(parsing: "10.0.0.0/8")!],
                publicURL: base)
            let fields = "Authorization: DPoP \(token)\nDPoP: \(Self.device.proof(token, url: url))\(more)"
            let judged = AdmissionHarness(policy).ask("GET \(target) HTTP/1.1\nHost: gate.test:8080\n\(fields)", from: from, isTLS: isTLS)
            return judged.status == 0 ? "ok" : "\(judged.explanation.step("proof") ?? judged.code)"
        }
        let wrong = "proof=bound: The proof is for another URL"
        let tls = "\nX-Forwarded-Proto: https", plain = "\nX-Forwarded-Proto: http", host = "\nX-Forwarded-Host: app.test"
        #expect(try ask("https://gate.test:8080/r/x", isTLS: true) == "ok")
        #expect(try ask("http://gate.test:8080/r/x", isTLS: true) == wrong)
        #expect(try ask("http://gate.test:8080/r/x") == "ok" && ask("https://gate.test:8080/r/x") == "ok")
        #expect(try ask("http://gate.test:8080/r/x", tls) == "ok" && ask("http://gate.test:8080/r/x", tls, from: "10.0.0.1") == wrong)
        #expect(try ask("https://gate.test:8080/r/x", plain, from: "10.0.0.1") == wrong)
        #expect(try ask("https://app.test/r/x", tls + host, from: "10.0.0.1") == "ok" && ask("https://app.test/r/x", tls + host) == wrong)
        #expect(try ask("https://gate.test:8080/r/x", tls + host, from: "10.0.0.1") == wrong)
        #expect(try ask("https://public.test/r/x") == "ok" && ask("http://public.test/r/x") == wrong)
        let base = "https://public.test/base"
        #expect(try ask("https://public.test/base/r/x", base: base) == "ok" && ask("https://public.test/r/x", base: base) == wrong)
        #expect(try ask("http://gate.test/r/x") == wrong && ask("http://gate.test:8080/r/y") == wrong)
        #expect(try ask("http://gate.test:8080/r/x", target: "http://gate.test:8080/r/x?q") == "ok")
    }

    @Test func noncesAreGivenOutAndDemanded() throws {
        let policy = try Policy(rules: [Self.route()], trust: AdmissionHarness.trust(), nonceSecret: [1, 2, 3])
        let harness = AdmissionHarness(policy)
        let token = Self.device.token()
        var count = 0
        func ask(_ nonce: String?) -> (code: String, given: String?, headers: [String]) {
            count += 1
            let judged = harness.get(
                "/r/x", "Authorization: DPoP \(token)\nDPoP: \(Self.device.proof(token, "\(count)", age: -Int64(count), nonce: nonce))")
            return (judged.code, judged.answerLines.first { $0.hasPrefix("DPoP-Nonce: ") }.map { String($0.dropFirst(12)) }, judged.headers)
        }
        let first = ask(nil)
        #expect(first.code == "DEVICE_PROOF_INVALID" && first.headers[0].contains(#"error="use_dpop_nonce""#))
        let nonce = try #require(first.given)
        #expect(ask(nonce).given == nil && ask(nonce).code == "" && ask("another-nonce-16").code == "DEVICE_PROOF_INVALID")
        // The gateway's clock alone: proofs may be 30 s ahead of it.
        let other = AdmissionHarness(policy)
        other.now.wall = WallTime(seconds: AdmissionHarness.now.wall.seconds - 1)
        let older = try #require(other.get("/r/x", "Authorization: DPoP \(token)").answerLines.first.map { String($0.dropFirst(12)) })
        let renewed = ask(older)
        #expect(older != nonce && renewed.code == "" && renewed.given == nonce)
    }

    @Test func theRefusalSaysWhatToSend() throws {
        let judged = try AdmissionHarness([Self.route()]).get("/r/x", token: Self.device.token())
        #expect(
            judged.headers == [
                #"WWW-Authenticate: DPoP realm="tollgate", error="use_dpop_proof", error_description="The token is bound to a key, and the request has no proof of it", algs="ES256 EdDSA Ed25519 RS256 PS256""#
            ])
        #expect(GRPCStatus(.unauthorized(.proof(.missing))) == .unauthenticated)
        for fault in DeviceProofFault.allCases {
            let refusal = Refusal.unauthorized(.proof(fault))
            #expect(refusal.status == 401 && (refusal.code == .deviceProofRequired) == (fault == .missing || fault == .unbound))
        }
    }

    @Test func anInternalCallerCannotRefreshABoundSession() throws {
        let policy = try Policy(
            rules: [Self.route()], trust: AdmissionHarness.trust(),
            internals: [InternalCaller(name: "b", networks: [CIDR(parsing: "10.0.0.0/8")!])],
            refreshers: ["test"])
        let expired = AdmissionHarness(policy).get(
            "/r/x", token: Self.device.token(lifetime: -60), "X-Refresh-Token: r", from: "10.0.0.1")
        #expect(expired.code == "TOKEN_EXPIRED" && expired.order == nil)
        #expect(
            AdmissionHarness(policy).get("/r/x", token: AdmissionHarness.token(lifetime: -60), "X-Refresh-Token: r", from: "10.0.0.1").order
                != nil)
    }

    @Test func aProofPassesWithItsTokenOnly() throws {
        let name = "DPoP" as StaticString
        for (change, passes) in [({ $0.forwardsAuthorization = true }, true), ({ $0.auth = .none }, true), ({ _ in }, false)]
            as [((inout RouteRule) -> Void, Bool)]
        {
            let policy = try Policy(rules: [Self.route(change)], trust: AdmissionHarness.trust())
            #expect(ReservedNames.shared.holds(name.rawBytes, except: policy.gates[0].keptFields) == !passes)
        }
        let (bound, required) = (try Self.route().demands, Self.route { $0.proof = .required }.demands)
        #expect(required.isStricter(than: bound) && !bound.isStricter(than: required))
    }

    @Test func aTokenInASubprotocolNeedsItsProof() throws {
        let harness = try AdmissionHarness([Self.route { $0.takesWebSockets = true }])
        let token = Self.device.token()
        let fields =
            "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
            + "\nSec-WebSocket-Protocol: bearer, \(token)"
        #expect(harness.get("/r/x", fields).reason == .proofMissing)
        #expect(harness.get("/r/x", "\(fields)\nDPoP: \(Self.device.proof(token))").reason == .proven)
    }

    /// While Redis is away: `open` and `local` count a proof or an attestation once at each gateway, `closed` refuses.
    @Test(arguments: [SubjectKind.proof, .attestation]) func whatCountsOnceIsCountedWithoutRedis(_ subject: SubjectKind) throws {
        let item = LimitCharge.Item(key: LimitKey(high: 1, low: 2), rate: .proof, subject: subject)
        let limit = LimitCharge.Item(key: LimitKey(high: 3, low: 4), rate: LimitRate(parsing: "9/m")!, subject: .user)
        for mode in LimitFailureMode.allCases {
            var settings = SharedLimitClient.Settings()
            settings.failureMode = mode
            var client = SharedLimitClient(settings, limiter: SharedLimiter(capacity: 64))
            client.storeFailed(AdmissionHarness.now.monotonic)
            var kinds: [LimitVerdict.Kind] = [], replays: [Bool] = []
            for items in [[limit, item], [limit, item], [item], [limit]] {
                var charge = LimitCharge(), verdict = LimitVerdict()
                items.forEach { charge.append($0) }
                #expect(client.charge(&charge, ticket: 1, now: AdmissionHarness.now.monotonic, into: &verdict) == nil)
                kinds.append(verdict.kind)
                replays.append(items.last == item && verdict.count > 0 && verdict.takeReplay())
            }
            switch mode {
            case .local: #expect(kinds == [.granted, .refused, .refused, .granted] && replays == [false, true, true, false])
            case .open: #expect(kinds == [.open, .refused, .refused, .open] && replays == [false, true, true, false])
            case .closed: #expect(kinds == [.closed, .closed, .closed, .closed])
            }
        }
    }

    /// Each with its own refusal, whatever else the charge counts.
    @Test func aProofAndAnAttestationAreToldApart() {
        let limiter = SharedLimiter(capacity: 64)
        let limit = LimitCharge.Item(key: LimitKey(high: 3, low: 4), rate: LimitRate(parsing: "9/m")!, subject: .user)
        var found: [SingleUses] = []
        for (attestation, proof) in [(1, 1), (1, 2), (2, 1), (1, 1), (2, 2)] as [(UInt64, UInt64)] {
            var charge = LimitCharge(), verdict = LimitVerdict()
            charge.append(limit)
            charge.append(LimitCharge.Item(key: LimitKey(high: 5, low: attestation), rate: .proof, subject: .attestation))
            charge.append(LimitCharge.Item(key: LimitKey(high: 6, low: proof), rate: .proof, subject: .proof))
            limiter.take(&charge, now: AdmissionHarness.now.monotonic, into: &verdict)
            found.append(verdict.takeSpent([.attestation, .proof]))
            #expect(found.last != [] || verdict.count == 1 && verdict[0].remaining == 8 - UInt32(found.count / 4))
        }
        #expect(found == [[], .attestation, .proof, .proof, []])
    }

    /// Redis is asked each time: proofs would take the places of keys that come again.
    @Test func aProofIsNotKeptAmongRefusedKeys() throws {
        var client = SharedLimitClient(SharedLimitClient.Settings(), limiter: SharedLimiter(capacity: 64))
        let now = AdmissionHarness.now.monotonic
        client.storeRecovered()
        for granted in [1, 0, 0] as [UInt32] {
            var charge = LimitCharge(), verdict = LimitVerdict(), command = LimitCommand()
            charge.append(LimitCharge.Item(key: LimitKey(high: 1, low: 2), rate: .proof, subject: .proof))
            #expect(client.charge(&charge, ticket: 1, now: now, into: &verdict) != nil && client.nextCommand(now, into: &command))
            var reply = GCRAReply()
            (reply.granted, reply.at, reply.tats[0]) = (granted, 1_000_000, 121_000_000)
            client.answered(command.id, &reply, now: now)
            #expect(client.nextVerdict(into: &verdict) == 1 && verdict.takeReplay() == (granted == 0))
        }
    }
}

extension RouteRule {
    fileprivate var demands: RouteDemands { RouteDemands(self) }
}
