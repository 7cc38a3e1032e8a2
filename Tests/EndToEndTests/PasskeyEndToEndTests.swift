import Foundation
import TestServers
import TestThreads
import Testing

/// Passkeys of an app whose authenticators are other programs' code, over both databases.
@Suite(.ownThread) struct PasskeyEndToEndTests {
    private static let lines = "TOLLGATE_ACCOUNT=/account\nTOLLGATE_PASSKEY=\"rp-id=example.org rp-name=Example\""

    /// Users of each contract, without passkeys.
    private func bearers(at gateway: Gateway, _ providers: Providers) throws -> [String: String] {
        func token(_ provider: String, _ subject: String) throws -> String { try providers.token(provider, #"{"sub":"\#(subject)"}"#) }
        let provider = try gateway.send(
            "POST /whateat/api/v1/auth/signin", #"{"provider":"google","idToken":"\#(try token("google", "1"))"}"#)
        let apple = try gateway.send("POST /registerUser", #"{"idToken":"\#(try token("apple", "2"))"}"#)
        let guest = try gateway.send("POST /auth/user", "{}")
        return [
            "password": try gateway.register("ada@example.org").access, "dlauth": try gateway.signUp("eva@example.org").access,
            "provider": try must(try JSON(provider.text)["accessToken"]), "apple": try must(try JSON(apple.text)["body"]["token"]),
            "guest": try must(try JSON(guest.text)["sessionToken"]),
        ]
    }

    private func use(_ gateways: [Gateway], _ providers: Providers) throws {
        let tokens = try bearers(at: gateways[0], providers).map { #""\#($0)":"\#($1)""# }.joined(separator: ",")
        let app = repository.appending(path: "Tests/EndToEndTests/Passkeys/app.py").path
        let outcome = try run(PythonTools.python, [app, "{\(tokens)}"] + gateways.map { "http://127.0.0.1:\($0.port)" })
        let lines = outcome.output.split(separator: "\n")
        try #require(lines.count == 2 && lines.last?.hasPrefix("checked ") == true, "\(outcome)")
        let user = String(lines[0])
        let shown = try JSON(gateways[0].command(["user", "show", user, "--json"]).output)["passkeys"].array
        let id = try must(shown.first?["id"] ?? JSON("null"))
        #expect(try gateways[0].command(["user", "remove-passkey", user, id]).code == 0)
        #expect(try gateways[0].command(["user", "remove-passkey", user, id]).code == 1)
    }

    @Test(.enabled(if: PythonTools.hasPasskeys)) func anAppUsesThemOverSQLite() throws {
        let providers = try Providers.shared.get()
        try use([try Gateway([Gateway.contracts, providers.settings(), Self.lines].joined(separator: "\n"))], providers)
    }

    @Test(.enabled(if: PythonTools.hasPasskeys)) func anAppUsesThemAtThreeGatewaysOverPostgreSQL() throws {
        let providers = try Providers.shared.get()
        let fleet = try Fleet(3, .redis, providers.settings(), Self.lines)
        try fleet.waitForTheBus()
        try use(fleet.gateways, providers)
    }

    /// The kill comes in the middle of any step of a passkey or a second factor.
    @Test(.enabled(if: PythonTools.hasPasskeys && PythonTools.hasAuthenticator), arguments: ["sqlite", "postgres"])
    func whatWasAnsweredOutlivesAKillAndPassesOnce(_ backend: String) throws {
        let upstream = try Upstream()
        let place = backend == "sqlite" ? "" : try "DATABASE_URL=\"\(PostgresCluster.shared.get().newDatabase())\""
        let settings = [
            Gateway.contracts, Self.lines, place, "TOLLGATE_FACTOR=offered", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"",
            "TOLLGATE_ROUTE_BANK=\"/bank upstream=u factor=10m\"",
        ].joined(separator: "\n")
        func url(_ gateway: Gateway) -> String { "http://127.0.0.1:\(gateway.port)" }
        let first = try Gateway(settings)
        let script = repository.appending(path: "Tests/EndToEndTests/Passkeys/killed.py").path
        let users = try Subprocess(PythonTools.python, [script, url(first)])
        try users.output.wait(for: "steps of users", seconds: 60) { $0.count >= 100 }
        first.process.kill()
        let second = try Gateway(settings, folder: first.folder)
        users.say(url(second) + "\n")
        #expect(try users.exitCode() == 0, "\(users.complaints.now.suffix(8))")
        let said = users.output.now.filter { $0 != "step" }
        #expect(said.count == 1 && said.last?.hasPrefix("checked ") == true, "\(said.suffix(8))")
    }

    @Test func withoutTheSettingThereAreNone() throws {
        let gateway = try Gateway("\(Gateway.contracts)\nTOLLGATE_ACCOUNT=/account")
        for path in ["authentication/options?contract=dlauth", "registration/options", "authentication/verify", "registration/verify"] {
            #expect(try gateway.send("POST /account/passkeys/\(path)", "{}").status == 404)
        }
        #expect(try gateway.send("GET /account/passkeys", bearer: gateway.signUp("ada@example.org").access).status == 404)
    }
}
