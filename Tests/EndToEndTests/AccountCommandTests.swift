import Foundation
import TestThreads
import Testing

/// What the operator does to accounts by command, and what a gateway that runs makes of it.
@Suite(.ownThread) struct AccountCommandTests {
    private let upstream: Upstream
    private let folder: Folder
    private let password = "correct horse battery"

    init() throws {
        upstream = try Upstream()
        folder = try Folder()
    }

    private var settings: String {
        """
        TOLLGATE_CONTRACTS=password@/api/v1
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ME="/me upstream=u"
        TOLLGATE_ROUTE_PREMIUM="/premium upstream=u tier=premium"
        """
    }

    private func gateway() throws -> Gateway { try Gateway(settings, folder: folder) }

    private func create(_ gateway: Gateway, _ email: String, _ more: String...) throws -> CommandOutcome {
        try gateway.command(["user", "create", "--email", email, "--password-stdin"] + more, input: password + "\n")
    }

    private func logIn(_ gateway: Gateway, _ email: String, _ password: String? = nil) throws -> Message {
        let body = #"{"email":"\#(email)","password":"\#(password ?? self.password)"}"#
        return try gateway.ask("POST /api/v1/auth/login", ["User-Agent: Test/1"], body: Array(body.utf8))
    }

    /// The header line of somebody who has just signed in.
    private func bearer(_ gateway: Gateway, _ email: String) throws -> String {
        let answer = try logIn(gateway, email)
        guard let token = try JSON(answer.text)["tokens"]["access"].text else { throw Fault("no tokens: \(answer) \(answer.text)") }
        return "Authorization: Bearer " + token
    }

    /// What is kept of the one account's password.
    private func storedHash() throws -> String {
        let script = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT password_hash FROM accounts').fetchone()[0])"
        return try mustRun("python3", ["-c", script, folder.file("data/accounts.db")])
    }

    // MARK: tests

    @Test func aTokenMintedWithASessionHasTheAccountsTierAndCanBeRevoked() throws {
        let gateway = try gateway()
        _ = try create(gateway, "ada@example.org")
        let minted = try gateway.command(["token", "mint", "--session", "--sub", "ada@example.org"])
        #expect(minted.code == 0, "\(minted.complaints)")
        let field = "Authorization: Bearer " + minted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(try gateway.ask("GET /me", [field]).status == 200)
        #expect(try gateway.ask("GET /premium", [field]).status == 403)
        _ = try gateway.command(["user", "set-tier", "ada@example.org", "premium"])
        try eventually("the tier counts", seconds: 15) { try gateway.ask("GET /premium", [field]).status == 200 }
        _ = try gateway.command(["user", "revoke", "ada@example.org"])
        try eventually("the token is refused", seconds: 15) { try gateway.ask("GET /me", [field]).status == 401 }
    }

