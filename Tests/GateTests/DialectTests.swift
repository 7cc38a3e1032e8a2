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
        .unauthorized(.revoked), .unauthorized(.signInTooOld(maxAge: 300)), .unauthorized(.caller), .forbidden(.claims), .forbidden(.caller), .forbidden(.actor),
        .forbidden(.preflight), .premiumRequired, .notFound,
        .methodNotAllowed(MethodSet(bits: 3)), .requestTimeout, .payloadTooLarge, .uriTooLong, .expectationFailed, .upgradeRequired,
        .headersTooLarge, .rateLimited(retryAfterSeconds: 7), .internalError, .notImplemented, .badGateway,
        .unavailable(.keys, retryAfterSeconds: 10), .unavailable(.limits, retryAfterSeconds: 0),
        .unavailable(.upstream, retryAfterSeconds: 1), .unavailable(.overload, retryAfterSeconds: 1),
        .timeout, .versionNotSupported, .upstreamError(status: 410),
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

private func body(_ dialect: Dialect, _ refusal: Refusal, upgrade: String? = nil) -> String {
    var out = ByteBuffer()
    "req-1".withRawBytes { dialect.writeBody(refusal, requestID: $0, upgradeURL: upgrade, into: &out) }
    return out.readable.text
}

@Suite struct DialectTests {
    /// The formats that have a body.
    private static let envelopes = Dialect.allCases.filter { $0 != .grpc }

    @Test(arguments: envelopes)
    func everyRefusalIsJSONThatCarriesItsCode(_ dialect: Dialect) throws {
        #expect(Set(everyRefusal.map(\.code)) == Set(RefusalCode.allCases))
        for refusal in everyRefusal {
            let text = body(dialect, refusal)
            let members = try members(of: text)
            let code = "\(dialect.code(of: refusal))"
            switch dialect {
            case .password, .passwordContract, .apple, .anonymous:
                #expect(members["error.code"] == code && members["error.message"]?.isEmpty == false && members.count == 2)
            case .provider: #expect(members["code"] == code && members["error"]?.isEmpty == false && members.count == 2)
            case .dlauth: #expect(members["error"] == code && members["message"]?.isEmpty == false && members.count == 2)
            case .oauth: #expect(members["error"] == code && members["error_description"]?.isEmpty == false && members.count == 2)
            case .problem:
                #expect(members["code"] == code && members["status"] == "\(refusal.status)" && members["request_id"] == "req-1")
                #expect(members["type"] == "about:blank" && members["title"]?.isEmpty == false && members["detail"]?.isEmpty == false)
            case .grpc: Issue.record("it has no body")
            }
            switch dialect {
            case .dlauth, .oauth: #expect(code == code.lowercased())
            case .passwordContract where refusal.status == 401: #expect(code == "UNAUTHORIZED")
            case .password, .passwordContract, .apple, .anonymous, .provider, .problem, .grpc: #expect(code == "\(refusal.code.text)")
            }
        }
    }

    @Test(arguments: [
        (.password, .unauthorized(.missing), #"{"error":{"code":"UNAUTHORIZED","message":"Authentication credentials were not provided."}}"#),
        (.password, .unauthorized(.token(.badSignature)), #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#),
        (.password, .unauthorized(.token(.expired)), #"{"error":{"code":"TOKEN_EXPIRED","message":"Invalid or expired token"}}"#),
        (.password, .unauthorized(.revoked), #"{"error":{"code":"TOKEN_REVOKED","message":"Invalid or expired token"}}"#),
        (.passwordContract, .unauthorized(.missing), #"{"error":{"code":"UNAUTHORIZED","message":"Authentication credentials were not provided."}}"#),
        (.passwordContract, .unauthorized(.token(.expired)), #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#),
        (.passwordContract, .unauthorized(.revoked), #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#),
        (.provider, .unauthorized(.missing), #"{"error":"Missing or invalid authorization header","code":"UNAUTHORIZED"}"#),
        (.provider, .unauthorized(.token(.expired)), #"{"error":"Access token expired","code":"TOKEN_EXPIRED"}"#),
        (.dlauth, .unauthorized(.token(.expired)), #"{"error":"token_expired","message":"Access token has expired"}"#),
        (.dlauth, .unauthorized(.token(.malformed)), #"{"error":"invalid_token","message":"The access token is not valid."}"#),
        (.dlauth, .unauthorized(.missing), #"{"error":"unauthorized","message":"An access token is required."}"#),
        (.dlauth, .rateLimited(retryAfterSeconds: 3), #"{"error":"rate_limited","message":"Too many requests. Try again later."}"#),
        (.anonymous, .forbidden(.claims), #"{"error":{"code":"FORBIDDEN","message":"Permission denied"}}"#),
        (.anonymous, .unauthorized(.missing), #"{"error":{"code":"UNAUTHORIZED","message":"Authentication required or token invalid"}}"#),
        (.anonymous, .badRequest(.severalAuthorizations), #"{"error":{"code":"BAD_REQUEST","message":"Invalid request format"}}"#),
        (.password, .unauthorized(.signInTooOld(maxAge: 5)), #"{"error":{"code":"UNAUTHORIZED","message":"This needs a more recent sign-in."}}"#),
        (.oauth, .unauthorized(.caller), #"{"error":"invalid_client","error_description":"Only internal callers may do this."}"#),
        (.oauth, .methodNotAllowed(MethodSet(bits: 3)), #"{"error":"invalid_request","error_description":"The method is not allowed here."}"#),
        (.apple, .notFound, #"{"error":{"code":"NOT_FOUND","message":"There is nothing at this address."}}"#),
        (
            .problem, .notFound,
            #"{"type":"about:blank","title":"Not Found","status":404,"detail":"There is nothing at this address.","code":"NOT_FOUND","request_id":"req-1"}"#
        ),
    ] as [(Dialect, Refusal, String)])
    func theDocumentsWordsAreUsed(_ dialect: Dialect, _ refusal: Refusal, _ expected: String) {
        #expect(body(dialect, refusal) == expected)
    }

    @Test(arguments: envelopes)
    func whereToUpgradeStandsBesideTheCode(_ dialect: Dialect) throws {
        let url = "https://shop.test/?a=\"b\""
        let members = try members(of: body(dialect, .premiumRequired, upgrade: url))
        let nested = [.password, .passwordContract, .apple, .anonymous].contains(dialect)
        #expect(members[nested ? "error.upgrade_url" : "upgrade_url"] == url)
        #expect(!body(dialect, .forbidden(.claims), upgrade: url).contains("upgrade_url"))
    }

    @Test func namesAndTypes() {
        #expect(Dialect.ofRoutes.map(\.name) == ["password", "provider", "dlauth", "apple", "anonymous", "problem"])
        #expect("\(Dialect.problem.contentType)" == "application/problem+json")
        #expect("\(Dialect.dlauth.contentType)" == "application/json; charset=utf-8")
    }

    @Test func theEnvelopeIsValidForAnyMessage() throws {
        let nasty = "a\"b\\c\u{0}\u{1F}\u{7F}é"
        for dialect in Self.envelopes {
            var out = ByteBuffer()
            nasty.withRawBytes {
                dialect.writeBody(status: 400, code: $0, message: $0, requestID: $0, upgradeURL: nasty, into: &out)
            }
            #expect(try members(of: out.readable.text).values.filter { $0 == nasty }.count >= 3)
        }
    }
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
            #expect(text.contains("WWW-Authenticate: Bearer realm=\"tollgate\"") == [401, 403].contains(refusal.status))
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
