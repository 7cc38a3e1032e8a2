import Credentials
import Foundation
import Gate
import HTTP
import Testing
import Wire

@testable import Contracts

/// The envelopes of the contracts' documents, for refusals of the gate and for those of own endpoints.
@Suite struct EnvelopeTests {
    private static let dialects: [Dialect] = [.password, .passwordContract, .provider, .dlauth, .apple, .anonymous, .oauth, .problem]

    private static let policy = try! Policy(rules: [], trust: Trust(issuers: []), upgradeURL: "https://shop.test")

    private func body(_ dialect: Dialect, _ refusal: Refusal, upgrade: [Envelope.Extra] = []) -> String {
        var out = ByteBuffer()
        "req-1".withRawBytes {
            Catalogue.envelopes[dialect].writeBody(
                refusal, requestID: $0, extras: upgrade.isEmpty ? [] : Self.policy.extras(of: refusal), into: &out)
        }
        return out.readable.text
    }

    @Test(
        arguments: [
            (
                .password, .unauthorized(.missing),
                #"{"error":{"code":"UNAUTHORIZED","message":"Authentication credentials were not provided."}}"#
            ),
            (.password, .unauthorized(.token(.badSignature)), #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#),
            (.password, .unauthorized(.token(.expired)), #"{"error":{"code":"TOKEN_EXPIRED","message":"Invalid or expired token"}}"#),
            (.password, .unauthorized(.revoked), #"{"error":{"code":"TOKEN_REVOKED","message":"Invalid or expired token"}}"#),
            (
                .passwordContract, .unauthorized(.missing),
                #"{"error":{"code":"UNAUTHORIZED","message":"Authentication credentials were not provided."}}"#
            ),
            (
                .passwordContract, .unauthorized(.token(.expired)),
                #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#
            ),
            (.passwordContract, .unauthorized(.revoked), #"{"error":{"code":"UNAUTHORIZED","message":"Invalid or expired token"}}"#),
            (.provider, .unauthorized(.missing), #"{"error":"Missing or invalid authorization header","code":"UNAUTHORIZED"}"#),
            (.provider, .unauthorized(.token(.expired)), #"{"error":"Access token expired","code":"TOKEN_EXPIRED"}"#),
            (.dlauth, .unauthorized(.token(.expired)), #"{"error":"token_expired","message":"Access token has expired"}"#),
            (.dlauth, .unauthorized(.token(.malformed)), #"{"error":"invalid_token","message":"The access token is not valid."}"#),
            (.dlauth, .unauthorized(.missing), #"{"error":"unauthorized","message":"An access token is required."}"#),
            (.dlauth, .rateLimited(retryAfterSeconds: 3), #"{"error":"rate_limited","message":"Too many requests. Try again later."}"#),
            (.anonymous, .forbidden(.claims), #"{"error":{"code":"FORBIDDEN","message":"Permission denied"}}"#),
            (
                .anonymous, .unauthorized(.missing),
                #"{"error":{"code":"UNAUTHORIZED","message":"Authentication required or token invalid"}}"#
            ),
            (.anonymous, .unauthorized(.keyMissing), #"{"error":{"code":"UNAUTHORIZED","message":"An API key is required."}}"#),
            (.password, .unauthorized(.keyMissing), #"{"error":{"code":"UNAUTHORIZED","message":"An API key is required."}}"#),
            (.provider, .unauthorized(.keyMissing), #"{"error":"An API key is required.","code":"UNAUTHORIZED"}"#),
            (.dlauth, .unauthorized(.keyMissing), #"{"error":"unauthorized","message":"An API key is required."}"#),
            (.anonymous, .badRequest(.severalAuthorizations), #"{"error":{"code":"BAD_REQUEST","message":"Invalid request format"}}"#),
            (
                .password, .unauthorized(.signInTooOld(maxAge: 5)),
                #"{"error":{"code":"UNAUTHORIZED","message":"This needs a more recent sign-in."}}"#
            ),
            (.oauth, .unauthorized(.caller), #"{"error":"invalid_client","error_description":"Only internal callers may do this."}"#),
            (
                .oauth, .methodNotAllowed(MethodSet(bits: 3)),
                #"{"error":"invalid_request","error_description":"The method is not allowed here."}"#
            ),
            (.apple, .notFound, #"{"error":{"code":"NOT_FOUND","message":"There is nothing at this address."}}"#),
            (
                .problem, .notFound,
                #"{"type":"about:blank","title":"Not Found","status":404,"detail":"There is nothing at this address.","code":"NOT_FOUND","request_id":"req-1"}"#
            ),
        ] as [(Dialect, Refusal, String)])
    func theDocumentsWordsAreUsed(_ dialect: Dialect, _ refusal: Refusal, _ expected: String) {
        #expect(body(dialect, refusal) == expected)
    }

    private static let refusals: [Refusal] = [
        .badRequest(.http(.requestLine)), .badRequest(.severalAuthorizations), .badRequest(.grpcTimeout), .unauthorized(.missing),
        .unauthorized(.keyMissing),
        .unauthorized(.token(.expired)), .unauthorized(.token(.malformed)), .unauthorized(.revoked), .unauthorized(.caller),
        .unauthorized(.signInTooOld(maxAge: 5)), .forbidden(.claims), .forbidden(.caller), .forbidden(.actor), .forbidden(.attributes),
        .forbidden(.preflight),
        .premiumRequired, .notFound, .methodNotAllowed(MethodSet(bits: 3)), .requestTimeout, .payloadTooLarge, .uriTooLong,
        .expectationFailed,
        .upgradeRequired, .headersTooLarge, .rateLimited(retryAfterSeconds: 7), .internalError, .notImplemented, .badGateway,
        .unavailable(.overload, retryAfterSeconds: 1), .timeout, .versionNotSupported, .upstreamError(status: 410),
        .gone, .appUpdateRequired(gate: 0), .maintenance(route: 0, number: 0, retryAfterSeconds: 60),
        .addressDenied(.denied), .unauthorized(.proof(.missing)), .unauthorized(.proof(.stale)), .attestationRequired(),
    ]

    /// Clients compare codes.
    @Test func everyCodeIsSpelledAsTheDialectSpellsCodes() {
        #expect(Set(Self.refusals.map(\.code)) == Set(RefusalCode.allCases))
        for dialect in Self.dialects {
            for refusal in Self.refusals {
                let code = "\(Catalogue.envelopes[dialect].code(of: refusal))"
                let isLower = dialect == .dlauth || dialect == .oauth
                let isUniform = dialect == .passwordContract && refusal.status == 401 && !"\(refusal.code.text)".hasPrefix("DEVICE_PROOF")
                let expected = isUniform ? "UNAUTHORIZED" : "\(refusal.code.text)"
                #expect(isLower ? code == code.lowercased() : code == expected, "\(dialect) \(refusal)")
                #expect(body(dialect, refusal).contains("\"\(code)\""))
            }
        }
    }

    /// The members of a JSON text by their paths, as `error.code`.
    private func members(_ json: String) throws -> [String: String] {
        var found: [String: String] = [:]
        for (name, value) in try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]) {
            guard let object = value as? [String: Any] else { found[name] = "\(value)"; continue }
            for (inner, value) in object { found["\(name).\(inner)"] = "\(value)" }
        }
        return found
    }

    private static let nested = (members: ["error.code", "error.message"], message: "error.message", upgrade: "error.upgrade_url")
    private static let shapes: [(Dialect, shape: (members: [String], message: String, upgrade: String))] = [
        (.password, nested), (.passwordContract, nested), (.apple, nested), (.anonymous, nested),
        (.provider, (["error", "code"], "error", "upgrade_url")), (.dlauth, (["error", "message"], "message", "upgrade_url")),
        (.oauth, (["error", "error_description"], "error_description", "upgrade_url")),
        (.problem, (["type", "title", "status", "detail", "code", "request_id"], "detail", "upgrade_url")),
    ]

    @Test func everyRefusalHasTheMembersOfTheDialectAndASentence() throws {
        #expect(Set(Self.shapes.map(\.0.rawValue)) == Set(Self.dialects.map(\.rawValue)))
        let upgrade = Envelope.Extra(name: "upgrade_url", value: "https://shop.test")
        for (dialect, shape) in Self.shapes {
            for refusal in Self.refusals {
                let found = try members(body(dialect, refusal, upgrade: [upgrade]))
                let expected = shape.members + (refusal.code == .premiumRequired ? [shape.upgrade] : [])
                #expect(Set(found.keys) == Set(expected) && found[shape.message] != "", "\(dialect) \(refusal): \(found)")
                #expect(found[shape.upgrade] == (refusal.code == .premiumRequired ? upgrade.value : nil))
            }
        }
    }

    @Test func hostileTextsStayWithinTheirMembers() throws {
        let hostile = "\"},\"x\":\"\\\u{0}\u{1}\n\r\t\u{1F}\u{7F}\u{2028}é\\"
        for (dialect, shape) in Self.shapes {
            var refusal = Failure(400, hostile, hostile)
            refusal.extras = [Envelope.Extra(name: "extra", value: hostile)]
            let found = try members(refusal.response(in: dialect, requestID: hostile).body.rawBytes.text)
            let extra = shape.upgrade.replacing("upgrade_url", with: "extra")
            let fixed: Set = ["type", "title", "status"]
            #expect(Set(found.keys) == Set(shape.members + [extra]), "\(dialect): \(found)")
            #expect(
                found.allSatisfy { fixed.contains($0.key) || $0.value == hostile || $0.value == hostile.lowercased() },
                "\(dialect): \(found)")
        }
    }

    /// RFC 9110, 5.6.4.
    @Test func aChallengeEscapesQuotesAndBackslashes() {
        var refusal = Failure(401, "UNAUTHORIZED", "No.")
        refusal.challenge = Failure.Challenge(error: #"a"b"#, description: "c\\d\r\n\", max_age=\"9")
        let challenge = refusal.response(in: .problem, requestID: "").fields.first { $0.name == "WWW-Authenticate" }?.value
        #expect(challenge == #"Bearer realm="tollgate", error="a\"b", error_description="c\\d\", max_age=\"9""#)
    }

    @Test func theNamesAreThoseOfTheContracts() {
        #expect(ContractID.allCases.allSatisfy { Catalogue.envelopes[Dialect($0)].name == $0.name })
        #expect(Catalogue.contracts.allSatisfy { Catalogue.envelopes[$0.dialect].name == $0.id.name })
    }

    /// Refusals that the gate does not know, with what stands beside the code.
    @Test(
        arguments: [
            (.password, #"{"error":{"code":"TRANSACTION_INVALID","message":"No.","product":"\"p"}}"#),
            (.passwordContract, #"{"error":{"code":"TRANSACTION_INVALID","message":"No.","product":"\"p"}}"#),
            (.apple, #"{"error":{"code":"TRANSACTION_INVALID","message":"No.","product":"\"p"}}"#),
            (.anonymous, #"{"error":{"code":"TRANSACTION_INVALID","message":"No.","product":"\"p"}}"#),
            (.provider, #"{"error":"No.","code":"TRANSACTION_INVALID","product":"\"p"}"#),
            (.dlauth, #"{"error":"transaction_invalid","message":"No.","product":"\"p"}"#),
            (.oauth, #"{"error":"transaction_invalid","error_description":"No.","product":"\"p"}"#),
            (
                .problem,
                #"{"type":"about:blank","title":"Bad Request","status":400,"detail":"No.","code":"TRANSACTION_INVALID","request_id":"req-1","product":"\"p"}"#
            ),
        ] as [(Dialect, String)])
    func aRefusalOfAnOwnEndpointHasTheShapeOfTheDialect(_ dialect: Dialect, _ expected: String) {
        var refusal = Failure(400, "TRANSACTION_INVALID", "No.")
        refusal.extras = [Envelope.Extra(name: "product", value: "\"p")]
        let answer = refusal.response(in: dialect, requestID: "req-1")
        #expect(answer.status == 400 && answer.body.rawBytes.text == expected)
        #expect(!answer.fields.contains { $0.name == "WWW-Authenticate" })
    }

    @Test func aSignInThatIsTooOldIsSaidInTheChallenge() {
        for dialect in Self.dialects {
            var refusal = Failure(.unauthorized(.signInTooOld(maxAge: 600)), in: dialect)
            refusal.challenge = Failure.Challenge(
                error: "insufficient_user_authentication", description: "A more recent sign-in is required", maxAge: 600)
            let answer = refusal.response(in: dialect, requestID: "req-1")
            let challenge =
                #"Bearer realm="tollgate", error="insufficient_user_authentication", error_description="A more recent sign-in is required", max_age="600""#
            #expect(answer.status == 401 && answer.fields.contains { $0.name == "WWW-Authenticate" && $0.value == challenge })
            let code = dialect == .dlauth ? "unauthorized" : dialect == .oauth ? "invalid_client" : "UNAUTHORIZED"
            #expect(answer.body.rawBytes.text.contains("\"\(code)\""), "\(dialect)")
        }
        let last = Failure(409, "LAST_IDENTITY", "No.").response(in: Dialect(.dlauth), requestID: "")
        #expect(last.status == 409 && last.body.rawBytes.text == #"{"error":"last_identity","message":"No."}"#)
    }
}