    @Test func lifetimesAndTheNameInMailsAreTheOperators() throws {
        let gateway = try Gateway(
            "\(Gateway.contracts)\nTOLLGATE_ACCESS_TTL_DLAUTH=15m\nTOLLGATE_REFRESH_TTL_DLAUTH=1d\nTOLLGATE_APP_NAME=Reader", folder: folder
        )
        let answer = try gateway.send("POST /auth/signup", #"{"email":"ada@example.org","password":"password123"}"#)
        #expect(answer.text.contains(#""expires_in":900,"#))
        let shown = try gateway.command(["user", "show", "ada@example.org", "--json"]).output
        #expect(shown.contains(#""contract":"dlauth""#))
        #expect(try gateway.message(to: "ada@example.org")["subject"].text == "Confirm your email for Reader")
    }

    @Test func aPathThatTheOperatorSetsTakesThePlaceOfTheDocuments() throws {
        let gateway = try Gateway("TOLLGATE_CONTRACTS=dlauth@/app\nTOLLGATE_DLAUTH_PATH_SIGN_UP=/api/v1/auth/register")
        #expect(try gateway.send("POST /app/auth/signup", credentials("ada@example.org")).status == 404)
        #expect(try gateway.send("POST /app/api/v1/auth/register/", credentials("ada@example.org")).status == 200)
        #expect(try gateway.send("POST /app/auth/signin", credentials("ada@example.org")).status == 200)
    }

    @Test func whomTheOperatorCreatesSignsIn() throws {
        let gateway = try gateway()
        let created = try create(gateway, "ada@example.org", "--json")
        #expect(created.code == 0, "\(created.complaints)")
        let id = try #require(try JSON(created.output)["id"].text)
        let answer = try logIn(gateway, "ada@example.org")
        #expect(answer.status == 200)
        #expect(try JSON(answer.text)["user"]["id"].text == id)
        #expect(try logIn(gateway, "ada@example.org", "something else").status == 401)
        #expect(try gateway.ask("GET /me", [bearer(gateway, "ada@example.org")]).status == 200)
        #expect(upstream.requests.now.last?["X-User-Id"] == id)
        let shown = try JSON(gateway.command(["user", "show", "ada@example.org", "--json"]).output)
        #expect(shown["id"].text == id)
        #expect(shown["sessions"].array.map { $0["device"].text } == ["Test/1", "Test/1"])
        #expect(try gateway.command(["user", "show", id]).output.contains("ada@example.org, not proven"))
        #expect(try gateway.command(["user", "list"]).output.contains(id))
        #expect(try create(gateway, "ADA@example.org").code == 1)
    }

    @Test func anAccountThatWasThereBeforeTheGatewaySignsInToo() throws {
        try folder.write("gateway.env", Gateway.complete(settings, folder))
        let words = ["user", "create", "--email", "ada@example.org", "--password-stdin", "--tier", "premium"]
        let created = try Tollgate.run(words + ["--env-file", folder.file("gateway.env")], input: password)
        #expect(created.code == 0, "\(created.complaints)")
        let gateway = try gateway()
        #expect(try gateway.ask("GET /premium", [bearer(gateway, "ada@example.org")]).status == 200)
    }

    @Test func aHashOfDjangoOpensTheDoorAndIsRewritten() throws {
        let gateway = try gateway()
        let script = "import hashlib,base64; print(base64.b64encode(hashlib.pbkdf2_hmac('sha256',b'\(password)',b'aSalt',20000)).decode())"
        let django = "pbkdf2_sha256$20000$aSalt$" + (try mustRun("python3", ["-c", script]))
        let created = try gateway.command(["user", "create", "--email", "ada@example.org", "--password-hash", django])
        #expect(created.code == 0, "\(created.complaints)")
        #expect(try storedHash() == django)
        #expect(try logIn(gateway, "ada@example.org", "something else").status == 401)
        #expect(try storedHash() == django)
        #expect(try logIn(gateway, "ada@example.org").status == 200)
        #expect(try storedHash().hasPrefix("$argon2id$v=19$"))
        #expect(try logIn(gateway, "ada@example.org").status == 200)
        #expect(try gateway.command(["user", "create", "--email", "eve@example.org", "--password-hash", "$2b$12$abc"]).code == 2)
    }

    @Test func anotherTierCountsWithinASecondForTheSameToken() throws {
        let gateway = try gateway()
        _ = try create(gateway, "ada@example.org")
        let bearer = try bearer(gateway, "ada@example.org")
        let connection = try gateway.connect()
        func status() throws -> Int { try connection.ask("GET /premium", [bearer]).status }
        #expect(try status() == 403)
        for (tier, expected) in [("premium", 200), ("free", 403), ("premium", 200)] {
            let set = try gateway.command(["user", "set-tier", "ada@example.org", tier])
            #expect(set.code == 0, "\(set.complaints)")
            try eventually("\(tier) counts", seconds: 15) { try status() == expected }
        }
        #expect(upstream.requests.now.last?["X-User-Tier"] == "premium")
        // A tier with an end ends by itself.
        let end = ISO8601DateFormatter().string(from: Date(timeIntervalSinceNow: 10))
        let set = try gateway.command(["user", "set-tier", "ada@example.org", "premium", "--until", end, "--json"])
        #expect(try JSON(set.output)["has_active_subscription"].bool == true, "\(set.complaints)")
        try eventually("the tier ends") { try status() == 403 }
    }

    @Test(arguments: ["revoke", "delete"])
    func tokensAreRefusedWithinASecond(_ command: String) throws {
        let gateway = try gateway()
        _ = try create(gateway, "ada@example.org")
        _ = try create(gateway, "eve@example.org")
        let bearers = [try bearer(gateway, "ada@example.org"), try bearer(gateway, "ada@example.org")]
        let other = try bearer(gateway, "eve@example.org")
        let connection = try gateway.connect()
        for bearer in bearers { #expect(try connection.ask("GET /me", [bearer]).status == 200) }
        let outcome = try gateway.command(["user", command, "ada@example.org", "--json"])
        #expect(try JSON(outcome.output)["sessions_ended"].int == 2, "\(outcome.complaints)")
        try eventually("both tokens are refused", seconds: 15) {
            try bearers.allSatisfy { try connection.ask("GET /me", [$0]).status == 401 }
        }
        for bearer in bearers {
            let refusal = try connection.ask("GET /me", [bearer])
            #expect(try JSON(refusal.text)["error"]["code"].text == "TOKEN_REVOKED")
        }
        #expect(try connection.ask("GET /me", [other]).status == 200)
        #expect(try logIn(gateway, "ada@example.org").status == (command == "revoke" ? 200 : 401))
        #expect(try gateway.command(["user", "show", "ada@example.org"]).code == (command == "revoke" ? 0 : 1))
    }

    @Test func whatEndedWhileNoGatewayRanStaysEnded() throws {
        var gateway: Gateway? = try gateway()
        let running = try #require(gateway)
        _ = try create(running, "ada@example.org")
        let bearer = try bearer(running, "ada@example.org")
        try running.stop()
        gateway = nil
        let revoked = try Tollgate.run(["user", "revoke", "ada@example.org", "--env-file", folder.file("gateway.env")])
        #expect(revoked.code == 0, "\(revoked.complaints)")
        let next = try self.gateway()
        #expect(try JSON(next.ask("GET /me", [bearer]).text)["error"]["code"].text == "TOKEN_REVOKED")
    }

    @Test func manyCommandsAndTheGatewayShareTheFile() throws {
        let gateway = try gateway()
        let binary = try Tollgate.binary.get()
        let (envFile, password) = (gateway.envFile, password)
        let commands = (0..<6).map { number in
            Background {
                let words = ["user", "create", "--email", "user\(number % 5)@example.org", "--password-stdin", "--env-file", envFile]
                return try run(binary, words, input: password).code
            }
        }
        for number in 0..<6 {
            let body = #"{"email":"app\#(number)@example.org","password":"\#(password)"}"#
            // A busy machine may keep a command that holds the file from its processor.
            #expect(try askingAgain(whileFull: "POST /api/v1/auth/register", body, port: gateway.port).status == 201)
        }
        // Two of them want the same email.
        #expect(try commands.map { try $0.value(seconds: 60) }.sorted() == [0, 0, 0, 0, 0, 1])
        #expect(try JSON(gateway.command(["user", "list", "--json"]).output).array.count == 11)
    }

    @Test func actorsAreGrantedAndTakenBack() throws {
        let gateway = try gateway()
        _ = try create(gateway, "ada@example.org")
        func actors() throws -> [String?] {
            try JSON(gateway.command(["user", "show", "ada@example.org", "--json"]).output)["actors"].array.map { $0["id"].text }
        }
        #expect(try gateway.command(["actor", "grant", "ada@example.org", "team", "42"]).code == 0)
        #expect(try actors() == ["42"])
        #expect(try gateway.command(["actor", "revoke", "ada@example.org", "team", "42"]).code == 0)
        #expect(try actors() == [])
        #expect(try gateway.command(["actor", "revoke", "ada@example.org", "team", "42"]).code == 1)
        #expect(try gateway.command(["actor", "grant", "eve@example.org", "team", "42"]).code == 1)
    }

    // MARK: pins

    /// As RFC 7469 computes it with the openssl command.
    private func pin(_ publicKey: String) throws -> String {
        let (pem, der, digest) = (folder.file("pin.pem"), folder.file("pin.der"), folder.file("pin.sha256"))
        try folder.write("pin.pem", publicKey + "\n")
        try mustRun("openssl", ["pkey", "-pubin", "-in", pem, "-outform", "der", "-out", der])
        try mustRun("openssl", ["dgst", "-sha256", "-binary", "-out", digest, der])
        return try mustRun("openssl", ["base64", "-in", digest])
    }

    @Test func pinsAreWhatOpensslComputesAndCurlAccepts() throws {
        let authority = try CertificateAuthority(folder)
        try authority.issue("one", "DNS:localhost", "DNS:api.test")
        try authority.issue("two", "DNS:two.test")
        let gateway = try Gateway(
            settings + """

                TOLLGATE_LISTEN_TLS=127.0.0.1:0
                TOLLGATE_TLS_CERT="\(folder.file("one.crt")) \(folder.file("two.crt"))"
                TOLLGATE_TLS_KEY="\(folder.file("one.key")) \(folder.file("two.key"))"
                TOLLGATE_ROUTE_OPEN="/open upstream=u auth=none"
                """, folder: folder)
        let expected = try ["one", "two"].map { name in
            try pin(mustRun("openssl", ["x509", "-in", folder.file(name + ".crt"), "-pubkey", "-noout"]))
        }
        let outcome = try gateway.command(["pin", "--json"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
        let json = try JSON(outcome.output)
        #expect(json["pins"].array.map { $0["pin"].text } == expected.map { "sha256/" + $0 })
        #expect(json["pins"][0]["host_names"].array.map(\.text) == ["localhost", "api.test"])
        let named = try Tollgate.run(["pin", folder.file("two.crt"), authority.file])
        #expect(named.output.contains("sha256/" + expected[1]))
        #expect(named.output.contains("CN=authority"))

        let plist = try #require(json["info_plist"].text)
        let whole = try PropertyListSerialization.propertyList(
            from: Data("<plist version=\"1.0\"><dict>\(plist)</dict></plist>".utf8), format: nil)
        let security = (whole as? [String: [String: [String: [String: [[String: String]]]]]])?["NSAppTransportSecurity"]
        let domains = try #require(security?["NSPinnedDomains"])
        #expect(domains.keys.sorted() == ["api.test", "localhost", "two.test"])
        #expect(domains["localhost"]?["NSPinnedLeafIdentities"] == [["SPKI-SHA256-BASE64": expected[0]]])

        func curl(_ pin: String) throws -> Int32 {
            let address = "localhost:\(gateway.tlsPort)"
            let pinning = ["--cacert", authority.file, "--pinnedpubkey", "sha256//" + pin, "--resolve", address + ":127.0.0.1"]
            return try run("curl", ["-sS", "--max-time", "15"] + pinning + ["https://\(address)/open"]).code
        }
        #expect(try curl(expected[0]) == 0)
        #expect(try curl(expected[1]) == 90, "the pin of another key")
    }

    // MARK: the outbox

    @Test func theOutboxIsPrintedForPeopleAndForScripts() throws {
        let gateway = try Gateway("TOLLGATE_CONTRACTS=dlauth@/", folder: folder)
        #expect(try gateway.command(["outbox"]).output.contains("The outbox is empty"))
        let body = #"{"email":"ada@example.org","password":"\#(password)"}"#
        #expect(try gateway.ask("POST /auth/signup", body: Array(body.utf8)).status == 200)
        let resend = #"{"email":"ada@example.org","type":"signup"}"#
        #expect(try gateway.ask("POST /auth/otp/resend", body: Array(resend.utf8)).status == 200)
        var entries: [JSON] = []
        try eventually("the mail is in the outbox") {
            entries = try JSON(gateway.command(["outbox", "--json"]).output).array
            return !entries.isEmpty
        }
        let code = try #require(entries.last?["code"].text)
        #expect(entries.last?["to"].text == "ada@example.org")
        #expect(try gateway.command(["outbox"]).output.contains(code))
    }
}
