import Foundation
import TestThreads
import Testing

/// `identity=signed`: an upstream that believes the gateway's signature, and not the way by which a request came.
@Suite(.ownThread) struct SignedIdentityTests {
    private static let publicURL = "https://api.test"

    private static func settings(_ service: VerifyingService, _ more: String = "") -> String {
        """
        \(Gateway.contracts)
        TOLLGATE_PUBLIC_URL="\(publicURL)"
        TOLLGATE_UPSTREAM_U="\(service.url)"
        TOLLGATE_ROUTE_SIGNED="/signed/* upstream=u identity=signed auth=optional"
        TOLLGATE_ROUTE_OTHER="/other/* upstream=u identity=signed"
        TOLLGATE_ROUTE_PLAIN="/plain/* upstream=u"
        \(more)
        """
    }

    private let service: VerifyingService
    private let gateway: Gateway

    init() throws {
        service = try VerifyingService(audience: "\(Self.publicURL)#signed", issuer: Self.publicURL)
        gateway = try Gateway(Self.settings(service))
        try service.trust(gateway)
    }

    private func signedClaims(_ bearer: String, at path: String = "/signed/x") throws -> JSON {
        let answer = try gateway.send("GET \(path)", bearer: bearer)
        guard answer.status == 200 else { throw Fault("\(answer) \(answer.text)") }
        return try JSON(answer.text)["claims"]
    }

    private func token(_ bearer: String, at path: String = "/signed/x") throws -> String {
        try must(JSON(gateway.send("GET \(path)", bearer: bearer).text)["token"])
    }

    @Test func theUpstreamVerifiesWhoCalls() throws {
        let ada = try gateway.register("ada@example.org")
        let said = try claims(of: ada.access)
        let claims = try signedClaims(ada.access)
        #expect(claims["sub"].text == ada.user && claims["sid"].text == said["sid"].text)
        #expect(claims["iss"].text == Self.publicURL && claims["aud"].text == Self.publicURL + "#signed")
        #expect(claims["tier"].text == "free" && claims["premium"].bool == false)
        #expect(claims["token_issuer"].text == Self.publicURL && claims["auth_time"].int == said["auth_time"].int)
        #expect((claims["exp"].int ?? 0) - (claims["iat"].int ?? 0) == 60)
        // Her email is not proven.
        #expect(claims["email"].isNull && claims["email_verified"].isNull)
        let anonymous = try gateway.ask("GET /signed/x")
        #expect(try anonymous.status == 200 && JSON(anonymous.text)["token"].isNull)
        #expect(try JSON(gateway.send("GET /plain/x", bearer: ada.access).text)["token"].isNull)
    }

