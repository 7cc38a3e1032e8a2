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

    @Test func withoutTheSettingThereAreNone() throws {
        let gateway = try Gateway("\(Gateway.contracts)\nTOLLGATE_ACCOUNT=/account")
        for path in ["authentication/options?contract=dlauth", "registration/options", "authentication/verify", "registration/verify"] {
            #expect(try gateway.send("POST /account/passkeys/\(path)", "{}").status == 404)
        }
        #expect(try gateway.send("GET /account/passkeys", bearer: gateway.signUp("ada@example.org").access).status == 404)
    }
}
