import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// One refusal of every kind.
let everyRefusal: [Refusal] =
    PathFault.allCases.map { .badRequest(.path($0)) } + DescriptionFault.allCases.map { .badRequest(.description($0)) } + [
        .badRequest(.severalAuthorizations), .badRequest(.repeatedField), .badRequest(.grpcTimeout), .badRequest(.handshake),
        .badRequest(.http(.requestLine)), .unauthorized(.missing),
        .unauthorized(.token(.badSignature)), .unauthorized(.token(.expired)), .unauthorized(.token(.malformed)),
        .unauthorized(.revoked), .unauthorized(.signInTooOld(maxAge: 300)), .unauthorized(.caller), .forbidden(.claims),
        .forbidden(.caller), .forbidden(.actor), .forbidden(.attributes),
        .forbidden(.preflight), .premiumRequired, .notFound,
        .methodNotAllowed(MethodSet(bits: 3)), .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed, .upgradeRequired,
        .headersTooLarge, .rateLimited(retryAfterSeconds: 7), .internalError, .notImplemented, .badGateway,
        .unavailable(.keys, retryAfterSeconds: 10), .unavailable(.limits, retryAfterSeconds: 0),
        .unavailable(.upstream, retryAfterSeconds: 1), .unavailable(.overload, retryAfterSeconds: 1),
        .timeout, .versionNotSupported, .upstreamError(status: 410), .gone, .appUpdateRequired(gate: 0),
        .maintenance(route: 0, number: 0, retryAfterSeconds: 60),
        .addressDenied(.denied), .unauthorized(.proof(.missing)), .unauthorized(.proof(.stale)), .attestationRequired(),
    ]

/// A path without a route has the format of the contract below whose base it is.
@Suite struct ContractBaseTests {
    @Test func aPathWithoutARouteHasTheFormatOfItsContract() throws {
        let bases = [ContractBase(path: "/api", dialect: .apple), ContractBase(path: "/api/v1", dialect: .passwordContract)]
        let policy = try Policy(rules: [rule("r", "/api/v1/x")], trust: AdmissionHarness.trust(), contractBases: bases)
        let cases: [(String, Dialect)] = [
            ("/api/v1/nothing", .passwordContract), ("/api/v1", .passwordContract), ("/api/v1/", .passwordContract), ("/api/v2", .apple),
            ("/api/v10", .apple), ("/a/../api/v1//y", .passwordContract), ("/apis", .problem), ("/", .problem),
        ]
        for harness in [AdmissionHarness(policy), AdmissionHarness(try policy.replacing(trust: policy.trust, version: 2))] {
            for (path, dialect) in cases {
                let judged = harness.get(path)
                #expect(judged.status == 404 && judged.dialect == dialect, "\(path)")
            }
        }
    }
}

/// At endpoints for all contracts, refusals have the format of the contract that issued the token.
@Suite struct TokenDialectTests {
    private static let session = "0193a1b2-0000-7000-8000-0000000000aa"

    @Test func refusalsHaveTheFormatOfTheTokensContract() throws {
        var own = AdmissionHarness.trusted(name: "tollgate")
        own.isOwn = true
        let outside = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "outside", issuer: "https://outside.test")
        var account = RouteRule(name: "account", path: "/account", isPrefix: false, target: .local(64))
        (account.errors, account.errorsAreOfToken, account.bodyLimit) = (.problem, true, 10)
        let harness = AdmissionHarness(
            try Policy(rules: [account, rule("route", "/route")], trust: AdmissionHarness.trust([own, outside]), hasAccounts: true))
        harness.admission.revoke([RevokedSession(id: Self.session, until: .max)], at: harness.now.wall.seconds)

        func token(_ change: (inout TokenClaims) -> Void) -> String {
            AdmissionHarness.token("service") {
                $0.contract = .dlauth
                change(&$0)
            }
        }
        let old = harness.now.wall.seconds - 31
        let foreign = AdmissionHarness.token("x", lifetime: -31, issuer: "https://outside.test", key: AdmissionHarness.otherKey) {
            $0.contract = .dlauth
        }
        let cases: [(String, String?, String, Dialect)] = [
            ("no token", nil, "UNAUTHORIZED", .problem), ("no JWT", "x", "UNAUTHORIZED", .problem),
            ("expired", token { $0.expiresAt = old }, "TOKEN_EXPIRED", .dlauth),
            ("expired, of another contract", token { ($0.expiresAt, $0.contract) = (old, .apple) }, "TOKEN_EXPIRED", .apple),
            ("expired, minted", token { ($0.expiresAt, $0.contract) = (old, nil) }, "TOKEN_EXPIRED", .problem),
            ("of an ended session", token { $0.sessionID = Self.session }, "TOKEN_REVOKED", .dlauth),
            ("of an actor", token { $0.actorType = "merchant" }, "FORBIDDEN", .dlauth),
            ("too large", token { _ in }, "PAYLOAD_TOO_LARGE", .dlauth),
            ("not signed by us", token { _ in } + "AA", "UNAUTHORIZED", .problem),
            ("of an outside issuer", foreign, "TOKEN_EXPIRED", .problem),
        ]
        for (what, token, code, dialect) in cases {
            // The second time it is in the cache, if ever.
            for _ in 0..<2 {
                let judged = harness.get("/account", token: token, "Content-Length: 11")
                #expect(judged.code == code && judged.dialect == dialect, "\(what)")
            }
            let onRoute = harness.get("/route", token: token).dialect
            #expect(onRoute == .password, "\(what)")
        }
        #expect(harness.get("/account", token: token { ($0.expiresAt, $0.tokenType) = (old, "refresh") }).dialect == .problem)
    }
}

