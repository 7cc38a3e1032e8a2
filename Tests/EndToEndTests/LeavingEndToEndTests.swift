import Foundation
import TestThreads
import Testing

/// Users who leave, with an Apple that answers at a URL of the test.
@Suite(.ownThread) struct LeavingEndToEndTests {
    private let apple: Upstream
    private let folder: Folder
    private let providers: Providers

    init() throws {
        providers = try Providers.shared.get()
        folder = try Folder()
        apple = try Upstream { request, connection in
            let body = request.target == "/auth/token" ? #"{"refresh_token":"r-1","access_token":"a"}"# : ""
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
        let key = try mustRun("openssl", ["ecparam", "-name", "prime256v1", "-genkey", "-noout"])
        try folder.write("key.pem", key)
    }

    private func settings(_ deletion: String = "grace=0s") -> String {
        """
        \(Gateway.contracts)
        \(providers.settings())
        TOLLGATE_ACCOUNT=/account
        TOLLGATE_DELETION="\(deletion)"
        TOLLGATE_APPLE_KEY="team=TEAM key-id=KID key-file=\(folder.file("key.pem")) client-id=\(Providers.app) url=\(apple.url)"
        """
    }

    private func signIn(_ gateway: Gateway, code: String) throws -> (user: String, access: String) {
        let token = try providers.token("apple", #"{"sub":"001.ada"}"#)
        let answer = try gateway.send("POST /registerUser", #"{"idToken":"\#(token)","authorizationCode":"\#(code)"}"#)
        guard answer.status == 200 else { throw Fault("\(answer) \(answer.text)") }
        let body = try JSON(answer.text)["body"]
        return (try must(body["userId"]), try must(body["token"]))
    }

    /// The form of the request that Apple gets for `path`.
    private func form(_ path: String) throws -> [String: String] {
        let requests = try apple.requests.wait(for: path) { $0.contains { $0.target == path } }
        let request = try #require(requests.first { $0.target == path })
        #expect(request["Content-Type"] == "application/x-www-form-urlencoded")
        return Dictionary(
            request.text.split(separator: "&").map { pair in
                let parts = pair.split(separator: "=", maxSplits: 1).map { String($0).removingPercentEncoding ?? "" }
                return (parts[0], parts.count > 1 ? parts[1] : "")
            }, uniquingKeysWith: { first, _ in first })
    }

    /// A gateway that is killed right after its answer leaves the code and the revocation to the next one.
    @Test func applesTokenIsRevokedWhateverHappensToTheGateway() throws {
        let first = try Gateway(settings(), folder: folder)
        let ada = try signIn(first, code: "c/1")
        first.process.kill()
        let second = try Gateway(settings(), folder: folder)
        let code = try form("/auth/token")
        #expect(code["code"] == "c/1" && code["client_id"] == Providers.app && code["grant_type"] == "authorization_code")
        let secret = try claims(of: try #require(code["client_secret"]))
        #expect(secret["iss"].text == "TEAM" && secret["sub"].text == Providers.app && secret["aud"].text == "https://appleid.apple.com")
        // The exchange is kept once nothing is due.
        let pending =
            "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM apple_tokens WHERE is_code = 1').fetchone()[0])"
        try eventually("the token is kept") {
            try mustRun("python3", ["-c", pending, folder.file("data/accounts.db")]).hasPrefix("0")
        }
        let stored = try Data(contentsOf: URL(filePath: folder.file("data/accounts.db")))
        #expect(stored.range(of: Data("r-1".utf8)) == nil, "it is sealed")
        #expect(try second.send("DELETE /account", bearer: ada.access).status == 204)
        second.process.kill()
        let third = try Gateway(settings(), folder: folder)
        let revocation = try form("/auth/revoke")
        #expect(revocation["token"] == "r-1" && revocation["token_type_hint"] == "refresh_token")
        #expect(try third.send("DELETE /account", bearer: ada.access).status == 401)
        #expect(try third.command(["user", "show", ada.user]).code == 1)
    }

    /// It has no session that could end with the account.
    @Test func aMintedTokenIsRefusedOnceItsAccountIsErased() throws {
        let settings = settings() + "\nTOLLGATE_ROUTE_OPEN=\"/* upstream=apple\"\nTOLLGATE_UPSTREAM_APPLE=\(apple.url)"
        let gateway = try Gateway(settings, folder: folder)
        let ada = try gateway.signUp("ada@example.org")
        func mint(_ subject: String) throws -> String { try gateway.command(["token", "mint", "--sub", subject]).output }
        let (minted, foreign) = (
            try mint(try #require(try claims(of: ada.access)["sub"].text)), try mint("0193a1b2-0000-7000-8000-000000000001")
        )
        #expect(try gateway.send("GET /", bearer: minted).status == 200)
        #expect(try gateway.send("DELETE /account", bearer: ada.access).status == 204)
        try eventually("its end") { try gateway.send("GET /", bearer: minted).status == 401 }
        gateway.process.kill()
        let second = try Gateway(settings, folder: folder)
        #expect(try second.send("GET /", bearer: minted).status == 401)
        #expect(try second.send("GET /", bearer: foreign).status == 200, "there never was such an account")
        let explained = try second.command(["explain", "GET", "/", "--token", minted]).output
        #expect(explained.contains("it was erased") && explained.contains("refused: 401 TOKEN_REVOKED"), "\(explained)")
    }

    @Test func aClosedAccountIsErasedSoonAfterItsGrace() throws {
        let gateway = try Gateway(settings("grace=1s recent=1m"), folder: folder)
        let ada = try gateway.signUp("ada@example.org")
        let closed = try gateway.send("DELETE /account", bearer: ada.access)
        #expect(closed.status == 202 && closed.text.hasPrefix(#"{"erased_at":""#))
        try eventually("its erasure") { try gateway.command(["user", "show", "ada@example.org"]).code == 1 }
        #expect(try gateway.send("POST /auth/signin", credentials("ada@example.org")).status == 401)
    }

    @Test func aForgedNotificationIsRefused() throws {
        let gateway = try Gateway(settings(), folder: folder)
        let event = #""events":{"type":"consent-revoked","sub":"001.ada","event_time":1}"#
        let forged = try providers.token("forger", "{\"iss\":\"https://appleid.apple.com\",\(event)}")
        let foreign = try providers.token("apple", "{\"aud\":\"com.other.app\",\(event)}")
        let apples = try providers.token("apple", "{\(event)}")
        for (payload, status) in [("\"\(apples)\"", 200), ("\"\(forged)\"", 401), ("\"\(foreign)\"", 401), ("1", 400), ("null", 400)] {
            let answer = try gateway.send("POST /account/notifications/apple", "{\"payload\":\(payload)}")
            #expect(answer.status == status, "\(payload): \(answer.text)")
        }
    }

    @Test func checkNamesAKeyThatIsOfNoUse() throws {
        try folder.write("key.pem", "no key")
        try folder.write("bad.env", Gateway.complete(settings(), folder))
        let checked = try Tollgate.run(["check", "--env-file", folder.file("bad.env")])
        #expect(checked.code != 0)
        #expect("\(checked.output)\(checked.complaints)".contains("TOLLGATE_APPLE_KEY: has key-file="), "\(checked)")
    }
}