    /// Neither a field of the client, nor the token of another route, nor one that was changed.
    @Test func nothingElseHolds() throws {
        let ada = try gateway.register("ada@example.org")
        let (good, other) = (try token(ada.access), "GET /other/x")
        #expect(try service.ask(good).status == 200)
        // The upstream of another route: the audience is not its own.
        #expect(try gateway.send(other, bearer: ada.access).status == 401)
        #expect(try service.ask(ada.access).status == 401)
        var parts = good.split(separator: ".").map(String.init)
        parts[1] = base64URL(Array(try text(of: #require(bytes(base64URL: parts[1]))).replacingOccurrences(of: "free", with: "gold").utf8))
        #expect(try service.ask(parts.joined(separator: ".")).status == 401)
        for name in ["X-Tollgate-Identity", "x_tollgate_identity", "X.Tollgate.Identity"] {
            #expect(try JSON(gateway.ask("GET /signed/x", ["\(name): \(good)"]).text)["token"].isNull)
            let answer = try gateway.ask("GET /signed/x", ["\(name): forged", "Authorization: Bearer \(ada.access)"])
            #expect(try JSON(answer.text)["claims"]["sub"].text == ada.user)
        }
    }

    /// No door of the gateway takes it: no route, no endpoint, no introspection, no revocation.
    @Test func itIsNoTokenForTheGateway() throws {
        try gateway.reload(Self.settings(service, "TOLLGATE_INTERNAL_SERVICE=\"cidr=127.0.0.0/8\""))
        let ada = try gateway.register("ada@example.org")
        let identity = try token(ada.access)
        for path in ["/plain/x", "/signed/x", "/api/v1/auth/me", "/auth/user"] {
            #expect(try gateway.send("GET \(path)", bearer: identity).status == 401, "\(path)")
        }
        #expect(try gateway.send("POST /auth/signout", bearer: identity).status == 401)
        #expect(try gateway.send("POST /api/v1/auth/refresh", #"{"refresh":"\#(identity)"}"#).status == 400)
        let form = ["Content-Type: application/x-www-form-urlencoded"]
        let introspected = try gateway.ask("POST /oauth/introspect", form, body: Array("token=\(identity)".utf8))
        #expect(introspected.text == #"{"active":false}"#)
        #expect(try gateway.ask("POST /oauth/revoke", form, body: Array("token=\(identity)".utf8)).status == 200)
        #expect(try gateway.send("GET /plain/x", bearer: ada.access).status == 200)
        let inspected = try gateway.command(["token", "inspect", identity])
        #expect(inspected.code == 1 && inspected.output.contains("not_an_access_token"))
        // The other way round: a refresh token is no bearer, and no identity.
        #expect(try gateway.send("GET /plain/x", bearer: ada.refresh).status == 401)
        #expect(try service.ask(ada.refresh).status == 401)
    }

    @Test func parallelRequestsGetTheTokenOfTheirOwnCaller() throws {
        let people = try (0..<8).map { try gateway.register("p\($0)@example.org") }
        let port = gateway.port
        let found = try atOnce(8) { number in
            let connection = try Connection(port: port)
            return try (0..<40).map { step -> [String] in
                let person = people[(number + step) % people.count]
                let answer = try connection.send("GET /signed/x", bearer: person.access)
                let body = try JSON(answer.text)
                guard answer.status == 200, body["claims"]["sub"].text == person.user else {
                    throw Fault("\(answer.text) for \(person.user)")
                }
                return [person.user, try must(body["token"])]
            }
        }
        // One for each person, but where 40 s ended in between.
        let tokens = Dictionary(grouping: found.joined()) { $0[0] }.mapValues { Set($0.map { $0[1] }).count }
        #expect(tokens.count == 8 && tokens.values.allSatisfy { $0 <= 2 })
    }

    @Test func aChangedTierIsInTheNextRequest() throws {
        let ada = try gateway.register("ada@example.org")
        #expect(try signedClaims(ada.access)["tier"].text == "free")
        #expect(try gateway.command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)
        try eventually("the upstream learns the tier") {
            let claims = try signedClaims(ada.access)
            return claims["tier"].text == "premium" && claims["premium"].bool == true
        }
    }

    @Test func anEndedSessionSignsNothingMore() throws {
        let ada = try gateway.signUp("ada@example.org")
        _ = try token(ada.access)
        #expect(try gateway.send("POST /auth/signout", bearer: ada.access).status == 200)
        #expect(try gateway.send("GET /signed/x", bearer: ada.access).status == 401)
    }

    @Test func keysRotateUnderLoad() throws {
        let ada = try gateway.register("ada@example.org")
        func kid(_ token: String) throws -> String {
            try must(JSON(text(of: #require(bytes(base64URL: String(token.split(separator: ".")[0])))))["kid"])
        }
        let before = try token(ada.access)
        #expect(try gateway.command(["keys", "rotate"]).code == 0)
        let rotated = try JSON(gateway.command(["keys", "list", "--json"]).output).array.first { $0["state"].text == "current" }
        let active = try must(try #require(rotated)["kid"])
        try eventually("the new key signs, and the upstream takes it all the way") {
            let answer = try gateway.send("GET /signed/x", bearer: ada.access)
            #expect(answer.status == 200, "\(answer.text)")
            return try kid(must(JSON(answer.text)["token"])) == active
        }
        #expect(try kid(before) != active && service.ask(before).status == 200)
    }

    @Test func aReloadThatRenamesTheRouteSignsForItsNewName() throws {
        let ada = try gateway.register("ada@example.org")
        _ = try token(ada.access)
        try gateway.reload(Self.settings(service).replacingOccurrences(of: "ROUTE_SIGNED", with: "ROUTE_RENAMED"))
        let answer = try gateway.send("GET /signed/x", bearer: ada.access)
        #expect(answer.status == 401 && answer.text.contains("udience"))
    }

    @Test func anOutsideIssuersUserIsSignedToo() throws {
        let key = try IssuerKey(.hs256(secret: "a secret of more than thirty-two bytes"))
        let folder = try Folder()
        try folder.write("secret", "a secret of more than thirty-two bytes")
        try gateway.reload(
            Self.settings(
                service,
                "TOLLGATE_TRUST_OLD=\"issuer=https://old.test audience=any secret-file=\(folder.file("secret")) algorithms=HS256\""))
        let claims = try signedClaims(
            key.token(#"{"iss":"https://old.test","sub":"4\"2","tier":"premium","exp":\#(unixNow + 600),"email":"eva@old.test"}"#))
        #expect(claims["sub"].text == "4\"2" && claims["token_issuer"].text == "https://old.test" && claims["tier"].text == "premium")
        #expect(claims["email"].text == "eva@old.test" && claims["email_verified"].bool == true && claims["iss"].text == Self.publicURL)
    }

    @Test func anActorIsInTheToken() throws {
        let session = try must(JSON(gateway.send("POST /auth/user").text)["sessionToken"])
        let user = try must(claims(of: session)["sub"])
        let answer = try gateway.send("POST /auth/access-token", #"{"actorType":"user","actorId":"\#(user)"}"#, bearer: session)
        let acting = try JSON(answer.text)
        let claims = try signedClaims(must(acting["accessToken"]))
        #expect(claims["act"]["sub"].text == user && claims["act"]["actor_type"].text == "user" && claims["sub"].text == user)
    }

    /// RS256 and EdDSA, as `keys rotate` brings them.
    @Test(arguments: ["RS256", "EdDSA"])
    func everyKeyPairCanSign(_ algorithm: String) throws {
        let gateway = try Gateway(Self.settings(service, "TOLLGATE_SIGNING_ALGORITHM=\(algorithm)"))
        let fresh = try VerifyingService(audience: "\(Self.publicURL)#signed", issuer: Self.publicURL)
        try fresh.trust(gateway)
        let identity = try must(JSON(gateway.send("GET /signed/x", bearer: try gateway.register("ada@example.org").access).text)["token"])
        #expect(try fresh.ask(identity).status == 200)
        // The gateway of the other keys' upstream does not take it.
        #expect(try service.ask(identity).status == 401)
    }

    @Test func explainAndCheckShowIt() throws {
        let ada = try gateway.register("ada@example.org")
        let explained = try gateway.command(["explain", "GET", "/signed/x", "--token", ada.access])
        #expect(explained.output.contains("X-Tollgate-Identity: (signed)") && !explained.output.contains("X-Tollgate-Identity: ey"))
        let routes = try JSON(gateway.command(["check", "--json"]).output)["routes"].array
        let identities = Dictionary(uniqueKeysWithValues: routes.map { ($0["name"].text, $0["identity"].text) })
        #expect(identities == ["signed": "signed", "other": "signed", "plain": "headers"])
        #expect(try gateway.command(["check"]).output.contains("identity=signed"))
    }
}
