import Foundation
import TestThreads
import Testing

/// Bodies that no app sends, at every endpoint of every contract: refused in the contract's envelope, and nothing is kept.
@Suite(.ownThread) struct ContractInputTests {
    /// What a contract's refusals look like.
    enum Envelope: Sendable { case inner, provider, dlauth }

    struct Endpoint: Sendable {
        let request: String
        let envelope: Envelope
        /// Members that are read, each with something of the right type.
        var fields: [String: String] = [:]
        /// Those without which nothing happens.
        var required: [String] = []
        var needsBearer = false

        var method: String { String(request.prefix { $0 != " " }) }
        var path: String { String(request.drop { $0 != " " }.dropFirst()) }

        /// A whole body, with `value` in place of what `field` would be.
        func body(_ field: String? = nil, _ value: String = "") -> String {
            let members = fields.merging(field.map { [$0: value] } ?? [:]) { $1 }.sorted { $0.key < $1.key }
            return "{" + members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
        }
    }

    private static let account = ["email": #""x@example.org""#, "password": #""\#(goodPassword)""#]
    private static let name = #"{"givenName":"Ada","familyName":"L"}"#

    static let endpoints: [Endpoint] = [
        Endpoint(
            request: "POST /api/v1/auth/register", envelope: .inner, fields: account.merging(["username": #""x""#]) { $1 },
            required: ["email", "password"]),
        Endpoint(request: "POST /api/v1/auth/login", envelope: .inner, fields: account, required: ["email", "password"]),
        Endpoint(request: "POST /api/v1/auth/refresh", envelope: .inner, fields: ["refresh": #""x""#], required: ["refresh"]),
        Endpoint(request: "GET /api/v1/auth/me", envelope: .inner, needsBearer: true),
        Endpoint(
            request: "POST /whateat/api/v1/auth/signin", envelope: .provider,
            fields: ["provider": #""apple""#, "idToken": #""x""#, "nonce": #""n""#, "fullName": name], required: ["provider", "idToken"]),
        Endpoint(
            request: "POST /whateat/api/v1/auth/refresh", envelope: .provider, fields: ["refreshToken": #""x""#], required: ["refreshToken"]
        ),
        Endpoint(request: "POST /whateat/api/v1/auth/signout", envelope: .provider, needsBearer: true),
        Endpoint(
            request: "POST /registerUser", envelope: .inner, fields: ["idToken": #""x""#, "firstName": #""A""#, "lastName": #""L""#],
            required: ["idToken"]),
        Endpoint(request: "POST /login", envelope: .inner, fields: ["idToken": #""x""#], required: ["idToken"]),
        Endpoint(
            request: "POST /auth/signup", envelope: .dlauth, fields: account.merging(["metadata": "{}"]) { $1 },
            required: ["email", "password"]),
        Endpoint(request: "POST /auth/signin", envelope: .dlauth, fields: account, required: ["email", "password"]),
        Endpoint(request: "POST /auth/signout", envelope: .dlauth, needsBearer: true),
        Endpoint(request: "GET /auth/user", envelope: .dlauth, needsBearer: true),
        Endpoint(
            request: "POST /auth/otp/resend", envelope: .dlauth, fields: ["email": #""x@example.org""#, "type": #""email""#],
            required: ["email", "type"]),
        Endpoint(
            request: "POST /auth/otp/verify", envelope: .dlauth,
            fields: ["email": #""x@example.org""#, "type": #""email""#, "token": #""123456""#], required: ["email", "type", "token"]),
        Endpoint(
            request: "POST /auth/password/forgot", envelope: .dlauth, fields: ["email": #""x@example.org""#], required: ["email"]),
        Endpoint(
            request: "POST /auth/password/reset", envelope: .dlauth, fields: ["token": #""x""#, "new_password": #""\#(goodPassword)""#],
            required: ["token", "new_password"]),
        Endpoint(
            request: "PUT /auth/password/update", envelope: .dlauth, fields: ["new_password": #""\#(goodPassword)""#],
            required: ["new_password"], needsBearer: true),
        Endpoint(
            request: "POST /auth/token/refresh", envelope: .dlauth, fields: ["refresh_token": #""x""#], required: ["refresh_token"]),
        Endpoint(request: "POST /auth/user", envelope: .inner),
        Endpoint(request: "POST /auth/email/code", envelope: .inner, fields: ["email": #""x@example.org""#], required: ["email"]),
        Endpoint(
            request: "POST /auth/email/verify", envelope: .inner, fields: ["email": #""x@example.org""#, "code": #""123456""#],
            required: ["email", "code"]),
        Endpoint(request: "POST /auth/refresh", envelope: .inner, fields: ["refreshToken": #""x""#], required: ["refreshToken"]),
        Endpoint(
            request: "POST /auth/access-token", envelope: .inner, fields: ["actorType": #""user""#, "actorId": #""x""#],
            required: ["actorType", "actorId"], needsBearer: true),
    ]

    private let gateway: Gateway
    private let bearer: String

    init() throws {
        gateway = try Gateway([Gateway.contracts, try Providers.shared.get().settings()].joined(separator: "\n"))
        bearer = try gateway.signUp("owner@example.org").access
    }

    // MARK: what a body may be

    /// What a GET carries means nothing.
    private static let readers = endpoints.filter { $0.method != "GET" }

    @Test func noBodyBreaksAnEndpointOrLeavesATrace() throws {
        let before = try rows()
        for endpoint in Self.readers {
            for (what, body) in bodies(endpoint) { try expectRefused(ask(endpoint, body), 400, endpoint, what) }
        }
        #expect(try rows() == before)
    }

    private func bodies(_ endpoint: Endpoint) -> [(what: String, body: [UInt8])] {
        var bodies: [(String, [UInt8])] = [
            "not json", "[]", "\"text\"", "7", "null", "{", "{\"a\":1", "{\"a\":1}}", "{} {}", "{'a':1}", "{\"a\":1,}", "{\"a\":NaN}",
            "{\"a\":01}", "\u{FEFF}{}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\x\"}", "{\"a\":1,\"a\":2}",
            "{\"a\":" + String(repeating: "[", count: 100) + String(repeating: "]", count: 100) + "}",
            "{\"a\":" + String(repeating: "{\"a\":", count: 100) + "1" + String(repeating: "}", count: 101),
        ].map { ($0, Array($0.utf8)) }
        bodies.append(("a NUL byte", Array("{\"a\":\"".utf8) + [0] + Array("\"}".utf8)))
        bodies.append(("no UTF-8", Array("{\"a\":\"".utf8) + [0xC3, 0x28] + Array("\"}".utf8)))
        bodies.append(("no UTF-8 in a name", Array("{\"".utf8) + [0xFF] + Array("\":1}".utf8)))
        for (field, right) in endpoint.fields {
            var wrong = ["7", "7.5", "[]", "true", "[\"a\"]"]
            wrong.append(right.hasPrefix("{") ? "\"text\"" : "{}")
            if !right.hasPrefix("{") { wrong += ["\"a\\u0000b\"", "\"\\u0000\""] }
            bodies += wrong.map { ("\(field) as \($0)", Array(endpoint.body(field, $0).utf8)) }
            let torn = endpoint.body(field, "\"~\"").utf8.map { $0 == UInt8(ascii: "~") ? 0xFF : $0 }
            bodies.append(("\(field) as no UTF-8", torn))
        }
        for field in endpoint.required {
            bodies += ["\"\"", "null"].map { ("\(field) as \($0)", Array(endpoint.body(field, $0).utf8)) }
        }
        if !endpoint.required.isEmpty { bodies += [("no body", []), ("{}", Array("{}".utf8))] }
        return bodies
    }

    @Test func aBodyOfMoreThan64KiBIsTooLarge() throws {
        let before = try rows()
        for endpoint in Self.readers {
            for size in [65_537, 70_000] {
                try expectRefused(ask(endpoint, Self.body(of: size)), 413, endpoint, "\(size) bytes")
                try expectRefused(ask(endpoint, Self.body(of: size), inChunks: true), 413, endpoint, "\(size) bytes in chunks")
            }
            // As much as may be is read, and then found to lack what it needs.
            if endpoint.required.isEmpty { continue }
            try expectRefused(ask(endpoint, Self.body(of: 65_536)), 400, endpoint, "65,536 bytes")
            try expectRefused(ask(endpoint, Self.body(of: 65_536), inChunks: true), 400, endpoint, "65,536 bytes in chunks")
        }
        #expect(try rows() == before)
    }

    private static func body(of size: Int) -> [UInt8] { Array((#"{"a":""# + String(repeating: "x", count: size - 8) + #""}"#).utf8) }

    // MARK: what a request may be

    @Test func withoutAGoodBearerNothingElseCounts() throws {
        for endpoint in Self.endpoints where endpoint.needsBearer {
            for body in [nil, "{}", "not json", endpoint.body()] {
                for bearer in [nil, "nonsense", "a.b.c", bearer + "x"] {
                    let answer = try gateway.send(endpoint.request, body, bearer: bearer)
                    expectRefused(answer, 401, endpoint, body ?? "no body")
                    #expect(answer["WWW-Authenticate"]?.hasPrefix("Bearer ") == true)
                }
            }
        }
    }

    @Test func anotherMethodIsToldTheRightOnes() throws {
        for endpoint in Self.endpoints {
            for method in ["DELETE", "PATCH", "TRACE"] {
                let answer = try gateway.send("\(method) \(endpoint.path)", bearer: bearer)
                expectRefused(answer, 405, endpoint, method)
                let allowed = answer["Allow"]?.components(separatedBy: ", ") ?? []
                #expect(allowed.contains(endpoint.method) && !allowed.contains(method))
            }
        }
    }

    @Test func aSlashBehindThePathChangesNothing() throws {
        for endpoint in Self.endpoints {
            let body = endpoint.method == "GET" ? nil : Array("not json".utf8)
            let answers = try ["", "/", "//", "/?a=b"].map { try ask(endpoint, body, suffix: $0) }
            for answer in answers {
                #expect(answer.status == (endpoint.method == "GET" ? 200 : 400), "\(endpoint.request)")
                #expect(answer.body == answers[0].body, "\(endpoint.request)")
            }
        }
    }

    @Test func whateverTheContentTypeABodyIsRead() throws {
        for type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "nonsense"] {
            let answer = try gateway.ask(
                "POST /api/v1/auth/login", ["Content-Type: \(type)"], body: Array(credentials("nobody@example.org").utf8))
            #expect(answer.status == 401, "\(type)")
        }
    }

    @Test func whatNobodyAskedForIsNeverKept() throws {
        let body = #"{"email":"plain@example.org","password":"\#(goodPassword)","is_premium":true,"tier":"premium","id":"x","metadata":5}"#
        let answer = try gateway.send("POST /api/v1/auth/register", body)
        #expect(answer.status == 201)
        let registered = try JSON(answer.text)
        #expect(registered["user"]["is_premium"].bool == false)
        let me = try JSON(try gateway.send("GET /api/v1/auth/me", bearer: try must(registered["tokens"]["access"])).text)
        #expect(me["is_premium"].bool == false && me["has_active_subscription"].bool == false)
        let user = try JSON(try gateway.send("GET /auth/user", bearer: try must(registered["tokens"]["access"])).text)
        #expect(user["metadata"].names == [])
    }

    // MARK: parts

    private func ask(_ endpoint: Endpoint, _ body: [UInt8]?, suffix: String = "", inChunks: Bool = false) throws -> Message {
        let fields = endpoint.needsBearer ? ["Authorization: Bearer \(bearer)"] : []
        let connection = try gateway.connect()
        guard let body, inChunks else { return try connection.ask(endpoint.request + suffix, fields, body: body) }
        let head = requestHead(endpoint.request + suffix, fields + ["Transfer-Encoding: chunked"])
        let chunk = Array("\(String(body.count, radix: 16))\r\n".utf8) + body + Array("\r\n0\r\n\r\n".utf8)
        try connection.send(Array(head.utf8) + chunk)
        return try connection.answer(to: endpoint.method)
    }

    /// What every refusal has. A path of two contracts answers a method that neither knows in the words of either.
    private func expectRefused(_ answer: Message, _ status: Int, _ endpoint: Endpoint, _ what: String) {
        let place = "\(endpoint.request), \(what): \(answer.status) \(answer.text)"
        #expect(answer.status == status, "\(place)")
        #expect(answer["Content-Type"] == "application/json; charset=utf-8", "\(place)")
        #expect(answer["Cache-Control"] == "no-store", "\(place)")
        guard let body = try? JSON(answer.text) else {
            Issue.record("no JSON: \(place)")
            return
        }
        var envelopes: Set<Envelope> = []
        if body.names == ["error"], body["error"].names == ["code", "message"] { envelopes.insert(.inner) }
        if body.names == ["code", "error"], body["error"].text?.contains(" ") == true { envelopes.insert(.provider) }
        if body.names == ["error", "message"], body["error"].text?.contains(" ") == false { envelopes.insert(.dlauth) }
        let isShared = status == 405 && endpoint.path == "/auth/user"
        #expect(envelopes.contains(endpoint.envelope) || isShared && !envelopes.isEmpty, "\(place)")
    }

    /// How many rows each table of the database has.
    private func rows() throws -> String {
        let script = """
            import sqlite3, sys
            db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
            for name in names: print(name, db.execute(f"SELECT count(*) FROM {name}").fetchone()[0])
            """
        return try mustRun("python3", ["-c", script, gateway.folder.file("data/accounts.db")])
    }
}
