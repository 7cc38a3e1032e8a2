import Foundation
import TestServers
import TestThreads
import Testing

/// The gateway as an issuer of tokens, to those who know OAuth: documents, refresh, revocation, introspection, and the age of a sign-in.
@Suite(.ownThread) struct OAuthEndpointTests {
    private static let key = "the key of a service"

    private static func settings(_ upstream: Upstream, _ more: String = "") throws -> String {
        """
        \(Gateway.contracts)
        \(Gateway.trustingProxies)
        TOLLGATE_INTERNAL_SERVICE=key-sha256=\(try run("sha256sum", [], input: key).output.prefix(64))
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ME="/me upstream=u"
        TOLLGATE_ROUTE_BANK="/bank upstream=u max-age=5m cors=https://app.test errors=problem"
        \(more)
        """
    }

    private let upstream: Upstream
    private let gateway: Gateway

    init() throws {
        upstream = try Upstream()
        gateway = try Gateway(try Self.settings(upstream))
    }

    private func post(_ path: String, _ form: String, _ fields: String..., to other: Gateway? = nil) throws -> Message {
        try (other ?? gateway).ask(
            "POST \(path)", ["Content-Type: application/x-www-form-urlencoded"] + fields, body: Array(form.utf8))
    }

    private func revoke(_ token: String, _ more: String = "") throws -> Message { try post("/oauth/revoke", "token=\(token)\(more)") }

    private func introspect(_ token: String, at other: Gateway? = nil) throws -> JSON {
        let answer = try post("/oauth/introspect", "token=\(token)", "X-Internal-Key: \(Self.key)", to: other)
        guard answer.status == 200 else { throw Fault("\(answer) \(answer.text)") }
        return try JSON(answer.text)
    }

    private func passes(_ bearer: String) throws -> Bool { try gateway.send("GET /me", bearer: bearer).status == 200 }

    // MARK: documents