/// The string members of a JSON text by their paths: `error.code`.
func members(of json: String) throws -> [String: String] {
    try json.withRawBytes { bytes in
        var reader = JSONReader(bytes)
        var found: [String: String] = [:]
        var path: [String] = []
        while true {
            switch try reader.next() {
            case .beginObject: path.append("")
            case .endObject: path.removeLast()
            case .key(let key): path[path.count - 1] = reader.string(key)
            case .string(let text): found[path.joined(separator: ".")] = reader.string(text)
            case .number(let slice): found[path.joined(separator: ".")] = reader.source(slice).text
            case .end: return found
            case let other: Issue.record("unexpected \(other)")
            }
        }
    }
}

@Suite struct EnvelopeTests {
    private static let policy = try! Policy(rules: [], trust: Trust(issuers: []), upgradeURL: "https://shop.test")

    private func body(_ envelope: Envelope, _ refusal: Refusal, upgrade: [Envelope.Extra] = []) -> String {
        var out = ByteBuffer()
        "req-1".withRawBytes {
            envelope.writeBody(refusal, requestID: $0, extras: upgrade.isEmpty ? [] : Self.policy.extras(of: refusal), into: &out)
        }
        return out.readable.text
    }

    private static let nested = Envelope(
        name: "nested", object: "error", members: [("code", .code), ("message", .message)],
        code: { $0.status == 401 ? "NO" : nil }, sentence: { $0 == .notFound ? "Gone." : nil })

    @Test func everyRefusalIsAProblem() throws {
        #expect(Set(everyRefusal.map(\.code)) == Set(RefusalCode.allCases))
        for refusal in everyRefusal {
            let members = try members(of: body(Envelopes()[.problem], refusal))
            #expect(
                members["code"] == "\(refusal.code.text)" && members["status"] == "\(refusal.status)" && members["request_id"] == "req-1")
            #expect(members["type"] == "about:blank" && members["title"]?.isEmpty == false && members["detail"]?.isEmpty == false)
        }
        #expect("\(Envelopes()[.problem].contentType)" == "application/problem+json")
    }

    @Test func anEnvelopeHasItsOwnShapeCodesAndSentences() {
        let envelopes = Envelopes([(Dialect(rawValue: 7), Self.nested)])
        #expect(body(envelopes[Dialect(rawValue: 7)], .notFound) == #"{"error":{"code":"NOT_FOUND","message":"Gone."}}"#)
        #expect(
            body(envelopes[Dialect(rawValue: 7)], .unauthorized(.missing))
                == #"{"error":{"code":"NO","message":"An access token is required."}}"#)
        #expect(envelopes[Dialect(rawValue: 8)].name == "problem", "a dialect without an envelope")
    }

    @Test func whereToUpgradeStandsBesideTheCode() {
        let upgrade = [Envelope.Extra(name: "upgrade_url", value: "https://shop.test")]
        #expect(body(Self.nested, .premiumRequired, upgrade: upgrade).hasSuffix(#","upgrade_url":"https://shop.test"}}"#))
        #expect(!body(Self.nested, .forbidden(.claims), upgrade: upgrade).contains("upgrade_url"))
    }
}

/// Formats of contracts, of which the gate knows the number.
extension Dialect {
    static let password = Dialect(.password)
    static let passwordContract = Dialect(rawValue: 64)
    static let dlauth = Dialect(.dlauth)
    static let apple = Dialect(.apple)
}

@Suite struct RefusalTests {
    private func lines(_ refusal: Refusal, realm: String = "tollgate") throws -> String {
        let policy = try Policy(rules: [rule("r", "GET,PUT,PURGE /*")], trust: AdmissionHarness.trust(), realm: realm)
        var edits = FieldEdits()
        refusal.addFields(policy, in: .problem, to: &edits)
        return edits.http1.text
    }

    @Test func challengesStandOn401And403Alone() throws {
        for refusal in everyRefusal {
            let text = try lines(refusal)
            // No token helps where the address or the app is refused.
            let isChallenge = [401, 403].contains(refusal.status) && ![.addressDenied, .attestationRequired].contains(refusal.code)
            let isProof = [.deviceProofRequired, .deviceProofInvalid].contains(refusal.code)
            #expect(text.contains("WWW-Authenticate: \(isProof ? "DPoP" : "Bearer") realm=\"tollgate\"") == isChallenge)
            #expect(text.contains("Retry-After: ") == [429, 503].contains(refusal.status))
            #expect(text.contains("Allow: ") == (refusal.status == 405))
            #expect(text.isEmpty || text.hasSuffix("\r\n"))
        }
    }

    @Test func retryAfterIsAtLeastASecond() throws {
        #expect(try lines(.rateLimited(retryAfterSeconds: 0)) == "Retry-After: 1\r\n")
        #expect(try lines(.unavailable(.overload, retryAfterSeconds: 20)) == "Retry-After: 20\r\n")
    }

    @Test func theRealmIsQuoted() throws {
        #expect(
            try lines(.unauthorized(.missing), realm: "a \"b\"\\\r\nc")
                == "WWW-Authenticate: Bearer realm=\"a \\\"b\\\"\\\\c\"\r\n")
    }

    @Test func everyDescriptionCanStandInAHeader() {
        for fault in [TokenFault.tooLarge, .malformed, .unknownKey(issuer: 3), .badClaim, .expired] {
            let text = "\(fault.errorDescription)"
            #expect(text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") })
        }
    }

    @Test func faultsOfHTTPKeepTheirStatus() {
        for reason in HTTPFault.Reason.allCases {
            let fault = HTTPFault(reason)
            #expect(Refusal(fault).status == fault.status, "\(reason)")
            #expect(Refusal(fault.ofResponse).status == 502)
        }
    }
}