    @Test(arguments: ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"])
    func theDocumentNamesEndpointsThatAnswer(_ path: String) throws {
        let answer = try gateway.ask("GET \(path)")
        #expect(answer.status == 200 && answer["Content-Type"] == "application/json" && answer["Cache-Control"] == "public, max-age=300")
        let document = try JSON(answer.text)
        #expect(document["issuer"].text == "http://localhost:8000")
        let base = "http://localhost:8000"
        for (name, method) in [
            ("jwks_uri", "GET"), ("token_endpoint", "POST"), ("revocation_endpoint", "POST"), ("introspection_endpoint", "POST"),
        ] {
            let url = try must(document[name])
            #expect(url.hasPrefix(base + "/"))
            #expect(try ![404, 405].contains(gateway.ask("\(method) \(url.dropFirst(base.count))").status), "\(name)")
        }
        for name in ["authorization_endpoint", "userinfo_endpoint", "registration_endpoint", "end_session_endpoint"] {
            #expect(document[name].isNull)
        }
        // Left out, these would be a fault, and stand for grants at an authorization endpoint (RFC 8414 §2).
        #expect(document["response_types_supported"].array.map(\.text) == ["none"])
        #expect(document["grant_types_supported"].array.map(\.text) == ["refresh_token"])
        // A member without elements must be left out (RFC 8414 §3.2).
        #expect(!answer.text.contains("[]"))
        #expect(document["subject_types_supported"].isNull == path.contains("oauth"))
        let head = try gateway.connect()
        try head.send(requestHead("HEAD \(path)", []))
        let headers = try head.answer(to: "HEAD")
        #expect(headers.status == 200 && headers["Content-Length"] == answer["Content-Length"] && headers.body.isEmpty)
        #expect(try gateway.ask("POST \(path)").status == 405 || gateway.ask("POST \(path)").status == 404)
        #expect(try gateway.ask("GET /.well-known/jwks.json")["Cache-Control"] == "public, max-age=300")
    }

    // MARK: refresh

    private func refresh(_ token: String, at other: Gateway? = nil) throws -> Message {
        try post("/oauth/token", "grant_type=refresh_token&refresh_token=\(token)&client_id=app&scope=any", to: other)
    }

    @Test func aRefreshTokenOfAnyContractIsRefreshed() throws {
        let providers = try Providers.shared.get()
        let gateway = try Gateway(try Self.settings(upstream, providers.settings()))
        let idToken = try providers.token("apple", #"{"sub":"001.token"}"#)
        let signedIn = try gateway.send("POST /whateat/api/v1/auth/signin", #"{"provider":"apple","idToken":"\#(idToken)"}"#)
        let guest = try must(JSON(gateway.send("POST /auth/user").text)["refreshToken"])
        let tokens = try [
            (gateway.signUp("ada@example.org").refresh, 3_600), (gateway.register("eva@example.org").refresh, 7 * 86_400),
            (must(JSON(signedIn.text)["refreshToken"]), 3_600), (guest, 900),
        ]
        for (index, (token, seconds)) in tokens.enumerated() {
            let answer = try refresh(token, at: gateway)
            let pair = try JSON(answer.text)
            #expect(
                answer.status == 200 && answer["Cache-Control"] == "no-store" && answer["Pragma"] == "no-cache", "\(index): \(answer.text)")
            #expect(pair.names == ["access_token", "expires_in", "refresh_token", "token_type"] && pair["token_type"].text == "Bearer")
            #expect(pair["expires_in"].int == seconds && (pair["refresh_token"].text == token) == (index == 1))
            // A client that lost the answer gets the same successor, and each pair counts.
            #expect(try JSON(refresh(token, at: gateway).text)["refresh_token"].text == pair["refresh_token"].text)
            #expect(try gateway.send("GET /me", bearer: must(pair["access_token"])).status == 200)
        }
    }

    @Test func aSpentRefreshTokenEndsTheSession() throws {
        let ada = try gateway.signUp("ada@example.org")
        let next = try must(JSON(refresh(ada.refresh).text)["refresh_token"])
        // At the endpoint of the contract: both are one session.
        let newest = try gateway.refreshed(next)
        #expect(try passes(newest.access))
        let reused = try refresh(ada.refresh)
        #expect(try reused.status == 400 && JSON(reused.text)["error"].text == "invalid_grant")
        #expect(try gateway.send("GET /me", bearer: newest.access).text.contains("TOKEN_REVOKED"))
        #expect(try refresh(newest.refresh).status == 400)
    }

    @Test func otherGrantsAndTokensAreRefused() throws {
        let ada = try gateway.signUp("ada@example.org")
        let cases = [
            ("", "invalid_request"), ("refresh_token=\(ada.refresh)", "invalid_request"), ("grant_type=refresh_token", "invalid_request"),
            ("grant_type=refresh_token&refresh_token=", "invalid_request"),
            ("grant_type=refresh_token&grant_type=refresh_token&refresh_token=\(ada.refresh)", "invalid_request"),
            ("grant_type=password&username=ada@example.org&password=x", "unsupported_grant_type"),
            ("grant_type=authorization_code&code=x", "unsupported_grant_type"),
            ("grant_type=refresh_token&refresh_token=nonsense", "invalid_grant"),
            ("grant_type=refresh_token&refresh_token=v1.AAAA", "invalid_grant"),
            ("grant_type=refresh_token&refresh_token=\(ada.access)", "invalid_grant"),
        ]
        for (form, error) in cases {
            let answer = try post("/oauth/token", form)
            #expect(
                try answer.status == 400 && JSON(answer.text)["error"].text == error && answer["Cache-Control"] == "no-store", "\(form)")
        }
        let json = try gateway.send("POST /oauth/token", #"{"grant_type":"refresh_token","refresh_token":"\#(ada.refresh)"}"#)
        #expect(try json.status == 400 && JSON(json.text)["error"].text == "invalid_request")
        #expect(try gateway.ask("GET /oauth/token?grant_type=refresh_token&refresh_token=\(ada.refresh)").status == 405)
        #expect(try passes(ada.access) && refresh(ada.refresh).status == 200)
    }

    @Test func onlySessionsOfMountedContractsAreRefreshed() throws {
        let (ada, eva) = (try gateway.signUp("ada@example.org"), try gateway.register("eva@example.org"))
        func reload(_ contracts: String) throws {
            let route = "TOLLGATE_ROUTE_OAUTH=\"/oauth/* upstream=u auth=none\""
            try gateway.reload(
                Self.settings(upstream, route).replacingOccurrences(of: Gateway.contracts, with: "TOLLGATE_CONTRACTS=\"\(contracts)\""))
        }
        func outcome(_ token: String) throws -> String {
            let answer = try refresh(token)
            return try "\(answer.status) \(JSON(answer.text)["error"].text ?? "")"
        }
        try reload("password@/api/v1 apple@/")
        #expect(try [ada.refresh, eva.refresh].map(outcome) == ["400 invalid_grant", "200 "])
        try reload("dlauth@/")
        #expect(try [ada.refresh, eva.refresh].map(outcome) == ["200 ", "400 invalid_grant"])
        // Nothing can be refreshed: the path is the route's.
        for contracts in ["apple@/", ""] {
            try reload(contracts)
            #expect(try !gateway.ask("GET /.well-known/oauth-authorization-server").text.contains("token_endpoint\""))
            let before = upstream.requests.now.count
            #expect(try refresh(eva.refresh).status == 200 && upstream.requests.now.count == before + 1, "\(contracts)")
        }
    }

    /// Authlib checks the document by RFC 8414 before it uses it.
    @Test(.enabled(if: PythonTools.hasOAuthClient)) func aClientLibraryOfOAuthTakesTheDocumentAndRefreshes() throws {
        let gateway = try Gateway(try Self.settings(upstream, "TOLLGATE_PUBLIC_URL=https://gate.test"))
        let ada = try gateway.signUp("ada@example.org")
        let script = """
            import os, sys, requests
            from authlib.integrations.base_client.errors import OAuthError
            from authlib.integrations.requests_client import OAuth2Session
            from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

            base, token = sys.argv[1:]
            metadata = AuthorizationServerMetadata(requests.get(base + "/.well-known/oauth-authorization-server").json())
            metadata.validate()
            # The gateway is reached without TLS here.
            os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
            url = metadata["token_endpoint"].replace("https://gate.test", base)
            client = OAuth2Session("app", token_endpoint_auth_method=metadata["token_endpoint_auth_methods_supported"][0])
            print(client.refresh_token(url, refresh_token=token)["refresh_token"])
            print(client.get(base + "/me").status_code)
            try:
                client.refresh_token(url, refresh_token="nonsense")
            except OAuthError as error:
                print(error.error)
            """
        let outcome = try run(PythonTools.python, ["-c", script, "http://127.0.0.1:\(gateway.port)", ada.refresh])
        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(
            lines.count == 3 && lines[0].hasPrefix("v1.") && lines[0] != ada.refresh && lines.suffix(2) == ["200", "invalid_grant"],
            "\(outcome)")
    }

    // MARK: revocation

    @Test func anyTokenOfASessionEndsItAtOnce() throws {
        let people = try (0..<4).map { try gateway.signUp("p\($0)@example.org") }
        let sent = [people[0].access, people[1].refresh, people[2].access, people[3].refresh]
        let hints = ["", "", "&token_type_hint=refresh_token", "&token_type_hint=nonsense"]
        for (index, person) in people.enumerated() {
            #expect(try passes(person.access))
            let answer = try revoke(sent[index], hints[index])
            #expect(answer.status == 200 && answer.text == "{}" && answer["Cache-Control"] == "no-store")
            #expect(try gateway.send("GET /me", bearer: person.access).text.contains("TOKEN_REVOKED"))
            #expect(try gateway.send("POST /auth/token/refresh", #"{"refresh_token":"\#(person.refresh)"}"#).status == 401)
            #expect(try revoke(sent[index]).status == 200)
        }
        let json = try gateway.register("json@example.org")
        #expect(try revoke(json.refresh).status == 200)
        #expect(try !passes(json.access))
    }

    @Test func whatIsNoTokenOfOursIsNoErrorAndEndsNothing() throws {
        let ada = try gateway.signUp("ada@example.org")
        let parts = ada.access.split(separator: ".").map(String.init)
        let foreign = try IssuerKey(.es256, kid: "x").token(text(of: #require(bytes(base64URL: parts[1]))))
        // A digit of the session that the refresh token names, and of its digest.
        let forged = [10, 45].map { place in
            var letters = Array(ada.refresh)
            letters[place] = letters[place] == "A" ? "B" : "A"
            return String(letters)
        }
        for token in ["nonsense", foreign, parts[0] + "." + parts[1] + ".AAAA", "v1.AAAA"] + forged {
            #expect(try revoke(token).status == 200)
            #expect(try passes(ada.access), "\(token)")
        }
    }

    @Test func aTokenThatCannotBeRevokedIsSaidToBe() throws {
        let minted = String(try gateway.bearer("--sub", "ada").dropFirst("Authorization: Bearer ".count)).trimmingCharacters(
            in: .whitespacesAndNewlines)
        let answer = try revoke(minted)
        #expect(try answer.status == 400 && JSON(answer.text)["error"].text == "unsupported_token_type")
        // An actor may not sign its user out.
        let session = try must(JSON(gateway.send("POST /auth/user").text)["sessionToken"])
        let user = try must(claims(of: session)["sub"])
        let acting = try JSON(gateway.send("POST /auth/access-token", #"{"actorType":"user","actorId":"\#(user)"}"#, bearer: session).text)
        #expect(try revoke(must(acting["accessToken"])).status == 400)
        // Nor refresh a session.
        let actor = try must(acting["accessToken"])
        #expect(try JSON(refresh(actor).text)["error"].text == "invalid_grant")
        #expect(try post("/oauth/token", "grant_type=refresh_token&refresh_token=x", "Authorization: Bearer \(actor)").status == 403)
        #expect(try passes(session))
    }

    @Test func malformedRequestsHaveTheErrorsOfOAuth() throws {
        for form in ["", "token=", "token=a&token=b", "token=%zz"] {
            let answer = try post("/oauth/revoke", form)
            #expect(try answer.status == 400 && JSON(answer.text)["error"].text == "invalid_request", "\(form)")
        }
        let json = try gateway.send("POST /oauth/revoke", #"{"token":"x"}"#)
        #expect(try json.status == 400 && JSON(json.text)["error"].text == "invalid_request")
        let read = try gateway.ask("GET /oauth/revoke?token=x")
        #expect(try read.status == 405 && read["Allow"] == "POST" && JSON(read.text)["error"].text == "invalid_request")
        #expect(try post("/oauth/revoke", "token=" + String(repeating: "x", count: 70_000)).status == 413)
    }

    @Test func anAddressThatGuessesIsHeldUpAndNoOther() throws {
        let ada = try gateway.signUp("ada@example.org")
        let connection = try gateway.connect()
        func revoke(_ token: String, from address: String) throws -> Message {
            try connection.ask(
                "POST /oauth/revoke", ["Content-Type: application/x-www-form-urlencoded", "X-Forwarded-For: \(address)"],
                body: Array("token=\(token)".utf8))
        }
        var refused: Message?
        for number in 0..<200 where refused == nil {
            let answer = try revoke("x\(number)", from: "203.0.113.9")
            if answer.status == 429 { refused = answer }
        }
        let answer = try #require(refused)
        #expect(try answer["Retry-After"] != nil && JSON(answer.text)["error"].text == "temporarily_unavailable")
        // Neither sign-in from there nor revocation from elsewhere has to wait.
        #expect(try gateway.send("POST /auth/signin", credentials("ada@example.org"), from: "203.0.113.9").status == 200)
        #expect(try revoke(ada.access, from: "203.0.113.10").status == 200)
    }

    @Test func parallelRevocationsAndRefreshesEndWithTheSessionOver() throws {
        let ada = try gateway.signUp("ada@example.org")
        let port = gateway.port
        let statuses = try atOnce(12) { number -> Int in
            let connection = try Connection(port: port)
            if number % 2 == 0 {
                return try connection.send("POST /auth/token/refresh", #"{"refresh_token":"\#(ada.refresh)"}"#).status
            }
            let token = number % 4 == 1 ? ada.access : ada.refresh
            return try connection.ask(
                "POST /oauth/revoke", ["Content-Type: application/x-www-form-urlencoded"], body: Array("token=\(token)".utf8)
            ).status
        }
        #expect(
            statuses.enumerated().allSatisfy { $0.offset % 2 == 0 ? [200, 401].contains($0.element) : $0.element == 200 }, "\(statuses)")
        #expect(try !passes(ada.access))
        #expect(try gateway.send("POST /auth/token/refresh", #"{"refresh_token":"\#(ada.refresh)"}"#).status == 401)
    }

    @Test func oneGatewayRevokesForAll() throws {
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_INTERNAL_SERVICE=key-sha256=\(try run("sha256sum", [], input: Self.key).output.prefix(64))")
        try fleet.waitForTheBus()
        let ada = try fleet[0].signUp("ada@example.org")
        #expect(try fleet.statuses("GET /me", ada.access) == [200, 200])
        #expect(try post("/oauth/revoke", "token=\(ada.refresh)", to: fleet[1]).status == 200)
        #expect(try fleet.gateways.map { try introspect(ada.access, at: $0)["active"].bool } == [false, false])
        try fleet.expect("both refuse") { try Fleet.refuses($0, ada.access) }
    }

    // MARK: introspection

    @Test func anInternalCallerLearnsWhoseATokenIs() throws {
        let ada = try gateway.signUp("ada@example.org")
        let said = try claims(of: ada.access)
        let found = try introspect(ada.access)
        #expect(found["active"].bool == true && found["token_type"].text == "Bearer" && found["client_id"].text == "dlauth")
        for name in ["sub", "sid", "iss", "aud", "jti"] { #expect(found[name].text == said[name].text, "\(name)") }
        for name in ["exp", "iat", "auth_time"] { #expect(found[name].int == said[name].int, "\(name)") }
        #expect(found["tier"].text == "free" && found["premium"].bool == false)
        #expect(try gateway.command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)
        #expect(try introspect(ada.access)["tier"].text == "premium")
        #expect(try gateway.command(["user", "revoke", "ada@example.org"]).code == 0)
        #expect(try post("/oauth/introspect", "token=\(ada.access)", "X-Internal-Key: \(Self.key)").text == #"{"active":false}"#)
    }

    @Test func onlyAccessTokensThatCountAreActive() throws {
        let (ada, eva) = (try gateway.signUp("ada@example.org"), try gateway.register("eva@example.org"))
        for token in [ada.refresh, eva.refresh, "nonsense", String(ada.access.dropLast(3)) + "AAA"] {
            #expect(try introspect(token).names == ["active"] && introspect(token)["active"].bool == false)
        }
        let foreign = try IssuerKey(.es256, kid: "x").token(
            text(of: #require(bytes(base64URL: String(ada.access.split(separator: ".")[1])))))
        #expect(try introspect(foreign)["active"].bool == false)
        let minted = try gateway.bearer("--sub", "minted", "--tier", "premium", "--ttl", "1h").dropFirst("Authorization: Bearer ".count)
        let found = try introspect(minted.trimmingCharacters(in: .whitespacesAndNewlines))
        #expect(found["active"].bool == true && found["sub"].text == "minted" && found["tier"].text == "premium" && found["sid"].isNull)
    }

    @Test func othersAreToldNothing() throws {
        let ada = try gateway.signUp("ada@example.org")
        for fields in [[], ["X-Internal-Key: wrong"], ["Authorization: Bearer \(ada.access)"]] {
            let answer = try gateway.ask(
                "POST /oauth/introspect", ["Content-Type: application/x-www-form-urlencoded"] + fields,
                body: Array("token=\(ada.access)".utf8))
            #expect(try answer.status == 401 && JSON(answer.text)["error"].text == "invalid_client")
            #expect(answer["WWW-Authenticate"] == "Bearer realm=\"tollgate\", Basic realm=\"tollgate\"" && !answer.text.contains("active"))
        }
        // As resource servers do that know OAuth alone: the caller's name and key, each form-encoded.
        for (client, isCaller) in [
            ("service:\(Self.key.replacing(" ", with: "+"))", true), ("service:wrong", false), ("other:\(Self.key)", false),
        ] {
            let fields = ["Authorization: Basic \(Data(client.utf8).base64EncodedString())"]
            let answer = try gateway.ask(
                "POST /oauth/introspect", ["Content-Type: application/x-www-form-urlencoded"] + fields,
                body: Array("token=\(ada.access)".utf8))
            #expect(try isCaller ? JSON(answer.text)["active"].bool == true : answer.status == 401, "\(client): \(answer.text)")
        }
        let malformed = try post("/oauth/introspect", "tok=x", "X-Internal-Key: \(Self.key)")
        #expect(try malformed.status == 400 && JSON(malformed.text)["error"].text == "invalid_request")
    }

    @Test func tokensOfOutsideIssuersAreJudgedAsOnARoute() throws {
        let secret = "the secret of an old system's tokens"
        let folder = try Folder()
        try folder.write("secret", secret)
        let line = "audience=app secret-file=\(folder.file("secret")) algorithms=HS256"
        try gateway.reload(
            try Self.settings(
                upstream,
                """
                TOLLGATE_TRUST_CLAIM="issuer=https://claim.test \(line)"
                TOLLGATE_TRUST_KEPT="issuer=https://kept.test \(line) tier-from=account"
                TOLLGATE_TRUST_HOME="issuer=https://home.test \(line) accounts=on tier-from=account"
                """))
        let key = try IssuerKey(.hs256(secret: secret))
        func token(_ issuer: String, _ audience: String = #"["x","app"]"#) throws -> String {
            try key.token(#"{"iss":"https://\#(issuer).test","aud":\#(audience),"sub":"42","tier":"premium","exp":\#(unixNow + 600)}"#)
        }
        let claimed = try introspect(token("claim"))
        #expect(claimed["active"].bool == true && claimed["tier"].text == "premium" && claimed["iss"].text == "https://claim.test")
        #expect(claimed["aud"].array.map(\.text) == ["x", "app"] && claimed["sub"].text == "42")
        #expect(try introspect(token("claim", #""other""#))["active"].bool == false)
        #expect(try introspect(token("kept"))["tier"].text == "free")
        #expect(try gateway.command(["user", "set-tier", "kept:42", "premium"]).code == 0)
        #expect(try introspect(token("kept"))["tier"].text == "premium")
        // The account that its subject stands for, until it signs out.
        #expect(try gateway.command(["user", "create", "--identity", "home:42", "--tier", "premium"]).code == 0)
        let home = try token("home")
        let found = try introspect(home)
        #expect(found["tier"].text == "premium" && found["sub"].text?.count == 36)
        #expect(try gateway.send("POST /auth/signout", bearer: home).status == 200)
        #expect(try introspect(home)["active"].bool == false)
    }

    // MARK: the age of the sign-in

    @Test func anOldSignInHasToBeRepeated() throws {
        let secret = "the secret of another sign-in service"
        let folder = try Folder()
        try folder.write("secret", secret)
        let line = "issuer=https://old.test audience=any secret-file=\(folder.file("secret")) algorithms=HS256"
        try gateway.reload(try Self.settings(upstream, "TOLLGATE_TRUST_OLD=\"\(line)\""))
        let key = try IssuerKey(.hs256(secret: secret))
        func ask(_ member: String) throws -> Message {
            let token = try key.token(#"{"iss":"https://old.test","sub":"42","exp":\#(unixNow + 600)\#(member)}"#)
            return try gateway.ask("GET /bank", ["Authorization: Bearer \(token)", "Origin: https://app.test"])
        }
        #expect(try ask(#","auth_time":\#(unixNow - 200)"#).status == 200)
        for member in [#","auth_time":\#(unixNow - 400)"#, "", #","auth_time":"\#(unixNow)""#, #","auth_time":\#(unixNow + 4_000)"#] {
            let refused = try ask(member)
            #expect(try refused.status == 401 && JSON(refused.text)["code"].text == "UNAUTHORIZED")
            let challenge = refused["WWW-Authenticate"] ?? ""
            #expect(challenge.contains(#"error="insufficient_user_authentication""#) && challenge.hasSuffix(#"max_age="300""#))
            #expect(refused["Access-Control-Expose-Headers"]?.contains("WWW-Authenticate") == true)
        }
        #expect(upstream.requests.now.count == 1)
        #expect(try gateway.metric("tollgate_auth_decisions_total", #"route="bank""#, #"reason="sign_in_too_old""#) == 4)
    }

    /// A thief of a session has not signed in: a sign-in by a password that the session set is as old as the session's own.
    @Test func aPasswordThatASessionSetIsNoNewerSignIn() throws {
        let eve = try gateway.signUp("eve@example.org")
        let signedInAt = try #require(try claims(of: eve.access)["auth_time"].int)
        let set = try gateway.send("PUT /auth/password/update", #"{"new_password":"a password of the thief"}"#, bearer: eve.access)
        #expect(set.status == 200, "\(set.text)")
        try gateway.reload(try Self.settings(upstream).replacingOccurrences(of: "max-age=5m", with: "max-age=1s"))
        try eventually("the sign-in is too old") { try gateway.send("GET /bank", bearer: eve.access).status == 401 }
        let again = try gateway.send("POST /auth/signin", credentials("eve@example.org", "a password of the thief"))
        let access = try must(JSON(again.text)["session"]["access_token"])
        #expect(try claims(of: access)["auth_time"].int == signedInAt)
        #expect(try gateway.send("GET /bank", bearer: access).status == 401)
    }

    /// A refresh makes a new token and no new sign-in.
    @Test func aRefreshDoesNotCount() throws {
        let ada = try gateway.signUp("ada@example.org")
        #expect(try gateway.send("GET /bank", bearer: ada.access).status == 200)
        let signedInAt = try #require(try claims(of: ada.access)["auth_time"].int)
        sleep(1)
        let refreshed = try gateway.refreshed(ada.refresh)
        #expect(try claims(of: refreshed.access)["auth_time"].int == signedInAt)
        try gateway.reload(try Self.settings(upstream).replacingOccurrences(of: "max-age=5m", with: "max-age=1s"))
        try eventually("the sign-in is too old") { try gateway.send("GET /bank", bearer: refreshed.access).status == 401 }
        let explained = try gateway.command(["explain", "GET", "/bank", "--token", refreshed.access])
        #expect(explained.output.contains("at most 1 s ago is needed, it was "))
        #expect(try gateway.command(["check"]).output.contains("max-age=1s"))
        // On a busy machine the second may be over before the request comes.
        try eventually("a new sign-in passes") {
            let again = try gateway.send("POST /auth/signin", credentials("ada@example.org"))
            return try gateway.send("GET /bank", bearer: must(JSON(again.text)["session"]["access_token"])).status == 200
        }
    }
}
